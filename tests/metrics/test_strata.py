"""The evaluation set: its weights by law, and its estimates against a full count by a double loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.errors import BadFile
from al_ray.core.pairs import NO_KEYS, PairSpace, distinct
from al_ray.core.task import Split
from al_ray.metrics.average_precision import StratumSummary, average_precision, count_scores, false_positives
from al_ray.metrics.evaluation import evaluate_counts
from al_ray.metrics.strata import EvaluationSet, Stratum, make_evaluation_set, split_by_cosine

TEXTS = 60
DRAWS = 400


def split_of(texts: int, symmetric: bool, positives) -> Split:
    """A split of all pairs of `texts` texts, the pairs numbered `positives` of which match."""
    rows = np.arange(texts, dtype=np.int64)
    space = PairSpace(rows, rows, texts, symmetric)
    pairs = space.pairs(np.sort(space.at(np.array(sorted(positives), dtype=np.int64))))
    return Split("dev", space, pairs, space.pairs(NO_KEYS))


def near_and_random(split: Split, near, random_pairs: int, seed: int) -> EvaluationSet:
    """The paper's two strata (A.2); near keys repeat, in any order."""
    return make_evaluation_set(split, {"near": distinct(near)}, None, random_pairs, seed)


@given(
    st.booleans(),
    st.sets(st.integers(0, 27), max_size=10),
    st.lists(st.integers(0, 27), max_size=40),
    st.integers(1, 70),
)
def test_weights_of_the_strata_add_to_all_negatives(symmetric, positives, near, random_pairs):
    # Eight texts: 28 pairs, or 64. Near pairs repeat, and some are positives.
    split = split_of(8, symmetric, positives)
    near_keys = split.space.at(np.array(near, dtype=np.int64))
    found = near_and_random(split, near_keys, random_pairs, 0)
    near_stratum, random = found.strata
    negatives = split.space.total - len(positives)
    assert sum(stratum.weight * stratum.size for stratum in found.strata) == pytest.approx(negatives)
    assert found.total_pairs == split.space.total
    assert set(near_stratum.keys.tolist()) == set(near_keys.tolist()) - set(split.positive_keys.tolist())
    assert near_stratum.weight == 1
    assert random.population == negatives - near_stratum.size
    assert random.size == min(random_pairs, random.population)
    parts = [found.positives, near_stratum.keys, random.keys]
    assert len(np.unique(np.concatenate(parts))) == sum(map(len, parts))
    assert found.summaries == (near_stratum.summary, random.summary)


def test_bands_part_the_near_pairs_and_stand_for_all_of_theirs():
    split = split_of(8, True, [0, 5])
    near = np.sort(split.space.at(np.arange(20)))
    cosines = np.linspace(1, 0, 20)
    parts = split_by_cosine(near, cosines, (cosines[4], 0.5))
    assert list(parts) == [f"near from {cosines[4]:g}", "near from 0.5", "near below 0.5"]
    # An edge belongs to the band above it.
    assert [part.tolist() for part in parts.values()] == [near[:5].tolist(), near[5:10].tolist(), near[10:].tolist()]
    found = make_evaluation_set(split, parts, 4, 3, 0)
    known = set(split.positive_keys.tolist())
    for stratum, part in zip(found.strata, parts.values(), strict=False):
        assert stratum.population == len(set(part.tolist()) - known)
        assert stratum.size == min(4, stratum.population)
        assert set(stratum.keys.tolist()) <= set(part.tolist()) - known
    assert [(s.size, s.population) for s in found.strata[3:]] == [(3, 28 - len(known | set(near.tolist())))]


def test_near_pairs_of_another_split_are_refused():
    split = split_of(8, True, [0])
    # Key 0 is the pair (0, 0), which no symmetric space holds; key 8 * 9 is beyond the last text.
    for stray in (0, 72):
        with pytest.raises(BadFile, match="no pairs of this split"):
            near_and_random(split, np.array([1, stray]), 5, 0)


@pytest.mark.parametrize(
    ("strata", "positives", "fault"),
    [
        ((("near", [3, 5], 2), ("random", [7], 4)), [1], "are 7 pairs of 8"),
        ((("near", [3, 5], 2), ("random", [5], 5)), [1], "near and random share"),
        ((("near", [3, 5], 2), ("random", [1], 5)), [1], "positives and random share"),
        ((("near", [5, 3], 2), ("random", [7], 5)), [1], "keys of near repeat or are out of order"),
        ((("near", [5, 5], 2), ("random", [7], 5)), [1], "keys of near repeat or are out of order"),
        ((("random", [7], 6),), [2, 1], "keys of positives repeat or are out of order"),
    ],
)
def test_a_set_that_cannot_stand_for_all_pairs_is_refused(strata, positives, fault):
    made = tuple(Stratum(name, np.array(keys), population) for name, keys, population in strata)
    with pytest.raises(BadFile, match=fault):
        EvaluationSet("dev", made, np.array(positives), 8)


