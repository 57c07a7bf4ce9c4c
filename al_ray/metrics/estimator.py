"""Evaluate anything that scores pairs, by average precision over all pairs of a split (paper, A.2).

The path of AP from scores to an Evaluation:
    scores of all positives -> request_counts       -> CountRequest: at which thresholds negatives are counted
    CountRequest            -> count_block (every negative of two blocks of texts; search/counting.py)
                            or count_sample (a weighted sample) -> NegativeCounts; those of parts add
    NegativeCounts + PositiveScores -> build_evaluation -> Evaluation, by evaluate_counts (metrics/evaluation.py)

PoolEvaluator (cluster/pool) takes this path over shards, and evaluate_on_sample with any PairScorer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from al_ray.core.pairs import NO_KEYS, Keys, Pairs, as_pairs
from al_ray.core.scorer import Floats, Scorer
from al_ray.core.task import Split
from al_ray.metrics.average_precision import Counts, Ints, StratumSummary, count_scores, counts_above, false_positives
from al_ray.metrics.bootstrap import (
    QueryBootstrap,
    Replicates,
    bootstrap_queries,
    make_replicates,
    replicate_thresholds,
    resample_pairs,
)
from al_ray.metrics.calibration import Reliability, reliability
from al_ray.metrics.evaluation import Evaluation, evaluate_counts
from al_ray.metrics.intervals import scale_of, weights_of
from al_ray.metrics.strata import EvaluationSet

Sum = TypeVar("Sum", Reliability, Floats)
COUNTED = 2**18  # Sampled pairs that are counted at a time.


class PairScorer(Protocol):
    """Scores pairs: by a bi-encoder's cosines, a cross-encoder's logits, or a language model's grades."""

    def scores(self, split: Split, pairs: Pairs) -> Floats:
        """(n, 2) pairs of a split -> (n,) scores without NaN; a higher score means a likelier match."""
        ...

    def logits(self, scores: Floats) -> Floats | None:
        """(n,) scores -> (n,) log-odds of a match; None for a scorer without probabilities."""
        ...


@dataclass(frozen=True)
class CountRequest:
    """Asks how many negatives reach each of (t,) descending thresholds.

    bootstrap: the bootstrap over queries, whose replicates are counted at its own thresholds.
    compared: also resample the sampled pairs, for the interval of a difference of two scorers.
    """

    thresholds: Floats
    bootstrap: QueryBootstrap
    compared: bool = False


@dataclass(frozen=True)
class NegativeCounts:
    """Counts of the negatives of a stratum, or of a part of it. Counts of parts add.

    above: (t,) how many reach each threshold. reliability: of their probabilities, if there are any.
    replicates: (replicates, g) weighted counts at the bootstrap's thresholds, by replicate over queries.
    resampled: (replicates, g) change of the counts by replicate over sampled pairs, if `compared` asks for it.
    """

    above: Ints
    reliability: Reliability | None
    replicates: Floats
    resampled: Floats | None = None

    @staticmethod
    def zero(request: CountRequest) -> "NegativeCounts":
        """Return the counts of no pair."""
        above = np.zeros(len(request.thresholds), dtype=np.int64)
        return NegativeCounts(above, None, request.bootstrap.zero_counts)

    def __add__(self, other: "NegativeCounts") -> "NegativeCounts":
        """Return the counts of two parts together."""
        summed = _sum(self.reliability, other.reliability)
        resampled = _sum(self.resampled, other.resampled)
        return NegativeCounts(self.above + other.above, summed, self.replicates + other.replicates, resampled)

    def __sub__(self, part: "NegativeCounts") -> "NegativeCounts":
        """Take away the counts of a part, of which nothing is resampled."""
        known = None if self.reliability is None or part.reliability is None else self.reliability - part.reliability
        return replace(
            self,
            above=self.above - part.above,
            reliability=known,
            replicates=self.replicates - part.replicates,
        )


@dataclass(frozen=True)
class PositiveScores:
    """Scores of all positives of a split, and their logits if there are probabilities; (n,) each."""

    scores: Floats
    logits: Floats | None


def request_counts(split: Split, scores: Floats, compared: bool = False) -> CountRequest:
    """Return what to count of a split's negatives, given the (n,) scores of its positives."""
    known = count_scores(scores, [])
    return CountRequest(known.thresholds, bootstrap_queries(split, known), compared)


def count_sample(
    request: CountRequest, keys: Keys, pairs: Pairs, scores: Floats, logits: Floats | None, weight: float
) -> NegativeCounts:
    """Count (n,) sampled negatives, each of which represents `weight` pairs.

    Only the reliability is weighted here; `build_evaluation` weights the counts.
    """
    # Sorted scores are looked up in the order of memory, which is several times as fast.
    return NegativeCounts(
        counts_above(request.thresholds, np.sort(scores)),
        None if logits is None else reliability(logits, np.zeros(len(logits), dtype=np.uint8), weight),
        request.bootstrap.of_negatives(pairs, scores),
        resample_pairs(request.bootstrap.thresholds, keys, scores, 1.0) if request.compared else None,
    )


