"""95% intervals of false positives, precision and average precision, from the sampling of the strata (paper, A.2).

A sampled pair of a stratum stands for `weight` pairs, and how many are met above a threshold is a Poisson number, its
deviation shrunk by sqrt(1 - size/population) since no pair is sampled twice. At one threshold the interval is Fay and
Feuer's (1997): of a weighted sum of Poisson numbers by a gamma distribution, Garwood's where one stratum is sampled.
A stratum taken whole does not vary. Chance comes from a generator that is handed in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, lgamma, log, sqrt

import numpy as np

from al_ray.core.metrics import Counts, Estimate, Extent, Ints, average_precisions, false_positives, reaching, steps
from al_ray.core.scoring import Floats

REPLICATES = 1000
CELLS = 2**22  # Replicates x thresholds held at once: 32 MiB an array.
FEW = 10  # Sampled pairs that carry an estimate, below which it is warned of.
# Of the curve above the first sampled pair, see `_unseen`; chosen by simulation (SETTINGS of tests/test_intervals.py).
FIRST, LOG_UNITS, OFFSET = 10, 0.8, 4
NORMAL = 1.959963984540054
TAIL = 0.025


def weights_of(strata: Sequence[Extent]) -> Floats:
    """(s,) how many negatives a sampled pair of each stratum stands for."""
    return np.array([stratum.weight for stratum in strata], dtype=np.float64)


def scale_of(stratum: Extent) -> float:
    """By how many pairs FP^ moves when the Poisson number of sampled pairs moves by one."""
    return stratum.weight * sqrt(1 - stratum.size / stratum.population) if stratum.size else 0.0


def false_positives_interval(counts: Counts, strata: Sequence[Extent], at: int) -> Estimate:
    """FP^ at threshold number `at`; where no sampled pair is above it the upper end is 3.69 pairs' weight (Garwood).

    Several strata: a pair that might have been missed has the largest weight (Fay and Feuer). No end contradicts what
    was seen: at least the sampled pairs themselves, at most those and all that were not sampled.
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
    """The interval of a sum of weighted Poisson counts: Fay and Feuer (1997), Garwood's where all weights are 1.

    total: of the weights seen; squares: of their squares; largest: the weight that one more might have.
    """
    low = gamma_quantile(total**2 / squares, TAIL) * squares / total if squares else 0.0
    more, spread = total + largest, squares + largest**2
    return low, gamma_quantile(more**2 / spread, 1 - TAIL) * spread / more if spread else total


def precision_interval(counts: Counts, strata: Sequence[Extent], recall: float) -> Estimate:
    """Precision at a recall."""
    return precision_at(counts, strata, reaching(counts, recall))


def precision_at(counts: Counts, strata: Sequence[Extent], at: int) -> Estimate:
    """Precision at the threshold number `at`: it falls as FP^ there rises."""
    true, false = float(counts.positives[at]), false_positives_interval(counts, strata, at)
    return Estimate(*(true / (true + end) for end in (false.value, false.high, false.low)))


def average_precision_interval(counts: Counts, strata: Sequence[Extent], rng: np.random.Generator) -> Estimate:
    """AP, a sum over the whole curve FP^(t), by curves that move as a whole.

    The sampled pairs between neighbouring thresholds are drawn again from a gamma distribution of mean and shape what
    was seen. The upper end is the 97.5% point of AP over 1000 such curves. For the lower end each also gets, in every
    sampled stratum, what may be above the first sampled pair: see `_unseen`. The interval holds the value.
    """
    value = float(average_precisions(counts, false_positives(counts, weights_of(strata))))
    if not any(scale_of(stratum) for stratum in strata):
        return Estimate(value, value, value)
    # A stream for each part, so that the draws do not depend on how many replicates are held at once.
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


def behind_precision(counts: Counts, strata: Sequence[Extent]) -> Floats:
    """(t,) effective number of sampled pairs behind the precision at each threshold, those of whole strata not counted.

    Kish's (sum w)^2 / sum w^2: n pairs of one weight are n, and where one outweighs all others it is little above 1.
    """
    return _effective(counts.negatives, np.array([_weight(stratum) for stratum in strata])[:, None])


