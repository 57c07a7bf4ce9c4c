"""Replicates: weights by hash, sums against double loops, and intervals against questions truly asked anew."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from al_ray.core.hashing import mix
from al_ray.core.pairs import PairSpace, as_pairs
from al_ray.core.task import Split
from al_ray.metrics import bootstrap as resampling
from al_ray.metrics.average_precision import average_precision, count_scores
from al_ray.metrics.bootstrap import (
    QueryBootstrap,
    Replicates,
    bootstrap_queries,
    cumulate_counts,
    make_replicates,
    poisson_weights,
    replicate_thresholds,
    resample_pairs,
)
from al_ray.metrics.estimator import evaluate_on_sample
from al_ray.metrics.evaluation import compare
from al_ray.metrics.strata import EvaluationSet, Stratum


def test_weights_are_poisson_of_mean_one_and_of_no_neighbour():
    weights = poisson_weights(np.arange(20_000), seed=0, replicates=20).T
    found = np.bincount(weights.ravel(), minlength=13)
    wanted = stats.poisson.pmf(np.arange(6), 1) * weights.size
    assert np.abs(found[:6] - wanted).max() < 5 * np.sqrt(wanted.max())
    # No key and no replicate goes with the next: correlations of 20,000 are within 4 / sqrt(20,000).
    for one, other in ((weights[0], weights[1]), (weights[0, 1:], weights[0, :-1]), (weights[0, 2:], weights[1, :-2])):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.03


def test_a_weight_is_the_quantile_of_its_hash():
    # Of 400,000 hashes some 70 share their 16 highest bits with a step of the distribution function.
    stems = mix(np.arange(20_000, dtype=np.uint64) + mix(np.array([5], dtype=np.uint64)))
    hashes = mix(stems[:, None] ^ mix(np.arange(20, dtype=np.uint64)))
    quantiles = stats.poisson.ppf(hashes / 2.0**64, 1)
    assert poisson_weights(np.arange(20_000), seed=5, replicates=20).tolist() == quantiles.tolist()


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=20, unique=True))
def test_a_weight_is_its_keys_in_any_company(keys):
    together = poisson_weights(np.array(keys), seed=3, replicates=9)
    for place, key in enumerate(keys):
        assert poisson_weights(np.array([key]), seed=3, replicates=9)[0].tolist() == together[place].tolist()


def test_another_seed_has_other_weights():
    assert poisson_weights(np.arange(50), seed=0).tolist() != poisson_weights(np.arange(50), seed=1).tolist()


def test_weights_that_were_asked_for_before_are_those_that_are_hashed():
    questions = QueryBootstrap(np.arange(90) // 3, True, np.array([0.5]), seed=7)
    for texts in (np.array([4, 80, 4]), np.array([80, 0, 11, 5])):
        assert questions.weights(texts).tolist() == poisson_weights(texts // 3, seed=7).tolist()


def test_few_of_many_questions_need_few_rows_of_the_cache():
    # Rows that are never written need no memory: a driver weights the questions of its positives alone.
    hashed = resampling._Hashed(100_000, seed=7)
    for texts, rows in (([99_000, 5], [1, 0]), ([5, 40_000, 5, 7], [0, 3, 0, 2])):
        places, weights = hashed.of(np.array(texts))
        assert places.tolist() == rows
        assert weights[places].tolist() == poisson_weights(np.array(texts), seed=7).tolist()


def test_weights_are_hashed_alike_within_the_cache_and_beyond_it(monkeypatch):
    monkeypatch.setattr(resampling, "CACHED", 30)
    monkeypatch.setattr(resampling, "BLOCK", 7)
    questions = QueryBootstrap(np.arange(90), False, np.array([0.5, 0.2]), seed=8)
    texts = np.array([4, 80, 4, 29, 30, 89, 80, 0])
    weights = poisson_weights(texts, seed=8)
    for _ in range(2):
        assert questions.weights(texts).tolist() == weights.tolist()
    sums = questions.of_negatives(as_pairs(texts, texts), np.array([0.9, 0.3, 0.3, 0.1, 0.5, 0.2, 0.7, 0.3]))
    assert sums[:, 0].tolist() == weights[[0, 4, 6]].sum(axis=0).tolist()
    assert sums[:, 1].tolist() == weights[[0, 1, 2, 4, 5, 6, 7]].sum(axis=0).tolist()


@pytest.mark.parametrize("symmetric", [True, False])
def test_memory_does_not_grow_with_the_questions(symmetric, monkeypatch):
    monkeypatch.setattr(resampling, "CACHED", 1000)
    monkeypatch.setattr(resampling, "BLOCK", 500)
    texts = np.arange(20_000)
    questions = QueryBootstrap(texts, symmetric, np.array([0.5, 0.2]), seed=9)
    tracemalloc.start()
    questions.of_negatives(as_pairs(texts, texts[::-1]), np.linspace(0, 1, len(texts)))
    resample_pairs(questions.thresholds, texts, np.linspace(0, 1, len(texts)), 1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # 200 bytes a question would be 4 MB; the cache and the weights of a few blocks are less than 1 MB.
    assert peak < 2_500_000


@given(st.booleans(), st.integers(0, 2**32 - 1))
def test_sums_are_those_of_a_double_loop_and_add(symmetric, seed):
    rng = np.random.default_rng(seed)
    texts, scores = 7, rng.integers(0, 5, (7, 7)).astype(float)
    questions = QueryBootstrap(rng.integers(0, 3, texts), symmetric, np.array([4.0, 2.0, 1.0]))
    weights = poisson_weights(questions.query_of, questions.seed).T.astype(int)
    wanted = np.zeros((resampling.REPLICATES, 3))
    pairs = [(a, b) for a in range(texts) for b in range(texts) if a < b or not symmetric]
    for a, b in pairs:
        weight = weights[:, a] + weights[:, b] - 1 if symmetric else weights[:, a]
        for number, threshold in enumerate(questions.thresholds):
            wanted[:, number] += weight * (scores[a, b] >= threshold)
    listed = np.array(pairs)
    flat = scores[listed[:, 0], listed[:, 1]]
    assert questions.of_negatives(listed, flat).tolist() == wanted.tolist()
    # By text: how many of its pairs reach so many thresholds.
    reached = (flat[:, None] >= questions.thresholds).sum(axis=1)
    by_left, by_right = np.zeros((2, texts, 4), dtype=np.int64)
    np.add.at(by_left, (listed[:, 0], reached), 1)
    np.add.at(by_right, (listed[:, 1], reached), 1)
    of_texts = questions.weights(np.arange(texts)).T.astype(np.float64)
    weighed = of_texts @ by_left
    if symmetric:
        weighed += of_texts @ by_right - by_left.sum(axis=0)
    assert cumulate_counts(weighed).tolist() == wanted.tolist()


def two_sided(rng, questions: int, answers: int = 40):
    """Scores (q, a) and labels of questions of differing hardness: each has one to three matches."""
    labels = np.arange(answers) < rng.integers(1, 4, questions)[:, None]
    return rng.normal(0, 1, labels.shape) + labels * rng.normal(2, 1, (questions, 1)), labels


def replicates(scores, labels, units=None) -> Replicates:
    """Of all pairs: of left texts by right ones, or, with units, of texts among themselves."""
    negatives = np.argwhere(~labels if units is None else ~labels & np.triu(np.ones_like(labels), 1))
    of_negatives = scores[tuple(negatives.T)]
    counts = count_scores(scores[labels], [of_negatives])
    questions = QueryBootstrap(
        np.arange(len(scores)) if units is None else units, units is not None, replicate_thresholds(counts)
    )
    true = questions.of_positives(np.argwhere(labels), scores[labels])
    return make_replicates(counts, np.ones(1), true, questions.of_negatives(negatives, of_negatives))


def test_the_interval_over_questions_is_as_wide_as_questions_make_ap_spread():
    rng = np.random.default_rng(0)
    drawn = [replicates(*two_sided(rng, 80)) for _ in range(60)]
    values = [each.value for each in drawn]
    spread = np.mean([np.nanstd(each.values) for each in drawn])
    assert spread == pytest.approx(np.std(values), rel=0.25)
    truth = np.mean(values)
    held = [each.interval.low <= truth <= each.interval.high for each in drawn if each.interval]
    assert np.mean(held) >= 0.88


def clusters(rng, number: int):
    """A symmetric task: clusters of three texts about a centre; pairs of one cluster match."""
    units = np.repeat(np.arange(number), 3)
    vectors = rng.normal(0, 1, (number, 6))[units] + rng.normal(0, 1, (number, 1))[units] * rng.normal(
        0, 0.7, (3 * number, 6)
    )
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors.T, (units[:, None] == units) & np.triu(np.ones((len(units), len(units)), bool), 1), units


def test_the_interval_over_components_is_as_wide_as_components_make_ap_spread():
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(40):
        scores, labels, units = clusters(rng, 40)
        drawn.append(replicates(scores, labels, units))
    values = [each.value for each in drawn]
    spread = np.mean([np.nanstd(each.values) for each in drawn])
    assert spread == pytest.approx(np.std(values), rel=0.35)
    held = [each.interval.low <= np.mean(values) <= each.interval.high for each in drawn if each.interval]
    assert np.mean(held) >= 0.85


def test_a_coarse_grid_moves_no_interval_by_much(monkeypatch):
    scores, labels = two_sided(np.random.default_rng(1), 150)
    fine = replicates(scores, labels)
    monkeypatch.setattr(resampling, "GRID", 64)
    coarse = replicates(scores, labels)
    assert coarse.value == fine.value
    assert fine.interval is not None
    assert coarse.interval is not None
    assert [coarse.interval.low, coarse.interval.high] == pytest.approx(
        [fine.interval.low, fine.interval.high], abs=0.1 * (fine.interval.high - fine.interval.low)
    )


def test_a_coarse_grid_sees_the_few_first_positives_from_which_a_low_ap_comes(monkeypatch):
    # 1,000 questions of one match each. Two matches rank above all else, and the others at random among 40,000 pairs.
    rng = np.random.default_rng(1)
    scores, labels = rng.normal(0, 1, (1000, 40)), np.arange(40) == np.zeros((1000, 1))
    scores[[3, 500], 0] = 6, 7
    coarse = replicates(scores, labels)
    monkeypatch.setattr(resampling, "GRID", 1000)
    fine = replicates(scores, labels)
    assert fine.interval is not None
    assert coarse.interval is not None
    # Evenly spaced in recall, the first four positives would be one, and the interval half as wide.
    assert [coarse.interval.low, coarse.interval.high] == pytest.approx(
        [fine.interval.low, fine.interval.high], abs=0.02 * (fine.interval.high - fine.interval.low)
    )


def test_no_replicate_of_ap_leaves_0_to_1():
    # Nearly all of 600 matches rank above every other pair: the change on the grid can be more than AP lacks to 1.
    rng = np.random.default_rng(2)
    scores, labels = rng.normal(0, 1, (600, 20)), np.arange(20) == np.zeros((600, 1))
    scores[:, 0] += 5.5
    found = replicates(scores, labels)
    assert found.value < 0.999
    assert found.values.max() <= 1
    assert found.values.min() >= 0


def test_pairs_sampled_again_vary_as_poisson_numbers():
    # 400 pairs above a threshold, each standing for 5: a deviation of 5 * sqrt(400) = 100, and none in the mean.
    found = resample_pairs(np.array([1.0, 0.5]), np.arange(1000), np.repeat([0.7, 0.2], [400, 600]), 5.0)
    assert found[:, 0].tolist() == [0.0] * resampling.REPLICATES
    assert found[:, 1].std() == pytest.approx(100, rel=0.2)
    assert abs(found[:, 1].mean()) < 4 * 100 / np.sqrt(resampling.REPLICATES)


class Table:
    """A scorer of pairs without any vectors, as a cross-encoder is: it looks scores up."""

    def __init__(self, scores, gives_p: bool = False) -> None:
        self.table, self.gives_p = scores, gives_p

    def scores(self, split: Split, pairs):
        return self.table[pairs[:, 0], pairs[:, 1]]

    def logits(self, scores):
        return scores if self.gives_p else None


@pytest.fixture(scope="module")
def asked():
    """A two-sided split of 60 questions, its evaluation set with a third of the negatives, and the scores of all."""
    scores, labels = two_sided(np.random.default_rng(2), 60)
    space = PairSpace(np.arange(60), np.arange(40), 40, False)
    split = Split("dev", space, np.argwhere(labels), np.empty((0, 2), np.int64))
    negatives = space.keys(np.argwhere(~labels))
    sample = np.sort(np.random.default_rng(3).choice(negatives, len(negatives) // 3, replace=False))
    return split, EvaluationSet("dev", (Stratum("random", sample, len(negatives)),), split.positive_keys, 2400), scores


def test_a_scorer_without_vectors_is_measured_through_the_same_interface(asked):
    split, evalset, scores = asked
    found = evaluate_on_sample(Table(scores, gives_p=True), split, evalset, np.random.default_rng(0))
    pairs = split.space.pairs(evalset.strata[0].keys)
    counts = count_scores(scores[tuple(split.positives.T)], [scores[tuple(pairs.T)]])
    assert found.average_precision.value == average_precision(counts, np.array([evalset.strata[0].weight]))
    assert found.calibration_error is not None
    assert found.over_queries is not None
    assert found.over_samples is None
    content = found.as_dict()["average_precision_over_questions"]
    assert content["low"] < content["value"] == found.average_precision.value < content["high"]
    assert evaluate_on_sample(Table(scores), split, evalset, np.random.default_rng(0)).calibration_error is None


def test_two_scorers_that_go_together_differ_by_less_than_each_varies(asked):
    split, evalset, scores = asked
    noise = np.random.default_rng(4).normal(0, 0.15, scores.shape)
    one, other, worse = (
        evaluate_on_sample(Table(table), split, evalset, np.random.default_rng(0), compared=True)
        for table in (scores, scores + noise, scores * 0 + noise)
    )
    alike, apart = compare(one, other), compare(one, worse)
    assert alike.over_queries is not None
    assert one.over_queries is not None
    assert one.over_queries.interval is not None
    assert width(alike.over_queries) < width(one.over_queries.interval) / 2
    assert width(alike.over_samples) < width(one.average_precision)
    assert alike.over_queries.low < 0 < alike.over_queries.high
    assert alike.over_samples.low < alike.over_samples.high
    assert apart.over_queries is not None
    assert apart.over_queries.low > 0
    assert apart.over_samples.low > 0
    same = compare(one, one)
    assert same.over_queries is not None
    assert (same.difference, width(same.over_queries), width(same.over_samples)) == (0, 0, 0)


def test_questions_of_a_symmetric_split_are_its_components():
    space = PairSpace(np.arange(5), np.arange(5), 5, True)
    split = Split("dev", space, as_pairs([0, 1], [1, 3]), as_pairs([], []))
    found = bootstrap_queries(split, count_scores(np.array([0.3, 0.9]), []))
    assert found.query_of.tolist() == [0, 0, 2, 0, 4]
    assert found.thresholds.tolist() == [0.9, 0.3]


def width(interval) -> float:
    return interval.high - interval.low
