"""Simulate audits that are labelled until an interval is narrow enough: how often it holds, and what it costs."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from al_ray.core.config.bounds import Between, Seed, check_bounds
from al_ray.core.labels import NO, YES
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats
from al_ray.core.text_table import format_columns
from al_ray.metrics.audit.false_positives import TAIL
from al_ray.metrics.audit.looks import Measure, WidthGoal, look_sizes, order_in_looks
from al_ray.metrics.audit.score_bands import BandAudit, allotted, draw_ranks
from studies.intervals import threshold
from studies.promised_populations import Population, populations

logger = logging.getLogger(__name__)

FIXED_AUDITS = 40
"""Audits by which the mean width of a single look is known."""
Row = dict[str, Any]
Stop = tuple[int, float, float]
"""Labels, and the ends of the interval."""


class Naive(WidthGoal):
    """Looks as often, and takes each interval as if there were no other look."""

    @property
    def tail(self) -> float:
        """Return that of a single look."""
        return TAIL


WAYS: dict[str, type[WidthGoal]] = {"looks": WidthGoal, "naive": Naive}


@dataclass(frozen=True)
class Widths:
    """Audits until a width: coverage at the stop, and mean labels beside those of a single look of the right size."""

    audits: Annotated[int, Between(1, 1_000_000)] = 300
    """Audits of each population."""
    budget: Annotated[int, Between(20, 100_000)] = 1_000
    """The most labels of an audit."""
    widths: tuple[float, ...] = (0.2, 0.1)
    """Widths that are wanted."""
    measures: tuple[Measure, ...] = ("precision", "ranked-recall")
    """Figures whose intervals are to be narrow."""
    names: tuple[str, ...] = ()
    """Populations; all when not given."""
    seed: Seed = 0
    """Random seed."""
    out: Path | None = None
    """JSON file for the table."""

    def results(self) -> list[Row]:
        """Return a row for each population, figure and width."""
        check_bounds(self)
        rows: list[Row] = []
        for name, population in populations().items():
            for measure in self.measures if not self.names or name in self.names else ():
                rows += self._rows(name, population, measure)
                logger.info("%s", format_widths(rows[-len(self.widths) :]))
        return rows

    def _rows(self, name: str, population: Population, measure: Measure) -> list[Row]:
        """Return a row for each width, of the same audits."""
        bands, rows = Drawn.of(population, measure, self.budget), list[Row]()
        truth, looks = bands.truth(population, measure), look_sizes(bands.budget)
        stops: dict[str, list[list[Stop]]] = {}
        for way, kind in WAYS.items():
            goal = kind(measure, min(self.widths), looks, bands.threshold)
            stops[way] = []
            for row in range(self.audits):
                rng = generator(self.seed, f"widths-{name}-{measure}", row)
                audit = bands.draw(population, rng)
                stops[way].append(_stops(goal, self.widths, audit, bands.cosines(audit), rng))
        for at, width in enumerate(self.widths):
            figures: Row = {"population": name, "measure": measure, "width": width, "truth": truth}
            for way, every in stops.items():
                ends = np.array([of_audit[at] for of_audit in every])
                held = (ends[:, 1] <= truth + 1e-12) & (ends[:, 2] >= truth - 1e-12)
                reached = ends[:, 2] - ends[:, 1] <= width + 1e-9
                shares = {"held": held.mean(), "labels": ends[:, 0].mean(), "reached": reached.mean()}
                figures[way] = {key: float(value) for key, value in shares.items()}
            rows.append({**figures, "fixed": self._fixed(name, population, bands, measure, width)})
        return rows

    def _fixed(self, name: str, population: Population, bands: "Drawn", measure: Measure, width: float) -> int | None:
        """Return the least labels of a single look whose 95% intervals are narrow enough on average, or None."""
        rng = generator(self.seed, f"widths-fixed-{name}-{measure}")
        audits = [bands.draw(population, rng) for _ in range(min(FIXED_AUDITS, self.audits))]

        def enough(size: int) -> bool:
            goal = WidthGoal(measure, width, (size,), bands.threshold)
            found = [goal.interval(audit, bands.cosines(audit), 0, rng) for audit in audits]
            return float(np.mean([1.0 if one is None else one.high - one.low for one in found])) <= width + 1e-9

        low, high = 1, bands.budget
        if not enough(high):
            return None
        # To about 3%.
        while high - low > max(1, high // 32):
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high


@dataclass(frozen=True)
class Drawn:
    """From which pairs an audit draws: as `audit sample --until-width` does. budget: at most all of them."""

    audit: BandAudit
    sizes: tuple[int, ...]
    budget: int
    threshold: float

    @classmethod
    def of(cls, population: Population, measure: Measure, budget: int) -> "Drawn":
        """Choose the threshold of a population, and the bands whose labels the figure needs."""
        plain = population.unlabelled
        at = float(population.cosines[threshold(population) - 1])
        audit = replace(plain, top=plain.rank_of(at), uniform=True) if measure == "precision" else plain
        ranked = [stop - start for start, stop in audit.bands if measure == "recall" or stop <= audit.reach]
        sizes = tuple(ranked[:1] if audit.uniform else ranked)
        return cls(audit, sizes, min(budget, sum(sizes)), at)

    def draw(self, population: Population, rng: np.random.Generator) -> BandAudit:
        """Draw an audit, all of whose pairs are labelled, in the order of looks."""
        shares, reach = allotted(self.budget, self.sizes), self.audit.reach
        ranks = np.concatenate(
            [draw_ranks(band, share, rng) for band, share in zip(self.audit.bands, shares, strict=False)]
        )
        every = np.append(population.matches, False)
        labels = every[np.minimum(ranks, reach)]
        beyond = ranks >= reach
        labels[beyond] = ranks[beyond] - reach < population.rest_matches
        order = order_in_looks(look_sizes(self.budget), self.sizes, rng)
        coded = np.where(labels, YES, NO).astype(np.uint8)
        return replace(self.audit, ranks=np.minimum(ranks, reach)[order], labels=coded[order])

    def cosines(self, audit: BandAudit) -> Floats:
        """Return the cosines (n,) of the drawn pairs."""
        return np.append(audit.cosines, np.nan)[audit.ranks]

    def truth(self, population: Population, measure: Measure) -> float:
        """Return the figure by the true labels."""
        cut = self.audit.rank_of(self.threshold)
        if measure == "precision":
            return population.precision(cut)
        if measure == "average-precision":
            last = np.searchsorted(-population.cosines, -population.cosines[population.matches], side="right")
            return float((population.counts[last] / last).mean())
        return population.recall(cut, measure == "ranked-recall")


def _stops(
    goal: WidthGoal, widths: Sequence[float], audit: BandAudit, cosines: Floats, rng: np.random.Generator
) -> list[Stop]:
    """Return for each width the labels at which people stop, and the ends of the interval there.

    goal: of the narrowest.
    """
    stops: list[Stop] = [(0, 0.0, 1.0)] * len(widths)
    for look, size in enumerate(goal.looks):
        found = goal.interval(audit, cosines, look, rng)
        low, high = (0.0, 1.0) if found is None else (found.low, found.high)
        for at, width in enumerate(widths):
            if not stops[at][0] or stops[at][2] - stops[at][1] > width + 1e-9:
                stops[at] = (size, low, high)
        if goal.reached(found):
            break
    return stops


def format_widths(rows: Sequence[Row]) -> str:
    """Format the table."""
    heads = (f"{head}{of}" for of in ("", " (naive)") for head in ("held", "labels", "reached"))
    lines: list[tuple[str, ...]] = [("population", "figure", "width", "truth", *heads, "one look")]
    for row in rows:
        cells = [row["population"], row["measure"], f"{row['width']:g}", f"{row['truth']:.3f}"]
        for way in WAYS:
            own = row[way]
            cells += [f"{own['held']:.1%}", f"{own['labels']:.0f}", f"{own['reached']:.1%}"]
        lines.append((*cells, "-" if row["fixed"] is None else str(row["fixed"])))
    return format_columns(lines)
