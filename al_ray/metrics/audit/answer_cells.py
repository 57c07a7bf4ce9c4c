"""Cells of an audit that a language model and people label: the pairs of a band of score, by the model's answer.

The model answers a first sample of a band. Its pairs fall into two cells: those that it calls a match, and all others:
no, unsure, or no readable answer. People answer a subsample of each cell (double sampling: Cochran, Sampling
Techniques, 1977, chapter 12). How many pairs of the band belong to a cell is estimated from the first sample, and the
share of matches in a cell from the answers of people alone. So the model decides how precise the estimate is, and not
what it is. A third cell, for unsure, made intervals wider: each cell has limits of its own (docs/audit.md).

The limits of the number of matches combine, as in false_positives.py, the exact limits of the share of each cell with
those of the sizes of the cells (Clopper and Pearson's). A pair more or less in a cell moves the number up or down,
depending on which cell has the larger share: each joint draw takes that limit of the sizes that moves it in the
direction of the end. Where the model answered all pairs of a band the sizes are known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from al_ray.core.labels import NO, YES
from al_ray.core.scorer import Labels
from al_ray.metrics.audit import false_positives
from al_ray.metrics.audit.false_positives import End, possible_share
from al_ray.metrics.average_precision import Ints

SPREADS = sqrt(0.02 * 0.98), sqrt(0.1 * 0.9)
"""Standard deviations of the labels of people to expect in each cell: of a model that is wrong on 2% of its other
answers and 10% of its yes. They only divide labels among cells: if they are wrong, intervals are wider and as valid."""
LEAST = 4
"""Pairs of a cell that people answer at least, if it has as many."""
EVENLY = 0.6
"""Share of the labels of ranked bands that is spread evenly over them; the others go where they are expected to help
most."""


@dataclass(frozen=True)
class Cell:
    """Pairs of one cell: `drawn` in the first sample, `answered` by people with yes or no, `matches` with yes."""

    drawn: int
    answered: int
    matches: int


@dataclass(frozen=True)
class CellPart:
    """A band, or the part of one on a side of a threshold: its number of pairs, and its cells as `cells_of` gives them.

    share: the estimated share of matches; NaN if people answered no pair of the band.
    """

    size: int
    cells: tuple[Cell, Cell]
    share: float

    @property
    def drawn(self) -> int:
        """Return how many pairs the model answered."""
        return sum(cell.drawn for cell in self.cells)

    @property
    def answered(self) -> int:
        """Return how many pairs people labelled yes or no."""
        return sum(cell.answered for cell in self.cells)

    @property
    def matches(self) -> int:
        """Return how many pairs people labelled yes."""
        return sum(cell.matches for cell in self.cells)

    def in_all(self, end: End, rng: np.random.Generator, draws: int | None = None) -> Ints:
        """Draw (draws,) how many of its pairs match; see the module. draws: DRAWS of false_positives.py if None."""
        draws = false_positives.DRAWS if draws is None else draws
        other, yes = self.cells
        shares = [possible_share(cell.matches, cell.answered, end, rng, draws) for cell in self.cells]
        # Which cell has the pair more: that with the larger share for the high end, and the smaller one for the low.
        more = ((shares[1] >= shares[0]) == (end == "high")).astype(np.float64)
        # Gamma(0) is 0, so that the limit after no pair of n is 0, and after all it is 1.
        of_yes = rng.standard_gamma(yes.drawn + more, draws)
        of_other = rng.standard_gamma(other.drawn + 1 - more, draws)
        unseen = self.size - self.drawn
        added: Ints = rng.binomial(unseen, of_yes / (of_yes + of_other), draws)
        sizes: tuple[Ints, Ints] = (other.drawn + unseen - added, yes.drawn + added)
        matches = np.full(draws, self.matches, dtype=np.int64)
        for cell, share, size in zip(self.cells, shares, sizes, strict=True):
            matches += rng.binomial(size - cell.answered, share)
        return matches


def cells_of(model: Labels, people: Labels) -> tuple[Cell, Cell]:
    """Count the cells of (n,) pairs, that of yes last.

    model: its answers NO, YES, UNSURE or OPEN (none readable). people: labels, OPEN where they were not asked.
    """
    called = model == YES
    return _cell(people[~called]), _cell(people[called])


def _cell(people: Labels) -> Cell:
    matches = int((people == YES).sum())
    return Cell(len(people), matches + int((people == NO).sum()), matches)


def cell_part(size: int, cells: tuple[Cell, Cell], of_band: tuple[Cell, Cell]) -> CellPart:
    """Return a part of `size` pairs with its cells; of_band: the cells of its band.

    What is not known of the part is for its share as in the band: the sizes of its cells if the model answered none of
    its pairs, and the share of a cell that people did not answer, which in the band is, if need be, that of the other.
    """
    known = [cell.matches / cell.answered if cell.answered else float("nan") for cell in of_band]
    known = [other if np.isnan(own) else own for own, other in zip(known, known[::-1], strict=True)]
    shares = [cell.matches / cell.answered if cell.answered else band for cell, band in zip(cells, known, strict=True)]
    sizes = [cell.drawn for cell in (cells if any(cell.drawn for cell in cells) else of_band)]
    total = sum(sizes)
    return CellPart(size, cells, float(np.dot(sizes, shares)) / total if total else float("nan"))


def allot_to_cells(budget: int, sizes: Sequence[int], drawn: Sequence[Sequence[int]], ranked: int) -> list[list[int]]:
    """Divide labels of people among the cells of bands: a list for each band, with a number for each of its cells.

    sizes: pairs of each band. drawn: pairs of each cell of the first sample. ranked: how many bands are ranked. The
    others get the share that they would have if all bands had equal ones. Of the labels of ranked bands EVENLY are
    equal shares, too, and the others are as the square root of a cell's pairs times its SPREADS. Within a band they are
    as pairs times SPREADS (Neyman's rule), after LEAST for each cell.
    """
    shares = [[0] * len(cells) for cells in drawn]
    each, weights = budget / len(sizes), _weights(sizes, drawn)

    def spend(labels: int, bands: range, power: float, least: int) -> int:
        while labels:
            free = [(band, cell) for band in bands for cell, n in enumerate(drawn[band]) if shares[band][cell] < n]
            if not free:
                break
            few = [(band, cell) for band, cell in free if shares[band][cell] < least]
            band, cell = min(few or free, key=lambda at: (shares[at[0]][at[1]] + 1) / weights[at[0]][at[1]] ** power)
            shares[band][cell] += 1
            labels -= 1
        return labels

    for band in range(len(sizes)):
        budget -= (own := round(each * (EVENLY if band < ranked else 1)))
        budget += spend(own, range(band, band + 1), 1.0, LEAST)
    spend(spend(max(0, budget), range(ranked), 0.5, 0), range(len(sizes)), 0.5, 0)
    return shares


def _weights(sizes: Sequence[int], drawn: Sequence[Sequence[int]]) -> list[list[float]]:
    """Return pairs times SPREADS of each cell."""
    return [
        [size * n / max(1, sum(cells)) * spread for n, spread in zip(cells, SPREADS, strict=True)]
        for size, cells in zip(sizes, drawn, strict=True)
    ]
