"""Presumed non-matches of a training: pairs of train without a label, drawn at random, and how many of them match.

A random pair of a large pool rarely matches. In a pool with few texts, or in which most texts match each other, it
often does, so the share of matches is counted or estimated before the pairs are used.
"""

import logging
from dataclasses import dataclass, replace

import numpy as np

from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.labels import YES, Labelled, Model
from al_ray.core.pairs import NO_KEYS, Keys, Pairs, distinct, is_in
from al_ray.core.rng import generator
from al_ray.core.scorer import refit
from al_ray.core.task import Task
from al_ray.runs.presumed_figures import OF_TRAINING, PresumedFigures
from al_ray.runs.run_folder import RunFolder

logger = logging.getLogger(__name__)


def chosen_keys(journal: RunFolder, number: int) -> Keys:
    """Return the sorted keys of all pairs that were chosen up to a round.

    Those that people call unsure are among them: such a pair is no non-match.
    """
    batches = [journal.ledger.batch(earlier) for earlier in range(1, number + 1)]
    return distinct(NO_KEYS, *(journal.ledger.space.keys(batch.pairs) for batch in batches if batch is not None))


def count_matches(task: Task, presumed: Pairs) -> PresumedFigures | None:
    """Count the matches among (m, 2) presumed non-matches of train; None unless all matches of the task are known."""
    if task.labels_are != "complete":
        return None
    split = task.split("train")
    matches = is_in(split.space.keys(presumed), split.positive_keys)
    return PresumedFigures(len(presumed), float(matches.mean()), True)


@dataclass(frozen=True)
class PresumedPairs:
    """Draws the presumed non-matches of each training of a run (--training.presumed), on the driver."""

    pool: ShardedPool
    journal: RunFolder
    training: TrainingConfig
    seed: int

    def add(self, labelled: Labelled, number: int, before: Model) -> Labelled:
        """Return the labelled pairs of round `number` with presumed non-matches; the journal gets their figures.

        before: the model whose cosines estimate how many match: that of the round before. Where few pairs have no
        label, all of these are drawn.
        """
        self.journal.presumed = None
        space, count = self.pool.task.split("train").space, self.training.pairs(len(labelled)) - len(labelled)
        if not count:
            return labelled
        chosen = chosen_keys(self.journal, number)
        chosen = chosen[space.holds(space.pairs(chosen))]
        count = min(count, space.total - len(chosen))
        if not count:
            return labelled
        keys = space.draw(count, chosen, generator(self.seed, "presumed-training", number))
        presumed = space.pairs(np.sort(keys))
        figures = count_matches(self.pool.task, presumed) or self._estimate(labelled, presumed, before)
        logger.info("%s", figures.words(OF_TRAINING))
        self.journal.presumed = figures
        return replace(labelled, presumed=presumed)

    def _estimate(self, labelled: Labelled, presumed: Pairs, before: Model) -> PresumedFigures:
        """Estimate the share of matches: of p of 1/2 or more, by a scorer of the cosine that the labels alone fit."""
        labels = (labelled.labels == YES).astype(np.uint8)
        if len(np.unique(labels)) < 2:
            return PresumedFigures(len(presumed), None, False)
        split, plain = self.pool.task.split("train"), before.by_cosine
        scorer = refit(self.pool.scores(plain, split, labelled.pairs), labels)
        likely = scorer.probability(self.pool.scores(plain, split, presumed)) >= 0.5
        return PresumedFigures(len(presumed), float(likely.mean()), False)