def test_an_extent_weighs_what_its_pairs_stand_for():
    assert StratumSummary("random", 10, 10**6).weight == 10**5
    assert StratumSummary("near", 7, 7).weight == 1
    assert StratumSummary("near", 0, 0).weight == 1
    for size, population in ((0, 5), (6, 5)):
        with pytest.raises(BadFile, match="cannot stand for"):
            StratumSummary("random", size, population)


@pytest.fixture(scope="module", params=[True, False], ids=["symmetric", "two sides"])
def pool(request):
    """60 texts with random vectors, positives among the more similar pairs; scores of ALL pairs by a double loop."""
    rng = np.random.default_rng(5)
    vectors = rng.normal(size=(TEXTS, 8))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = {}
    for left in range(TEXTS):
        for right in range(TEXTS):
            if left < right or not request.param:
                cosines[left * TEXTS + right] = float(vectors[left] @ vectors[right])
    ranked = sorted(cosines, key=lambda key: cosines[key] + 0.3 * rng.normal(), reverse=True)
    split = split_of(TEXTS, request.param, [])
    positives = np.sort(np.array(ranked[:40]))
    split = Split("dev", split.space, split.space.pairs(positives), split.stated_negatives)
    near = np.array(sorted(cosines, key=lambda key: cosines[key], reverse=True)[:100])
    return split, cosines, near


def full_count(split: Split, cosines: dict[int, float]) -> tuple[list[float], list[int], float]:
    """Thresholds, false positives at each, and AP, by comparing every pair with every threshold."""
    positives = set(split.positive_keys.tolist())
    thresholds = sorted({cosines[key] for key in positives}, reverse=True)
    false = [sum(cosines[key] >= t for key in cosines if key not in positives) for t in thresholds]
    true = [sum(cosines[key] >= t for key in positives) for t in thresholds]
    recall = [0.0] + [count / len(positives) for count in true]
    steps = zip(recall, recall[1:], true, false, strict=False)
    return thresholds, false, sum((after - before) * t / (t + f) for before, after, t, f in steps)


def scores_of(cosines: dict[int, float], keys) -> np.ndarray:
    return np.array([cosines[key] for key in keys.tolist()])


def test_the_mean_of_many_estimates_is_the_full_count(pool):
    split, cosines, near = pool
    thresholds, false, exact = full_count(split, cosines)
    estimates, aps = [], []
    for draw in range(DRAWS):
        found = near_and_random(split, near, 300, draw)
        counts = count_scores(
            scores_of(cosines, found.positives), [scores_of(cosines, stratum.keys) for stratum in found.strata]
        )
        assert counts.thresholds.tolist() == thresholds
        weights = np.array([stratum.weight for stratum in found.strata])
        estimates.append(false_positives(counts, weights))
        aps.append(average_precision(counts, weights))
    mean, error = np.mean(estimates, axis=0), np.std(estimates, axis=0) / np.sqrt(DRAWS)
    # FP^ is unbiased at every threshold (A.2), and below the near pairs' lowest cosine it does vary.
    assert np.all(np.abs(mean - false) <= 4 * error + 1e-9)
    assert (error > 0).sum() > 5
    # AP is a ratio of it, so biased by a share of its variance: next to nothing at this size.
    assert np.mean(aps) == pytest.approx(exact, abs=4 * np.std(aps) / np.sqrt(DRAWS) + 0.002)


def test_all_negatives_give_the_full_count(pool):
    split, cosines, near = pool
    _, false, exact = full_count(split, cosines)
    found = near_and_random(split, near, 10**7, 0)
    counts = count_scores(
        scores_of(cosines, found.positives), [scores_of(cosines, stratum.keys) for stratum in found.strata]
    )
    measured = evaluate_counts("dev", counts, found.summaries, None, np.random.default_rng(0))
    assert measured.exact
    assert measured.total_pairs == split.space.total
    assert false_positives(counts, np.ones(2)).tolist() == false
    assert measured.average_precision.low == measured.average_precision.high == pytest.approx(exact)


def test_most_intervals_hold_the_full_count(pool):
    # A first version, with tens of sampled pairs above most thresholds here: nominal 95%, at least 85% asked for.
    split, cosines, near = pool
    exact = full_count(split, cosines)[2]
    held = 0
    for draw in range(200):
        found = near_and_random(split, near, 300, DRAWS + draw)
        counts = count_scores(
            scores_of(cosines, found.positives), [scores_of(cosines, stratum.keys) for stratum in found.strata]
        )
        ap = evaluate_counts("dev", counts, found.summaries, None, np.random.default_rng(draw)).average_precision
        assert ap.low < ap.value < ap.high
        held += ap.low <= exact <= ap.high
    assert 170 <= held < 200
