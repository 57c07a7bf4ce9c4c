"""Training an encoder on pairs of paraphrases by metric learning, with early stopping (paper 002, 3 and 4.2)."""

import time
from collections.abc import Generator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from al_ray.apps.mining.dense import build_miner
from al_ray.apps.mining.miners import Hardest, MinedPairs, Pool, Random
from al_ray.apps.mining.negatives import KnownMatches, NegativesConfig, mine_negatives
from al_ray.apps.paraphrase.batching import random_batches, separate_batches
from al_ray.apps.paraphrase.losses import (
    distances,
    hard_negatives,
    paired,
    random_negatives,
    sdml,
    triplet,
    triplet_against,
)
from al_ray.apps.paraphrase.options import Epoch, ParaphraseConfig, best_epoch, has_ended
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.pairs import Pairs, Rows
from al_ray.core.progress import OnProgress
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Vectors, paired_scores, squared_distances
from al_ray.encoders.encoder import TextEncoder, embed_rows
from al_ray.encoders.tokens import Tokens
from al_ray.metrics.ranking import roc_auc
from al_ray.training.bi_encoder import forward
from al_ray.training.checkpoint import Checkpoint, restored
from al_ray.training.optimizer import thin_gradients, whole_gradients

MINED = NegativesConfig(per_text=5, random_share=0.2)
"""Negatives of a question, of which one is drawn for every step; with one of them at random no question has none."""


@dataclass(frozen=True)
class Paraphrases:
    """What is learnt from and watched.

    pairs: (n, 2) rows of paraphrases; component: (n,) the cluster of each pair. positives, negatives: (p, 2) and (q, 2)
    pairs of dev that the ROC AUC tells apart. pool, known: where negatives are mined, and what guards them.
    """

    pairs: Pairs
    component: Rows
    positives: Pairs
    negatives: Pairs
    pool: Pool
    known: KnownMatches


