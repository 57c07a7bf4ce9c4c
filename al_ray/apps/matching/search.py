"""Find the pairs that may be matches, on the shards of a pool: all above a cutoff, or the best of every text."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from al_ray.apps.matching.assignment_rules import ASSIGNMENTS, Assignment, Cutoff
from al_ray.apps.matching.decisions import PairDecisions
from al_ray.apps.matching.estimate import draw_texts, estimate_pairs
from al_ray.apps.matching.options import MatchSearchConfig
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.cluster.pool.sharded_retriever import RECALL_QUERIES, PoolSearch, Query
from al_ray.cluster.token_store import same_tokens
from al_ray.core.candidates import HIGHEST, Candidates
from al_ray.core.errors import BadOption
from al_ray.core.labels import Model
from al_ray.core.naming import option
from al_ray.core.pairs import Pairs, PairSpace, as_pairs, is_in
from al_ray.core.scorer import Floats
from al_ray.core.task import Split, Task
from al_ray.core.vectors import NEARLY_SAME
from al_ray.search.kmeans import shared_cells
from al_ray.storage.uri import StoragePath

logger = logging.getLogger(__name__)
# Also of `match_into`, which keeps the cutoff of the matches that are there.
FIX = "give a higher `most`, or match all texts with a higher cutoff or `best=N`; nothing was written"


@dataclass(frozen=True)
class FoundPairs:
    """The pairs among which matches are assigned, with their scores, by key; and how they were looked for.

    search: as match.json has it: kind, and of a search by neighbours also their number, the index with its nprobe, and
    the recall: the share of these neighbours that the index finds, of a sample of `recall_texts` left texts.
    """

    candidates: Candidates
    search: Mapping[str, Any]


def check_neighbour_search(config: MatchSearchConfig, model: Model, task: Task, split: Split, rule: Assignment) -> None:
    """Raise BadOption, before any text is encoded, for a search by neighbours that cannot give what is asked for."""
    if model.matcher is not None and config != MatchSearchConfig():
        raise BadOption(
            "`search.kind`: a model with a matcher ranks the candidates of its run's options "
            "(`RunConfig.candidates.cosine`, `candidates.trigrams`); leave it and the other options of the search out"
        )
    if config.kind == "exact":
        return
    if model.scorer is not None and model.scorer.neighbourhood and config.index != "Flat":
        raise BadOption(
            f"{option('search.index', config.index)} misses neighbours, on which the scores of this model depend "
            "(`RunConfig.scoring.neighbourhood`); give `search.index='Flat'`"
        )
    if ASSIGNMENTS[rule].of_right and not task.symmetric:
        raise BadOption(
            f"{option('assign', rule)} of two tables needs the best left text of every right text, which "
            "`search.kind='knn'` does not look for; give `assign='best'` or `assign='one-to-one'`, or leave out "
            "`search.kind`"
        )
    if task.rule is not None and config.index != "Flat":
        raise BadOption(
            f"{option('search.index', config.index)} cannot leave out the pairs that cannot match "
            f"({task.rule.describe()}); give `search.index='Flat'`"
        )
    cells, texts = shared_cells(config.index), len(split.space.right)
    if cells > texts:
        raise BadOption(
            f"{option('search.index', config.index)} has more cells than the {texts:,} right texts; try Flat"
        )


def find_candidates(
    pool: ShardedPool,
    split: Split,
    model: Model,
    cutoff: Cutoff,
    assign: Assignment,
    decisions: PairDecisions,
    seed: int,
) -> FoundPairs:
    """Find the pairs among which matches are assigned.

    They are the pairs labelled yes or that match by a rule, and of the others, without those labelled no: all pairs
    with at least the score of the cutoff, or, for an assignment of best edges, the best pair of every text.
    BadOption if there are more than the cutoff allows; before the search, if an estimate from a sample of texts, drawn
    by the seed, says so. If the pool is searched by neighbours, only the pairs of each left text with its nearest right
    texts count.
    """
    recalls, config = list[float](), replace(pool.search, ordered_pairs=False)
    if model.matcher is not None:
        # The candidates are all that is looked at, however the pool would be searched.
        config = replace(config, kind="exact")
    of_each = ASSIGNMENTS[assign].of_best
    if of_each:
        config = replace(config, neighbours=min(config.neighbours, 1 + _most_rejected(split.space, decisions)))
    search = PoolSearch(pool, split, recalls.append, config)
    if of_each:
        found = (_best if config.kind == "exact" else _nearest)(search, model, decisions)
    else:
        found = _above(search, model, cutoff, decisions, seed)
    by_people = decisions.certain[~is_in(decisions.certain, np.sort(found.keys))]
    scores = pool.scores(model, split, split.space.pairs(by_people))
    record: dict[str, Any] = {"kind": "candidates" if model.matcher is not None else config.kind}
    if config.kind == "knn":
        record |= {"neighbours": config.neighbours, "index": config.index, "nprobe": config.nprobe}
        record |= {"recall": recalls[-1], "recall_texts": min(RECALL_QUERIES, len(split.space.left))}
    return FoundPairs(found.joined(Candidates(by_people, scores)), record)


def _most_rejected(space: PairSpace, decisions: PairDecisions) -> int:
    """Return the most pairs of one left text that were labelled no: of its nearest so many may be left out."""
    pairs = space.pairs(decisions.no)
    texts = pairs.ravel() if space.symmetric else pairs[:, 0]
    return int(np.unique(texts, return_counts=True)[1].max(initial=0))


def exact_cosines(folder: StoragePath, symmetric: bool, pairs: Pairs, cosines: Floats) -> Floats:
    """(n, 2) pairs with their cosines (n,) -> the same cosines, but 1 where both texts have the same token ids.

    Such texts have one vector. In float32 their cosine is 1 anyway; vectors that were encoded in bfloat16 differ a
    little from batch to batch. folder: the pool folder, which has the token ids.
    """
    near = np.flatnonzero((cosines >= NEARLY_SAME) & (cosines < 1))
    exact = cosines.copy()
    exact[near[same_tokens(folder, symmetric, pairs[near])]] = 1.0
    return exact


def cosines_of(pool: ShardedPool, split: Split, model: Model, candidates: Candidates) -> Floats:
    """Return the cosines (n,) of candidates, whose scores are these unless the model ranks by other scores."""
    if model.matcher is None and (model.scorer is None or not model.scorer.neighbourhood):
        return candidates.cosines
    return pool.scores(model.by_cosine, split, split.space.pairs(candidates.keys))


def _above(search: PoolSearch, model: Model, cutoff: Cutoff, decisions: PairDecisions, seed: int) -> Candidates:
    """Return all pairs with at least the score of the cutoff."""
    if cutoff.score > -inf and search.config.kind == "exact" and model.matcher is None:
        _check_number_of_matches(search, model, cutoff, decisions, seed)
    # One more than allowed tells that there are too many; `best=N` asks for N.
    count = cutoff.count + (cutoff.score > -inf)
    found = search.least_of_each(model, [Query(HIGHEST, count, decisions.no, -cutoff.score)])[0]
    if len(found) > cutoff.count:
        raise BadOption(f"more than {cutoff.count:,} pairs {_above_it(cutoff)}; {FIX}")
    return found


def _check_number_of_matches(
    search: PoolSearch, model: Model, cutoff: Cutoff, decisions: PairDecisions, seed: int
) -> None:
    """Log how many pairs have at least the score of the cutoff. BadOption if these are surely more than it allows."""
    space = search.split.space
    counts = search.count_partners(model, draw_texts(space.left, seed), cutoff.score, decisions.no)
    estimate = estimate_pairs(counts, len(space.left), space.symmetric, seed)
    number = estimate.describe("texts" if space.symmetric else "left texts")
    if estimate.low > cutoff.count:
        raise BadOption(f"{number} {_above_it(cutoff)}, more than {option('most', cutoff.count)}; {FIX}")
    logger.info("%s %s", number, _above_it(cutoff))


def _above_it(cutoff: Cutoff) -> str:
    return f"have a score of {cutoff.score:.4g} or more ({cutoff.source})"


def _nearest(search: PoolSearch, model: Model, decisions: PairDecisions) -> Candidates:
    """Return all pairs of a left text with its nearest right texts, without those labelled no."""
    count = len(search.split.space.left) * search.config.neighbours
    return search.least(model, HIGHEST, count, decisions.no)


def _best(search: PoolSearch, model: Model, decisions: PairDecisions) -> Candidates:
    """Return the best pair of every text, also of those with a yes: without these a second best would look like one."""
    space = search.split.space
    left, right = search.best_of_each(model, decisions.no)
    pairs = [as_pairs(left.rows, left.partners)]
    scores = [left.scores]
    if not space.symmetric:
        pairs.append(as_pairs(right.partners, right.rows))
        scores.append(right.scores)
    keys, first = np.unique(space.keys(np.concatenate(pairs)), return_index=True)
    return Candidates(keys, np.concatenate(scores)[first])
