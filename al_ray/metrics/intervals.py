"""95% intervals of false positives, precision and average precision, due to the sampling of strata (paper, A.2).

A sampled pair of a stratum represents `weight` pairs. The number of sampled pairs above a threshold is Poisson, with a
standard deviation reduced by sqrt(1 - size/population), for sampling is without replacement. At one threshold the
interval is that of Fay and Feuer (1997) for a weighted sum of Poisson counts, by a gamma distribution; with one sampled
stratum it is Garwood's. A stratum that is taken whole has no variance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from al_ray.core.scorer import Floats
from al_ray.metrics.average_precision import (
    Counts,
    Estimate,
    Ints,
    StratumSummary,
    average_precisions,
    false_positives,
    recall_steps,
    threshold_at_recall,
)

REPLICATES = 1000
CELLS = 2**18  # Maximum replicates x thresholds in memory: 2 MiB per array, of which there are about ten.
FEW = 10  # Warn about an estimate that depends on fewer sampled pairs.
MOST = 0.5  # Warn if a larger share of AP comes from thresholds that no sampled pair reaches.
# Parameters of `_unseen`, chosen by simulation (SETTINGS of test_intervals.py).
FIRST, LOG_UNITS, OFFSET = 10, 0.8, 4
NORMAL = 1.959963984540054
TAIL = 0.025


def weights_of(strata: Sequence[StratumSummary]) -> Floats:
    """(s,) number of negatives that a sampled pair of each stratum represents."""
    return np.array([stratum.weight for stratum in strata], dtype=np.float64)


def scale_of(stratum: StratumSummary) -> float:
    """Return by how much FP^ changes when the Poisson count of a stratum changes by one."""
    return stratum.weight * sqrt(1 - stratum.size / stratum.population) if stratum.size else 0.0


def false_positives_interval(counts: Counts, strata: Sequence[StratumSummary], at: int) -> Estimate:
    """Estimate FP^ at the threshold of index `at`. If no sampled pair is above it, high is 3.69 weights (Garwood).

    With several strata, an unseen pair is given the largest weight (Fay and Feuer). The interval agrees with the
    sample: it lies between the number of sampled pairs above, and that plus all pairs that were not sampled.
    """
    seen = counts.negatives[:, at]
    value = float(weights_of(strata) @ seen)
    scales = np.array([scale_of(stratum) for stratum in strata])
    if not scales.any():
        return Estimate(value, value, value)
    sampled = scales > 0
    varying = float((weights_of(strata) * seen)[sampled].sum())
    variance = float((scales**2 * seen).sum())
    low, high = (value - varying + end for end in total_interval(varying, variance, float(scales.max())))
    most = sum(n + stratum.population - stratum.size for n, stratum in zip(seen.tolist(), strata, strict=True))
    return Estimate(value, min(value, max(low, float(seen.sum()))), max(value, min(high, float(most))))


def total_interval(total: float, squares: float, largest: float) -> tuple[float, float]:
    """Return the 95% interval of a weighted sum of Poisson counts (Fay and Feuer, 1997); Garwood's if all are 1.

    total: sum of the observed weights. squares: sum of their squares. largest: the weight of an unseen count.
    """
    low = gamma_quantile(total**2 / squares, TAIL) * squares / total if squares else 0.0
    more, spread = total + largest, squares + largest**2
    return low, gamma_quantile(more**2 / spread, 1 - TAIL) * spread / more if spread else total


def precision_interval(counts: Counts, strata: Sequence[StratumSummary], recall: float) -> Estimate:
    """Estimate precision at a recall in (0, 1]."""
    return precision_at(counts, strata, threshold_at_recall(counts, recall))


def precision_at(counts: Counts, strata: Sequence[StratumSummary], at: int) -> Estimate:
    """Estimate precision at the threshold of index `at`; its ends follow from those of FP^."""
    true, false = float(counts.positives[at]), false_positives_interval(counts, strata, at)
    return Estimate(*(true / (true + end) for end in (false.value, false.high, false.low)))


def average_precision_interval(counts: Counts, strata: Sequence[StratumSummary], rng: np.random.Generator) -> Estimate:
    """Estimate AP; the interval simulates the whole curve FP^(t), for AP depends on all of it.

    The count of sampled pairs between neighbouring thresholds is redrawn from a gamma distribution whose shape and mean
    are the observed count. high is the 97.5% quantile of AP over 1000 such curves. For low, each curve also gets the
    unseen pairs above the first sampled pair of every sampled stratum: see `_unseen`. The interval includes the value,
    which tends to be too high: see `unreached_share`.
    """
    value = float(average_precisions(counts, false_positives(counts, weights_of(strata))))
    if not any(scale_of(stratum) for stratum in strata):
        return Estimate(value, value, value)
    # Separate streams, so that the draws do not depend on the size of a chunk.
    streams = [_Streams(*rng.spawn(3)) for _ in strata]
    chunk = max(1, CELLS // len(counts.thresholds))
    fewer: list[Floats] = []
    more: list[Floats] = []
    for start in range(0, REPLICATES, chunk):
        seen, unseen = _curves(counts, strata, streams, min(chunk, REPLICATES - start))
        fewer.append(average_precisions(counts, seen))
        more.append(average_precisions(counts, seen + unseen))
    low, high = np.quantile(np.concatenate(more), TAIL), np.quantile(np.concatenate(fewer), 1 - TAIL)
    return Estimate(value, min(value, float(low)), max(value, float(high)))


def effective_pairs_of_precision(counts: Counts, strata: Sequence[StratumSummary]) -> Floats:
    """(t,) effective number of sampled pairs on which the precision at each threshold depends, without whole strata.

    Kish's (sum w)^2 / sum w^2: n for n pairs of equal weight, near 1 if one pair outweighs all others.
    """
    return _effective(counts.negatives, np.array([_weight(stratum) for stratum in strata])[:, None])


def effective_pairs_of_average_precision(counts: Counts, strata: Sequence[StratumSummary]) -> float:
    """Return the effective number of sampled pairs for AP: a pair weighs what AP gains without it, to first order."""
    true, false = counts.positives, false_positives(counts, weights_of(strata))
    # A pair above threshold i is above all that follow.
    falls = np.cumsum((recall_steps(counts) * true / (true + false) ** 2)[::-1])[::-1]
    weights = np.array([_weight(stratum) for stratum in strata])[:, None] * falls
    between = np.diff(counts.negatives, prepend=0, axis=1)
    return float(_effective(between.reshape(-1, 1), weights.reshape(-1, 1))[0])


def warn_of_few_pairs(name: str, estimate: Estimate, behind: float) -> str | None:
    """Return a warning about an estimate on fewer than FEW sampled pairs; None if its interval is narrow (10%)."""
    if behind >= FEW or _narrow(estimate):
        return None
    return (
        f"{name} is carried by {behind:.1f} sampled pairs, fewer than {FEW}: trust its interval, not its value, which "
        "tends to be too high; sample more pairs"
    )


def unreached_share(counts: Counts, strata: Sequence[StratumSummary]) -> float:
    """Return the share of AP, in [0, 1], from thresholds that no sampled pair reaches; 0 without a sampled stratum.

    FP^ is unbiased and AP is convex in FP^, so by Jensen's inequality the expected estimate of AP is at least AP. Most
    of this bias arises at these thresholds, where false positives outside the sample count as none. There the sample
    has no variance either, so it does not show how large the bias is, and AP is not corrected for it; docs/results.md
    compares corrections.
    """
    sampled = np.array([scale_of(stratum) > 0 for stratum in strata])
    true, false = counts.positives, false_positives(counts, weights_of(strata))
    parts = recall_steps(counts) * true / (true + false)
    unreached = counts.negatives[sampled].sum(axis=0) == 0
    return float(parts[unreached].sum() / parts.sum()) if sampled.any() else 0.0


def warn_of_unreached_thresholds(estimate: Estimate, share: float) -> str | None:
    """Return a warning if most of AP is unreached, by `share`; None if the interval of AP is narrow (10%)."""
    if share <= MOST or _narrow(estimate):
        return None
    return (
        f"{100 * share:.0f}% of AP comes from thresholds that no sampled pair reaches, where false positives outside "
        "the sample count as none: AP tends to be too high; trust its interval, and sample more pairs"
    )


def gamma_quantile(shape: float, share: float) -> float:
    """Return the quantile of the gamma distribution of a shape and scale 1 at probability `share` (0.025 or 0.975).

    Above shape 1000 by Wilson and Hilferty (to 1e-5), as in finished runs.
    """
    # Importing it takes a fifth of a second, and only estimates need it.
    from scipy.special import gammaincinv  # pyright: ignore[reportMissingTypeStubs]

    if shape > 1000:
        normal = NORMAL if share > 0.5 else -NORMAL
        return shape * (1 - 1 / (9 * shape) + normal / (3 * sqrt(shape))) ** 3
    return float(gammaincinv(shape, share))


@dataclass(frozen=True)
class _Streams:
    """Random generators of one stratum."""

    seen: np.random.Generator
    powers: np.random.Generator
    extra: np.random.Generator


def _narrow(estimate: Estimate) -> bool:
    return estimate.high - estimate.low <= 0.1 * estimate.value


def _weight(stratum: StratumSummary) -> float:
    """Return the weight of a sampled stratum; 0 for one taken whole."""
    return stratum.weight if stratum.size < stratum.population else 0.0


def _effective(numbers: Ints, weights: Floats) -> Floats:
    """(s, t) numbers of pairs and their (s, t) weights -> (t,) (sum w)^2 / sum w^2, 0 for no pair."""
    total, squares = (numbers * weights).sum(axis=0), (numbers * weights**2).sum(axis=0)
    return np.divide(total**2, squares, out=np.zeros_like(total), where=squares > 0)


def _curves(
    counts: Counts, strata: Sequence[StratumSummary], streams: Sequence[_Streams], replicates: int
) -> tuple[Floats, Floats]:
    """Simulate (replicates, t) false positives from the observed counts, and (replicates, t) unseen ones to add."""
    between = np.diff(counts.negatives, prepend=0, axis=1)
    false = np.tile(weights_of(strata) @ between, (replicates, 1))
    unseen = np.zeros((replicates, len(counts.thresholds)))
    for stratum, stream, numbers in zip(strata, streams, between, strict=True):
        scale = scale_of(stratum)
        if not scale:
            continue
        hit = np.flatnonzero(numbers)
        false[:, hit] += scale * (stream.seen.standard_gamma(numbers[hit], (replicates, len(hit))) - numbers[hit])
        unseen += scale * _unseen(counts.positives, numbers, stream, replicates)
    # With the reduced deviation, a curve could otherwise fall below the number of sampled pairs.
    return np.maximum(np.cumsum(false, axis=1), counts.negatives.sum(axis=0)), unseen


def _unseen(positives: Ints, numbers: Ints, stream: _Streams, replicates: int) -> Floats:
    """Simulate (replicates, t) counts of sampled pairs that another sample could have had above the first sampled pair.

    Gamma(1) more pairs above a threshold make Gamma(n + 1) in all: Garwood's upper end. But not EVERY threshold can
    have that many, and adding all of them at the top makes intervals three times too wide. So the addition rises to
    Gamma(1) at the first sampled pair, as a power of the number of positives above a threshold (+ OFFSET, for few
    positives give little information). The power is drawn from its posterior given the first 10 sampled pairs: if pairs
    come as a power p of the positives, the log ratios of the positives at the tenth pair to those at each (Hill, 1975)
    are exponential of mean 1/p, which gives Gamma(10) over their sum. LOG_UNITS is a prior log ratio that keeps the
    power near 1, constant precision, if no pair was sampled.
    """
    hit = np.flatnonzero(numbers)
    places = positives[np.repeat(hit, np.minimum(numbers[hit], FIRST))[:FIRST]]
    first = places[0] if len(places) else positives[-1]
    logs = float(np.log(places[-1] / places).sum()) if len(places) else 0.0
    power = stream.powers.standard_gamma(max(1, len(places)), (replicates, 1)) / (LOG_UNITS + logs)
    rise = np.log(np.minimum((positives + OFFSET) / (first + OFFSET), 1.0))
    return stream.extra.standard_exponential((replicates, 1)) * np.exp(power * rise)
