"""The candidates of a pool over shards, as the driver sees them: found and compared once for each split."""

import logging
import time
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.cluster.candidates.finding import WAYS, FindRequest
from al_ray.cluster.candidates.records import definition_of, feature_names
from al_ray.cluster.candidates.reference_file import read_reference
from al_ray.cluster.pool.ring import MAX_UPDATES
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.cluster.workers import get_results, put
from al_ray.core.candidates import HIGHEST, NO_CANDIDATES, BestCandidates, Candidates
from al_ray.core.labels import Model, SavedReference
from al_ray.core.pairs import NO_KEYS, Keys, Pairs, PairSpace
from al_ray.core.task import Split
from al_ray.metrics.average_precision import Ints
from al_ray.runs.candidate_figures import BOTH, CandidateRecall
from al_ray.search.candidate_files import LeastRequest, OwnRequest
from al_ray.search.candidate_ranks import FEW, Features
from al_ray.search.dense_texts import MOST, SHARE, reaching, sampled, threshold_of
from al_ray.search.knn_merge import KnnRequest
from al_ray.storage.files import read_json, write_json
from al_ray.storage.result_cache import key_of
from al_ray.storage.uri import StoragePath, storage_path

logger = logging.getLogger(__name__)
VERSION = 1
"""Of the formulas of ranks and comparisons: another one finds and compares candidates again."""
COMPARE = "compare"
DENSE = "dense.json"
"""The cosine of dense texts of train, as `least`."""
TOP, STEP = 10, 20
"""Half of the first batch is every STEP-th of the TOP times as many candidates that rank highest without labels."""
SAMPLED = 200_000
"""Candidates that the driver sees of a ranking, about."""


class _FoundLost(Exception):
    """A shard restarted and has lost the candidates that it found."""


