"""An index of questions over actors, each of which encodes, holds and searches its part (paper 002, 2.1.2)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray

from al_ray.cluster.actors import deployed, gathered, streamed
from al_ray.cluster.pool import Watch, by_turns
from al_ray.cluster.session import refuse_unshared, session
from al_ray.core.config import ClusterConfig
from al_ray.core.retrieval import Near, merged
from al_ray.model.encoder import Vectors
from al_ray.model.questions import IndexShard, IndexSpec, Probed, Probing, SearchShard, SearchSpec, probed


class ShardedIndex:
    """Parts of an index on actors, searched as one."""

    def __init__(self, shards: Sequence[Any]) -> None:
        """shards: actors of SearchShard."""
        self.shards = list(shards)
        self.size = sum(gathered([shard.size.remote() for shard in self.shards]))

    def __len__(self) -> int:
        """How many vectors all of them hold."""
        return self.size

    def nearest(self, queries: Vectors, count: int) -> Near:
        """(q, d) vectors -> the `count` nearest of each, or as many as there are."""
        asked = ray.put(queries)
        return merged(gathered([shard.nearest.remote(asked, count) for shard in self.shards]), count)


def index_sharded(spec: IndexSpec, questions: int, wanted: Probing, cluster: ClusterConfig, watch: Watch) -> Probed:
    """Encode so many questions and write an index file a shard; `spec` is that of a single one."""
    specs = [replace(spec, shard=shard, shards=cluster.shards) for shard in range(cluster.shards)]
    with session(cluster, trainers=0):
        refuse_unshared([Path(spec.out)], cluster)
        with deployed(IndexShard, specs, cluster) as shards:
            size = gathered(shards[0].sample_size.remote())
            done = 0
            for count in by_turns([
                streamed(shard.encode.options(num_returns="streaming").remote()) for shard in shards
            ]):  # fmt: skip
                done += count
                watch("encode", done, questions)
            samples = [shard.sample.remote(size) for shard in shards] if size else []
            learnt = ray.put(gathered(shards[0].learnt.remote(*samples))) if size else None

            def everywhere(method: str, *arguments: Any) -> list[Any]:
                return gathered([getattr(shard, method).remote(*arguments) for shard in shards])

            made = probed(everywhere, learnt, wanted)
            everywhere("write", learnt, made.nprobe or 1)
            return made


@contextmanager
def sharded(paths: Sequence[Path], threads: int, cluster: ClusterConfig) -> Iterator[ShardedIndex]:
    """Open index files, an actor for each; they end with the context."""
    with session(cluster, trainers=0):
        refuse_unshared(paths, cluster)
        with deployed(SearchShard, [SearchSpec(str(path), threads) for path in paths], cluster) as shards:
            yield ShardedIndex(shards)
