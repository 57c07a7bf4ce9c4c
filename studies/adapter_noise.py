"""A simulated labeller who errs, and a training that knows how often."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from al_ray.core.config.bounds import Between
from al_ray.core.labels import UNSURE, YES, Answers, Batch, make_answers
from al_ray.core.pairs import Rows
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats, Labels, Scorer, refit
from al_ray.oracles.simulated import SimulatedOracle
from studies.adapter import SideVectors

STEPS = 20
"""Steps of expectation and maximisation by which w and b are fitted."""


@dataclass(frozen=True)
class Noise:
    """Errors of the simulated labeller."""

    errors: Annotated[float, Between(0, 0.4)] = 0.0
    """Share of the labels that are wrong."""
    hard: bool = False
    """Err on the harder half of each batch alone, twice as often: on matches of low cosine by the untrained encoder and
    on other pairs of high cosine."""
    correct: bool = False
    """Train and refit as if each label were wrong with the probability --noise.errors (forward correction, Patrini et
    al., Making deep neural networks robust to label noise, 2017)."""
    confirm: bool = False
    """Ask a second labeller, who errs as often and independently, about each pair with the answer yes. A pair on which
    they differ is unsure."""

    @property
    def flips(self) -> float:
        """Return the probability of an error that training assumes."""
        return self.errors if self.correct else 0.0


NO_NOISE = Noise()


class NoisyOracle:
    """Answers as the simulated oracle does, but for errors."""

    def __init__(self, truth: SimulatedOracle, noise: Noise, frozen: SideVectors, seed: int) -> None:
        """frozen: vectors of the untrained encoder, by which pairs are hard."""
        self.truth, self.noise, self.frozen, self.seed = truth, noise, frozen, seed

    def label(self, number: int, batch: Batch, missing: Rows) -> Iterator[Answers]:
        """Answer all missing rows in one piece."""
        for right in self.truth.label(number, batch, missing):
            cosines = self.frozen.cosines(batch.pairs[missing])
            wrong = self._wrong(right.labels, cosines, generator(self.seed, "label-noise", number))
            labels = np.where(wrong, 1 - right.labels, right.labels)
            if self.noise.confirm:
                rng = generator(self.seed, "label-noise-second", number)
                differ = wrong != self._wrong(right.labels, cosines, rng)
                labels[(labels == YES) & differ] = UNSURE
            yield make_answers(missing, labels.astype(np.uint8), "noisy")

    def _wrong(self, labels: Labels, cosines: Floats, rng: np.random.Generator) -> np.ndarray:
        """Draw which (n,) answers are wrong."""
        chance = rng.random(len(labels))
        if not self.noise.hard:
            return chance < self.noise.errors
        ease = np.empty(len(labels))
        # Among the pairs of each label: a match is hard if its cosine is low, another pair if it is high.
        for label, sign in ((1, 1.0), (0, -1.0)):
            own = np.flatnonzero(labels == label)
            ease[own[np.argsort(sign * cosines[own], kind="stable")]] = (np.arange(len(own)) + 0.5) / max(1, len(own))
        return (chance < 2 * self.noise.errors) & (ease < 0.5)


def refit_noisy(scores: Floats, labels: Labels, flips: float) -> Scorer:
    """Fit w and b to (n,) labels each of which is wrong with probability `flips`, by expectation and maximisation."""
    scorer = refit(scores, labels)
    for _ in range(STEPS if flips else 0):
        p = scorer.probability(scores)
        given_match, given_other = (np.where(labels == label, 1 - flips, flips) for label in (1, 0))
        match = p * given_match / (p * given_match + (1 - p) * given_other)
        both, twice = np.concatenate([scores, scores]), np.repeat(np.array([1, 0], np.uint8), len(scores))
        scorer = refit(both, twice, weights=np.maximum(np.concatenate([match, 1 - match]), 1e-9))
    return scorer