class ShardedCandidates:
    """The candidates of a run's splits. Answers do not depend on how many shards there are."""

    def __init__(
        self,
        pool: ShardedPool,
        config: RunConfig,
        folder: StoragePath,
        encoder: Model,
        reference: SavedReference | None = None,
    ) -> None:
        """folder: of the pool, in which they are kept. encoder: whose cosines find and compare them.

        reference: of the matcher that ranks them, whose fields the task has; None in the run that trains the matcher,
        whose own texts are counted.
        """
        self.pool, self.config, self.folder, self.encoder, self.reference = pool, config, folder, encoder, reference
        self._of_dense = config.candidates.dense(pool.task.symmetric)
        self._more = config.candidates.more if self._of_dense else 0.0
        self.names = feature_names(pool.task.left, pool.task.right)
        self._definition = definition_of(pool.task.left, pool.task.right)

    def prepare(self, splits: Iterable[Split]) -> None:
        """Find and compare the candidates of splits, unless they are stored; those of the next call are there then."""
        wanted = list(splits)
        if not self._knows_dense:
            # Their threshold is of its texts.
            wanted = [self.pool.task.split("train"), *(split for split in wanted if split.name != "train")]
        for split in wanted:
            own = self._request(split)
            stored = get_results([shard.has_candidates.remote(own) for shard in self.pool.shards])
            while not (all(stored) and self._knows_dense):
                try:
                    self._find(split, own)
                except _FoundLost:
                    logger.warning("a shard restarted: the candidates of %s are found again", split.name)
                    continue
                break
            self.pool.candidates[self.encoder.weights, split.name] = own

    @cached_property
    def dense(self) -> float | None:
        """Return the cosine of dense texts: of the matcher that ranks, or of train, whose candidates are found then."""
        if not self._of_dense:
            return None
        if self.reference is not None:
            return read_reference(self.reference).dense
        return read_json(self._dense_file, ["least"], f"delete {self._dense_file} and run again")["least"]

    @property
    def _knows_dense(self) -> bool:
        return not self._of_dense or self.reference is not None or self._dense_file.is_file()

    @property
    def _dense_file(self) -> StoragePath:
        return storage_path(self._request(self.pool.task.split("train")).place).parent / DENSE

    def features_of(self, split: Split, pairs: Pairs) -> Features:
        """(n, 2) pairs of a split -> (n, F) features, whether they are candidates or not."""
        features = np.full((len(pairs), len(self.names)), np.nan, dtype=np.float32)
        if len(pairs):
            own = self.pool.candidates_of(self.encoder, split)
            for places, of_shard in self._on_all(split, "features_of", own, put(pairs)):
                features[places] = of_shard
        return features

    def recall(self, split: Split, keys: Keys) -> CandidateRecall:
        """Measure what the candidates of a split have of (n,) keys of known matches."""
        own, ways = self.pool.candidates_of(self.encoder, split), np.zeros(len(keys), dtype=np.int64)
        total = 0
        for count, of_shard in self._on_all(split, "ways_of", own, put(keys)):
            total, ways = total + count, ways | of_shard
        shares: dict[str, Ints] = {way: (ways >> bit) & 1 for bit, way in enumerate(WAYS)} | {BOTH: (ways > 0) * 1}
        by_way = {way: float(found.mean()) if len(keys) else None for way, found in shares.items()}
        return CandidateRecall(total, len(keys), by_way)

    def spread(self, split: Split, count: int, excluded: Keys) -> Candidates:
        """Return `count` candidates spread over the ranking without labels: where there is no label yet.

        Half are every STEP-th of the top; the others lie in the rest at ranks that grow by a factor. What ranks below
        the top is known from a sample of the candidates by hash, which is the same for any number of shards.
        """
        own = self.pool.candidates_of(self.encoder, split)
        request, best = LeastRequest(HIGHEST, TOP * count, False), BestCandidates(HIGHEST, TOP * count)
        best.add(*self._on_all(split, "least_of_candidates", request, own, put(excluded)))
        top = best.result()
        sample = self._sampled(split, own)
        rest = sample.least(HIGHEST, len(sample))
        rest = rest.without(np.sort(np.concatenate([top.keys, excluded])))
        half = top.at(np.arange(0, len(top), STEP))
        ranks = np.unique(np.geomspace(1, max(1, len(rest)), max(1, count - len(half))).astype(np.int64)) - 1
        chosen = half.beside(rest.at(ranks[: len(rest)]))
        # Where few candidates are left, those that rank highest fill the batch.
        others = top.beside(rest).without(np.sort(chosen.keys))
        return chosen.beside(others.at(np.arange(min(len(others), max(0, count - len(chosen)))))).at(
            np.arange(min(count, len(chosen) + len(others)))
        )

    def far(self, split: Split, excluded: Keys) -> Keys:
        """Return sorted keys of candidates in the lower half of the ranking without labels, of a sample if many."""
        own = self.pool.candidates_of(self.encoder, split)
        sample = self._sampled(split, own).without(excluded)
        return np.sort(sample.least(HIGHEST, len(sample)).keys[len(sample) // 2 :])

    def _sampled(self, split: Split, own: OwnRequest) -> Candidates:
        """Return about SAMPLED candidates with their scores without labels, by hash."""
        total = self.recall(split, NO_KEYS).candidates
        below = min(2**64 - 1, int(2**64 * (SAMPLED / max(total, 1))))
        return NO_CANDIDATES.joined(*self._on_all(split, "sample_of_candidates", own, below))

    def _request(self, split: Split) -> OwnRequest:
        """Return where the candidates of a split are kept: its name holds all that decides them."""
        task, parts = self.pool.task, self.pool.parts
        decides = {
            "version": VERSION,
            "candidates": [
                self.config.candidates.cosine,
                self.config.candidates.trigrams,
                self.config.candidates.of_right,
            ],
            "encoder": self.encoder.weights,
            **({"of_dense": self._of_dense} if self._of_dense else {}),
            **({"more_of_dense": self._more} if self._more else {}),
            "vectors": self.config.vectors,
            "names": list(self.names),
            "definition": self._definition,
            # Their cosines are subtracted from counts of others, which other hardware may round in another way.
            "hardware": list(get_results(self.pool.shards[0].hardware.remote())),
        }
        if self.reference is not None:
            decides["reference"] = self.reference.digest
        name = f"{parts[split.name, 'left']}-{parts[split.name, 'right']}"
        place = self.folder / "candidates" / key_of(decides) / name
        return OwnRequest(str(place), (len(task.left), len(task.right)), task.symmetric, self.reference)

    def _find(self, split: Split, own: OwnRequest) -> None:
        """Find the candidates of a split by each way and from each side, and have their owners compare them."""
        space, options, pool, model = split.space, self.config.candidates, self.pool, self.encoder
        keys = PairSpace(NO_KEYS, NO_KEYS, space.width, space.symmetric)
        texts = sum(pool.sizes(pool.parts[split.name, "left"]))
        # Before the clock is read: the first step embeds.
        pool.embed(model, [split.name])
        took: dict[str, float] = dict.fromkeys((*WAYS, COMPARE), 0.0)
        began = time.monotonic()
        pool.on_all(model, split, WAYS[1], "write_grams", whole=texts)
        took[WAYS[1]] = time.monotonic() - began
        for side, rows, others in (("left", space.left, space.right), ("right", space.right, space.left)):
            turned = side == "right"
            if turned and pool.task.symmetric:
                continue
            counts = {WAYS[0]: options.cosine, WAYS[1]: options.trigrams}
            for way, count in counts.items():
                count = options.of_right if turned else count
                knn = KnnRequest(keys, pool.task.symmetric, max(count, FEW), HIGHEST, space.total)
                request = FindRequest(way, side, knn, count, self.reference)
                by_cosine = way == WAYS[0]
                # A Flat index, which is the only one beside a matcher, is trained on nothing.
                arguments = (put(request), (None,)) if by_cosine else (put(request), put(others))
                method, began = "find_by_cosine" if by_cosine else "find_by_trigrams", time.monotonic()
                pool.on_all(model, split, way, method, *arguments, whole=len(rows), turned=turned)
                if by_cosine and not turned and self._of_dense:
                    self._find_of_dense(split, keys)
                took[way] += time.monotonic() - began
        began = time.monotonic()
        answers = pool.on_all(model, split, COMPARE, "own_candidates", own, whole=MAX_UPDATES * len(pool.shards))
        if any(answer is None for answer in answers):
            raise _FoundLost
        took[COMPARE] = time.monotonic() - began
        pool.on_all(model, split, COMPARE, "drop_found", whole=MAX_UPDATES * len(pool.shards))
        steps = ", ".join(f"{name} {seconds:.1f}" for name, seconds in took.items())
        logger.info("seconds of the candidates of %s: %s", split.name, steps)

    def _find_of_dense(self, split: Split, keys: PairSpace) -> None:
        """Add the candidates of dense left texts to those that were found by cosine; of train, say which are dense."""
        knn = KnnRequest(keys, self.pool.task.symmetric, self._of_dense, HIGHEST, split.space.total)
        request = FindRequest(WAYS[0], "left", knn, self._of_dense, self.reference)
        if not self._knows_dense:
            counts = get_results([shard.count_kth.remote(WAYS[0], "left") for shard in self.pool.shards])
            texts, steps = len(split.space.left), _summed(counts)
            least = threshold_of(steps, SHARE * texts)
            if self._more:
                least = min(least, self._least_of_more(split, request, threshold_of(steps, MOST * texts)))
            logger.info(
                "dense texts: %s of %s, which have many others at a cosine of %.3f or more: up to %d candidates",
                f"{reaching(steps, least):,}", f"{texts:,}", least, self._of_dense,
            )  # fmt: skip
            write_json(self._dense_file, {"least": least})
        if self.dense is not None:
            self._on_dense(split, "find_of_dense", put(request), self.dense)

    def _least_of_more(self, split: Split, request: FindRequest, lowest: float) -> float:
        """Return the lowest cosine, from `lowest` on, at which dense texts add few candidates to each text of train."""
        texts = len(split.space.left)
        counts = self._on_dense(split, "count_of_dense", put(request), lowest, texts)
        return max(lowest, threshold_of(_summed(counts), self._more * sampled(split.space.left, texts).sum()))

    def _on_dense(self, split: Split, method: str, *arguments: Any) -> list[Any]:
        whole = len(split.space.left)
        return self.pool.on_all(self.encoder, split, "dense", method, *arguments, (None,), whole=whole)

    def _on_all(self, split: Split, method: str, *arguments: Any) -> list[Any]:
        whole = MAX_UPDATES * len(self.pool.shards)
        return self.pool.on_all(self.encoder, split, "score", method, *arguments, whole=whole)


def _summed(counts: Sequence[Ints | None]) -> Ints:
    """Return the sum of what all shards counted; _FoundLost if one had lost what it counts."""
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        raise _FoundLost
    return np.sum(known, axis=0)
