"""Question paraphrase retrieval (paper 002): batches of pairs, and the figures that a search is measured by."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from al_ray.core.errors import BadOption
from al_ray.core.pairs import Rows
from al_ray.core.scoring import Floats

Near = tuple[npt.NDArray[np.float32], Rows]
"""What was found for each query: squared distances (q, k) and places (q, k), nearest first; inf and -1 where none."""
Ranks = npt.NDArray[np.int64]
DEPTH = 20
"""Questions that a search is measured by (4.2)."""


def shuffled(component: Rows, size: int, rng: np.random.Generator) -> list[Rows]:
    """(n,) components of pairs, whatever they are -> batches of exactly `size` pairs in random order.

    A last partial batch is dropped; fewer pairs than `size` make one batch. BadOption for fewer than two.
    """
    size = min(size, len(component))
    _refuse_alone(size)
    order = rng.permutation(len(component))
    return [order[start : start + size] for start in range(0, len(order) - size + 1, size)]


def dealt_apart(component: Rows, size: int, rng: np.random.Generator) -> list[Rows]:
    """(n,) components of pairs -> batches of exactly `size` pairs in random order, no two of one component.

    So no q2_j of a batch is a paraphrase of another q1_i that we know of. A component with more pairs than there are
    batches gives a random part of them, another one in every epoch; fewer components than `size` make smaller batches.
    """
    _, inverse, counts = np.unique(component, return_inverse=True, return_counts=True)
    size = min(size, len(counts))
    _refuse_alone(size)
    batches = len(component) // size
    while (fewer := int(np.minimum(counts, batches).sum()) // size) < batches:
        batches = fewer
    # Pairs in random order, but those of a component together, and the components in random order.
    turn, order = rng.permutation(len(counts)), rng.permutation(len(component))
    line = order[np.argsort(turn[inverse[order]], kind="stable")]
    counts = counts[np.argsort(turn)]
    within = np.arange(len(line)) - np.repeat(np.cumsum(counts) - counts, counts)
    # Dealt like cards, round and round: at most `batches` in a row are of one component.
    return list(line[within < batches][: size * batches].reshape(size, batches).T)


def _refuse_alone(size: int) -> None:
    if size < 2:
        raise BadOption("a batch needs two pairs of different clusters, and the train split has fewer; give it more")


def merged(answers: Sequence[Near], count: int) -> Near:
    """What parts of an index found -> the `count` nearest of it all, of equally near ones the first place first."""
    apart = np.concatenate([apart for apart, _ in answers], axis=1)
    places = np.concatenate([places for _, places in answers], axis=1)
    order = np.lexsort((places, apart), axis=1)[:, :count]
    return np.take_along_axis(apart, order, axis=1), np.take_along_axis(places, order, axis=1)


def recall(found: Floats, truth: Floats, margin: float | Floats) -> float:
    """(q, m) how near what was found is and (q, m) of the truly nearest, best first, -inf where fewer -> share found.

    By nearness and not by text: of texts that are equally near, within `margin` (a number or (q, 1)), any will do.
    """
    there = np.isfinite(truth)
    last = np.where(there, truth, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    hits = np.isfinite(found) & (found >= last - margin)
    return float(np.minimum(hits.sum(axis=1), there.sum(axis=1)).sum() / max(1, int(there.sum())))


def others(found: Rows, queries: Rows, same: Rows, count: int) -> Rows:
    """(q, k) rows found for (q,) rows -> (q, count) the first of them that are not the query itself, -1 where none.

    same: (n,) a number for each text. Another row with the very text of the query is the query, too.
    """
    itself = (same[found] == same[queries][:, None]) | (found < 0)
    order = np.argsort(itself, axis=1, kind="stable")[:, :count]
    return np.where(np.take_along_axis(itself, order, axis=1), -1, np.take_along_axis(found, order, axis=1))


def askable(component: Rows, same: Rows, rows: Rows) -> Rows:
    """Those of the rows of which some other text is a paraphrase: (n,) components and (n,) numbers of texts."""
    each = np.unique(np.stack([component, same], axis=1), axis=0)[:, 0]
    return rows[np.isin(component[rows], each[1:][each[1:] == each[:-1]])]


def first_match(found: Rows, matches: npt.NDArray[np.bool_]) -> Ranks:
    """(q, k) rows found, -1 where there is none, and which are paraphrases -> (q,) rank of the first one, or 0."""
    right = matches & (found >= 0)
    return np.where(right.any(axis=1), right.argmax(axis=1) + 1, 0)


def precision_at(ranks: Ranks, count: int) -> float:
    """P@N: the share of queries with at least one paraphrase among the first N (4.2, Evaluation)."""
    return float(((ranks > 0) & (ranks <= count)).mean())


def mean_reciprocal_rank(ranks: Ranks) -> float:
    """MRR: the mean of 1 / rank of the first paraphrase, 0 where none was found (4.2, Evaluation)."""
    return float(np.where(ranks > 0, 1 / np.maximum(ranks, 1), 0.0).mean())


def roc_auc(positives: Floats, negatives: Floats) -> float:
    """The share of (positive, negative) pairs of scores in which the positive's is higher; equal scores count half."""
    ordered = np.sort(negatives)
    below = np.searchsorted(ordered, positives, "left") + np.searchsorted(ordered, positives, "right")
    return float(below.sum() / (2 * len(positives) * len(negatives)))


def unrelated(component: Rows, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """(n,) components of questions, two at least -> (about `count`, 2) random pairs of different components."""
    pairs = rng.integers(len(component), size=(count, 2))
    return pairs[component[pairs[:, 0]] != component[pairs[:, 1]]]
