"""How many pairs have a cutoff's score or more, estimated from a random sample of texts before pairs are searched."""

from dataclasses import dataclass

import numpy as np

from al_ray.core.pairs import Rows
from al_ray.core.rng import generator

SAMPLE = 1000
"""Texts whose pairs are counted, at most."""
REPLICATES = 2000
LEVEL = 0.025


@dataclass(frozen=True)
class PairEstimate:
    """A number of pairs, from the pairs of `sampled` of `texts` texts; exact if these are all.

    low: there are at least so many pairs, in 97.5% of samples. There is no such bound above: a few texts that were not
    drawn may have most of the pairs.
    """

    pairs: float
    low: float
    sampled: int
    texts: int

    @property
    def exact(self) -> bool:
        """Whether the pairs of all texts were counted."""
        return self.sampled == self.texts

    def describe(self, texts: str) -> str:
        """Return the number in words. texts: what the texts are called."""
        if self.exact:
            return f"{self.pairs:,.0f} pairs"
        drawn = f"estimated from {self.sampled:,} of {self.texts:,} {texts}, drawn at random"
        if not self.pairs:
            return f"about 0 pairs ({drawn}, none of which has such a pair)"
        return f"about {_rounded(self.pairs)} pairs (at least {_rounded(self.low)}; {drawn})"


def draw_texts(rows: Rows, seed: int) -> Rows:
    """Return SAMPLE random rows, sorted, or all if there are fewer."""
    return np.sort(generator(seed, "match-pairs").choice(rows, min(SAMPLE, len(rows)), replace=False))


def estimate_pairs(counts: Rows, texts: int, symmetric: bool, seed: int) -> PairEstimate:
    """Estimate the pairs of all texts from the numbers of pairs (n,) of n of them, drawn without replacement.

    symmetric: a pair is counted for both of its texts. The low end is that of the percentile bootstrap over texts,
    moved towards the mean for a sample that is a large part of all texts: deviations are multiplied by
    sqrt(1 - n / texts). It is no lower than the pairs counted.
    """
    sampled, each = len(counts), 0.5 if symmetric else 1.0
    mean = counts.mean()
    drawn = generator(seed, "match-pairs-bootstrap").integers(0, sampled, (REPLICATES, sampled))
    deviation = np.quantile(counts[drawn].mean(axis=1), LEVEL) - mean
    low = mean + np.sqrt(1 - sampled / texts) * min(deviation, 0.0)
    scale, there = texts * each, float(counts.sum() * each)
    return PairEstimate(float(scale * mean), float(max(there, scale * low)), sampled, texts)


def _rounded(number: float) -> str:
    """Return a number with three digits that are not 0, or all digits below 1,000."""
    digits = max(0, len(str(int(number))) - 3)
    return f"{int(round(number, -digits)):,}"
