"""From what is counted of the negatives to an evaluation: of anything that scores pairs (paper, A.2).

Whoever holds a part of the negatives answers with a tally; tallies add, however the parts lie on actors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from al_ray.core.calibration import Reliability, reliability
from al_ray.core.evalset import EvaluationSet
from al_ray.core.evaluation import Evaluation, evaluation
from al_ray.core.intervals import scale_of, weights_of
from al_ray.core.metrics import Counts, Extent, Ints, counts_above, counts_of, false_positives
from al_ray.core.pairs import Keys, Pairs
from al_ray.core.ports import PairScorer
from al_ray.core.resampling import Questions, Replicates, grid_of, questions_of, replicates_of, sampled_again
from al_ray.core.scoring import Floats
from al_ray.core.task import Split

Sum = TypeVar("Sum", Reliability, Floats)


@dataclass(frozen=True)
class Asked:
    """What negatives are counted for: at (t,) thresholds, descending, and had other questions been asked.

    compared: had other pairs been sampled, too, for a difference of two scorers.
    """

    thresholds: Floats
    questions: Questions
    compared: bool = False


@dataclass(frozen=True)
class Tally:
    """What a count of negatives of a stratum says.

    above: (t,) how many reach each threshold. reliability: of their probabilities, if there are any.
    replicates: (replicates, g) what the first would be at the questions' thresholds had other questions been asked.
    resampled: (replicates, g) by how much it would be more had other pairs been sampled, if that was asked for.
    """

    above: Ints
    reliability: Reliability | None
    replicates: Floats
    resampled: Floats | None = None

    def __add__(self, other: "Tally") -> "Tally":
        """What two parts of the negatives say together."""
        summed = _sum(self.reliability, other.reliability)
        resampled = _sum(self.resampled, other.resampled)
        return Tally(self.above + other.above, summed, self.replicates + other.replicates, resampled)


def asked_of(split: Split, scores: Floats, compared: bool = False) -> Asked:
    """What the negatives of a split are counted for, by the (n,) scores of its positives."""
    known = counts_of(scores, [])
    return Asked(known.thresholds, questions_of(split, known), compared)


def nothing(asked: Asked) -> Tally:
    """The tally of no pair."""
    return Tally(np.zeros(len(asked.thresholds), dtype=np.int64), None, asked.questions.nothing)


def tallied(asked: Asked, keys: Keys, pairs: Pairs, scores: Floats, logits: Floats | None, weight: float) -> Tally:
    """The tally of (n,) sampled negatives, each of which stands for `weight`."""
    grid = asked.questions.thresholds
    # Sorted scores meet their thresholds in memory's order: several times as quick.
    return Tally(
        counts_above(asked.thresholds, np.sort(scores)),
        None if logits is None else reliability(logits, np.zeros(len(logits), dtype=np.uint8), weight),
        asked.questions.of_negatives(pairs, scores),
        sampled_again(grid, keys, scores, 1.0) if asked.compared else None,
    )


@dataclass(frozen=True)
class Positives:
    """Scores of all positives of a split, and their logits if there are probabilities; (n,) each."""

    scores: Floats
    logits: Floats | None


def concluded(
    asked: Asked,
    split: Split,
    positives: Positives,
    strata: Sequence[Extent],
    tallies: Sequence[Tally],
    rng: np.random.Generator,
) -> Evaluation:
    """The evaluation that a tally of each stratum makes with the positives."""
    above = np.stack([tally.above for tally in tallies])
    counts = Counts(asked.thresholds, counts_above(asked.thresholds, positives.scores), above)
    weights, summed = weights_of(strata), None
    if positives.logits is not None:
        summed = reliability(positives.logits, np.ones(len(positives.logits), dtype=np.uint8), 1.0)
        for tally in tallies:
            summed = _sum(summed, tally.reliability)
    true = asked.questions.of_positives(split.positives, positives.scores)
    false = asked.questions.nothing
    for weight, tally in zip(weights, tallies, strict=True):
        false = false + weight * tally.replicates
    over_questions = replicates_of(counts, weights, true, false)
    return evaluation(split.name, counts, strata, summed, rng, over_questions, _over_samples(counts, strata, tallies))


def estimated(
    scorer: PairScorer, split: Split, evalset: EvaluationSet, rng: np.random.Generator, compared: bool = False
) -> Evaluation:
    """The evaluation by a weighted sample of whatever scores pairs one by one."""
    scores = scorer.scores(split, split.positives)
    asked, tallies = asked_of(split, scores, compared), list[Tally]()
    for stratum in evalset.strata:
        pairs = split.space.pairs(stratum.keys)
        part = scorer.scores(split, pairs)
        tallies.append(tallied(asked, stratum.keys, pairs, part, scorer.logits(part), stratum.weight))
    return concluded(asked, split, Positives(scores, scorer.logits(scores)), evalset.extents, tallies, rng)


def _over_samples(counts: Counts, strata: Sequence[Extent], tallies: Sequence[Tally]) -> Replicates | None:
    """AP had other pairs of the sampled strata been drawn; None where that was not asked for, or none is sampled."""
    weights = weights_of(strata)
    at = np.searchsorted(-counts.thresholds, -grid_of(counts))
    false, sampled = false_positives(counts, weights)[at][None], False
    for stratum, tally in zip(strata, tallies, strict=True):
        if tally.resampled is not None and scale_of(stratum):
            false, sampled = false + scale_of(stratum) * tally.resampled, True
    true = np.broadcast_to(counts.positives[at].astype(np.float64), false.shape)
    return replicates_of(counts, weights, true, false) if sampled else None


def _sum(one: Sum | None, other: Sum | None) -> Sum | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other