class MetricTraining:
    """Trains an encoder in place."""

    def __init__(
        self,
        encoder: TextEncoder,
        tokens: Tokens,
        known: Paraphrases,
        config: ParaphraseConfig,
        watch: OnProgress,
    ) -> None:
        """Hold the parts."""
        self.encoder, self.tokens, self.known, self.config, self.watch = encoder, tokens, known, config, watch

    def epochs(self, past: list[Epoch], checkpoint: Checkpoint) -> Generator[Epoch, None, None]:
        """Train until it gets no better, and leave the best epoch's weights in the encoder; yields what is new.

        past: what earlier epochs came to. Those that the checkpoint holds are gone on from, any others made again.
        """
        network = self.encoder.network
        adam = torch.optim.Adam(network.parameters(), lr=self.config.learning_rate, fused=True)
        thin_gradients(network)
        taken, parts = checkpoint.read()
        if len(past) < taken:
            raise BadFile(f"{checkpoint.path} is of epoch {taken}, and metrics.jsonl beside it ends before; restore it")
        done, kept = past[:taken], parts.get("best", {})
        if taken:
            network.load_state_dict(parts["encoder"])
            restored(adam, parts["optimiser"])
        while not has_ended(done, self.config):
            done.append(self._epoch(adam, len(done) + 1))
            if best_epoch(done) is done[-1]:
                kept = {name: value.detach().clone() for name, value in network.state_dict().items()}
            # Told before it is kept: a line too many is cut off again, one that is missing could not be made.
            yield done[-1]
            checkpoint.write({"encoder": network.state_dict(), "best": kept}, adam, len(done))
        network.load_state_dict(kept)

    def _epoch(self, adam: torch.optim.Optimizer, number: int) -> Epoch:
        started, known, seed = time.perf_counter(), self.known, self.config.seed
        order, draws = (generator(seed, f"paraphrase-{purpose}", number) for purpose in ("order", "negatives"))
        dealt = (random_batches if self.config.same_cluster else separate_batches)(
            known.component, self.config.batch, order
        )
        total, mined = 0.0, self.mine(number) if self.config.loss == "triplet-mined" else None
        for step, rows in enumerate(dealt, start=1):
            adam.zero_grad(set_to_none=True)
            loss = (
                self.loss(known.pairs[rows], draws) if mined is None else self.against(known.pairs[rows], mined, draws)
            )
            loss.backward()
            whole_gradients(self.encoder.network.parameters())
            adam.step()
            total += float(loss.detach())
            self.watch(f"epoch {number}", step, len(dealt))
        auc = self.roc_auc()
        seconds = round(time.perf_counter() - started, 3)
        return Epoch(number, total / len(dealt), auc, len(dealt), sum(map(len, dealt)), seconds)

    def loss(self, pairs: Pairs, draws: np.random.Generator) -> torch.Tensor:
        """(N, 2) pairs of one batch -> the loss that the config names."""
        config = self.config
        vectors = forward(self.encoder, self.tokens, pairs.T.ravel(), config.encoder_batch)
        apart = distances(vectors[: len(pairs)], vectors[len(pairs) :], config.distance == "squared")
        if config.loss == "sdml":
            return sdml(apart, config.smoothing)
        if config.loss == "triplet-hard":
            return triplet(apart, hard_negatives(apart), config.margin)
        negatives = torch.from_numpy(random_negatives(len(pairs), draws)).to(apart.device)
        return triplet(apart, negatives, config.margin)

    def mine(self, number: int) -> MinedPairs:
        """The negatives of epoch `number`, by the weights as they are now, those of a question together."""
        pool, known, rng = self.known.pool, self.known.known, generator(self.config.seed, "paraphrase-mined", number)
        if self.config.miner == "model":
            rows = np.union1d(pool.queries, pool.candidates)
            vectors = embed_rows(self.encoder, self.tokens, rows, unit=False)
            miner = Hardest(pool, partial(negative_distances, vectors, rows), self.config.sample, rng)
        else:
            miner = build_miner(self.config.miner, pool, None, self.config.sample, rng)
        found = mine_negatives(miner, Random(pool, rng), pool, known, MINED)
        lacking = np.setdiff1d(pool.queries, found.pairs[:, 0])
        if len(lacking):
            raise BadOption(
                f"--loss triplet-mined: {len(lacking):,} questions have no negative, such as "
                f"{pool.texts[lacking[0]]!r}; prepare a task of more clusters, or take another --loss"
            )
        return found.select(np.argsort(found.pairs[:, 0], kind="stable"))

    def against(self, pairs: Pairs, mined: MinedPairs, draws: np.random.Generator) -> torch.Tensor:
        """(N, 2) pairs of one batch -> the triplet loss, each with one of its first question's negatives, drawn."""
        asked = mined.pairs[:, 0]
        first, after = (np.searchsorted(asked, pairs[:, 0], side) for side in ("left", "right"))
        rows = np.stack([*pairs.T, mined.pairs[draws.integers(first, after), 1]])
        vectors = forward(self.encoder, self.tokens, rows.ravel(), self.config.encoder_batch)
        one, other, negative = vectors.reshape(3, len(pairs), -1)
        own, far = (paired(one, right, self.config.distance == "squared") for right in (other, negative))
        return triplet_against(own, far, self.config.margin)

    def roc_auc(self) -> float:
        """How well distances tell dev's paraphrases from its other pairs."""
        both = (self.known.positives, self.known.negatives)
        rows = np.unique(np.concatenate(both))
        vectors = embed_rows(self.encoder, self.tokens, rows, unit=False)
        near, far = (negative_distances(vectors, rows, pairs) for pairs in both)
        return roc_auc(near, far)


def negative_distances(vectors: Vectors, rows: Rows, pairs: Pairs) -> Floats:
    """(k, 2) pairs of rows -> (k,) negated squared distances in float64; vectors: (r, d) of the sorted `rows`."""
    left, right = np.searchsorted(rows, pairs).T
    return -paired_scores(vectors, left, vectors, right, squared_distances)
