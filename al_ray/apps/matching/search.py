"""Find the pairs that may be matches, on the shards of a pool: all above a cutoff, or the best of every text."""

import logging
from dataclasses import replace
from math import inf

import numpy as np

from al_ray.apps.matching.cutoff import Cutoff
from al_ray.apps.matching.decisions import PairDecisions
from al_ray.apps.matching.estimate import draw_texts, estimate_pairs
from al_ray.apps.matching.options import Assignment
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.cluster.pool.sharded_retriever import PoolSearch, Query
from al_ray.core.candidates import HIGHEST, Candidates
from al_ray.core.errors import BadOption
from al_ray.core.labels import Model
from al_ray.core.pairs import as_pairs, is_in
from al_ray.core.scorer import Floats
from al_ray.core.task import Split

logger = logging.getLogger(__name__)
# Also of --into, which keeps the cutoff of the matches that are there.
CURE = "give a higher --most, or match all texts with a higher cutoff or --best N; nothing was written"


def find_candidates(
    pool: ShardedPool,
    split: Split,
    model: Model,
    cutoff: Cutoff,
    assign: Assignment,
    decisions: PairDecisions,
    seed: int,
) -> Candidates:
    """Return the pairs among which matches are assigned, with their scores, by key.

    They are the pairs labelled yes, and of the others, without those labelled no: all pairs with at least the score of
    the cutoff, or, for the assignments `best` and `mutual`, the best pair of every text. BadOption if there are more
    than the cutoff allows; before the search, if an estimate from a sample of texts, drawn by the seed, says so.
    """
    search = PoolSearch(pool, split, config=replace(pool.search, kind="exact", ordered_pairs=False))
    if assign in ("best", "mutual"):
        found = _best(search, split, model, decisions)
    else:
        found = _above(search, model, cutoff, decisions, seed)
    by_people = decisions.yes[~is_in(decisions.yes, np.sort(found.keys))]
    scores = pool.scores(model, split, split.space.pairs(by_people))
    return found.joined(Candidates(by_people, scores))


def cosines_of(pool: ShardedPool, split: Split, model: Model, candidates: Candidates) -> Floats:
    """Return the cosines (n,) of candidates, whose scores are these unless the model ranks by other scores."""
    if model.scorer is None or not model.scorer.neighbourhood:
        return candidates.cosines
    return pool.scores(replace(model, scorer=None), split, split.space.pairs(candidates.keys))


def _above(search: PoolSearch, model: Model, cutoff: Cutoff, decisions: PairDecisions, seed: int) -> Candidates:
    """Return all pairs with at least the score of the cutoff."""
    if cutoff.score > -inf:
        _refuse_too_many(search, model, cutoff, decisions, seed)
    # One more than allowed tells that there are too many; --best N asks for N.
    count = cutoff.count + (cutoff.score > -inf)
    found = search.least_of_each(model, [Query(HIGHEST, count, decisions.no, -cutoff.score)])[0]
    if len(found) > cutoff.count:
        raise BadOption(f"more than {cutoff.count:,} pairs {_above_it(cutoff)}; {CURE}")
    return found


def _refuse_too_many(search: PoolSearch, model: Model, cutoff: Cutoff, decisions: PairDecisions, seed: int) -> None:
    """Log how many pairs have at least the score of the cutoff. BadOption if these are surely more than it allows."""
    space = search.split.space
    counts = search.count_partners(model, draw_texts(space.left, seed), cutoff.score, decisions.no)
    estimate = estimate_pairs(counts, len(space.left), space.symmetric, seed)
    number = estimate.describe("texts" if space.symmetric else "left texts")
    if estimate.low > cutoff.count:
        raise BadOption(f"{number} {_above_it(cutoff)}, more than --most {cutoff.count:,}; {CURE}")
    logger.info("%s %s", number, _above_it(cutoff))


def _above_it(cutoff: Cutoff) -> str:
    return f"have a score of {cutoff.score:.4g} or more ({cutoff.source})"


def _best(search: PoolSearch, split: Split, model: Model, decisions: PairDecisions) -> Candidates:
    """Return the best pair of every text, also of those with a yes: without these a second best would look like one."""
    space = split.space
    left, right = search.best_of_each(model, decisions.no)
    pairs = [as_pairs(left.rows, left.partners)]
    scores = [left.scores]
    if not space.symmetric:
        pairs.append(as_pairs(right.partners, right.rows))
        scores.append(right.scores)
    keys, first = np.unique(space.keys(np.concatenate(pairs)), return_index=True)
    return Candidates(keys, np.concatenate(scores)[first])