@dataclass(frozen=True)
class SampleWeights:
    """How many negatives a sampled pair of each stratum represents; width: of the pairs' keys."""

    width: int
    weights: tuple[float, ...]


class SampleCounter:
    """Counts sampled negatives of several blocks at a time, because a count has a fixed cost."""

    def __init__(self, request: CountRequest, weights: SampleWeights, scorer: Scorer | None) -> None:
        """No pair yet."""
        self.request, self.weights, self.scorer = request, weights, scorer
        self._counts = [NegativeCounts.zero(request) for _ in weights.weights]
        self._waiting = [[(NO_KEYS, np.empty(0))] for _ in weights.weights]

    def add(self, stratum: int, keys: Keys, scores: Floats) -> None:
        """Add (n,) pairs of a stratum with their scores."""
        self._waiting[stratum].append((keys, scores))
        if sum(len(keys) for keys, _ in self._waiting[stratum]) >= COUNTED:
            self._count(stratum)

    def result(self) -> list[NegativeCounts]:
        """Return the counts of each stratum."""
        for stratum in range(len(self._counts)):
            self._count(stratum)
        return self._counts

    def _count(self, stratum: int) -> None:
        keys, scores = map(np.concatenate, zip(*self._waiting[stratum], strict=True))
        self._waiting[stratum] = [(NO_KEYS, np.empty(0))]
        pairs = as_pairs(*np.divmod(keys, self.weights.width))
        logits = None if self.scorer is None else self.scorer.logit(scores)
        weight = self.weights.weights[stratum]
        self._counts[stratum] += count_sample(self.request, keys, pairs, scores, logits, weight)


def pieces_of(keys: Keys, width: int, pairs: int, texts: int) -> Iterator[slice]:
    """Cut sorted keys, made with `width`, into pieces of at most COUNTED pairs, to be scored by shards.

    A piece has at most `pairs` pairs, few of which have their right text on one shard, or at most `texts` left texts.
    """
    start = 0
    while start < len(keys):
        left = keys[start : start + COUNTED] // width
        firsts = np.flatnonzero(left[1:] != left[:-1]) + 1
        stop = int(firsts[texts - 1]) if len(firsts) >= texts else len(left)
        stop = start + max(stop, min(pairs, len(left)))
        yield slice(start, stop)
        start = stop


def build_evaluation(
    request: CountRequest,
    split: Split,
    positives: PositiveScores,
    strata: Sequence[StratumSummary],
    negatives: Sequence[NegativeCounts],
    rng: np.random.Generator,
) -> Evaluation:
    """Build the evaluation from the scores of the positives and the negative counts of each stratum."""
    above = np.stack([counted.above for counted in negatives])
    counts = Counts(request.thresholds, counts_above(request.thresholds, positives.scores), above)
    weights, summed = weights_of(strata), None
    if positives.logits is not None:
        summed = reliability(positives.logits, np.ones(len(positives.logits), dtype=np.uint8), 1.0)
        for counted in negatives:
            summed = _sum(summed, counted.reliability)
    true = request.bootstrap.of_positives(split.positives, positives.scores)
    false = request.bootstrap.zero_counts
    for weight, counted in zip(weights, negatives, strict=True):
        false = false + weight * counted.replicates
    queries = request.bootstrap.count_queries(split.positives)
    over_queries = replace(make_replicates(counts, weights, true, false), queries=queries)
    over_samples = _over_samples(counts, strata, negatives)
    return evaluate_counts(split.name, counts, strata, summed, rng, over_queries, over_samples)


def evaluate_on_sample(
    scorer: PairScorer, split: Split, evalset: EvaluationSet, rng: np.random.Generator, compared: bool = False
) -> Evaluation:
    """Evaluate a scorer on all positives and a weighted sample of the negatives."""
    scores = scorer.scores(split, split.positives)
    request, negatives = request_counts(split, scores, compared), list[NegativeCounts]()
    for stratum in evalset.strata:
        pairs = split.space.pairs(stratum.keys)
        of_pairs = scorer.scores(split, pairs)
        logits = scorer.logits(of_pairs)
        negatives.append(count_sample(request, stratum.keys, pairs, of_pairs, logits, stratum.weight))
    positives = PositiveScores(scores, scorer.logits(scores))
    return build_evaluation(request, split, positives, evalset.summaries, negatives, rng)


def _over_samples(
    counts: Counts, strata: Sequence[StratumSummary], negatives: Sequence[NegativeCounts]
) -> Replicates | None:
    """Resample the pairs of the sampled strata; None if that was not requested or no stratum is sampled."""
    weights = weights_of(strata)
    at = np.searchsorted(-counts.thresholds, -replicate_thresholds(counts))
    false, sampled = false_positives(counts, weights)[at][None], False
    for stratum, counted in zip(strata, negatives, strict=True):
        if counted.resampled is not None and scale_of(stratum):
            false, sampled = false + scale_of(stratum) * counted.resampled, True
    true = np.broadcast_to(counts.positives[at].astype(np.float64), false.shape)
    return make_replicates(counts, weights, true, false) if sampled else None


def _sum(one: Sum | None, other: Sum | None) -> Sum | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other
