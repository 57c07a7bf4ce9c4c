"""Measures on stated pairs alone (paper, 3.1.1 and 3.1.2): what benchmarks report of heuristically chosen pairs.

Equal scores stand in the worst order, negatives first, so that no measure depends on the order of rows and a scorer
that says the same of all pairs gains nothing; without equal scores MAP and MRR are trec_eval's. A pair is called a
match when its score is >= the threshold, everywhere.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from al_ray.core.errors import BadFile
from al_ray.core.pairs import Mask, Rows
from al_ray.core.scoring import Floats, Labels

Ints = npt.NDArray[np.int64]
Measure = Callable[[Ints, Ints], Floats]
"""Of (t,) right and (t,) wrong calls of a match at each threshold -> (t,) how good that is."""


@dataclass(frozen=True)
class Stated:
    """Pairs that somebody labelled, with what a scorer says of them: (n,) each.

    scores: logits, or cosines where there is no scorer. queries: a number each, which need not follow one another.
    """

    scores: Floats
    labels: Labels
    queries: Rows

    def __post_init__(self) -> None:
        """Refuse what nothing can be said of."""
        if not len(self.scores):
            raise BadFile("there is no stated pair to measure by; give some, or another split")

    def kept(self, mask: Mask) -> "Stated":
        """Some of them."""
        return Stated(self.scores[mask], self.labels[mask], self.queries[mask])

    @property
    def clean(self) -> Mask:
        """(n,) whether a pair's query has both a positive and a negative."""
        _, number = np.unique(self.queries, return_inverse=True)
        positives, negatives = (np.bincount(number, self.labels == label) for label in (1, 0))
        return ((positives > 0) & (negatives > 0))[number]


@dataclass(frozen=True)
class Best:
    """The best value over all thresholds, and the highest threshold that has it; infinite: nothing is called a match"""

    value: float
    threshold: float


def figures(pairs: Stated, told: Stated | None, ranked: bool, zero: float | None) -> dict[str, float | int | None]:
    """All that is said of stated pairs, by name: of queries and their candidates (`ranked`), or of calls alone.

    told: the pairs that the best thresholds are chosen on; without them the best figures are None. zero: the score
    where p = 1/2, None where no score means that. A threshold that is None calls nothing a match.
    """
    counted = {"pairs": len(pairs.labels), "positives": int(pairs.labels.sum())}
    if ranked:
        queries, clean = np.unique(pairs.queries), np.unique(pairs.queries[pairs.clean])
        return {
            **counted,
            "queries": len(queries),
            "clean_queries": len(clean),
            "clean_map": mean_average_precision(pairs),
            "clean_mrr": mean_reciprocal_rank(pairs),
            **_at_both("a_f1", answer_f1, pairs, told and best_answer_f1(told), zero),
        }
    return {
        **counted,
        **_at_both("accuracy", accuracy, pairs, told and best_accuracy(told), zero),
        **_at_both("f1", f1, pairs, told and best_f1(told), zero),
    }


def mean_average_precision(pairs: Stated) -> float | None:
    """MAP over the clean queries: each one's mean over its positives of j / rank of the j-th; None if none is clean."""
    ranked = _ranked(pairs)
    if ranked is None:
        return None
    query, rank, nth = ranked
    return float(np.mean(np.bincount(query, nth / rank) / np.bincount(query)))


def mean_reciprocal_rank(pairs: Stated) -> float | None:
    """MRR over the clean queries: the mean of 1 / rank of each one's first positive; None where none is clean."""
    ranked = _ranked(pairs)
    return None if ranked is None else float(np.mean(1 / ranked[1][ranked[2] == 1]))


def accuracy(pairs: Stated, threshold: float) -> float:
    """The share of pairs whose call is right."""
    return float(((pairs.scores >= threshold) == pairs.labels).mean())


def f1(pairs: Stated, threshold: float) -> float:
    """2 TP / (2 TP + FP + FN) over the pairs; 0 where that is 0 / 0."""
    return _f1_at(pairs, threshold, int(pairs.labels.sum()))


