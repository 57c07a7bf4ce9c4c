"""Scores that compare across left texts (core/neighbourhood.py): choose their number, and fit a scorer to them."""

import logging
from dataclasses import replace

import numpy as np

from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.core.config.sections import ScoringConfig
from al_ray.core.errors import BadFile
from al_ray.core.labels import NO, YES, Labelled, Model
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats, refit
from al_ray.metrics.neighbourhood_choice import best_choice, compare_choices
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.files import write_json
from al_ray.storage.pair_cosines import FIT, read_cosines
from al_ray.storage.uri import StoragePath

CHOICE = "neighbourhood.json"
logger = logging.getLogger(__name__)


def choose_weight(pool: ShardedPool, journal: RunFolder, number: int, scoring: ScoringConfig, seed: int) -> float:
    """Return the neighbourhood of the scores of a round's model: the run's own, or with auto the best on its batch.

    Auto ranks the pairs of the batch by the model before, the untrained encoder in round 1, which has not been trained
    on them, and writes what it found into the folder of the round.
    """
    if scoring.weight is not None:
        return scoring.weight
    batch, labels = journal.ledger.batch(number), journal.ledger.labels(number)
    assert batch is not None
    sure = (labels == YES) | (labels == NO)
    before = journal.model(number - 1) if number > 1 else pool.untrained()
    plain, split, pairs = replace(before, scorer=None), pool.task.split("train"), batch.pairs[sure]
    means = pool.means_of_nearest(plain, split).of(pairs[:, 0])
    cosines = pool.scores(plain, split, pairs)
    rng = generator(seed, "neighbourhood", number)
    choices = compare_choices(cosines, means, pairs[:, 0], labels[sure], rng)
    write_json(journal.round(number) / CHOICE, {"choices": [choice.as_dict() for choice in choices]})
    chosen = best_choice(choices)
    gains = ", ".join(f"{c.neighbourhood:g}: {100 * c.gain:+.1f} ({100 * c.low:+.1f})" for c in choices)
    logger.info("neighbourhood %g; AP on the batch less that of the cosine (lower bound): %s", chosen, gains or "none")
    return chosen


def fit_to_scores(
    pool: ShardedPool, folder: StoragePath, model: Model, labelled: Labelled, neighbourhood: float
) -> tuple[Model, Floats]:
    """Return a model of the folder of a round with a scorer fitted to scores, and these (n,), of the decided labels.

    neighbourhood: as in Scorer. With 0 the scores are the cosines, which the training has written.
    """
    pairs, scores = read_cosines(folder / FIT)
    if not np.array_equal(pairs, labelled.pairs):
        raise BadFile(
            f"{folder / FIT} has other pairs than the {len(labelled):,} decided labels of its round; restore it"
        )
    if neighbourhood:
        scores = scores - neighbourhood * pool.means_of_nearest(model, pool.task.split("train")).of(pairs[:, 0])
    scorer = replace(refit(scores, labelled.labels), neighbourhood=neighbourhood)
    logger.info("fitted to scores: %s, loss %.4f, boundary %.4f", scorer.outcome, scorer.loss, scorer.boundary)
    return replace(model, scorer=scorer), scores
