"""Training an encoder on pairs of paraphrases by metric learning, with early stopping (paper 002, 3 and 4.2)."""

import math
import time
from collections.abc import Generator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from al_ray.apps.papers.mining.dense import build_miner
from al_ray.apps.papers.mining.miners import Hardest, MinedPairs, Pool, Random
from al_ray.apps.papers.mining.negatives import KnownMatches, NegativesConfig, draw_outside, mine_negatives
from al_ray.apps.papers.paraphrase import losses
from al_ray.apps.papers.paraphrase.batching import random_batches, separate_batches
from al_ray.apps.papers.paraphrase.options import Epoch, ParaphraseConfig, best_epoch, has_ended
from al_ray.core.errors import BadFile, BadOption, TrainingFailed
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
from al_ray.training.optimizer import WholeGradients, thin_gradients

MINED = NegativesConfig(per_text=5, random_share=0.2)
"""Negatives of a question, of which one is drawn for every step; others are drawn where all are of its component."""


@dataclass(frozen=True)
class Paraphrases:
    """Pairs to train on and to evaluate on.

    pairs: (n, 2) rows of paraphrases; component: (n,) the cluster of each pair. positives, negatives: (p, 2) and (q, 2)
    pairs of dev, for the ROC AUC. pool: where negatives are mined; known: matches that are no negatives.
    """

    pairs: Pairs
    component: Rows
    positives: Pairs
    negatives: Pairs
    pool: Pool
    known: KnownMatches


