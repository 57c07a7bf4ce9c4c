"""Bands of scores with round edges: the table of matches by score, and the bins of the histograms."""

from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np

from al_ray.apps.matching.folder import Matches
from al_ray.core.pairs import Mask, Rows
from al_ray.core.scorer import Floats

NARROWEST = 1e-3
"""Least width of a band: scores that differ by less are not told apart."""
TOLERANCE = 1e-6
"""A score that is above the highest edge by less than this many widths needs no band of its own: a cosine can be
1.0000001 in float32."""


@dataclass(frozen=True)
class Band:
    """Matches of one band: those at positions start to end, less one, of the matches.

    low: lower edge, None for labelled pairs below all matches of the model. high: upper edge, which belongs to the next
    band, but in the highest one to this. by_label: number of those that were labelled yes. probability: mean of the
    model's matches, None if it is not calibrated or there are none.
    """

    low: float | None
    high: float
    start: int
    end: int
    by_label: int
    probability: float | None

    def __len__(self) -> int:
        return self.end - self.start


def round_edges(low: float, high: float, most: int) -> Floats:
    """Return the edges (b + 1,) of at most `most` bands of equal width that cover the scores from `low` to `high`.

    The width is the least of 1, 2 or 5 times a power of ten, and not below NARROWEST; edges are its multiples.
    """
    exponent = max(floor(log10(max(high - low, NARROWEST) / most)), round(log10(NARROWEST)))
    while True:
        for digit in (1, 2, 5):
            width = digit * 10.0**exponent
            first = floor(low / width + TOLERANCE)
            last = max(first + 1, ceil(high / width - TOLERANCE))
            if last - first <= most:
                edges = np.arange(first, last + 1, dtype=np.float64) * width
                return edges.round(max(0, -exponent))
        exponent += 1


def counts_between(edges: Floats, scores: Floats) -> Rows:
    """(b + 1,) edges, (n,) scores -> (b,) scores from each edge up to the next; the last band has its upper edge."""
    return np.bincount(_bands_of(edges, scores), minlength=len(edges) - 1)


def score_bands(matches: Matches, most: int) -> list[Band]:
    """Return the bands that have a match, the highest first: at most `most`, and one of labelled pairs below these.

    The lowest edge is that of the model's matches, for a labelled pair can have any score; without a match of the model
    it is that of all.
    """
    if not len(matches):
        return []
    own = matches.by_model
    lowest = matches.scores[own] if own.any() else matches.scores
    edges = round_edges(float(lowest.min()), float(matches.scores.max()), most)
    # -1 for the labelled pairs below the lowest edge.
    bands = np.where(matches.scores < edges[0] - TOLERANCE, -1, _bands_of(edges, matches.scores))
    found = list[Band]()
    # Matches are sorted by score, so a band is a range of them.
    for band in np.unique(bands)[::-1].tolist():
        here = bands == band
        start, by_label = int(here.argmax()), int((here & matches.by_label).sum())
        low = None if band < 0 else float(edges[band])
        mean = mean_probability(matches, here & own)
        found.append(Band(low, float(edges[band + 1]), start, start + int(here.sum()), by_label, mean))
    return found


def spaced(count: int, most: int) -> Rows:
    """Return at most `most` positions of `count`, evenly spaced, with the first and the last."""
    return np.unique(np.linspace(0, max(0, count - 1), min(most, count)).round().astype(np.int64))


def _bands_of(edges: Floats, scores: Floats) -> Rows:
    return np.clip(np.searchsorted(edges, scores, side="right") - 1, 0, len(edges) - 2)


def mean_probability(matches: Matches, chosen: Mask) -> float | None:
    """Return the mean probability of the chosen matches, (n,) booleans; None without any, or without calibration."""
    if matches.probabilities is None or not chosen.any():
        return None
    return float(matches.probabilities[chosen].mean())
