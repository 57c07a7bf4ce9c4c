"""Scores that compare across left texts (core/neighbourhood.py): choose their number, and fit a scorer to them."""

import logging
from dataclasses import replace

from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.core.config.sections import ScoringConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import NO, OPEN, YES, Labelled, Model, latest_labels
from al_ray.core.pairs import Pairs
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats, refit
from al_ray.core.task import Split, Task
from al_ray.metrics.neighbourhood_choice import BatchScores, Choice, best_choice, compare_choices
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.files import read_json, write_json
from al_ray.storage.pair_cosines import FIT, read_cosines
from al_ray.storage.uri import StoragePath
from al_ray.training.saved_model import input_digest

CHOICE = "neighbourhood.json"
logger = logging.getLogger(__name__)


def uses_neighbours(scoring: ScoringConfig, task: Task) -> bool:
    """Whether scores need the nearest texts of each text."""
    return scoring.weight != 0 and (scoring.both_sides or not task.symmetric)


def refuse_scores(scoring: ScoringConfig, task: Task) -> None:
    """Raise BadOption for a neighbourhood of left texts in a task of one set of texts; auto is off there."""
    if scoring.weight and task.symmetric and not scoring.both_sides:
        raise BadOption(
            f"a neighbourhood of {scoring.weight:g} (jobs.run --scoring.neighbourhood, jobs.evaluate --neighbourhood): "
            f"task {task.name!r} has one set of texts, and scores that know the left text alone are for tasks of two; "
            "leave it out, or give jobs.run --scoring.neighbourhood-sides both"
        )


def choose_weight(pool: ShardedPool, journal: RunFolder, number: int, scoring: ScoringConfig, seed: int) -> float:
    """Return the neighbourhood of the scores of a round's model: the run's own, or with auto the best on its batch.

    Auto ranks the pairs of the batch by the model of the round before, or by the untrained encoder, which have not been
    trained on them. It keeps the number of the round before (0 in round 1) unless another one is better for certain.
    What it found is written into the folder of the round, and read there when the round is resumed.
    """
    if scoring.weight is not None:
        return scoring.weight
    batch, labels = journal.ledger.batch(number), journal.ledger.labels(number)
    assert batch is not None
    sure, path = (labels == YES) | (labels == NO), journal.round(number) / CHOICE
    pairs, labels = batch.pairs[sure], labels[sure]
    before = journal.model(number - 1) if number > 1 else pool.untrained()
    current = before.scorer.neighbourhood if before.scorer is not None else 0.0
    before = replace(before, scorer=None)
    # As before there were other sides.
    sides = [scoring.neighbourhood_sides] if scoring.both_sides else []
    made_from = input_digest([before.digest, seed, current, *sides], pairs, labels)
    if path.exists() and (kept := read_json(path, ["made_from", "choices"]))["made_from"] == made_from:
        choices = [Choice(**choice) for choice in kept["choices"]]
    else:
        split = pool.task.split("train")
        cosines = pool.scores(before, split, pairs)
        means = offsets_of_pairs(pool, before, split, pairs, 1.0, scoring.both_sides)
        scores, rng = BatchScores(cosines, means, pairs[:, 0], labels), generator(seed, "neighbourhood", number)
        choices = compare_choices(scores, current, rng)
        write_json(path, {"made_from": made_from, "choices": [choice.as_dict() for choice in choices]})
    chosen = best_choice(choices, current)
    gains = ", ".join(f"{c.neighbourhood:g}: {100 * c.gain:+.1f} ({100 * c.low:+.1f})" for c in choices) or "none"
    logger.info("neighbourhood %g; AP on the batch less that of %g (lower bound): %s", chosen, current, gains)
    return chosen


def offsets_of_pairs(
    pool: ShardedPool, model: Model, split: Split, pairs: Pairs, weight: float, both_sides: bool
) -> Floats:
    """(n, 2) pairs of a split -> (n,) what is subtracted from their cosines, as the pool does, to the bit."""
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