def answer_f1(pairs: Stated, threshold: float) -> float:
    """a-F1 over ALL queries: each is answered by its top pair, if that reaches the threshold (Yang et al. 2015).

    Precision is the share of answers that are positive, recall the share of the queries with a positive that got such
    an answer. (The paper calls it "F1 score across all examples", 3.1.2, and cites Yang et al. for it.)
    """
    return _f1_at(_tops(pairs), threshold, _answerable(pairs))


def best_accuracy(pairs: Stated) -> Best:
    """The best `accuracy`."""
    negatives = int((pairs.labels == 0).sum())
    return _best(pairs, lambda right, wrong: (right + negatives - wrong) / len(pairs.labels))


def best_f1(pairs: Stated) -> Best:
    """The best `f1`."""
    return _best(pairs, _f1(int(pairs.labels.sum())))


def best_answer_f1(pairs: Stated) -> Best:
    """The best `answer_f1`."""
    return _best(_tops(pairs), _f1(_answerable(pairs)))


def _at_both(
    name: str, measure: Callable[[Stated, float], float], pairs: Stated, best: Best | None, zero: float | None
) -> dict[str, float | None]:
    return {
        name: None if zero is None else measure(pairs, zero),
        f"{name}_best": None if best is None else measure(pairs, best.threshold),
        f"{name}_threshold": best.threshold if best is not None and np.isfinite(best.threshold) else None,
    }


def _worst_order(pairs: Stated) -> Rows:
    """Places by query, then from the highest score to the lowest, negatives first among equals."""
    return np.lexsort((pairs.labels, -pairs.scores, pairs.queries))


def _firsts(queries: Rows) -> Mask:
    """(n,) whether a query is the first of its kind; equal ones stand together."""
    return np.concatenate([[True], queries[1:] != queries[:-1]])


def _ranked(pairs: Stated) -> tuple[Rows, Rows, Rows] | None:
    """Of each positive of the clean queries: its query's number, its rank there, the how-manieth positive it is."""
    clean = pairs.clean
    if not clean.any():
        return None
    pairs = pairs.kept(clean)
    order = _worst_order(pairs)
    query, labels = np.cumsum(_firsts(pairs.queries[order])) - 1, pairs.labels[order].astype(np.int64)
    start = np.flatnonzero(_firsts(query))[query]
    nth = np.cumsum(labels)
    nth = nth - (nth - labels)[start]
    own = labels == 1
    return query[own], (np.arange(len(query)) - start + 1)[own], nth[own]


def _tops(pairs: Stated) -> Stated:
    """The top pair of each query."""
    order = _worst_order(pairs)
    top = order[_firsts(pairs.queries[order])]
    return Stated(pairs.scores[top], pairs.labels[top], pairs.queries[top])


def _answerable(pairs: Stated) -> int:
    """How many queries have a positive."""
    return len(np.unique(pairs.queries[pairs.labels == 1]))


def _f1(wanted: int) -> Measure:
    """2 TP / (called + wanted); 0 where nothing is wanted or called."""
    return lambda right, wrong: 2 * right / np.maximum(1, right + wrong + wanted)


def _f1_at(pairs: Stated, threshold: float, wanted: int) -> float:
    called = pairs.labels[pairs.scores >= threshold]
    right = np.array([np.sum(called == 1)])
    return float(_f1(wanted)(right, len(called) - right)[0])


def _best(pairs: Stated, measure: Measure) -> Best:
    """Over all thresholds that call differently: the distinct scores, and one that is above them all."""
    scores, number = np.unique(pairs.scores, return_inverse=True)
    right, wrong = (
        np.concatenate([[0], np.cumsum(np.bincount(number, pairs.labels == label)[::-1])]).astype(np.int64)
        for label in (1, 0)
    )
    values = measure(right, wrong)
    at = int(np.argmax(values))
    return Best(float(values[at]), float(np.concatenate([[np.inf], scores[::-1]])[at]))
