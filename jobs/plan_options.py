"""The options of jobs.plan."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import tyro

from al_ray.core.config import ClusterConfig, RunConfig, SearchConfig
from al_ray.core.plan import cluster_of
from al_ray.core.stages import Sizes

Hidden = tyro.conf.Suppress


@dataclass(frozen=True, kw_only=True)
class Options(RunConfig):
    """What a run with these options would need. Sizes are counts of texts."""

    task: Hidden[str] = "none"
    seed: Hidden[int] = 0
    oracle: Hidden[str] = "simulated"
    threads: Hidden[int] = 2
    search: SearchConfig = field(default_factory=lambda: SearchConfig(kind="auto"))
    texts: int = 100_000
    """Left texts of the training pool; all of them, where both sides are the same texts."""
    right_texts: int | None = None
    """Right texts of the training pool; a symmetric task has none of its own."""
    evaluation_texts: int | None = None
    """Left texts of each split that is measured; half as many as in the pool when not given, and so the right ones."""
    tokens: float | None = None
    """Word pieces of a text on average, special ones included; --max-length when not given: then times are too long."""
    dim: int = 384
    """Numbers in a vector."""
    layers: int = 6
    """Layers of the encoder."""
    vocabulary: int = 30522
    """Word pieces that the encoder knows."""
    gpus: float = 0
    """GPUs of the cluster; one share is each training worker's. 0: CPUs."""
    gpu: Literal["h200", "a100"] = "h200"
    """Which, where --constants names no file."""
    gpus_per_shard: float = 1.0
    """As in jobs.run."""
    shards: int | None = None
    """As in jobs.run; when not given as many as the GPUs hold beside the trainer, or one."""
    cpus_per_shard: float = 2.0
    """Cores of a shard and of the trainer, their --threads in jobs.run."""
    mapped_above: float = ClusterConfig.mapped_above
    """As in jobs.run."""
    label_cost: float = 0.0
    """Price of a label."""
    gpu_hour_cost: float = 0.0
    """Price of an hour of a GPU."""
    measure: bool = False
    """Measure this machine (its GPU, with --gpus) with --encoder and write --constants."""
    constants: Path | None = None
    """File of measured constants to read, or with --measure to write."""

    @property
    def workers(self) -> ClusterConfig:
        """Where it would run."""
        share = self.gpus_per_shard, self.shards, self.cpus_per_shard
        return replace(cluster_of(self.gpus, *share, self.training.workers), mapped_above=self.mapped_above)

    @property
    def sizes(self) -> Sizes:
        """What the run is about."""
        half = self.texts // 2 if self.evaluation_texts is None else self.evaluation_texts
        right = None if self.right_texts is None else max(1, self.right_texts // 2)
        tokens = self.max_length if self.tokens is None else self.tokens
        model = self.dim, self.layers, tokens, self.vocabulary, {"fp32": 4, "fp16": 2}[self.vectors]
        return Sizes(self.texts, self.right_texts, half, right, *model)
