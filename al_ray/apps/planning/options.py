"""The options of the command plan."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from al_ray.active_learning.config import RunConfig
from al_ray.apps.planning.sizes import Sizes
from al_ray.core.config.bounds import Between
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import Threads
from al_ray.core.config.recipes import RecipeOptions
from al_ray.core.config.sections import SearchConfig
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_task
from al_ray.storage.uri import storage_path

# Beyond all that exists, so that products of sizes stay finite.
MOST = 10**12
Hidden = tyro.conf.Suppress
NO_TASK = "none"


@dataclass(frozen=True, kw_only=True)
class PlanOptions(RunConfig, RecipeOptions):
    """Memory, time and cost of a run, before anything starts. Sizes are numbers of texts."""

    task: str = NO_TASK
    """Task folder, whose numbers of texts are used; or none: they are given by --texts and the like."""
    seed: Hidden[int] = 0
    oracle: Hidden[str] = "simulated"
    threads: Hidden[Threads] = 2
    search: SearchConfig = field(default_factory=lambda: SearchConfig(kind="auto"))
    texts: Annotated[int | None, Between(2, MOST)] = None
    """Left texts of the training pool; all texts, where both sides are the same texts. Default: those of --task, or
    100,000."""
    right_texts: Annotated[int | None, Between(1, MOST)] = None
    """Right texts of the training pool. Leave it out for a symmetric task, whose sides are the same texts."""
    evaluation_texts: Annotated[int | None, Between(2, MOST)] = None
    """Left texts of each measured split. Default: those of --task, or half as many as in the pool, and so are the right
    ones."""
    tokens: Annotated[float | None, Between(1, MOST)] = None
    """Mean number of tokens per text, special tokens and prompt included. Default: --max-length, which overestimates
    times."""
    dim: Annotated[int, Between(1, MOST)] = 384
    """Dimension of a vector."""
    hidden: Annotated[int | None, Between(1, MOST)] = None
    """Width of the encoder's layers, where a Dense layer makes vectors of another --dim. Default: --dim."""
    layers: Annotated[int, Between(1, MOST)] = 6
    """Layers of the encoder."""
    vocabulary: Annotated[int, Between(1, MOST)] = 30522
    """Size of the tokenizer's vocabulary."""
    gpus: Annotated[float, Between(0, 1000)] = 0
    """GPUs of the cluster, shared by shards and training workers. 0: CPUs only."""
    gpu: Literal["h200", "a100"] = "h200"
    """Kind of GPU whose built-in speeds are used without --constants."""
    gpus_per_shard: Annotated[float, Between(0.01, 1)] = 1.0
    """Share of a GPU of a shard and of a training worker, as in the command run."""
    shards: Annotated[int | None, Between(1, 1000)] = None
    """Number of shards, as in the command run. Default: as many as the GPUs hold beside the trainer, or 1."""
    cpus_per_shard: Annotated[float, Between(1, 1000)] = 2.0
    """Cores of a shard and of the trainer, their --threads in the command run."""
    mapped_above: float = ClusterConfig.mapped_above
    """GiB of vectors that a shard keeps in memory, as in the command run."""
    cost_per_pair: Annotated[float, Between(0, MOST)] = 0.0
    """Price of the label of a pair, as in the command run."""
    gpu_hour_cost: Annotated[float, Between(0, MOST)] = 0.0
    """Price of an hour of a GPU."""
    measure: bool = False
    """Measure the speeds of this machine (of its GPU, with --gpus) with --encoder, and write --constants."""
    constants: Path | None = None
    """File of measured speeds to read, or with --measure to write."""

    @property
    def workers(self) -> ClusterConfig:
        """The cluster of the run."""
        share = self.gpus_per_shard, self.shards, self.cpus_per_shard
        return replace(cluster_of(self.gpus, *share, self.trainers), mapped_above=self.mapped_above)

    @property
    def sizes(self) -> Sizes:
        """The sizes of the run."""
        tokens = self.max_length if self.tokens is None else self.tokens
        if tokens > self.max_length:
            raise BadOption(
                f"`tokens` is {tokens:g}, and texts are truncated at {option('max_length', self.max_length)}"
            )
        model = self.dim, self.layers, tokens, self.vocabulary, {"fp32": 4, "fp16": 2}[self.vectors], self.hidden
        if self.task != NO_TASK:
            if (self.texts, self.right_texts, self.evaluation_texts) != (None, None, None):
                raise BadOption(
                    "`task` has its numbers of texts; leave out `texts`, `right_texts` and `evaluation_texts`"
                )
            texts, pairs = sizes_of(read_task(storage_path(self.task)), self.evaluation.splits)
            return Sizes(*texts, *model, *pairs)
        texts = 100_000 if self.texts is None else self.texts
        half = max(2, texts // 2) if self.evaluation_texts is None else self.evaluation_texts
        right = None if self.right_texts is None else max(1, self.right_texts // 2)
        return Sizes(texts, self.right_texts, half, right, *model)


def sizes_of(task: Task, splits: Sequence[str]) -> tuple[tuple[int, int | None, int, int | None], tuple[int, int]]:
    """Return the left and right texts of a task's pool and of its largest measured split, and the pairs of both.

    right: None if symmetric. The pairs are those that can match (--same, --different). MissingSplit if the task has no
    pairs in a measured split.
    """
    spaces = [task.split(name).space for name in splits] or [task.split("train").space]
    pool, largest = task.split("train").space, max(spaces, key=lambda space: space.total)
    rights = (None, None) if task.symmetric else (len(pool.right), len(largest.right))
    return (len(pool.left), rights[0], len(largest.left), rights[1]), (pool.total, largest.total)


def cluster_of(gpus: float, each: float, shards: int | None, cores: float, trainers: int = 1) -> ClusterConfig:
    """Return a cluster with as many shards of `each` GPUs as fit beside the trainers, which take as much.

    shards: their number instead (default without GPUs: 1). cores: of a shard. BadOption if they do not fit.
    """
    if not gpus:
        return ClusterConfig(shards=shards or 1, cpus_per_shard=cores)
    # Ray gives an actor a share of one GPU or whole GPUs.
    room = int(gpus * int(1 / each)) if each <= 1 else int(gpus / each)
    if (shards or 1) + trainers > room:
        raise BadOption(
            f"{gpus:g} GPUs hold {room} actors of {each:g}, and {(shards or 1) + trainers} are asked for, "
            f"{'the trainer' if trainers == 1 else f'{trainers} training workers'} among them; give more `gpus`, fewer "
            "`shards` or a smaller `gpus_per_shard`"
        )
    return ClusterConfig(shards=shards or room - trainers, cpus_per_shard=cores, gpus_per_shard=each)
