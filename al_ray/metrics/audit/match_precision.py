"""Precision of written matches from the labels of a few of them, drawn from bands of rank.

Matches are ordered by score. Their bands have nearly as many matches each, not tenfold more as those of an audit by
score, because all of them may be right and errors are mostly among the last. Of each band the same share is drawn.

The estimate is stratified: each band counts by its size. The interval is that of a uniform sample of n matches of all
bands (Clopper and Pearson's for a finite population, metrics/audit/false_positives.py), where n is N times the least
share of answers that a band of the N matches has. If every band has the same share, n is the number of all answers.
The variance of the stratified estimate is at most that of the uniform one, sum W_b^2 p_b (1 - p_b) / m_b <=
p (1 - p) / n, as W_b / m_b <= 1 / n and p (1 - p) is concave; for the tails see Hoeffding (Annals of Mathematical
Statistics 27, 1956). Without replacement this holds up to a factor of N_b / (N_b - 1). Limits of every band, joined as
in an audit by score, would be much wider: of 5 times 20 answers, all yes, the interval would begin at 91%, not at 96%.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor

import numpy as np

from al_ray.core.labels import NO, YES
from al_ray.core.scorer import Floats, Labels
from al_ray.metrics.audit.false_positives import End, estimate, possible
from al_ray.metrics.average_precision import Estimate, Ints

MOST_BANDS = 10
LEAST_IN_BAND = 20
"""Matches, and drawn ones, that a band has at least; there are fewer bands if that needs more of either."""


@dataclass(frozen=True)
class MatchBand:
    """Matches of the places start to stop (exclusive, from 0) by score; `drawn` of them are labelled.

    lowest_score: of the last one. All matches with at least this score are in this band or before it.
    """

    start: int
    stop: int
    drawn: int
    lowest_score: float

    @property
    def size(self) -> int:
        """Return how many matches it has."""
        return self.stop - self.start


@dataclass(frozen=True)
class BandAnswers:
    """Of the `size` matches of a band `yes` were labelled yes and `no` were labelled no."""

    size: int
    yes: int
    no: int

    @property
    def answered(self) -> int:
        """Return how many were labelled yes or no."""
        return self.yes + self.no


def match_bands(scores: Floats, budget: int) -> tuple[MatchBand, ...]:
    """Return the bands of matches, and how many to draw of each: at least one, and `budget` of all bands.

    scores: (n,) descending, at least one. Equal scores are in one band. All are drawn if there are fewer than `budget`.
    """
    total = len(scores)
    budget = min(budget, total)
    number = max(1, min(MOST_BANDS, budget // LEAST_IN_BAND, total // LEAST_IN_BAND))
    ends = [0]
    for band in range(1, number + 1):
        end = int(np.searchsorted(-scores, -float(scores[total * band // number - 1]), side="right"))
        if _drawn_before(end, budget, total) > _drawn_before(ends[-1], budget, total):
            ends.append(end)
    ends[-1] = total
    before = [_drawn_before(end, budget, total) for end in ends]
    return tuple(
        MatchBand(start, stop, drawn_after - drawn_before, float(scores[stop - 1]))
        for (start, stop), (drawn_before, drawn_after) in zip(pairwise(ends), pairwise(before), strict=True)
    )


def _drawn_before(end: int, budget: int, total: int) -> int:
    """Return how many of the first `end` matches are drawn: their share of the budget, rounded."""
    return (2 * budget * end + total) // (2 * total)


def count_answers_by_band(bands: Sequence[MatchBand], places: Ints, labels: Labels) -> tuple[BandAnswers, ...]:
    """Count the labels (n,) of drawn matches, NO, YES, UNSURE or OPEN, by the band of their places (n,)."""
    counts: list[BandAnswers] = []
    for band in bands:
        own = labels[(places >= band.start) & (places < band.stop)]
        counts.append(BandAnswers(band.size, int((own == YES).sum()), int((own == NO).sum())))
    return tuple(counts)


def expected_matches(bands: Sequence[BandAnswers]) -> Fraction:
    """Estimate how many matches of all bands are right; each band has an answer."""
    return sum((Fraction(band.size * band.yes, band.answered) for band in bands), Fraction(0))


def match_precision(bands: Sequence[BandAnswers], rng: np.random.Generator) -> Estimate | None:
    """Estimate the share of the matches of all bands that are right; None if a band has no answer."""
    if not bands or not all(band.answered for band in bands):
        return None
    total, yes, no = (sum(getattr(band, name) for band in bands) for name in ("size", "yes", "no"))
    sampled = min(total * band.answered // band.size for band in bands)
    share = expected_matches(bands) / total

    def figure(end: End) -> Floats:
        # Rounded outwards, as a count is a whole number.
        count = floor(share * sampled) if end == "low" else ceil(share * sampled)
        return np.clip(possible(count, sampled, total, end, rng), yes, total - no) / total

    return estimate(float(share), figure)


def with_right(precision: Estimate, total: int, right: int) -> Estimate:
    """Return the precision of `total` matches together with `right` further ones, all of which are right."""
    return Estimate(
        *((right + total * end) / (right + total) for end in (precision.value, precision.low, precision.high))
    )
