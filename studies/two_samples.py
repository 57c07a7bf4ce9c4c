"""Simulate audits that a language model and people label: width, coverage and error beside audits of people alone."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from al_ray.core.config.bounds import Between, Seed, check_bounds
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats
from al_ray.core.text_table import format_columns
from al_ray.metrics.audit.answer_cells import Cell, CellPart, allot_to_cells, cell_part
from al_ray.metrics.audit.false_positives import End
from al_ray.metrics.audit.score_bands import Band, allotted
from al_ray.metrics.average_precision import Ints
from studies.intervals import FIGURES, Part, ends_of, label, melded, threshold
from studies.promised_populations import Population, populations

logger = logging.getLogger(__name__)

UNSURE = 0.03
"""Share of pairs to which a simulated model says unsure."""
PEOPLE, BOTH, MODEL = "people alone", "both", "model alone"
Row = dict[str, Any]
Cells = Mapping[tuple[Band, bool], CellPart]
Rates = Callable[[int], tuple[Floats, Floats, float, float]]
"""Shares of the pairs at each of so many ranks, and beyond, that a model calls a match: of other pairs, of matches."""


def _constant(false: float, missed: float) -> Rates:
    return lambda reach: (np.full(reach, false), np.full(reach, 1 - missed), false, 1 - missed)


def _by_score(reach: int) -> tuple[Floats, Floats, float, float]:
    """Err more where pairs are hard: matches are missed far down, and other pairs are called matches at the top."""
    ranks = np.arange(reach)
    missed = np.minimum(0.6, 0.03 + 0.1 * np.log10(1 + ranks / 30))
    return 0.3 / (1 + ranks / 300), 1 - missed, 0.0005, 0.4


JUDGES: Mapping[str, Rates] = {
    "2/5": _constant(0.02, 0.05),
    "5/20": _constant(0.05, 0.2),
    "20/20": _constant(0.2, 0.2),
    "by score": _by_score,
}
"""Models by their errors: the percentage of pairs that do not match and are called matches, and of matches missed."""


@dataclass(frozen=True)
class TwoSamples:
    """People and a language model in one audit: width, coverage and error of figures, beside people alone."""

    audits: Annotated[int, Between(1, 1_000_000)] = 300
    """Audits of each population and model."""
    budget: Annotated[int, Between(1, 100_000)] = 300
    """Labels of people in an audit."""
    answers: Annotated[int, Between(1, 1_000_000)] = 6_000
    """Answers of the model in an audit."""
    draws: Annotated[int, Between(100, 1_000_000)] = 1_000
    """Draws of each limit."""
    names: tuple[str, ...] = ()
    """Populations; all when not given."""
    seed: Seed = 0
    """Random seed."""
    out: Path | None = None
    """JSON file for the table."""

    def results(self) -> list[Row]:
        """Return a row for each population, and for each model with it."""
        check_bounds(self)
        rows: list[Row] = []
        for name, population in populations().items():
            if not self.names or name in self.names:
                own = list(self._of(name, population))
                logger.info("%s", format_two_samples(own))
                rows += own
        return rows

    def _of(self, name: str, population: Population) -> Sequence[Row]:
        audit = _Audits(population, self, generator(self.seed, f"two-samples-{name}"))
        rows = [audit.row(name, "-", PEOPLE, [audit.of_people() for _ in range(self.audits)])]
        for judge in JUDGES:
            audit = _Audits(population, self, generator(self.seed, f"two-samples-{name}-{judge}"))
            both = [audit.of_both(JUDGES[judge]) for _ in range(self.audits)]
            rows.append(audit.row(name, judge, BOTH, [one for one, _ in both]))
            rows.append(audit.row(name, judge, MODEL, [other for _, other in both]))
        return rows


Result = tuple[list[tuple[float, float]], list[float]]
"""The ends and the values of the figures of an audit."""


@dataclass(frozen=True)
class _Audits:
    population: Population
    study: TwoSamples
    rng: np.random.Generator

    @cached_property
    def cut(self) -> int:
        return threshold(self.population)

    @cached_property
    def bands(self) -> Sequence[Band]:
        return self.population.unlabelled.bands

    @cached_property
    def sizes(self) -> list[int]:
        return [stop - start for start, stop in self.bands]

    def of_people(self) -> Result:
        """Label pairs evenly by band, as an audit by score does."""
        shares = allotted(self.study.budget, self.sizes)
        return self._result(label(self.population, self.bands, self.cut, shares, self.rng))

    def of_both(self, rates: Rates) -> tuple[Result, Result]:
        """Have a model answer many pairs and people some of each cell; also return what its labels alone would say."""
        table = self._answers(rates)
        first = [
            self.rng.multivariate_hypergeometric(counts.ravel(), share, method="marginals").reshape(counts.shape)
            for counts, share in zip(table, allotted(self.study.answers, self.sizes), strict=True)
        ]
        ranked = sum(stop <= len(self.population.cosines) for _, stop in self.bands)
        counts = [drawn.sum(axis=(0, 2)).tolist() for drawn in first]
        cells: dict[tuple[Band, bool], CellPart] = {}
        alone: dict[tuple[Band, bool], Part] = {}
        shares = allot_to_cells(self.study.budget, self.sizes, counts, ranked)
        for band, drawn, own in zip(self.bands, first, shares, strict=True):
            people = np.zeros_like(drawn)
            for cell, share in enumerate(own):
                left = drawn[:, cell]
                people[:, cell] = self.rng.multivariate_hypergeometric(left.ravel(), share).reshape(left.shape)
            of_band = _cells(drawn.sum(axis=0), people.sum(axis=0))
            for side, above in enumerate((True, False)):
                size = self._size(band, above)
                if size:
                    cells[band, above] = cell_part(size, _cells(drawn[side], people[side]), of_band)
                    alone[band, above] = int(drawn[side, 1].sum()), int(drawn[side].sum()), size
        return self._result_of_cells(cells), self._result(alone)

    def row(self, name: str, judge: str, way: str, results: Sequence[Result]) -> Row:
        """Return how often intervals hold the truth, their mean width, and the error of the values."""
        truth = np.array(
            [
                self.population.precision(self.cut),
                *(self.population.recall(self.cut, ranked) for ranked in (True, False)),
            ]
        )
        ends, values = np.array([one for one, _ in results]), np.array([other for _, other in results])
        held = ((ends[..., 0] <= truth + 1e-12) & (ends[..., 1] >= truth - 1e-12)).mean(axis=0)
        width, errors = (ends[..., 1] - ends[..., 0]).mean(axis=0), values - truth
        rmse, bias = np.sqrt((errors**2).mean(axis=0)), errors.mean(axis=0)
        columns = zip(FIGURES, held.tolist(), width.tolist(), rmse.tolist(), bias.tolist(), strict=True)
        figures = {name: {"held": h, "width": w, "rmse": r, "bias": b} for name, h, w, r, b in columns}
        return {"population": name, "judge": judge, "way": way, **figures}

    def _size(self, band: Band, above: bool) -> int:
        middle = min(max(self.cut, band[0]), band[1])
        return middle - band[0] if above else band[1] - middle

    def _answers(self, rates: Rates) -> list[Ints]:
        """Draw the answers to all pairs: of each band (side of the threshold, cell, no match or match) counts."""
        population, rng, reach = self.population, self.rng, len(self.population.cosines)
        other, match, beyond, match_beyond = rates(reach)
        called = rng.random(reach, dtype=np.float32) < np.where(population.matches, match, other) * (1 - UNSURE)
        of_rest = np.zeros((2, 2, 2), dtype=np.int64)
        counts = population.rest - population.rest_matches, population.rest_matches
        for kind, (count, rate) in enumerate(zip(counts, (beyond, match_beyond), strict=True)):
            yes = int(rng.binomial(count, rate * (1 - UNSURE)))
            of_rest[1, :, kind] = count - yes, yes
        table: list[Ints] = []
        for start, stop in self.bands:
            if start >= reach:
                table.append(of_rest)
                continue
            ranks = np.arange(start, stop)
            own = np.zeros((2, 2, 2), dtype=np.int64)
            places = (ranks >= self.cut).astype(int), called[ranks].astype(int), population.matches[ranks].astype(int)
            np.add.at(own, places, 1)
            table.append(own)
        return table

    def _result(self, parts: Mapping[tuple[Band, bool], Part]) -> Result:
        shares: dict[tuple[Band, bool], float] = {}
        for (band, above), (matches, answered, size) in parts.items():
            if not answered:
                both = [parts[band, side] for side in (True, False) if (band, side) in parts]
                matches, answered = (sum(part[place] for part in both) for place in (0, 1))
            shares[band, above] = size * matches / max(1, answered)
        ends = ends_of(parts, self.cut, len(self.population.cosines), melded, self.rng, self.study.draws)
        return ends, self._values(shares)

    def _result_of_cells(self, parts: Cells) -> Result:
        def draw(part: CellPart, end: End, rng: np.random.Generator, draws: int) -> Floats:
            return part.in_all(end, rng, draws).astype(np.float64)

        ends = ends_of(parts, self.cut, len(self.population.cosines), draw, self.rng, self.study.draws)
        return ends, self._values({key: part.size * part.share for key, part in parts.items()})

    def _values(self, matches: Mapping[tuple[Band, bool], float]) -> list[float]:
        """Return precision, ranked recall and recall from the numbers of matches of all parts."""
        reach = len(self.population.cosines)
        above = sum(number for (_, side), number in matches.items() if side)
        near = sum(number for (band, side), number in matches.items() if not side and band[0] < reach)
        rest = sum(number for (band, side), number in matches.items() if not side and band[0] >= reach)
        return [above / self.cut, *(above / (above + below) if above else 0.0 for below in (near, near + rest))]


def _cells(drawn: Ints, people: Ints) -> tuple[Cell, Cell]:
    """(cell, no match or match) counts of both samples -> cells."""
    other, yes = (Cell(int(drawn[c].sum()), int(people[c].sum()), int(people[c, 1])) for c in (0, 1))
    return other, yes


def format_two_samples(rows: Sequence[Row]) -> str:
    """Format the table: of each figure how many intervals hold the truth, width, RMSE and mean error in points."""
    lines: list[tuple[str, ...]] = [("population", "model", "way", *FIGURES)]
    for row in rows:
        cells = (
            f"{one['held']:.1%} ({100 * one['width']:.1f}) {100 * one['rmse']:.1f} {100 * one['bias']:+.1f}"
            for one in (row[figure] for figure in FIGURES)
        )
        lines.append((row["population"], row["judge"], row["way"], *cells))
    return format_columns(lines)
