"""Time and memory of candidates and of a matcher (--matcher on): formulas over sizes and measured speeds.

They model cluster/candidates, search/lexical and al_ray/matcher; change them together.
"""

import math

from al_ray.apps.planning.hardware import Time
from al_ray.apps.planning.setting import Setting
from al_ray.apps.planning.sizes import pairs_of
from al_ray.apps.planning.stage_times import knn_time, rescored_time
from al_ray.search.candidate_ranks import FEW
from al_ray.search.dense_texts import MOST, SAMPLED, SHARE
from al_ray.search.lexical.weights import ADDITIONS

SHARED = 5
"""3-grams with a weight that two texts share, on average over all pairs: 2 on Amazon-Google and febrl4, 5 on WikiQA, 12
on Abt-Buy (counted on 2026-11-28)."""
COMPARISONS = 25
"""Comparisons of a pair: 24 of Abt-Buy's three fields, 15 of a task of one text."""
LEARNT = 200
"""Candidates whose p is computed in the time in which the learner takes in a label."""


def candidate_pairs(run: Setting, left: int, right: int | None) -> int:
    """Return how many candidates there are at most: the nearest of each text by two ways, as if no two ways agreed."""
    options = run.config.candidates
    of_right = 0 if right is None else 2 * right * options.of_right
    of_dense = math.ceil(SHARE * left) * options.dense(right is None)
    return min(left * (options.cosine + options.trigrams) + of_right + of_dense, pairs_of(left, right))


def candidates_time(run: Setting, left: int, right: int | None) -> Time:
    """Return the time to find and compare the candidates of a split, whose texts are embedded.

    The nearest of the left texts and, of two sets of texts, of the right ones, by cosine and by 3-grams. A search by
    3-grams adds a number for each 3-gram that two texts share. A shard compares the candidates whose right text it has.
    """
    options = run.config.candidates
    sides = [(left, right, max(options.cosine, FEW), max(options.trigrams, FEW))]
    if right is not None:
        sides.append((right, left, max(options.of_right, FEW), max(options.of_right, FEW)))
    time, dense = Time(), options.dense(right is None)
    if dense:
        share = SHARE if options.more_of_dense == 0 else MOST
        # And those of a sample, which says how many of them are dense.
        few = math.ceil(share * left) + (0 if options.more_of_dense == 0 else math.ceil(share * min(left, SAMPLED)))
        time += knn_time(run, few, left if right is None else right, dense) + rescored_time(run, few, dense)
    for texts, others, cosine, _ in sides:
        time += knn_time(run, texts, others, cosine) + rescored_time(run, texts, cosine)
        each = min(ADDITIONS, SHARED * (texts if others is None else others))
        time += run.on_host(run.share(texts) * each, "grams")
    return time + run.on_host(candidate_pairs(run, left, right) / run.shards * COMPARISONS, "comparisons")


def ranking_time(run: Setting, left: int, right: int | None) -> Time:
    """Return the time to compute p of the candidates of a split."""
    return run.on_host(candidate_pairs(run, left, right) / run.shards, "trees")


def learning_time(run: Setting, labels: int) -> Time:
    """Return the time in which the driver learns a matcher from all labels so far, in one thread."""
    return run.on_thread(labels * LEARNT, "trees")


def candidate_bytes(run: Setting) -> float:
    """Return the bytes of the candidates of a shard: comparisons of 4 bytes, mapped; key, cosine, way and score."""
    sizes, splits = run.sizes, len(run.config.evaluation.splits)
    pairs = candidate_pairs(run, sizes.texts, sizes.right)
    pairs += splits * candidate_pairs(run, sizes.evaluation, sizes.evaluation_right)
    return pairs / run.shards * (4 * COMPARISONS + 25)
