"""How good a scorer is by what people say of a few pairs that it scores high: the audit of the paper's A.3.

The negatives of an evaluation set are imputed (3.1.2): some match after all. So of those that reach a threshold, the
putative false positives, a few are drawn from each stratum and labelled, and their share of errors scales the
stratum's term (Eq. 14).

Intervals are 95% and rest on one fact. Of a population of N pairs n were drawn uniformly, without repeats, and k have a
property: how many of the N have it? With U beta-binomial of N - n trials and parameters k + 1 and n - k, P(X <= k | K)
= P(U >= K - k) for X hypergeometric: quantiles of k + U are exact upper limits (Clopper and Pearson's, for a finite
population), and those with k and n - k + 1 exact lower ones. A figure of several populations takes a quantile over
draws of all, each from the end that moves the figure that way (melding: Fay, Proschan and Brittain, Biometrics 71,
2015), which errs on the side of too wide. What was taken whole does not vary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from al_ray.core.errors import BadOption
from al_ray.core.metrics import Estimate, Extent, Ints, Scores, counts_above, thresholds_of
from al_ray.core.scoring import Floats

DRAWS = 10_000
TAIL = 0.025

Many = npt.NDArray[np.int64] | int
End = Literal["low", "high"]
Figure = Callable[[End], Floats]


@dataclass(frozen=True)
class Putative:
    """The putative false positives of a stratum: `above` of its sampled negatives reach the threshold.

    Of those drawn, people called `errors` no match (real false positives) and `matches` matches; of `silent` they were
    unsure, or said nothing.
    """

    extent: Extent
    above: int
    errors: int
    matches: int
    silent: int

    @property
    def answered(self) -> int:
        """How many were called a match or none."""
        return self.errors + self.matches

    @property
    def share(self) -> float:
        """p^ of Eq. 14, the share of real errors; 1, the imputed labels' word, where nobody answered."""
        return self.errors / self.answered if self.answered else 1.0

    @property
    def errors_in_all(self) -> float:
        """This stratum's term of Eq. 14."""
        return self.share * self.extent.weight * self.above

    def settled(self, match: bool) -> "Putative":
        """This stratum had those of which nothing is known been matches, or none."""
        matches, errors = (self.silent, 0) if match else (0, self.silent)
        return replace(self, errors=self.errors + errors, matches=self.matches + matches, silent=0)


def threshold_at(positive_scores: Scores, recall: float) -> float:
    """The first (highest) threshold that at least the share `recall` of the positives reaches."""
    if not 0 < recall <= 1:
        raise BadOption(f"--at-recall is {recall}; give a recall above 0, and at most 1")
    thresholds = thresholds_of(positive_scores)
    reached = counts_above(thresholds, positive_scores) >= recall * len(positive_scores)
    return float(thresholds[int(np.argmax(reached))])


def drawn_above(scores: Scores, threshold: float, count: int, rng: np.random.Generator) -> tuple[Ints, int]:
    """(n,) scores -> places of at most `count` of those that reach the threshold, uniform; and how many do."""
    above = np.flatnonzero(scores >= threshold).astype(np.int64)
    return rng.permutation(above)[:count], len(above)


def possible(found: int, drawn: int, population: Many, end: End, rng: np.random.Generator) -> Ints:
    """(DRAWS,) how many of a population have a property that `found` of `drawn` pairs have; see the module's head.

    population: a number, or draws of one (DRAWS,), none below `drawn`.
    """
    have, lack = (found + 1, drawn - found) if end == "high" else (found, drawn - found + 1)
    share = rng.beta(have, lack, DRAWS) if have and lack else np.full(DRAWS, float(have > 0))
    unseen = np.broadcast_to(np.asarray(population, dtype=np.int64) - drawn, DRAWS)
    return found + rng.binomial(unseen, share)


def estimate(value: float, figure: Figure) -> Estimate:
    """A value with the interval that draws from both ends of a figure give; widened to hold the value."""
    # Towards the outside: counts are whole numbers.
    low = float(np.quantile(figure("low"), TAIL, method="lower"))
    high = float(np.quantile(figure("high"), 1 - TAIL, method="higher"))
    return Estimate(value, min(value, low), max(value, high))


def error_share(stratum: Putative, rng: np.random.Generator) -> Estimate:
    """p^ of a stratum (Eq. 14): the share of its putative false positives that are real."""
    every = max(round(stratum.extent.weight * stratum.above), stratum.answered)

    def figure(end: End) -> Floats:
        drawn = possible(stratum.errors, stratum.answered, every, end, rng)
        return drawn / every if every else np.full(DRAWS, float(end == "high"))

    return estimate(stratum.share, figure)


def corrected_precision(positives: int, strata: Sequence[Putative], rng: np.random.Generator) -> Estimate:
    """Precision with FP^_manual in place of FP^ (Eq. 14); positives: known ones that reach the threshold, at least one.

    As in the paper, matches that were found among the putative false positives leave the errors and do not join the
    positives: it is the precision had they never been there. `matching_share` counts them.
    """
    value = positives / (positives + sum(stratum.errors_in_all for stratum in strata))

    def figure(end: End) -> Floats:
        other: End = "high" if end == "low" else "low"
        errors = np.zeros(DRAWS)
        for stratum in strata:
            reaching = _reaching(stratum, other, rng)
            errors += possible(stratum.errors, stratum.answered, reaching, other, rng)
        return positives / (positives + errors)

    return estimate(value, figure)


def matching_share(positives: int, strata: Sequence[Putative], rng: np.random.Generator) -> Estimate:
    """The share of all pairs that reach the threshold which match: known positives, and those that nobody knew."""
    reach = positives + sum(stratum.extent.weight * stratum.above for stratum in strata)
    value = 1 - sum(stratum.errors_in_all for stratum in strata) / reach

    def figure(end: End) -> Floats:
        other: End = "high" if end == "low" else "low"
        matches, every = np.full(DRAWS, float(positives)), np.full(DRAWS, float(positives))
        for stratum in strata:
            reaching = _reaching(stratum, other, rng)
            matches += reaching - possible(stratum.errors, stratum.answered, reaching, other, rng)
            every += reaching
        return matches / every

    return estimate(value, figure)


def _reaching(stratum: Putative, end: End, rng: np.random.Generator) -> Ints:
    """(DRAWS,) how many of a stratum's population reach the threshold, from how many of its sample do."""
    return possible(stratum.above, stratum.extent.size, stratum.extent.population, end, rng)
