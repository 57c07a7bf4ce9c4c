"""A task's split as a pool to mine negatives in, and the table of labels that results (paper 004)."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from al_ray.apps.papers.mining.miners import MinedPairs, Pool
from al_ray.apps.papers.mining.negatives import KnownMatches
from al_ray.core.graph import components_of_texts
from al_ray.core.pairs import Keys, Pairs
from al_ray.core.rng import generator
from al_ray.core.task import Task
from al_ray.core.text import same_text
from al_ray.storage.files import write_parquet
from al_ray.storage.uri import StoragePath


@dataclass(frozen=True)
class MiningTask:
    """A pool of all texts of a task, the matches that a miner knows, and the true labels.

    In a task of two sides the rows of right texts follow those of all left texts. positives, stated: sorted keys of all
    positives of the split, and of its stated negatives.
    """

    task: Task
    pool: Pool
    known: KnownMatches
    positives: Keys
    stated: Keys

    @property
    def shift(self) -> int:
        """Return the row of the pool that is the first right text."""
        return 0 if self.task.symmetric else len(self.task.left)

    def that_can_match(self, mined: MinedPairs) -> MinedPairs:
        """Return the mined pairs that the task's rule allows: all if it has none."""
        rule = self.task.rule
        return mined if rule is None else mined.select(rule.allows(mined.pairs - np.array([0, self.shift])))

    def ids(self, pairs: Pairs) -> tuple[list[str], list[str]]:
        """Return the left and the right ids of (n, 2) pairs."""
        return self.task.ids_of(pairs - np.array([0, self.shift]))


def mining_task(task: Task, name: str, share: float, queries: int | None, seed: int) -> MiningTask:
    """Return the pool of a split, with a random share of the positives as known ones.

    The queries are the texts of known positives (their left texts, if there are two sides), or a random sample of
    `queries` of them. Texts that differ only in case and white space are in one component: they are never negatives.
    """
    split = task.with_known_pairs(name)
    shift = 0 if task.symmetric else len(task.left)
    texts = tuple(task.left.texts) if task.symmetric else (*task.left.texts, *task.right.texts)
    positives, stated = (pairs + np.array([0, shift]) for pairs in (split.positives, split.stated_negatives))
    count = max(1, round(share * len(positives)))
    known = positives[np.sort(generator(seed, "known").permutation(len(positives))[:count])]
    component = components_of_texts(same_text(texts), known)
    query_rows = np.unique(known if task.symmetric else known[:, 0])
    if queries is not None:
        query_rows = np.sort(generator(seed, "queries").permutation(query_rows)[:queries])
    pool = Pool(texts, query_rows, split.space.right + shift)
    keys = (np.sort(pool.keys(pairs)) for pairs in (positives, stated))
    return MiningTask(task, pool, KnownMatches(known, component), *keys)


def write_negatives(mine: MiningTask, mined: MinedPairs, path: StoragePath) -> None:
    """Write known positives and mined negatives as a table of labels, which jobs.train --labels reads.

    Columns: left_id, right_id, label; and source, similarity and rank, which are null for positives.
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
