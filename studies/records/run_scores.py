"""Scores of all pairs of a split, read from the files of a run with a matcher: vectors, candidates, and the model.

Nothing is embedded or compared again: a shard reads the vectors that it kept, and the candidates lie in the pool folder
with their comparisons. Only p of the candidates is computed, by the matcher of a round.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.cluster.token_store import parts_of, pool_folder
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.pairs import Mask, Pairs, Rows
from al_ray.core.scorer import Floats
from al_ray.core.task import Split, Task
from al_ray.core.two_stage_score import candidate_scores
from al_ray.matcher.model_file import NAME, read_model
from al_ray.search.candidate_files import OwnedCandidates, read_candidates
from al_ray.search.shard import PoolShard
from al_ray.search.shard_spec import ShardSpec
from al_ray.storage.uri import storage_path
from studies.records.pair_figures import Truth

MOST = 200_000_000
"""Pairs of which all scores are held in memory."""


@dataclass(frozen=True)
class AllPairs:
    """All pairs of a split as a matrix (l, r) of its left and right texts.

    truth: which pairs match. cosines: of the untrained encoder. hubness: half the sum of the means of the 5 nearest of
    both texts, which is subtracted from the cosine (search/candidate_ranks.py).
    """

    left: Rows
    right: Rows
    truth: Truth
    cosines: Floats
    hubness: Floats
    candidates: tuple[OwnedCandidates, ...]
    width: int

    def mask(self, pairs: Pairs) -> Mask:
        """(n, 2) pairs of rows of the task -> (l, r) which pairs they are."""
        found = np.zeros(self.cosines.shape, dtype=np.bool_)
        found[self.places(pairs)] = True
        return found

    def places(self, pairs: Pairs) -> tuple[Rows, Rows]:
        """(n, 2) pairs of rows of the task -> (n,) rows and (n,) columns of the matrix."""
        return np.searchsorted(self.left, pairs[:, 0]), np.searchsorted(self.right, pairs[:, 1])

    def scores(self, model: Path, threads: int) -> Floats:
        """Return (l, r) scores of two stages by the matcher in the model folder of a round."""
        scores = self.cosines.copy()
        for owned in self.candidates:
            matcher = read_model(storage_path(str(model / NAME)), owned.names)
            p = [matcher.probability(np.ascontiguousarray(chunk), threads) for chunk in owned.features]
            pairs = np.stack(np.divmod(owned.keys, self.width), axis=1)
            scores[self.places(pairs)] = candidate_scores(np.concatenate([np.empty(0), *p]), owned.cosines)
        return scores


def read_all_pairs(task: Task, name: str, config: RunConfig, shared: Path) -> AllPairs:
    """Read the vectors and candidates of a split. shared: the folder that has the pool of the runs.

    BadOption for a split of too many pairs; BadFile if the candidates are not there.
    """
    truth, space = read_truth(task, name), task.split(name).space
    pool = Path(str(pool_folder(task, config.encoding, storage_path(str(shared)))))
    parts = parts_of(task)
    left, right = parts[name, "left"], parts[name, "right"]
    vectors = _vectors(config, pool, {left, right})
    candidates = pool_candidates(pool / "candidates", f"{left}-{right}")
    cosines = vectors[left] @ vectors[right].T
    halves = candidates[0].left[space.left, 0] / 2, candidates[0].right[space.right, 0] / 2
    return AllPairs(
        space.left,
        space.right,
        truth,
        cosines,
        halves[0][:, None] + halves[1],
        candidates,
        space.width,
    )


def read_truth(task: Task, name: str) -> Truth:
    """Return which of all pairs of a split match; BadOption for a split of too many pairs."""
    split = task.measurable(name)
    space, pairs = split.space, split.positives
    if len(space.left) * len(space.right) > MOST:
        raise BadOption(f"{name} has {space.total:,} pairs; this benchmark holds the scores of {MOST:,} at most")
    matches = np.zeros((len(space.left), len(space.right)), dtype=np.bool_)
    matches[np.searchsorted(space.left, pairs[:, 0]), np.searchsorted(space.right, pairs[:, 1])] = True
    return Truth(matches, _counted(split), task.symmetric)


def _counted(split: Split) -> Mask:
    """Return (l, r) which pairs belong to the pool: of one set of texts each once, and only what the rule allows."""
    space = split.space
    counted = np.ones((len(space.left), len(space.right)), dtype=np.bool_)
    if space.symmetric:
        counted = np.triu(counted, k=1)
    if space.rule is not None:
        rows, columns = np.nonzero(counted)
        allowed = space.rule.allows(np.stack([space.left[rows], space.right[columns]], axis=1))
        counted[rows[~allowed], columns[~allowed]] = False
    return counted


def _vectors(config: RunConfig, pool: Path, parts: set[str]) -> dict[str, Floats]:
    """Read the kept vectors of the untrained encoder by part, in order of rows."""
    shard = PoolShard(ShardSpec(str(pool), config.encoding, config.search, 0, 1, keep_vectors=True))
    model, found = shard.untrained(), dict[str, Floats]()
    for part in parts:
        texts = sum(shard.embed(model, part))
        found[part] = shard.block(model, part, 0, texts).vectors.astype(np.float64)
    return found


def pool_candidates(folder: Path, name: str) -> tuple[OwnedCandidates, ...]:
    """Read the candidates of a split from the folders of all shards."""
    places = sorted(folder.glob(f"*/{name}"))
    if len(places) != 1:
        raise BadFile(f"{folder} has {len(places)} sets of candidates of {name}, not one; give another --out")
    return tuple(read_candidates(storage_path(str(path))) for path in sorted(places[0].iterdir()))
