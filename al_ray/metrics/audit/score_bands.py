"""An audit that needs no known match: label a few pairs of each band of score; estimate precision and recall anywhere.

All pairs of a split are ordered by score, without those that are labelled already. The first `reach` are ranked one by
one, with their cosines; all others are one band, the rest. Bands end at ranks 100, 1,000, 10,000 and so on up to `top`,
because matches are frequent at the top. If the model's boundary lies further down, one more band goes from there to the
boundary. A threshold inside a band divides it in two parts; the labelled pairs in each part are still a uniform sample
of it. For intervals see metrics/audit/false_positives.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, isfinite, log

import numpy as np
import numpy.typing as npt

from al_ray.core.errors import BadOption
from al_ray.core.labels import NO, YES
from al_ray.core.scorer import Floats, Labels
from al_ray.metrics.audit.answer_cells import CellPart, cell_part, cells_of
from al_ray.metrics.audit.false_positives import DRAWS, OPPOSITE, TAIL, End, estimate, possible
from al_ray.metrics.average_precision import Estimate, Ints

FIRST, GROWTH = 100, 10

Band = tuple[int, int]


def bands(reach: int, total: int, top: int | None = None, uniform: bool = False) -> tuple[Band, ...]:
    """Return the ranks of each band: (0, 100), (100, 1000), ... up to `top`, one up to `reach`, the rest up to `total`.

    top: at most `reach`; `reach` if None. uniform: one band goes up to `top`.
    """
    top = reach if top is None else min(top, reach)
    ends = [0, top if uniform else min(FIRST, top)]
    while ends[-1] < top:
        ends.append(min(ends[-1] * GROWTH, top))
    ends += [reach, total]
    return tuple((start, stop) for start, stop in pairwise(ends) if start < stop)


def ranked(cosines: Floats, top: int, total: int, boundary: float | None) -> int:
    """Return how many pairs to rank: `top`, or as many as are needed for `boundary` to lie among them, if that can be.

    cosines: (n,) highest ones of `total` pairs, descending. The first pair below the boundary is ranked too, so that no
    pair that reaches the boundary can be missing.
    """
    above = 0 if boundary is None else int(np.searchsorted(-cosines, -boundary, side="right"))
    beyond = top <= above and (above < len(cosines) or len(cosines) == total)
    return min(above + 1 if beyond else top, len(cosines))


def allotted(budget: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """Divide the budget equally among bands; what exceeds the size of a band goes to the others.

    The remainder goes to the first bands, where most matches are.
    """
    shares = [0] * len(sizes)
    while budget and (unfilled := [band for band, size in enumerate(sizes) if shares[band] < size]):
        each = max(1, budget // len(unfilled))
        for band in unfilled:
            more = min(each, sizes[band] - shares[band], budget)
            shares[band] += more
            budget -= more
    return tuple(shares)


def draw_ranks(band: Band, count: int, rng: np.random.Generator) -> Ints:
    """Draw `count` distinct ranks of a band uniformly, sorted."""
    return np.sort(rng.choice(band[1] - band[0], count, replace=False)).astype(np.int64) + band[0]


@dataclass(frozen=True)
class Part:
    """A band, or the part of one on a side of a threshold: `answered` of `size` pairs were labelled yes or no.

    share: of matches among the answered; of the whole band's if the part has none; NaN if the band has none.
    """

    size: int
    answered: int
    matches: int
    share: float

    def in_all(self, end: End, rng: np.random.Generator) -> Ints:
        """Draw (DRAWS,) how many of its pairs match."""
        return possible(self.matches, self.answered, self.size, end, rng)


AnyPart = Part | CellPart


@dataclass(frozen=True)
class AtThreshold:
    """Estimates at a threshold; None without a pair or an answer there.

    pairs: how many reach it, counted exactly. precision: the share of them that match. recall: the share of all matches
    of the split that reach it. recall_of_reach: the same, of the matches among the first `reach` pairs.
    labels_for_half: about how many labels of the rest, all of them no, would show that recall is at least one half;
    None if no number would, 0 if it is shown already; None with a language model.
    """

    threshold: float
    pairs: int
    precision: Estimate | None
    recall: Estimate | None
    recall_of_reach: Estimate | None
    labels_for_half: int | None


@dataclass(frozen=True)
class BandAudit:
    """The labelled pairs of bands of score. Bands are cut by cosine, with which p increases.

    cosines: (reach,) of the first pairs, descending. total: number of pairs, without the known ones.
    known_cosines, known_labels: (k,) of pairs that were labelled NO or YES before the audit.
    ranks, labels: (n,) of the pairs drawn, NO, YES, UNSURE or OPEN; a pair of the rest has the rank `reach`.
    top: the rank up to which bands grow tenfold, `reach` if None. uniform: one band goes up to `top` instead, and all
    pairs are drawn from it (a second draw, second_draw.py).
    model: (n,) answers of a language model to the pairs drawn, if it was asked: NO, YES, UNSURE, or OPEN for none. Then
    people were asked for some of each cell alone, and `labels` are OPEN for the others (answer_cells.py).
    tail: the chance that the truth lies below an interval, and that it lies above: 0.025 for 95%.
    """

    cosines: Floats
    total: int
    known_cosines: Floats
    known_labels: Labels
    ranks: Ints
    labels: Labels
    top: int | None = None
    uniform: bool = False
    model: Labels | None = None
    tail: float = TAIL

    @property
    def reach(self) -> int:
        """Return how many pairs are ranked one by one."""
        return len(self.cosines)

    @property
    def bands(self) -> tuple[Band, ...]:
        """Return the bands, the rest last."""
        return bands(self.reach, self.total, self.top, self.uniform)

    @property
    def sampled_bands(self) -> tuple[Band, ...]:
        """Return the bands of which pairs were to be drawn."""
        return self.bands[:1] if self.uniform else self.bands

    @property
    def without_known(self) -> "BandAudit":
        """Return the audit without the pairs that were labelled before."""
        return replace(self, known_cosines=self.known_cosines[:0], known_labels=self.known_labels[:0])

    @property
    def floor(self) -> float:
        """Return the cosine of the last ranked pair, infinity if there is none; pairs beyond may tie with it."""
        return float(self.cosines[-1]) if self.reach else float("inf")

    @property
    def edges(self) -> tuple[float, ...]:
        """Return the cosines at which bands up to `top` end; for the last one, that above which all are ranked."""
        top = self.reach if self.top is None else min(self.top, self.reach)
        ends = [float(self.cosines[stop - 1]) for _, stop in self.bands if stop <= top]
        known = self.cosines if self.total == self.reach else self.cosines[self.cosines > self.floor]
        return tuple(dict.fromkeys(max(end, float(known[-1])) for end in ends if len(known)))

    def reaches(self, threshold: float) -> bool:
        """Return whether all pairs at or above a threshold are ranked."""
        return self.total == self.reach or threshold > self.floor

    def check_ranked(self, threshold: float) -> None:
        """Raise BadOption if not all pairs at or above a threshold are ranked."""
        if np.isnan(threshold) or not self.reaches(threshold):
            raise BadOption(
                f"the threshold {threshold:.6g} is not above {self.floor:.6g}, the cosine of pair {self.reach:,}: "
                "pairs below are not ranked; give a higher one, or draw another audit with a larger `top` and `out`"
            )

    def at(self, threshold: float, rng: np.random.Generator) -> AtThreshold:
        """Estimate precision and recall at a cosine; BadOption below the ranked pairs."""
        self.check_ranked(threshold)
        cut = self.rank_of(threshold)
        above = self.parts(0, cut)
        below = self.parts(cut, self.total)
        rest = below[-1:] if self.total > self.reach else []
        known, known_below = self.known_matches(threshold)
        pairs, near = self.pairs_at(threshold), below[: len(below) - len(rest)]
        return AtThreshold(
            threshold,
            pairs,
            _ratio(above, None, (known, pairs), rng, self.tail) if pairs else None,
            _ratio(above, below, (known, known_below), rng, self.tail),
            _ratio(above, near, (known, known_below), rng, self.tail),
            _labels_for_half(_sum(above, known), _sum(near, known_below), rest),
        )

    def recall_at(self, threshold: float, rng: np.random.Generator, of_reach: bool) -> Estimate | None:
        """Estimate recall at a cosine as `at` does: of all matches, or of those among ranked and known pairs."""
        self.check_ranked(threshold)
        cut = self.rank_of(threshold)
        below = self.parts(cut, self.reach if of_reach else self.total)
        return _ratio(self.parts(0, cut), below, self.known_matches(threshold), rng, self.tail)

    def matches_in(self, band: Band, rng: np.random.Generator) -> Estimate | None:
        """Estimate how many pairs of a band match; None without a pair that was labelled yes or no."""
        part = self.part(band, band)
        return (
            estimate(part.size * part.share, lambda end: part.in_all(end, rng).astype(np.float64), self.tail)
            if part.answered
            else None
        )

    def share_between(
        self, start: int, stop: int, rng: np.random.Generator, known: npt.NDArray[np.bool_]
    ) -> Estimate | None:
        """Estimate the share of matches among the pairs of ranks start to stop and (k,) known ones; known: if matches.

        None without a pair, or without an answer in some band.
        """
        counts = int(known.sum()), stop - start + len(known)
        return _ratio(self.parts(start, stop), None, counts, rng, self.tail)

    def threshold_for(self, precision: float) -> float | None:
        """Return the lowest cosine of a labelled pair at which the estimated precision is at least `precision`.

        None if there is none among the ranked pairs. The estimate at the threshold so chosen is optimistic, because it
        is the most favourable one of many; its interval is not.
        """
        labelled = self.ranks[(self.ranks < self.reach) & np.isin(self.labels, (NO, YES))]
        for threshold in np.unique(self.cosines[labelled]).tolist():
            known = self.known_labels[self.known_cosines >= threshold]
            cut = self.rank_of(threshold)
            matches = _sum(self.parts(0, cut), int((known == YES).sum()))
            if self.reaches(threshold) and matches >= precision * (cut + len(known)):
                return threshold
        return None

    def known_matches(self, threshold: float) -> tuple[int, int]:
        """Return how many known pairs match at or above a cosine, and how many below."""
        reached = self.known_cosines >= threshold
        return int((self.known_labels[reached] == YES).sum()), int((self.known_labels[~reached] == YES).sum())

    def pairs_at(self, threshold: float) -> int:
        """Return how many ranked and known pairs reach a cosine."""
        return self.rank_of(threshold) + int((self.known_cosines >= threshold).sum())

    def rank_of(self, threshold: float) -> int:
        """Return how many ranked pairs reach a cosine."""
        return int(np.searchsorted(-self.cosines, -threshold, side="right"))

    def parts(self, start: int, stop: int) -> list[AnyPart]:
        """Return the parts of the bands within ranks start to stop."""
        cuts = [((max(low, start), min(high, stop)), (low, high)) for low, high in self.bands]
        return [self.part(within, band) for within, band in cuts if within[0] < within[1]]

    def part(self, within: Band, band: Band) -> AnyPart:
        """Return the part of a band within some ranks."""
        if self.model is not None:
            inner, outer = (self._drawn(ranks) for ranks in (within, band))
            of_part, of_band = (cells_of(self.model[own], self.labels[own]) for own in (inner, outer))
            return cell_part(within[1] - within[0], of_part, of_band)
        matches, answered = self._count(within)
        of_band, in_band = self._count(band)
        share = matches / answered if answered else of_band / in_band if in_band else float("nan")
        return Part(within[1] - within[0], answered, matches, share)

    def _count(self, band: Band) -> tuple[int, int]:
        """Return how many pairs of a band were labelled yes, and how many yes or no."""
        labels = self.labels[self._drawn(band)]
        matches = int((labels == YES).sum())
        return matches, matches + int((labels == NO).sum())

    def _drawn(self, band: Band) -> npt.NDArray[np.bool_]:
        """Return (n,) which of the pairs drawn have ranks in a band."""
        return (self.ranks >= band[0]) & (self.ranks < band[1])


def _sum(parts: Sequence[AnyPart], known: int) -> float:
    return known + float(sum(part.size * part.share for part in parts))


def _ratio(
    above: Sequence[AnyPart],
    below: Sequence[AnyPart] | None,
    known: tuple[int, int],
    rng: np.random.Generator,
    tail: float,
) -> Estimate | None:
    """Estimate matches above over matches above and below; if `below` is None, over known[1] pairs.

    known: known matches above, and below (or the number of pairs). None if a part has no answer, or the denominator
    is 0.
    """
    over = float(known[1]) if below is None else _sum(above, known[0]) + _sum(below, known[1])
    # NaN if the share of some part is unknown.
    if not over > 0 or np.isnan(_sum(above, known[0])):
        return None

    def figure(end: End) -> Floats:
        upper = known[0] + sum((part.in_all(end, rng) for part in above), np.zeros(DRAWS))
        if below is None:
            return upper / known[1]
        lower = known[1] + sum((part.in_all(OPPOSITE[end], rng) for part in below), np.zeros(DRAWS))
        every = upper + lower
        # If no match is drawn at all, recall is undetermined: 0 at the low end and 1 at the high end.
        return np.where(every > 0, upper / np.where(every > 0, every, 1.0), float(end == "high"))

    return estimate(_sum(above, known[0]) / over, figure, tail)


def _labels_for_half(above: float, near: float, rest: Sequence[AnyPart]) -> int | None:
    """Return the number n of labels of the rest, all no, that shows a recall of one half; see AtThreshold.

    With them at most size * ln(1/0.025) / n pairs of the rest match, which must be at most above - near.
    """
    spare = above - near
    if not rest or isinstance(rest[0], CellPart) or rest[0].matches or not isfinite(spare) or spare <= 0:
        return None
    enough = min(rest[0].size, ceil(rest[0].size * log(1 / TAIL) / spare))
    return 0 if rest[0].answered >= enough else enough
