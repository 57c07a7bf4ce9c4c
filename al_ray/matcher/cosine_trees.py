"""Trees of the first comparison beside those of all: the cosine counts like labels, and less the more there are.

The first comparison is the cosine, by which candidates rank without labels. A logistic curve of it is fitted to the
labels (Platt 1999, Probabilistic outputs for support vector machines), and p is (1 - a) times the mean of the extremely
randomised trees + a times the curve, a = PRIOR^2 / (PRIOR^2 + n^2) for rows of weight n in all. Where the encoder was
trained on such texts, its order is better than what few labels tell, and the trees alone would throw it away
(docs/matcher.md, "Texts of one column").

The curve is written as trees, too, each of which has LEAVES steps at other places, so that the file, p, and what each
comparison adds to it are those of a forest.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from al_ray.core.scorer import Floats
from al_ray.matcher.extra_trees import TREES, fit_trees, read_forest
from al_ray.matcher.forest import STEP, Forest
from al_ray.matcher.model import Features, Learner, check_examples

PRIOR = 280
"""Weight of the rows with which the curve and the trees count the same. Presumed non-matches have a weight, too."""
MOST = 2 * TREES
"""Trees of the curve, at most; where it takes more, the others are fewer."""
LEAVES = 16
INVERSE_PENALTY = 10.0


def fit_with_cosine(
    features: Features, labels: npt.ArrayLike, weights: npt.ArrayLike, names: Sequence[str], seed: int
) -> Forest:
    """Learn a forest from (n, F) features, (n,) labels of 0 and 1, and (n,) weights of at least 0.

    As `fit_trees`, and where all labels are equal, or all first comparisons, the same. A curve that would fall is flat:
    a higher cosine never lowers p by it. The same values in the same order give the same bits.
    """
    forest = fit_trees(features, labels, weights, names, seed)
    x, y, w = check_examples(features, labels, weights, names)
    first = x[:, 0].astype(np.float64)
    if len(set(y.tolist())) < 2 or first.min() == first.max():
        return forest
    slope, offset = _curve(first, y, w)
    forest, count = _shares(forest, (PRIOR / float(w.sum())) ** 2)
    step = (first.max() - first.min()) / (LEAVES - 1)
    # Of each tree other places, so that many trees have all values of the curve.
    starts = first.min() + step * (np.arange(count) + 0.5) / count
    thresholds = starts[:, None] + step * np.arange(LEAVES - 1)
    centres = starts[:, None] + step * (np.arange(LEAVES) - 0.5)
    values = 1 / (1 + np.exp(-np.clip(slope * centres + offset, -30, 30)))
    return _beside(forest, thresholds, values, float(w @ y / w.sum()))


def _shares(forest: Forest, odds: float) -> tuple[Forest, int]:
    """Return the first trees of a forest, and how many of the curve are beside them. odds: curve to trees."""
    count = max(1, round(forest.trees * odds))
    if count <= MOST:
        return forest, count
    kept = max(1, round(MOST / odds))
    nodes = slice(int(forest.starts[kept]))
    parts = {name: getattr(forest, name)[nodes] for name in ("feature", "threshold", "right", "value")}
    return replace(forest, starts=forest.starts[: kept + 1], **parts), MOST


def _curve(first: Floats, y: npt.NDArray[np.int64], w: Floats) -> tuple[float, float]:
    """Return the slope, at least 0, and the offset of the log-odds of a match as a line of the first comparison."""
    from sklearn.linear_model import LogisticRegression

    with threadpool_limits(1, user_api="blas"):
        fitted = LogisticRegression(C=INVERSE_PENALTY).fit(first[:, None], y, sample_weight=w)
    slope = float(fitted.coef_[0, 0])
    if slope > 0:
        return slope, float(fitted.intercept_[0])
    share = float(w @ y / w.sum())
    return 0.0, float(np.log(share / (1 - share)))


@cache
def _shape() -> tuple[list[int], list[int], list[range]]:
    """Return of each node, in preorder, its threshold (-1 for a leaf), its right child (-1), and the leaves below."""
    thresholds, rights, below = list[int](), list[int](), list[range]()

    def add(leaves: range) -> None:
        place, middle = len(thresholds), (leaves.start + leaves.stop) // 2
        thresholds.append(middle - 1 if len(leaves) > 1 else -1)
        rights.append(-1)
        below.append(leaves)
        if len(leaves) > 1:
            add(range(leaves.start, middle))
            rights[place] = len(thresholds)
            add(range(middle, leaves.stop))

    add(range(LEAVES))
    return thresholds, rights, below


def _beside(forest: Forest, thresholds: Floats, values: Floats, share: float) -> Forest:
    """Return a forest with one more tree for each row of (t, LEAVES - 1) thresholds and (t, LEAVES) values of leaves.

    share: the value of all roots, which is that of the forest's, so that p starts from one base.
    """
    cuts, rights, below = _shape()
    cut, right, count = np.array(cuts), np.array(rights), len(values)
    nodes, inner = len(cut), cut >= 0
    means = np.stack([values[:, leaves.start : leaves.stop].mean(axis=1) for leaves in below], axis=1)
    means[:, 0] = share
    begins = int(forest.starts[-1]) + nodes * np.arange(count)
    at = np.where(inner, thresholds[:, np.maximum(cut, 0)], 0.0)
    return replace(
        forest,
        starts=np.concatenate([forest.starts, begins + nodes]).astype(np.int32),
        feature=np.concatenate([forest.feature, np.tile(np.where(inner, 0, -1), count)]).astype(np.int16),
        threshold=np.concatenate([forest.threshold, at.ravel()]).astype(np.float32),
        right=np.concatenate([forest.right, np.where(inner, begins[:, None] + right, -1).ravel()]).astype(np.int32),
        value=np.concatenate([forest.value, (np.round(means / STEP) * STEP).ravel()]).astype(np.float32),
    )


COSINE_TREES = Learner(fit_with_cosine, read_forest)
