"""Inputs of a plan, and the shares of work that a worker gets."""

import math
from dataclasses import dataclass
from itertools import accumulate

from al_ray.active_learning.config import RunConfig
from al_ray.apps.planning.hardware import CUDA, Constants, Time, time_of
from al_ray.apps.planning.sizes import Sizes
from al_ray.core.chunks import texts_in_chunk, vector_chunks
from al_ray.core.config.cluster import ClusterConfig


@dataclass(frozen=True)
class Setting:
    """Inputs of a plan; search.kind is exact or knn.

    counted: whether evaluation counts every pair. past_batches: labels of each round of an existing run, whose batch
    sizes may have changed between rounds; empty for those of the options.
    """

    config: RunConfig
    sizes: Sizes
    cluster: ClusterConfig
    constants: Constants
    counted: bool
    past_batches: tuple[int, ...] = ()

    @property
    def batches(self) -> tuple[int, ...]:
        """Return the number of labels of each round."""
        return self.past_batches or self.config.batches

    @property
    def labels(self) -> tuple[int, ...]:
        """Return the number of labels after each round."""
        return tuple(accumulate(self.batches))

    @property
    def kind(self) -> str:
        """Return the kind of search: exact or knn."""
        return self.config.search.kind

    @property
    def shards(self) -> int:
        """Return the number of shards."""
        return self.cluster.shards

    @property
    def cluster_share(self) -> float:
        """Return the GPUs of a worker, or its cores in a cluster without GPUs."""
        cuda = self.constants.device == CUDA
        return self.cluster.gpus_per_shard if cuda else self.cluster.cpus_per_shard

    @property
    def cores(self) -> float:
        """Return the cores of a worker relative to the measured host; speed is assumed to be proportional."""
        return self.cluster.cpus_per_shard / self.constants.threads

    @property
    def power(self) -> float:
        """Return a worker's share of the measured device: of one GPU, or of the cores."""
        return min(1.0, self.cluster.gpus_per_shard) if self.constants.device == CUDA else self.cores

    def share(self, texts: int) -> int:
        """Return the texts of the largest shard; shards get chunks of whole encoder batches (search/shard.py)."""
        batch = self.config.encoder_batch
        chunks = vector_chunks(texts, batch)
        if not chunks:
            return 0
        # Chunk c has the batches c, c + chunks...
        each, more = divmod(math.ceil(texts / batch), chunks)
        batches = each * math.ceil(chunks / self.shards) + math.ceil(more / self.shards)
        return min(texts, batches * batch)

    @property
    def frozen(self) -> int:
        """Return the number of layers that are not trained; embeddings are not either if it is above 0."""
        layers, asked = self.sizes.layers, self.config.training.frozen_layers
        return layers // 2 if asked == "half" else min(layers, asked)

    def frozen_states(self, labels: int) -> float:
        """Return the bytes of the outputs of frozen layers, as if no text were in two of a training's pairs."""
        return 2 * self.config.training.pairs(labels) * self.sizes.tokens * self.sizes.width * 4 if self.frozen else 0

    @property
    def texts(self) -> int:
        """Return the number of all texts: of the pool and of the evaluated splits, both sides."""
        sizes, splits = self.sizes, len(self.config.evaluation.splits)
        return sizes.texts + (sizes.right or 0) + splits * (sizes.evaluation + (sizes.evaluation_right or 0))

    @property
    def tokenisers(self) -> int:
        """Return the number of workers that tokenise (cluster/token_store.py), as if all texts were on one side."""
        return min(self.shards, math.ceil(self.texts / texts_in_chunk(self.texts)))

    def on_device(self, amount: float, name: str) -> Time:
        """Return the time of work on one worker's device."""
        return time_of(amount, self.constants, name, self.power)

    def on_host(self, amount: float, name: str) -> Time:
        """Return the time of work on one worker's cores."""
        return time_of(amount, self.constants, name, self.cores)

    def on_thread(self, amount: float, name: str) -> Time:
        """Return the time of work that only one thread does."""
        return time_of(amount, self.constants, name)

    def received(self, size: float) -> Time:
        """Return the time to receive bytes from other actors; 0 with one shard."""
        return time_of(size if self.shards > 1 else 0, self.constants, "transfer")
