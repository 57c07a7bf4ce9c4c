"""A task's split as a pool to mine negatives in, and the table of labels that comes of it (paper 004)."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from al_ray.core.config import generator
from al_ray.core.mining import Mined, Pool
from al_ray.core.negatives import Known
from al_ray.core.pairs import Keys, Pairs, as_pairs
from al_ray.core.task import Task
from al_ray.core.words import same_text
from al_ray.data.clusters import components
from al_ray.data.files import write_parquet
from al_ray.storage.places import Place


@dataclass(frozen=True)
class Mine:
    """A pool of all texts of a task, what a miner is told of it, and the truth.

    In a task of two sides the right texts' rows come after all left ones. positives, stated: sorted keys of all
    positives of the split, and of its stated negatives.
    """

    task: Task
    pool: Pool
    known: Known
    positives: Keys
    stated: Keys

    def ids(self, pairs: Pairs) -> tuple[list[str], list[str]]:
        """(n, 2) pairs -> their ids, left and right."""
        if self.task.symmetric:
            return tuple([self.task.left.ids[row] for row in side] for side in pairs.T.tolist())  # type: ignore[return-value]
        left, right = pairs[:, 0].tolist(), (pairs[:, 1] - len(self.task.left)).tolist()
        return [self.task.left.ids[row] for row in left], [self.task.right.ids[row] for row in right]


def mine_of(task: Task, name: str, share: float, queries: int | None, seed: int) -> Mine:
    """The pool of a split, of whose positives a drawn share is known.

    Mined for are the texts of known positives (of the left side where there are two), or so many of them, drawn. Texts
    that are the same but for case and white space are of one component: a pair of them is no negative.
    """
    split = task.measurable(name)
    shift = 0 if task.symmetric else len(task.left)
    texts = task.left.texts if task.symmetric else (*task.left.texts, *task.right.texts)
    positives, stated = (pairs + np.array([0, shift]) for pairs in (split.positives, split.stated_negatives))
    count = max(1, round(share * len(positives)))
    known = positives[np.sort(generator(seed, "known").permutation(len(positives))[:count])]
    numbers = same_text(texts)
    _, first = np.unique(numbers, return_index=True)
    component = components(len(texts), np.concatenate([known, as_pairs(np.arange(len(texts)), first[numbers])]))
    asked = np.unique(known if task.symmetric else known[:, 0])
    if queries is not None:
        asked = np.sort(generator(seed, "queries").permutation(asked)[:queries])
    pool = Pool(tuple(texts), asked, split.space.right + shift)
    return Mine(task, pool, Known(known, component), np.sort(pool.keys(positives)), np.sort(pool.keys(stated)))


def write_negatives(mine: Mine, mined: Mined, path: Place) -> None:
    """Write known positives and mined negatives as a table of labels, which jobs.train --labels reads.

    left_id, right_id, label; source, similarity and rank of a negative, null of a positive.
    """
    sides = [one + other for one, other in zip(mine.ids(mine.known.positives), mine.ids(mined.pairs), strict=True)]
    ones, nothing = len(mine.known.positives), [None] * len(mine.known.positives)
    table = {
        "left_id": pa.array(sides[0], pa.string()),
        "right_id": pa.array(sides[1], pa.string()),
        "label": pa.array([1] * ones + [0] * len(mined), pa.int8()),
        "source": pa.array(nothing + mined.sources.tolist(), pa.string()),
        "similarity": pa.array(nothing + mined.scores.tolist(), pa.float64()),
        "rank": pa.array(nothing + mined.ranks.tolist(), pa.int64()),
    }
    write_parquet(path, pa.table(table))
