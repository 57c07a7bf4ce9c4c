"""Gold pairs of a task: existing labels, as scores 0 and 1 (paper 003)."""

import numpy as np

from al_ray.apps.papers.augmentation.options import Gold, Scored
from al_ray.apps.papers.mining.miners import Pool
from al_ray.core.errors import BadFile, MissingSplit
from al_ray.core.labels import Labelled
from al_ray.core.pairs import Pairs, Rows, as_pairs, is_in
from al_ray.core.scorer import Labels
from al_ray.core.task import Task


def gold_of_task(task: Task, labelled: Labelled) -> Gold:
    """Return the gold pairs of a task: labelled pairs for training, stated pairs of dev and test for evaluation.

    Equal texts count as one text, and a pair of equal texts is left out, as is a pair of dev or test whose texts are a
    training pair. The pool is the training split. BadFile for fewer than two training pairs; MissingSplit if neither
    dev nor test has such stated pairs of both kinds.
    """
    rows: dict[str, int] = {}
    sides = [
        np.array([rows.setdefault(text, len(rows)) for text in corpus.texts], dtype=np.int64)
        for corpus in (task.left, task.right)
    ]
    space = task.split("train").space
    queries, candidates = (np.unique(side[own]) for side, own in zip(sides, (space.left, space.right), strict=True))
    train = _scored(sides, labelled.pairs, labelled.labels)
    if len(train) < 2:
        raise BadFile(f"{len(train)} labelled pairs of different texts are too few to train on; give more `labels`")
    pool, measured = Pool(tuple(rows), queries, candidates), dict[str, Scored]()
    trained = np.unique(pool.keys(train.pairs))
    for name in ("dev", "test"):
        split = task.splits.get(name)
        if split is not None and len(split.positives) and len(split.stated_negatives):
            pairs = np.concatenate([split.positives, split.stated_negatives])
            labels = np.repeat(np.array([1, 0], np.uint8), [len(split.positives), len(split.stated_negatives)])
            scored = _scored(sides, pairs, labels)
            new = ~is_in(pool.keys(scored.pairs), trained)
            # Only pairs with both labels can be ranked.
            if len(np.unique(scored.scores[new])) == 2:
                measured[name] = Scored(scored.pairs[new], scored.scores[new])
    if not measured:
        raise MissingSplit(
            f"task {task.name!r} has no dev or test split with stated pairs of both kinds whose texts are "
            "no training pair; give another task"
        )
    return Gold(task.name, pool, train, measured)


def _scored(sides: list[Rows], pairs: Pairs, labels: Labels) -> Scored:
    rows = as_pairs(sides[0][pairs[:, 0]], sides[1][pairs[:, 1]])
    different = rows[:, 0] != rows[:, 1]
    return Scored(rows[different], labels[different].astype(np.float64))
