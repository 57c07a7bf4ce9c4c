"""Scores that compare across left texts (core/neighbourhood.py): choose their number, and fit a scorer to them."""

import logging
from dataclasses import replace

import numpy as np

from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.core.config.sections import ScoringConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import NO, OPEN, YES, Labelled, Model, latest_labels
from al_ray.core.pairs import Pairs
from al_ray.core.scorer import Floats, refit
from al_ray.core.task import Split, Task
from al_ray.metrics.neighbourhood_choice import NUMBERS, BatchScores, choose, log_likelihoods
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.files import read_json, write_json
from al_ray.storage.pair_cosines import FIT, read_cosines
from al_ray.storage.uri import StoragePath
from al_ray.training.saved_model import input_digest

CHOICE, LIKELIHOODS = "neighbourhood.json", "log_likelihoods"
FIX = "restore it, or delete it, and its batch does not count"
logger = logging.getLogger(__name__)


def uses_neighbours(scoring: ScoringConfig, task: Task) -> bool:
    """Whether scores need the nearest texts of each text."""
    return scoring.weight != 0 and (scoring.both_sides or not task.symmetric)


def check_scoring(scoring: ScoringConfig, task: Task) -> None:
    """Raise BadOption for a neighbourhood of left texts in a task of one set of texts; auto is off there."""
    if scoring.weight and task.symmetric and not scoring.both_sides:
        raise BadOption(
            f"a neighbourhood of {scoring.weight:g} (`RunConfig.scoring.neighbourhood`, "
            f"`al-ray evaluate ... --neighbourhood`): task {task.name!r} has one set of texts, and scores that know "
            "the left text alone are for tasks of two; leave it out, or give "
            "`RunConfig.scoring.neighbourhood_sides='both'`"
        )


def choose_weight(pool: ShardedPool, journal: RunFolder, number: int, scoring: ScoringConfig) -> float:
    """Return the neighbourhood of the scores of a round's model: the run's own, or with auto by all batches so far.

    Auto asks how likely the labels of each batch are by cosines and means of the model of the round before, or of the
    untrained encoder, which have not been trained on them. What a batch says is written into the folder of its round,
    and read there by later rounds, and when the round is resumed.
    """
    if scoring.weight is not None:
        return scoring.weight
    batch, labels = journal.ledger.batch(number), journal.ledger.labels(number)
    assert batch is not None
    sure, path = (labels == YES) | (labels == NO), journal.round(number) / CHOICE
    pairs, labels = batch.pairs[sure], labels[sure]
    before = journal.model(number - 1) if number > 1 else pool.untrained()
    before = replace(before, scorer=None)
    made_from = input_digest([before.digest, LIKELIHOODS, scoring.neighbourhood_sides], pairs, labels)
    own = _read_likelihoods(path, made_from) if path.exists() else None
    if own is None:
        split = pool.task.split("train")
        cosines = pool.scores(before, split, pairs)
        means = offsets_of_pairs(pool, before, split, pairs, 1.0, scoring.both_sides)
        own = log_likelihoods(BatchScores(cosines, means, pairs[:, 0], labels))
    earlier = [_read_likelihoods(journal.round(one) / CHOICE) for one in range(1, number)]
    batches = [*(one for one in earlier if one is not None), own]
    if len(batches) < number:
        logger.warning(
            "neighbourhood: the batches of %d rounds before do not count; an earlier al_ray did not keep what they say",
            number - len(batches),
        )
    choice = choose(batches, scoring.both_sides)
    content = {"made_from": made_from, LIKELIHOODS: own.tolist(), "batches": len(batches)}
    write_json(path, content | choice.as_dict())
    logger.info(
        "neighbourhood %g (95%%: %g to %g), by %d batches", choice.neighbourhood, choice.low, choice.high, len(batches)
    )
    return choice.neighbourhood


def _read_likelihoods(path: StoragePath, made_from: str | None = None) -> Floats | None:
    """Return what the batch of a round says of each number, made from this, or from anything if None; else None.

    None, too, if an earlier al_ray wrote the file, which kept other figures. BadFile if it is damaged.
    """
    if not path.exists():
        return None
    kept = read_json(path, ["made_from"], FIX)
    if LIKELIHOODS not in kept or made_from not in (None, kept["made_from"]):
        return None
    if len(kept[LIKELIHOODS]) != len(NUMBERS):
        raise BadFile(f"{path} has {len(kept[LIKELIHOODS])} log-likelihoods, not {len(NUMBERS)}; {FIX}")
    return np.array(kept[LIKELIHOODS], dtype=np.float64)


def offsets_of_pairs(
    pool: ShardedPool, model: Model, split: Split, pairs: Pairs, weight: float, both_sides: bool
) -> Floats:
    """(n, 2) pairs of a split -> (n,) numbers subtracted from their cosines, exactly as the pool subtracts them."""
    own = pool.means_of_nearest(model, split).times(weight).of(pairs[:, 0])
    if not both_sides:
        return own
    return own + pool.means_of_nearest(model, split, "right").times(weight).of(pairs[:, 1])


def fit_to_scores(
    pool: ShardedPool, folder: StoragePath, model: Model, labelled: Labelled, neighbourhood: float, both_sides: bool
) -> tuple[Model, Pairs, Floats]:
    """Return a model of the folder of a round with a scorer fitted to scores, and the pairs and scores of the fit.

    The pairs (n, 2) are those on which the model was trained and that are decided still, with the labels of today.
    neighbourhood, both_sides: as in Scorer. With 0 the scores (n,) are the cosines, which the training has written.
    """
    if not (folder / FIT).exists():
        raise BadFile(f"{folder / FIT} is missing, and no other scores can be fitted without it; restore it")
    space = pool.task.split("train").space
    pairs, scores = read_cosines(folder / FIT)
    labels = latest_labels(space.keys(labelled.pairs), labelled.labels, space.keys(pairs))
    decided = labels != OPEN
    pairs, scores, labels = pairs[decided], scores[decided], labels[decided]
    if not len(pairs):
        raise BadFile(f"{folder / FIT} has none of the {len(labelled):,} decided labels of the run; restore it")
    if neighbourhood:
        split = pool.task.split("train")
        scores = scores - offsets_of_pairs(pool, model, split, pairs, neighbourhood, both_sides)
    sides = bool(neighbourhood) and both_sides
    scorer = replace(refit(scores, labels), neighbourhood=neighbourhood, both_sides=sides)
    logger.info("fitted to scores: %s, loss %.4f, boundary %.4f", scorer.outcome, scorer.loss, scorer.boundary)
    return replace(model, scorer=scorer), pairs, scores
