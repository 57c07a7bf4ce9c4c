"""Average precision from the labels of bands of score (metrics/audit/score_bands.py).

The precision at a match is the number of matches that rank at or above it over its rank, and average precision is the
mean of that over all matches. Ranks are counted exactly among the ranked and the known pairs, and estimated from the
drawn ones beyond. Matches are known among the labelled pairs only, each of which stands for w pairs of its band; but in
the precision at itself a match counts once, not w times, or average precision would be far too high.

The interval is that of metrics/audit/false_positives.py: it draws how many pairs of each band match, from the end
that lowers (or raises) average precision, and where in the band they rank.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from al_ray.core.labels import NO, YES
from al_ray.core.scorer import Floats
from al_ray.metrics.audit.false_positives import DRAWS, OPPOSITE, End, estimate, possible
from al_ray.metrics.audit.score_bands import Band, BandAudit
from al_ray.metrics.average_precision import Estimate, Ints
from al_ray.metrics.shares import wilson

# Places in a band at which matches that no label shows may rank.
PLACES = 8
# Numbers at a time in the draws.
CELLS = 4_000_000


@dataclass(frozen=True)
class BandMatches:
    """The labelled matches of a band: their ranks (m,), and how many of its `size` pairs were labelled yes or no.

    places: ranks (p,) at which other matches of the band may be; none if all of its pairs are labelled.
    """

    size: int
    answered: int
    ranks: Floats
    places: Floats

    @property
    def weight(self) -> float:
        """Return how many pairs a labelled one stands for."""
        return self.size / self.answered

    @property
    def pair_weight(self) -> float:
        """Return how many other pairs of the band another labelled pair of it stands for, beside a given one."""
        return (self.size - 1) / (self.answered - 1) if self.answered > 1 else self.weight


def average_precision(
    audit: BandAudit, cosines: Floats, rng: np.random.Generator, over_all: bool = False
) -> Estimate | None:
    """Estimate average precision over the ranked and the known pairs, or over all pairs of the split.

    cosines: (n,) of the drawn pairs. None if a band has no answer, or if no pair was labelled a match. Over all pairs,
    the value is that of the labelled pairs: if none of the rest matched, only the interval says what may be missing.
    """
    # Labels of different cells represent different numbers of pairs, which are not known here.
    assert audit.model is None
    cut = audit.bands if over_all else tuple(band for band in audit.bands if band[1] <= audit.reach)
    of_rest = cosines[audit.ranks == audit.reach] if over_all else None
    bands = _bands(_Ranks(audit, of_rest), cut, cosines)
    value = None if bands is None else _estimate(bands)
    if bands is None or value is None:
        return None
    signs = [_raises(bands, number) for number in range(len(bands))]

    def figure(end: End) -> Floats:
        found = _bands(_Ranks(audit, of_rest, end), cut, cosines)
        assert found is not None
        # Where matches were labelled, those at other places only lower average precision.
        rivals = [replace(one, places=one.places[:0]) if end == "high" and len(one.ranks) else one for one in found]
        return _draws(rivals, [end if sign else OPPOSITE[end] for sign in signs], 1 if end == "low" else np.inf, rng)

    return estimate(value, figure, audit.tail)


@dataclass(frozen=True)
class _Ranks:
    """Ranks of pairs by cosine, on ties the last rank: among the ranked and the known pairs, or among all pairs.

    of_rest: (n,) cosines of the drawn pairs of the rest, if ranks are among all pairs. How many of the rest reach a
    cosine is estimated from them. end: which end of average precision a limit of that number is for, if not the value.
    """

    audit: BandAudit
    of_rest: Floats | None
    end: End | None = None

    def of(self, cosines: Floats, own: int = 0) -> Floats:
        """Return the rank of each cosine; own: 1 if they are those of drawn pairs of the rest, else 0."""
        audit = self.audit
        ranked = np.searchsorted(-audit.cosines, -cosines, side="right")
        known = np.searchsorted(np.sort(-audit.known_cosines), -cosines, side="right")
        if self.of_rest is None or not len(self.of_rest):
            return (ranked + known).astype(np.float64)
        above = np.searchsorted(np.sort(-self.of_rest), -cosines, side="right") - own
        size = audit.total - audit.reach
        # All pairs above the last ranked one are ranked.
        beyond = np.where(cosines < audit.floor, np.clip(self._share(above, size), 0, 1) * size, 0)
        return (ranked + known + beyond + own).astype(np.float64)

    def _share(self, above: Ints, size: int) -> Floats:
        """Return the share of the `size` pairs of the rest that reach a cosine which `above` drawn ones reach."""
        assert self.of_rest is not None
        n = len(self.of_rest)
        if n == size:
            return np.divide(above, n, dtype=np.float64)
        if self.end is None:
            return (above + 0.5) / (n + 1)
        low, high = wilson(above, n)
        return high if self.end == "low" else low


def _bands(ranks: _Ranks, cut: Sequence[Band], cosines: Floats) -> list[BandMatches] | None:
    """Return the matches known before, as a band that is labelled completely, and those of each band.

    None if a band has no answer.
    """
    audit = ranks.audit
    known = ranks.of(audit.known_cosines[audit.known_labels == YES])
    every = max(1, len(audit.known_labels))
    bands = [BandMatches(every, every, np.sort(known), np.empty(0))]
    for band in cut:
        found = _matches(ranks, band, cosines)
        if found is None:
            return None
        bands.append(found)
    return bands


def _matches(ranks: _Ranks, band: Band, cosines: Floats) -> BandMatches | None:
    """Return the labelled matches of a band; None without an answer."""
    audit = ranks.audit
    inside = (audit.ranks >= band[0]) & (audit.ranks < band[1])
    answered = inside & np.isin(audit.labels, (NO, YES))
    size, count = band[1] - band[0], int(answered.sum())
    if not count:
        return None
    matches = answered & (audit.labels == YES)
    share = (np.arange(PLACES) + 0.5) / PLACES
    rest = band[0] >= audit.reach
    if rest:
        places = audit.reach + len(audit.known_cosines) + share * size
    else:
        places = ranks.of(audit.cosines[(band[0] + share * size).astype(np.int64)])
    labelled = np.sort(ranks.of(cosines[matches], int(rest)))
    return BandMatches(size, count, labelled, places if count < size else places[:0])


def _estimate(bands: Sequence[BandMatches]) -> float | None:
    """Return the estimate; None without a labelled match. No precision is above 1, which lowers it a little."""
    total = sum(len(band.ranks) * band.weight for band in bands)
    if not total:
        return None
    sums = 0.0
    for band in bands:
        own = np.searchsorted(band.ranks, band.ranks, side="right")
        above = 1 + (own - 1) * band.pair_weight
        for other in bands:
            if other is not band:
                above = above + np.searchsorted(other.ranks, band.ranks, side="right") * other.weight
        sums += band.weight * float(np.minimum(above / band.ranks, 1).sum())
    return sums / total


def _draws(bands: Sequence[BandMatches], ends: Sequence[End], most: float, rng: np.random.Generator) -> Floats:
    """Draw (DRAWS,) average precisions."""
    numbers = [
        possible(len(band.ranks), band.answered, band.size, end, rng) for band, end in zip(bands, ends, strict=True)
    ]
    ranks = np.concatenate([np.concatenate([band.ranks, band.places]) for band in bands])
    order = np.argsort(ranks, kind="stable")
    step = max(1, CELLS // len(ranks))
    parts: list[Floats] = []
    for start in range(0, DRAWS, step):
        masses = [_masses(band, number[start : start + step], rng) for band, number in zip(bands, numbers, strict=True)]
        parts.append(_of_masses(ranks[order], np.concatenate(masses, axis=1)[:, order], most))
    return np.minimum(np.concatenate(parts), 1)


def _masses(band: BandMatches, numbers: Ints, rng: np.random.Generator) -> Floats:
    """Draw how many matches rank near each labelled match (m) and each place (p) of a band, (d, m + p); see Dirichlet.

    numbers: (d,) matches of the band. Each labelled match is itself one; the others are divided at random.
    """
    found, others = len(band.ranks), len(band.places)
    own = np.ones((len(numbers), found))
    if band.answered == band.size:
        return own
    share = rng.standard_exponential((len(numbers), found))
    spread = rng.gamma(1 / max(1, others), size=(len(numbers), others))
    every = np.concatenate([share, spread], axis=1)
    every *= ((numbers - found) / every.sum(axis=1))[:, None]
    every[:, :found] += own
    return every


def _of_masses(ranks: Floats, masses: Floats, most: float) -> Floats:
    """Return the average precision (d,) of (d, k) matches at (k,) ascending ranks; the limit if none matches.

    Matches at equal ranks have equal scores, so that each counts in the precision of all of them. most: the highest
    precision at a rank. That it is at most 1 lowers the average of estimates, so an upper limit is computed without it.
    """
    last = np.searchsorted(ranks, ranks, side="right") - 1
    above = np.cumsum(masses, axis=1)[:, last] - np.maximum(masses - 1, 0) / 2
    total = masses.sum(axis=1)
    sums = (masses * np.minimum(above / ranks, most)).sum(axis=1)
    return np.divide(sums, total, out=np.full(len(total), float(most > 1)), where=total > 0)


def _raises(bands: Sequence[BandMatches], number: int) -> bool:
    """Return whether more matches in a band raise average precision."""
    ranks = np.concatenate([np.concatenate([band.ranks, band.places]) for band in bands])
    masses = [np.repeat([band.weight, 0.0], [len(band.ranks), len(band.places)]) for band in bands]
    before, order = np.concatenate(masses), np.argsort(ranks, kind="stable")
    # Divided as the draws divide other matches, on average.
    found, places = len(bands[number].ranks), len(bands[number].places)
    masses[number] = masses[number] + np.repeat([1.0, 1 / max(1, places)], [found, places])
    figures = _of_masses(ranks[order], np.stack([before, np.concatenate(masses)])[:, order], np.inf)
    return bool(figures[1] >= figures[0])