def behind_average_precision(counts: Counts, strata: Sequence[Extent]) -> float:
    """The same of AP: a sampled pair weighs what AP would gain without it, to first order."""
    true, false = counts.positives, false_positives(counts, weights_of(strata))
    # A pair above threshold i is above all that follow.
    falls = np.cumsum((steps(counts) * true / (true + false) ** 2)[::-1])[::-1]
    weights = np.array([_weight(stratum) for stratum in strata])[:, None] * falls
    between = np.diff(counts.negatives, prepend=0, axis=1)
    return float(_effective(between.reshape(-1, 1), weights.reshape(-1, 1))[0])


def warning_of(name: str, estimate: Estimate, behind: float) -> str | None:
    """What to be told of an estimate that fewer than 10 sampled pairs carry; None where it hardly varies."""
    if behind >= FEW or estimate.high - estimate.low <= 0.1 * estimate.value:
        return None
    return (
        f"{name} is carried by {behind:.1f} sampled pairs, fewer than {FEW}: trust its interval, not its value; "
        "sample more pairs"
    )


def gamma_quantile(shape: float, share: float) -> float:
    """The x below which a gamma variable of a shape and scale 1 falls with probability `share` (0.025 or 0.975).

    By halving on the series of the incomplete gamma function; from shape 1000 on by Wilson and Hilferty (to 1e-5).
    """
    if shape > 1000:
        normal = NORMAL if share > 0.5 else -NORMAL
        return shape * (1 - 1 / (9 * shape) + normal / (3 * sqrt(shape))) ** 3
    low, high = 0.0, shape + 10 * sqrt(shape) + 20
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _below(shape, middle) < share else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class _Streams:
    """The generators of a stratum's replicates."""

    seen: np.random.Generator
    powers: np.random.Generator
    extra: np.random.Generator


def _weight(stratum: Extent) -> float:
    """Of a stratum that is sampled; 0 of one taken whole."""
    return stratum.weight if stratum.size < stratum.population else 0.0


def _effective(numbers: Ints, weights: Floats) -> Floats:
    """(s, t) numbers of pairs of (s, t) weights -> (t,) (sum w)^2 / sum w^2, 0 where there is none."""
    total, squares = (numbers * weights).sum(axis=0), (numbers * weights**2).sum(axis=0)
    return np.divide(total**2, squares, out=np.zeros_like(total), where=squares > 0)


def _curves(
    counts: Counts, strata: Sequence[Extent], streams: Sequence[_Streams], replicates: int
) -> tuple[Floats, Floats]:
    """(replicates, t) false positives by what was seen drawn again, and what may have been missed besides."""
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
    # Shrunk deviations could otherwise take away pairs that were seen.
    return np.maximum(np.cumsum(false, axis=1), counts.negatives.sum(axis=0)), unseen


def _unseen(positives: Ints, numbers: Ints, stream: _Streams, replicates: int) -> Floats:
    """(replicates, t) sampled pairs that one more draw might have met: it rises to Gamma(1) where the first was met.

    With Gamma(1) more, the pairs above a threshold are Gamma(n + 1): Garwood's upper end. But that many cannot be above
    EVERY threshold, and all of it at the top makes intervals three times too wide. So it rises up to the first sampled
    pair as a power of the positives above (+ 4, for few positives say little of where they are). The power is drawn
    from what the first 10 sampled pairs say of it: for pairs that come as a power p of the positives, the logarithms of
    those at the tenth over those at each (Hill, 1975) are exponential of mean 1/p, whence Gamma(10) over their sum;
    0.8 of a prior pair's logarithm keeps it near 1, constant precision, where none was met.
    """
    hit = np.flatnonzero(numbers)
    places = positives[np.repeat(hit, np.minimum(numbers[hit], FIRST))[:FIRST]]
    first = places[0] if len(places) else positives[-1]
    logs = float(np.log(places[-1] / places).sum()) if len(places) else 0.0
    power = stream.powers.standard_gamma(max(1, len(places)), (replicates, 1)) / (LOG_UNITS + logs)
    rise = np.log(np.minimum((positives + OFFSET) / (first + OFFSET), 1.0))
    return stream.extra.standard_exponential((replicates, 1)) * np.exp(power * rise)


def _below(shape: float, x: float) -> float:
    """The probability that a gamma variable of a shape and scale 1 is below x."""
    if x <= 0:
        return 0.0
    term = total = exp(shape * log(x) - x - lgamma(shape + 1))
    number = shape
    while term > 1e-17 * total or number < x:
        number += 1
        term *= x / number
        total += term
    return total
