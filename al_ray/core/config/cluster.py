"""Options of the cluster: actors, their resources, memory and timeouts."""

from dataclasses import dataclass
from typing import Annotated

from al_ray.core.config.bounds import RARE, Between, check_bounds
from al_ray.core.errors import BadOption

Shards = Annotated[int, Between(1, 1_000)]


@dataclass(frozen=True)
class ClusterConfig:
    """Ray resources. Results do not depend on them."""

    shards: Shards = 1
    """Actors that hold the pool; each encodes and searches its part of the texts."""
    cpus_per_shard: Annotated[float, Between(0.01, 1_000)] = 1.0
    """Logical CPUs that an actor requests from Ray."""
    gpus_per_shard: Annotated[float, Between(0, 1)] = 0.0
    """Share of a GPU that a shard requests from Ray; it uses no more than one. A training worker requests the same."""
    timeout: Annotated[float, Between(1, 1e6)] = 1800.0
    """Seconds to wait until Ray has placed the actors; then the run ends and reports what the cluster lacks."""
    checkpoint_seconds: Annotated[float, RARE] = 120.0
    """Seconds between training checkpoints. A trainer that crashes resumes from the last one, to the same weights."""
    mapped_above: Annotated[float, Between(0, 1e9), RARE] = 16.0
    """GiB of vectors that a shard keeps in memory; more vectors are memory-mapped from a file in the node's folder for
    temporary files (TMPDIR). A Faiss index (knn) is always in memory."""
    keep_vectors: bool = False
    """Store vectors in the run folder, chunk by chunk: a restarted shard, a resumed run (with any number of shards) and
    the command evaluate read them instead of encoding again. Those of the untrained encoder and of the latest model are
    kept."""
    mixed_hardware: Annotated[bool, RARE] = False
    """Accept shards on different devices or library versions. The last bits of a vector, and with them results, then
    depend on where a text is encoded."""
    ray: bool = False
    """Start Ray also for one shard without a GPU, which otherwise works in the process of the command itself."""
    shared_storage: bool = False
    """The local paths given are on storage that all nodes mount. Without it a cluster of several nodes needs URIs."""

    def __post_init__(self) -> None:
        """Raise BadOption for a value out of bounds, or a share of a resource that Ray does not allow."""
        check_bounds(self)
        for value, name in ((self.cpus_per_shard, "`cpus_per_shard`"), (self.gpus_per_shard, "`gpus_per_shard`")):
            # Ray divides a single CPU or GPU, and beyond one grants only whole ones.
            if (value > 1 and value % 1) or 0 < value < 0.01:
                raise BadOption(f"{name} is {value}; give a part of one from 0.01, or a whole number")

    @property
    def device(self) -> str:
        """The device of an actor: Ray shows it only its own GPUs, the first of them as 0."""
        return "cuda:0" if self.gpus_per_shard else "cpu"