@dataclass
class MetricTraining:
    """Trains an encoder in place. tokens: of all questions."""

    encoder: TextEncoder
    tokens: Tokens
    known: Paraphrases
    config: ParaphraseConfig
    watch: OnProgress

    def epochs(self, past: list[Epoch], checkpoint: Checkpoint) -> Generator[Epoch, None, None]:
        """Train until early stopping, yield each new epoch, and leave the best epoch's weights in the encoder.

        past: results of earlier epochs. Training resumes after those in the checkpoint; later ones are repeated.
        """
        network = self.encoder.network
        adam = torch.optim.Adam(network.parameters(), lr=self.config.learning_rate, fused=True)
        thin_gradients(network)
        gradients = WholeGradients(network.parameters())
        count, parts = checkpoint.read()
        if len(past) < count:
            raise BadFile(f"{checkpoint.path} is of epoch {count}, and metrics.jsonl beside it ends before; restore it")
        done, best = past[:count], parts.get("best", {})
        if count:
            network.load_state_dict(parts["encoder"])
            restored(adam, parts["optimiser"])
        while not has_ended(done, self.config):
            done.append(self._epoch(adam, gradients, len(done) + 1))
            if best_epoch(done) is done[-1]:
                best = {name: value.detach().clone() for name, value in network.state_dict().items()}
            # Yielded before the checkpoint: a surplus line is dropped on resuming, a missing one could not be restored.
            yield done[-1]
            checkpoint.write({"encoder": network.state_dict(), "best": best}, adam, len(done))
        network.load_state_dict(best)

    def _epoch(self, adam: torch.optim.Optimizer, gradients: WholeGradients, number: int) -> Epoch:
        started, known, seed = time.perf_counter(), self.known, self.config.seed
        order, draws = (generator(seed, f"paraphrase-{purpose}", number) for purpose in ("order", "negatives"))
        divide = random_batches if self.config.same_cluster else separate_batches
        batches = divide(known.component, self.config.batch, order)
        total, mined = 0.0, self.mine(number) if self.config.loss == "triplet-mined" else None
        for step, rows in enumerate(batches, start=1):
            adam.zero_grad(set_to_none=True)
            pairs = known.pairs[rows]
            loss = self.loss(pairs, draws) if mined is None else self.against(pairs, mined, draws)
            loss.backward()
            gradients.make()
            adam.step()
            value = float(loss.detach())
            self._require_finite(value, f"epoch {number}, batch {step} of {len(batches)}: the loss")
            total += value
            self.watch(f"epoch {number}", step, len(batches))
        auc = self.roc_auc()
        seconds = round(time.perf_counter() - started, 3)
        return Epoch(number, total / len(batches), auc, len(batches), sum(map(len, batches)), seconds)

    def loss(self, pairs: Pairs, draws: np.random.Generator) -> torch.Tensor:
        """(N, 2) pairs of one batch -> the loss that the config names."""
        config = self.config
        vectors = forward(self.encoder, self.tokens, pairs.T.ravel(), config.encoder_batch)
        apart = losses.distances(vectors[: len(pairs)], vectors[len(pairs) :], config.distance == "squared")
        if config.loss == "sdml":
            return losses.sdml(apart, config.smoothing)
        if config.loss == "triplet-hard":
            return losses.triplet(apart, losses.hard_negatives(apart), config.margin)
        negatives = torch.from_numpy(losses.random_negatives(len(pairs), draws)).to(apart.device)
        return losses.triplet(apart, negatives, config.margin)

    def mine(self, number: int) -> MinedPairs:
        """Mine the negatives of epoch `number` with the current weights, sorted by question."""
        pool, known, rng = self.known.pool, self.known.known, generator(self.config.seed, "paraphrase-mined", number)
        if self.config.miner == "model":
            rows = np.union1d(pool.queries, pool.candidates)
            vectors = embed_rows(self.encoder, self.tokens, rows, unit=False)
            miner = Hardest(pool, partial(negative_distances, vectors, rows), self.config.sample, rng)
        else:
            miner = build_miner(self.config.miner, pool, None, self.config.sample, rng)
        mined = mine_negatives(miner, Random(pool, rng), pool, known, MINED)
        # The few that were drawn for these may all be of their own component.
        unlucky = np.setdiff1d(pool.queries, mined.pairs[:, 0])
        mined = MinedPairs.concatenate([mined, draw_outside(unlucky, pool, known, MINED.per_text, rng)])
        lacking = np.setdiff1d(pool.queries, mined.pairs[:, 0])
        if len(lacking):
            raise BadOption(
                f"`loss='triplet-mined'`: {len(lacking):,} questions have no negative, such as "
                f"{pool.texts[lacking[0]]!r}; prepare a task of more clusters, or take another `loss`"
            )
        return mined.select(np.argsort(mined.pairs[:, 0], kind="stable"))

    def against(self, pairs: Pairs, mined: MinedPairs, draws: np.random.Generator) -> torch.Tensor:
        """(N, 2) pairs of one batch -> the triplet loss, each with a random one of its first question's negatives."""
        first, after = (np.searchsorted(mined.pairs[:, 0], pairs[:, 0], side) for side in ("left", "right"))
        rows = np.stack([*pairs.T, mined.pairs[draws.integers(first, after), 1]])
        vectors = forward(self.encoder, self.tokens, rows.ravel(), self.config.encoder_batch)
        one, other, negative = vectors.reshape(3, len(pairs), -1)
        own, far = (losses.paired(one, right, self.config.distance == "squared") for right in (other, negative))
        return losses.triplet_against(own, far, self.config.margin)

    def roc_auc(self) -> float:
        """Return the ROC AUC of distances on dev: its paraphrases against random pairs.

        TrainingFailed if a distance is not finite, as after an epoch whose last step diverged.
        """
        both = (self.known.positives, self.known.negatives)
        rows = np.unique(np.concatenate(both))
        vectors = embed_rows(self.encoder, self.tokens, rows, unit=False)
        near, far = (negative_distances(vectors, rows, pairs) for pairs in both)
        self._require_finite(float(near.sum() + far.sum()), "the sum of distances on dev")
        return roc_auc(near, far)

    def _require_finite(self, value: float, what: str) -> None:
        if not math.isfinite(value):
            rate = self.config.learning_rate
            raise TrainingFailed(f"{what} is {value}; lower `learning_rate`, which is {rate}")


def negative_distances(vectors: Vectors, rows: Rows, pairs: Pairs) -> Floats:
    """(k, 2) pairs of rows -> (k,) negated squared distances in float64; vectors: (r, d) of the sorted `rows`."""
    left, right = np.searchsorted(rows, pairs).T
    return -paired_scores(vectors, left, vectors, right, squared_distances)
