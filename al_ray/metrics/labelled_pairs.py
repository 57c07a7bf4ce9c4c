"""Metrics on labelled pairs alone (paper, 3.1.1 and 3.1.2): what benchmarks report for heuristically chosen pairs.

Equal scores are ranked in the worst order, negatives first: no metric depends on the order of rows, and a constant
scorer gains nothing. Without equal scores MAP and MRR equal trec_eval's. A pair is predicted to match when its score
is >= the threshold, everywhere.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from al_ray.core.errors import BadFile
from al_ray.core.pairs import Mask, Rows
from al_ray.core.scorer import Floats, Labels, check_no_nan
from al_ray.metrics.average_precision import Ints
from al_ray.metrics.ranking import mean_reciprocal_rank

Metric = Callable[[Ints, Ints], Floats]
"""(t,) true positives and (t,) false positives at each threshold -> (t,) values, higher is better."""


@dataclass(frozen=True)
class LabelledScores:
    """Labelled pairs with their scores; (n,) each.

    scores: logits, or cosines where there is no scorer. labels: 0 or 1. queries: a number each, in any order.
    """

    scores: Floats
    labels: Labels
    queries: Rows

    def __post_init__(self) -> None:
        """Raise BadFile for no pair, and for a score that is NaN: no metric is defined there."""
        if not len(self.scores):
            raise BadFile("there is no labelled pair to evaluate; give some, or another split")
        check_no_nan(self.scores)

    def select(self, index: Mask | Rows) -> "LabelledScores":
        """Return the pairs of a mask (n,) or of row numbers, in that order."""
        return LabelledScores(self.scores[index], self.labels[index], self.queries[index])

    @property
    def clean(self) -> Mask:
        """(n,) whether a pair's query has both a positive and a negative."""
        _, number = np.unique(self.queries, return_inverse=True)
        positives, negatives = (np.bincount(number, self.labels == label) for label in (1, 0))
        return ((positives > 0) & (negatives > 0))[number]


@dataclass(frozen=True)
class BestThreshold:
    """The best value over all thresholds, and the highest threshold that has it; infinity predicts no match."""

    value: float
    threshold: float


def evaluate_labelled_pairs(
    pairs: LabelledScores, tuning: LabelledScores | None, by_query: bool, boundary: float | None
) -> dict[str, float | int | None]:
    """Return all metrics of labelled pairs by name: those of queries and their candidates, or those of single pairs.

    tuning: the pairs on which the best thresholds are chosen; without them their metrics are None. boundary: the score
    where p = 1/2; None for a scorer without probabilities. A threshold that predicts no match is None.
    """
    counted = {"pairs": len(pairs.labels), "positives": int(pairs.labels.sum())}
    if by_query:
        queries, clean = np.unique(pairs.queries), np.unique(pairs.queries[pairs.clean])
        return {
            **counted,
            "queries": len(queries),
            "clean_queries": len(clean),
            "clean_map": clean_map(pairs),
            "clean_mrr": clean_mrr(pairs),
            **_at_both("a_f1", answer_f1, pairs, tuning and best_answer_f1(tuning), boundary),
        }
    return {
        **counted,
        **_at_both("accuracy", accuracy, pairs, tuning and best_accuracy(tuning), boundary),
        **_at_both("f1", f1, pairs, tuning and best_f1(tuning), boundary),
    }


def clean_map(pairs: LabelledScores) -> float | None:
    """MAP over the clean queries: the mean over a query's positives of j / rank of the j-th; None if none is clean."""
    ranked = _rank_positives(pairs)
    if ranked is None:
        return None
    query, rank, nth = ranked
    return float(np.mean(np.bincount(query, nth / rank) / np.bincount(query)))


def clean_mrr(pairs: LabelledScores) -> float | None:
    """MRR over the clean queries, by the rank of each one's first positive; None if none is clean."""
    ranked = _rank_positives(pairs)
    return None if ranked is None else mean_reciprocal_rank(ranked[1][ranked[2] == 1])


def accuracy(pairs: LabelledScores, threshold: float) -> float:
    """Return the share of pairs whose prediction is right."""
    return float(((pairs.scores >= threshold) == pairs.labels).mean())


def f1(pairs: LabelledScores, threshold: float) -> float:
    """F1 of single pairs, 2 TP / (2 TP + FP + FN); 0 where that is 0 / 0."""
    return _f1_at(pairs, threshold, int(pairs.labels.sum()))


