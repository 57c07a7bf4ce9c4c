"""Simulate audits by score at one threshold: the width and the coverage of intervals of precision and recall."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np

from al_ray.core.config.bounds import Between, Seed, check_bounds
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats
from al_ray.core.text_table import format_columns
from al_ray.metrics.audit.false_positives import OPPOSITE, TAIL, End, possible
from al_ray.metrics.audit.label_errors import ENDS, TwoAnswers
from al_ray.metrics.audit.score_bands import Band, allotted
from studies.promised_populations import Population, levelled, populations

logger = logging.getLogger(__name__)

FIGURES = ("precision", "ranked recall", "recall")
PILOT = 3
"""One in so many labels is of the pilot."""
Row = dict[str, Any]
Part = tuple[int, int, int]
"""Matches, answered and all pairs of a part."""
AnyPart = TypeVar("AnyPart")
Draw = Callable[[Part, End, np.random.Generator, int], Floats]
Way = Literal["melded", "mid", "two stages", "two stages, mid", "errors ignored", "errors carried"]
TRUE_LABELS: tuple[Way, ...] = ("melded", "mid", "two stages", "two stages, mid")


def melded(part: Part, end: End, rng: np.random.Generator, draws: int) -> Floats:
    """Draw numbers of matches from the exact limits, as `audit estimate` does."""
    return possible(*part, end, rng, draws).astype(np.float64)


def mid(part: Part, end: End, rng: np.random.Generator, draws: int) -> Floats:
    """Draw them from between both limits, unless no label or every label of the part is yes."""
    matches, answered, size = part
    if not 0 < matches < answered:
        return melded(part, end, rng, draws)
    share = rng.beta(matches + 0.5, answered - matches + 0.5, draws)
    return matches + rng.binomial(size - answered, share).astype(np.float64)


@dataclass(frozen=True)
class Intervals:
    """Width and coverage of 95% intervals of precision and recall, in other ways and with wrong labels."""

    audits: Annotated[int, Between(1, 1_000_000)] = 1_000
    """Audits of each population."""
    budget: Annotated[int, Between(1, 100_000)] = 300
    """Labels of an audit."""
    draws: Annotated[int, Between(100, 1_000_000)] = 1_000
    """Draws of each limit."""
    errors: tuple[float, ...] = ()
    """Shares of wrong answers: intervals that ignore and that carry these errors; without any, ways are compared."""
    doubled: Annotated[int, Between(1, 100_000)] = 60
    """Pairs of an audit that two people answer, with --errors."""
    names: tuple[str, ...] = ()
    """Populations; all when not given."""
    seed: Seed = 0
    """Random seed."""
    out: Path | None = None
    """JSON file for the table."""

    def results(self) -> list[Row]:
        """Return a row for each population, way and figure."""
        check_bounds(self)
        rows: list[Row] = []
        for name, population in {**populations(), **levelled()}.items():
            if not self.names or name in self.names:
                own = list(self._of(name, population))
                logger.info("%s", format_intervals(own))
                rows += own
        return rows

    def _of(self, name: str, population: Population) -> Sequence[Row]:
        cut, rows = threshold(population), list[Row]()
        truth = population.precision(cut), population.recall(cut, True), population.recall(cut, False)
        for wrong in self.errors or (0.0,):
            ways: Sequence[Way] = ("errors ignored", "errors carried") if self.errors else TRUE_LABELS
            for way in ways:
                rng = generator(self.seed, f"intervals-{name}-{wrong:g}-{way.partition(',')[0]}")
                ends = np.array([self._interval(population, cut, way, wrong, rng) for _ in range(self.audits)])
                held = ((ends[..., 0] <= np.array(truth) + 1e-12) & (ends[..., 1] >= np.array(truth) - 1e-12)).mean(0)
                width = (ends[..., 1] - ends[..., 0]).mean(0)
                figures = zip(FIGURES, held.tolist(), width.tolist(), strict=True)
                own = {figure: {"held": share, "width": mean} for figure, share, mean in figures}
                rows.append({"population": name, "wrong": wrong, "way": way, **own})
        return rows

    def _interval(
        self, population: Population, cut: int, way: Way, wrong: float, rng: np.random.Generator
    ) -> list[tuple[float, float]]:
        """Draw an audit, and return the ends for each figure."""
        bands = population.unlabelled.bands
        sizes = [stop - start for start, stop in bands]
        if way.startswith("two"):
            first = label(population, bands, cut, allotted(self.budget // PILOT, sizes), rng)
            more = neyman(first, self.budget - self.budget // PILOT, bands, len(population.cosines))
            parts = label(population, bands, cut, more, rng, first)
        else:
            parts = label(population, bands, cut, allotted(self.budget, sizes), rng)
        if wrong:
            parts = {key: (_misread(part, wrong, rng), *part[1:]) for key, part in parts.items()}
        draw: Draw = mid if way.endswith("mid") else melded
        if way == "errors carried":
            alike = int(rng.binomial(self.doubled, 1 - 2 * wrong * (1 - wrong)))
            answers, reach = TwoAnswers(self.doubled, alike, 10**9), len(population.cosines)
            both = [
                ends_of(parts, cut, reach, _corrected(answers, end, rng, self.draws), rng, self.draws) for end in ENDS
            ]
            return [(min(low, other[0]), max(high, other[1])) for (low, high), other in zip(*both, strict=True)]
        return ends_of(parts, cut, len(population.cosines), draw, rng, self.draws)


def threshold(population: Population) -> int:
    """Return the number of pairs down to the lowest rank where 0.8 of them match, or 0.5, or of a quarter of them."""
    precision = population.counts[1:] / np.arange(1, len(population.counts))
    for least in (0.8, 0.5):
        reached = np.flatnonzero(precision >= least)
        if len(reached) and 10 <= reached[-1] < len(precision) - 1:
            return int(reached[-1]) + 1
    return len(precision) // 4


Parts = Mapping[tuple[Band, bool], Part]
"""The parts of each band, above the threshold (True) and below."""


def label(
    population: Population,
    bands: Sequence[Band],
    cut: int,
    shares: Sequence[int],
    rng: np.random.Generator,
    before: Parts | None = None,
) -> Parts:
    """Label so many pairs of each band, beside those that are labelled already."""
    parts: dict[tuple[Band, bool], Part] = {}
    reach, counts = len(population.cosines), population.counts
    for band, share in zip(bands, shares, strict=True):
        edges = [band[0], min(max(cut, band[0]), band[1]), band[1]]
        left: list[int] = []
        for above, (start, stop) in zip((True, False), ((edges[0], edges[1]), (edges[1], edges[2])), strict=True):
            beyond = start >= reach
            matches = (
                population.rest_matches
                if beyond and stop > start
                else int(counts[min(stop, reach)] - counts[min(start, reach)])
            )
            old = (0, 0, 0) if before is None else before.get((band, above), (0, 0, 0))
            left += [matches - old[0], stop - start - matches - (old[1] - old[0])]
        drawn = rng.multivariate_hypergeometric(left, share).tolist()
        for above, (yes, no), (start, stop) in zip(
            (True, False), (drawn[:2], drawn[2:]), ((edges[0], edges[1]), (edges[1], edges[2])), strict=True
        ):
            old = (0, 0, 0) if before is None else before.get((band, above), (0, 0, 0))
            if stop > start:
                parts[band, above] = (old[0] + yes, old[1] + yes + no, stop - start)
    return parts


def neyman(pilot: Parts, budget: int, bands: Sequence[Band], reach: int) -> list[int]:
    """Divide labels among the ranked bands by their size and by how much their labels vary."""
    weights, left = [], []
    for band in bands:
        own = [pilot[band, above] for above in (True, False) if (band, above) in pilot]
        spread = [size * np.sqrt((m + 0.5) * (n - m + 0.5)) / (n + 1) for m, n, size in own]
        weights.append(float(sum(spread)) if band[0] < reach else 0.0)
        left.append(sum(size - n for _, n, size in own))
    shares = [0] * len(bands)
    while budget and any(weights[i] and shares[i] < left[i] for i in range(len(bands))):
        free = [i for i in range(len(bands)) if weights[i] and shares[i] < left[i]]
        best = max(free, key=lambda i: weights[i] / (shares[i] + 1))
        shares[best] += 1
        budget -= 1
    return shares


def _misread(part: Part, wrong: float, rng: np.random.Generator) -> int:
    return int(rng.binomial(part[0], 1 - wrong) + rng.binomial(part[1] - part[0], wrong))


def _corrected(answers: TwoAnswers, of_errors: End, rng: np.random.Generator, draws: int) -> Draw:
    # One share of errors for all parts of an audit.
    wrong = answers.draws(of_errors, rng)[:draws]

    def draw(part: Part, end: End, rng: np.random.Generator, draws: int) -> Floats:
        yes, no = part[0] + (end == "high"), part[1] - part[0] + (end == "low")
        share = rng.beta(yes, no, draws) if yes and no else np.full(draws, float(yes > 0))
        return part[2] * np.clip((share - wrong) / (1 - 2 * wrong), 0, 1)

    return draw


def ends_of(
    parts: Mapping[tuple[Band, bool], AnyPart],
    cut: int,
    reach: int,
    draw: Callable[[AnyPart, End, np.random.Generator, int], Floats],
    rng: np.random.Generator,
    draws: int,
) -> list[tuple[float, float]]:
    """Return the ends of precision, ranked recall and recall; draw: numbers of matches of a part."""
    ends: list[list[float]] = []
    for end in ("low", "high"):
        upper, near, rest = np.zeros(draws), np.zeros(draws), np.zeros(draws)
        for (band, above), part in parts.items():
            one = draw(part, end if above else OPPOSITE[end], rng, draws)
            if above:
                upper = upper + one
            elif band[0] >= reach:
                rest = rest + one
            else:
                near = near + one
        nothing = float(end == "high")
        figures = [
            upper / cut,
            *(
                np.where(upper + low > 0, upper / np.maximum(upper + low, 1e-12), nothing)
                for low in (near, near + rest)
            ),
        ]
        quantile, method = (TAIL, "lower") if end == "low" else (1 - TAIL, "higher")
        ends.append([float(np.quantile(figure, quantile, method=method)) for figure in figures])
    return list(zip(*ends, strict=True))


def format_intervals(rows: Sequence[Row]) -> str:
    """Format the table: of each figure how many intervals hold the truth, and their mean width in points."""
    lines: list[tuple[str, ...]] = [("population", "wrong", "way", *FIGURES)]
    for row in rows:
        cells = (f"{row[figure]['held']:.1%} ({100 * row[figure]['width']:.1f})" for figure in FIGURES)
        lines.append((row["population"], f"{row['wrong']:.0%}", row["way"], *cells))
    return format_columns(lines)
