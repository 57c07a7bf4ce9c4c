"""An index of questions in shards: each actor encodes, indexes and searches its part (paper 002, 2.1.2)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from al_ray.apps.papers.paraphrase import index
from al_ray.apps.papers.paraphrase.index import IndexRecall, IndexSpec, RecallTarget, SearchSpec
from al_ray.cluster.session import require_shared_folders, session
from al_ray.cluster.workers import deploy, get_results, put, stream_results
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.progress import OnProgress
from al_ray.core.streams import round_robin
from al_ray.core.vectors import Vectors
from al_ray.search.merge import Neighbors, merge_neighbors


class ShardedIndex:
    """Searches the parts of an index on actors as one index."""

    def __init__(self, shards: Sequence[Any]) -> None:
        """shards: actors of SearchShard."""
        self.shards = list(shards)
        self.size = sum(get_results([shard.size.remote() for shard in self.shards]))

    def __len__(self) -> int:
        """Return the number of vectors of all parts."""
        return self.size

    def nearest(self, queries: Vectors, count: int) -> Neighbors:
        """(q, d) vectors -> the `count` nearest of each, or as many as there are."""
        vectors = put(queries)
        answers = get_results([shard.nearest.remote(vectors, count) for shard in self.shards])
        return merge_neighbors(answers, count, "l2")


def build_sharded_index(
    spec: IndexSpec, questions: int, target: RecallTarget, cluster: ClusterConfig, watch: OnProgress
) -> IndexRecall:
    """Encode the questions and write one index file per shard; `spec` is that of an index in one file."""
    specs = [replace(spec, shard=shard, shards=cluster.shards) for shard in range(cluster.shards)]
    with session(cluster, trainers=0):
        require_shared_folders([Path(spec.out)], cluster)
        with deploy(index.IndexShard, specs, cluster) as shards:
            size = get_results(shards[0].sample_size.remote())
            streams = [stream_results(shard.encode.options(num_returns="streaming").remote()) for shard in shards]
            for done in accumulate(round_robin(streams)):
                watch("encode", done, questions)
            samples = [shard.sample.remote(size) for shard in shards] if size else []
            trained = put(get_results(shards[0].train_index.remote(*samples))) if size else None

            def call_shards(method: str, *arguments: Any) -> list[Any]:
                return get_results([getattr(shard, method).remote(*arguments) for shard in shards])

            measured = index.choose_nprobe(call_shards, trained, target)
            call_shards("write", trained, measured.nprobe or 1)
            return measured


@contextmanager
def open_sharded_index(paths: Sequence[Path], threads: int, cluster: ClusterConfig) -> Iterator[ShardedIndex]:
    """Open index files, each on an actor; the actors end with the context."""
    with session(cluster, trainers=0):
        require_shared_folders(paths, cluster)
        with deploy(index.SearchShard, [SearchSpec(str(path), threads) for path in paths], cluster) as shards:
            yield ShardedIndex(shards)
