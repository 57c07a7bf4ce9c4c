"""The human audit of false positives (paper, A.3): corrected precision from labels of a few pairs with high scores.

The negatives of an evaluation set are imputed (3.1.2), so some of them are matches. Those that reach a threshold are
the putative false positives. A few of each stratum are drawn and labelled, and the share of errors among them scales
the stratum's term (Eq. 14).

All intervals are 95%. If n of N pairs are drawn uniformly without replacement and k of them have a property, K of the N
have it, where K is unknown. With U beta-binomial of N - n trials and parameters k + 1 and n - k, P(X <= k | K) =
P(U >= K - k) for X hypergeometric: so quantiles of k + U are exact upper limits (Clopper and Pearson's, for a finite
population), and those with parameters k and n - k + 1 exact lower limits. A statistic of several populations takes a
quantile over joint draws, each from the end that moves the statistic in that direction (melding: Fay, Proschan and
Brittain, Biometrics 71, 2015), which is conservative. A population that was labelled completely does not vary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from al_ray.core.errors import BadOption
from al_ray.core.scorer import Floats
from al_ray.metrics.average_precision import Estimate, Ints, Scores, StratumSummary, counts_above, thresholds_of

DRAWS = 10_000
TAIL = 0.025

Many = npt.NDArray[np.int64] | int
End = Literal["low", "high"]
OPPOSITE: dict[End, End] = {"low": "high", "high": "low"}
Figure = Callable[[End], Floats]


@dataclass(frozen=True)
class FalsePositiveSample:
    """The putative false positives of a stratum: `above` of its sampled negatives reach the threshold.

    Of those drawn, `errors` were labelled no (real false positives), `matches` yes, and `silent` unsure or not at all.
    """

    extent: StratumSummary
    above: int
    errors: int
    matches: int
    silent: int

    @property
    def answered(self) -> int:
        """Return how many were labelled yes or no."""
        return self.errors + self.matches

    @property
    def share(self) -> float:
        """Return p^ of Eq. 14, the share of real errors; 1, as the imputed labels say, if none was labelled."""
        return self.errors / self.answered if self.answered else 1.0

    @property
    def errors_in_all(self) -> float:
        """Return the stratum's term of Eq. 14."""
        return self.share * self.extent.weight * self.above

    def settled(self, match: bool) -> "FalsePositiveSample":
        """Return the stratum as if all pairs without yes or no had been matches, or errors."""
        matches, errors = (self.silent, 0) if match else (0, self.silent)
        return replace(self, errors=self.errors + errors, matches=self.matches + matches, silent=0)


def threshold_at(positive_scores: Scores, recall: float) -> float:
    """Return the highest threshold that at least the share `recall` of the positives reaches."""
    if not 0 < recall <= 1:
        raise BadOption(f"`at_recall` is {recall}; give a recall above 0 and at most 1")
    thresholds = thresholds_of(positive_scores)
    # Divided as in average_precision: a product differs in the last bit, and so by a positive.
    reached = counts_above(thresholds, positive_scores) / len(positive_scores) >= recall
    return float(thresholds[int(np.argmax(reached))])


def draw_above(scores: Scores, threshold: float, count: int, rng: np.random.Generator) -> tuple[Ints, int]:
    """Draw the positions of at most `count` of (n,) scores that reach the threshold, uniformly; also count those."""
    above = np.flatnonzero(scores >= threshold).astype(np.int64)
    return rng.permutation(above)[:count], len(above)


def possible(
    count: int, sampled: int, population: Many, end: End, rng: np.random.Generator, draws: int | None = None
) -> Ints:
    """Draw (draws,) how many of a population have a property that `count` of `sampled` pairs have; see the module.

    population: its size, or (draws,) draws of it, none below `sampled`. end: which limit quantiles of the draws bound.
    draws: DRAWS if None.
    """
    draws = DRAWS if draws is None else draws
    unseen = np.broadcast_to(np.asarray(population, dtype=np.int64) - sampled, draws)
    return count + rng.binomial(unseen, possible_share(count, sampled, end, rng, draws))


def possible_share(count: int, sampled: int, end: End, rng: np.random.Generator, draws: int | None = None) -> Floats:
    """Draw (draws,) shares of an infinite population with a property that `count` of `sampled` pairs have.

    draws: DRAWS if None.
    """
    draws = DRAWS if draws is None else draws
    have, lack = (count + 1, sampled - count) if end == "high" else (count, sampled - count + 1)
    return rng.beta(have, lack, draws) if have and lack else np.full(draws, float(have > 0))


def estimate(value: float, figure: Figure, tail: float = TAIL) -> Estimate:
    """Return a value with the interval from draws of both ends of a statistic, widened to contain the value.

    tail: the chance that the truth is below the interval, and that it is above.
    """
    # Quantiles are rounded outwards, as counts are whole numbers.
    low = float(np.quantile(figure("low"), tail, method="lower"))
    high = float(np.quantile(figure("high"), 1 - tail, method="higher"))
    return Estimate(value, min(value, low), max(value, high))


def error_share(stratum: FalsePositiveSample, rng: np.random.Generator) -> Estimate:
    """Estimate p^ of a stratum (Eq. 14): the share of its putative false positives that are real."""
    every = max(round(stratum.extent.weight * stratum.above), stratum.answered)

    def figure(end: End) -> Floats:
        errors = possible(stratum.errors, stratum.answered, every, end, rng)
        return errors / every if every else np.full(DRAWS, float(end == "high"))

    return estimate(stratum.share, figure)


def corrected_precision(positives: int, strata: Sequence[FalsePositiveSample], rng: np.random.Generator) -> Estimate:
    """Estimate precision with FP^_manual for FP^ (Eq. 14); positives: known ones that reach the threshold, at least 1.

    As in the paper, matches among the putative false positives are removed from the errors and not added to the
    positives. `matching_share` counts them.
    """
    value = positives / (positives + sum(stratum.errors_in_all for stratum in strata))

    def figure(end: End) -> Floats:
        errors, _ = _draw(strata, OPPOSITE[end], rng)
        return positives / (positives + errors)

    return estimate(value, figure)


def matching_share(positives: int, strata: Sequence[FalsePositiveSample], rng: np.random.Generator) -> Estimate:
    """Estimate the share of matches, known positives or not, among all pairs that reach the threshold."""
    reach = positives + sum(stratum.extent.weight * stratum.above for stratum in strata)
    value = 1 - sum(stratum.errors_in_all for stratum in strata) / reach

    def figure(end: End) -> Floats:
        errors, reaching = _draw(strata, OPPOSITE[end], rng)
        return (positives + reaching - errors) / (positives + reaching)

    return estimate(value, figure)


def _draw(strata: Sequence[FalsePositiveSample], end: End, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw (DRAWS,) how many pairs of all strata are real errors, and (DRAWS,) how many reach the threshold."""
    errors, reaching = np.zeros(DRAWS), np.zeros(DRAWS)
    for stratum in strata:
        above = possible(stratum.above, stratum.extent.size, stratum.extent.population, end, rng)
        errors += possible(stratum.errors, stratum.answered, above, end, rng)
        reaching += above
    return errors, reaching