def answer_f1(pairs: LabelledScores, threshold: float) -> float:
    """a-F1 over ALL queries: each is answered by its top pair, if that reaches the threshold (Yang et al. 2015).

    Precision is the share of answers that are positive, recall the share of the queries with a positive that got such
    an answer. (The paper calls it "F1 score across all examples", 3.1.2, and cites Yang et al. for it.)
    """
    return _f1_at(_top_pairs(pairs), threshold, _answerable(pairs))


def best_accuracy(pairs: LabelledScores) -> BestThreshold:
    """Return the threshold of best `accuracy`."""
    negatives = int((pairs.labels == 0).sum())
    return _best_threshold(pairs, lambda true, false: (true + negatives - false) / len(pairs.labels))


def best_f1(pairs: LabelledScores) -> BestThreshold:
    """Return the threshold of best `f1`."""
    return _best_threshold(pairs, _f1(int(pairs.labels.sum())))


def best_answer_f1(pairs: LabelledScores) -> BestThreshold:
    """Return the threshold of best `answer_f1`."""
    return _best_threshold(_top_pairs(pairs), _f1(_answerable(pairs)))


def _at_both(
    name: str,
    metric: Callable[[LabelledScores, float], float],
    pairs: LabelledScores,
    best: BestThreshold | None,
    boundary: float | None,
) -> dict[str, float | None]:
    """Return a metric at p = 1/2 and at the best threshold, and that threshold."""
    return {
        name: None if boundary is None else metric(pairs, boundary),
        f"{name}_best": None if best is None else metric(pairs, best.threshold),
        f"{name}_threshold": best.threshold if best is not None and np.isfinite(best.threshold) else None,
    }


def _worst_order(pairs: LabelledScores) -> Rows:
    """Sort by query, then from the highest score to the lowest, negatives first among equals."""
    return np.lexsort((pairs.labels, -pairs.scores, pairs.queries))


def _starts(queries: Rows) -> Mask:
    """(n,) grouped queries -> (n,) whether each is the first of its group."""
    return np.concatenate([[True], queries[1:] != queries[:-1]])


def _rank_positives(pairs: LabelledScores) -> tuple[Rows, Rows, Rows] | None:
    """Return for each positive of the clean queries: the query's number, the rank, and which positive it is, from 1."""
    clean = pairs.clean
    if not clean.any():
        return None
    pairs = pairs.select(clean)
    pairs = pairs.select(_worst_order(pairs))
    query, labels = np.cumsum(_starts(pairs.queries)) - 1, pairs.labels.astype(np.int64)
    start = np.flatnonzero(_starts(query))[query]
    nth = np.cumsum(labels)
    nth = nth - (nth - labels)[start]
    positive = labels == 1
    return query[positive], (np.arange(len(query)) - start + 1)[positive], nth[positive]


def _top_pairs(pairs: LabelledScores) -> LabelledScores:
    """Return the top pair of each query."""
    order = _worst_order(pairs)
    return pairs.select(order[_starts(pairs.queries[order])])


def _answerable(pairs: LabelledScores) -> int:
    """Count the queries that have a positive."""
    return len(np.unique(pairs.queries[pairs.labels == 1]))


def _f1(positives: int) -> Metric:
    """Return F1 as a function of counts: 2 TP / (predicted + positives); 0 where both are 0."""
    return lambda true, false: 2 * true / np.maximum(1, true + false + positives)


def _f1_at(pairs: LabelledScores, threshold: float, positives: int) -> float:
    predicted = pairs.labels[pairs.scores >= threshold]
    true = np.array([np.sum(predicted == 1)])
    return float(_f1(positives)(true, len(predicted) - true)[0])


def _best_threshold(pairs: LabelledScores, metric: Metric) -> BestThreshold:
    """Try all thresholds that predict differently: the distinct scores, and one above them all."""
    scores, number = np.unique(pairs.scores, return_inverse=True)
    true, false = (
        np.concatenate([[0], np.cumsum(np.bincount(number, pairs.labels == label)[::-1])]).astype(np.int64)
        for label in (1, 0)
    )
    values = metric(true, false)
    at = int(np.argmax(values))
    return BestThreshold(float(values[at]), float(np.concatenate([[np.inf], scores[::-1]])[at]))
