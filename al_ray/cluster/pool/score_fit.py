"""Fit a model's scorer to scores that compare across left texts (core/neighbourhood.py), instead of cosines."""

import logging
from dataclasses import replace

import numpy as np

from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.core.errors import BadFile
from al_ray.core.labels import Labelled, Model
from al_ray.core.scorer import Floats, refit
from al_ray.storage.pair_cosines import FIT, read_cosines
from al_ray.storage.uri import StoragePath

logger = logging.getLogger(__name__)


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
