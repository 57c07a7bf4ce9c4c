"""Clusters, their figures and their quality: values worked by hand, slow twins, and what decisions always obtain."""

from fractions import Fraction
from itertools import combinations
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from al_ray.apps.matching.clusters import average_linkage
from al_ray.apps.matching.clusters.clustering import Decisions, cluster
from al_ray.apps.matching.clusters.edges import Edges
from al_ray.apps.matching.clusters.figures import figures
from al_ray.apps.matching.clusters.quality import b_cubed, pairwise_f1
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.graph import components
from al_ray.core.pairs import as_pairs
from al_ray.core.scored_pairs import ScoredPairs

TEXTS = 9
ROWS = st.integers(0, TEXTS - 1)
PAIRS = st.lists(st.tuples(ROWS, ROWS).filter(lambda pair: pair[0] != pair[1]), max_size=6)
# Multiples of 1/8: sums are exact, and many means are equal.
EDGES = st.lists(st.tuples(ROWS, ROWS, st.integers(1, 8)), max_size=30)
CUTOFFS = st.sampled_from([0.25, 0.375, 0.5, 0.75])


def pairs_of(*pairs):
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def edges_of(texts, *edges):
    scores = np.array([edge[2] for edge in edges], dtype=np.float64)
    return Edges.of(texts, ScoredPairs(pairs_of(*[edge[:2] for edge in edges]), scores))


def eighths(edges):
    return edges_of(TEXTS, *[(left, right, score / 8) for left, right, score in edges])


def decided(yes=(), no=()):
    return Decisions(pairs_of(*yes), pairs_of(*no))


def together(labels):
    return {pair for pair in combinations(range(len(labels)), 2) if labels[pair[0]] == labels[pair[1]]}


def greedy_twin(edges, cutoff, missing, decisions):
    """One merge at a time, with every mean computed anew over all pairs of texts, in fractions."""
    no = {tuple(sorted(pair)) for pair in decisions.no.tolist()}
    scores = dict(zip(map(tuple, edges.pairs.tolist()), map(Fraction, edges.scores.tolist()), strict=True))
    units = components(edges.texts, decisions.yes)
    groups = [np.flatnonzero(units == unit).tolist() for unit in np.unique(units)]
    while True:
        means = []
        for one, other in combinations(sorted(groups), 2):
            between = [tuple(sorted((a, b))) for a in one for b in other]
            if not no & set(between):
                total = sum((scores.get(pair, Fraction(missing)) for pair in between), Fraction(0))
                means.append((-total / len(between), one, other))
        if not means or -min(means)[0] < cutoff:
            return [min(group) for row in range(edges.texts) for group in groups if row in group]
        _, one, other = min(means)
        groups = [group for group in groups if group not in (one, other)] + [sorted(one + other)]


def test_edges_are_sorted_and_the_highest_similarity_of_a_repeated_pair_counts():
    edges = edges_of(4, (3, 1, 0.5), (0, 2, 0.75), (1, 3, 0.875), (2, 2, 1.0))
    assert edges.pairs.tolist() == [[0, 2], [1, 3]]
    assert edges.scores.tolist() == [0.75, 0.875]


def test_a_similarity_that_is_not_finite_is_refused():
    with pytest.raises(BadFile, match="1 of 2 similarities are not finite"):
        edges_of(3, (0, 1, float("nan")), (1, 2, 0.5))


def test_components_chain_and_average_does_not():
    edges = edges_of(4, (0, 1, 0.9), (1, 2, 0.8), (2, 3, 0.7))
    assert cluster(edges, "components", 0.6, 0.0).labels.tolist() == [0, 0, 0, 0]
    # {0, 1} at 0.9. Then {0, 1} with 2: (0.8 + 0) / 2 = 0.4, and 2 with 3: 0.7.
    assert cluster(edges, "average", 0.6, 0.0).labels.tolist() == [0, 0, 2, 2]
    # {2, 3} with {0, 1}: (0.8 + 3 * 0.55) / 4 = 0.6125.
    assert cluster(edges, "average", 0.6, 0.55).labels.tolist() == [0, 0, 0, 0]
    assert cluster(edges, "average", 0.62, 0.55).labels.tolist() == [0, 0, 2, 2]


def test_a_mean_equal_to_the_cutoff_merges_and_equal_means_merge_the_lowest_rows():
    # 1 is as near to 0 as to 2; then {0, 1} with 2: (0.5 + 0) / 2 = 0.25.
    edges = edges_of(3, (1, 2, 0.5), (0, 1, 0.5))
    assert cluster(edges, "average", 0.5, 0.0).labels.tolist() == [0, 0, 2]
    assert cluster(edges, "average", 0.25, 0.0).labels.tolist() == [0, 0, 0]


def test_a_rounded_mean_of_equal_similarities_reaches_the_cutoff():
    # In binary 0.1 + 0.1 + 0.1 and the like are not exact.
    edges = edges_of(7, *[(*pair, 0.1) for pair in combinations(range(7), 2)])
    assert not cluster(edges, "average", 0.1, 0.0).labels.any()


def test_a_missing_similarity_that_reaches_the_cutoff_is_refused():
    with pytest.raises(BadOption, match=r"similarity 0\.5, which is not below the cutoff 0\.5"):
        cluster(edges_of(2, (0, 1, 0.5)), "average", 0.5, 0.5)


def test_a_no_inside_a_component_is_a_conflict_and_its_edge_is_not_used():
    edges = edges_of(5, (0, 1, 0.9), (1, 2, 0.9), (3, 4, 0.9))
    clusters = cluster(edges, "components", 0.5, 0.0, decided(no=[(2, 0), (3, 4), (0, 2)]))
    assert clusters.labels.tolist() == [0, 0, 0, 3, 4]
    assert clusters.conflicts.tolist() == [[0, 2]]


def test_average_keeps_a_no_apart_and_reports_a_contradiction():
    # 0-1-2-3 is a clique at 0.9, so only the decisions divide it.
    edges = edges_of(4, *[(*pair, 0.9) for pair in combinations(range(4), 2)])
    apart = cluster(edges, "average", 0.5, 0.0, decided(no=[(3, 0)]))
    assert apart.labels.tolist() == [0, 0, 0, 3]
    assert not len(apart.conflicts)
    contradiction = cluster(edges, "average", 0.5, 0.0, decided(yes=[(0, 1), (1, 3)], no=[(3, 0)]))
    assert contradiction.labels.tolist() == [0, 0, 0, 0]
    assert contradiction.conflicts.tolist() == [[0, 3]]


@given(EDGES, PAIRS, PAIRS, CUTOFFS, st.sampled_from([0.0, 0.125]), st.sampled_from([0.0, 0.05, 2.0]))
def test_average_linkage_equals_a_slow_twin_in_rounds_and_one_by_one(scores, yes, no, cutoff, missing, shrinkage):
    edges, decisions = eighths(scores), decided(yes, no)
    with patch.object(average_linkage, "SHRINKAGE", shrinkage):
        clusters = cluster(edges, "average", cutoff, missing, decisions)
    assert clusters.labels.tolist() == greedy_twin(edges.without(decisions.no), cutoff, missing, decisions)


@given(st.integers(0, 2**32 - 1))
def test_average_linkage_equals_scipys_on_distinct_similarities(seed):
    rng = np.random.default_rng(seed)
    pairs = pairs_of(*combinations(range(20), 2))
    pairs = pairs[rng.random(len(pairs)) < 0.4]
    edges = Edges.of(20, ScoredPairs(pairs, rng.uniform(0.3, 1.0, len(pairs))))
    distances = np.ones((20, 20))
    for (left, right), similarity in zip(edges.pairs, edges.scores, strict=True):
        distances[left, right] = distances[right, left] = 1 - similarity
    np.fill_diagonal(distances, 0)
    groups = fcluster(linkage(squareform(distances), "average"), 1 - 0.4, "distance")
    assert together(cluster(edges, "average", 0.4, 0.0).labels) == together(groups)


@given(EDGES, PAIRS, PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_edges_and_decisions_changes_nothing(scores, yes, no, random):
    def shuffled(tuples):
        swapped = [(t[1], t[0], *t[2:]) if random.random() < 0.5 else t for t in tuples]
        return random.sample(swapped, len(swapped))

    again, decisions = eighths(shuffled(scores)), decided(shuffled(yes), shuffled(no))
    for clustering in ("components", "average"):
        one = cluster(eighths(scores), clustering, 0.375, 0.0, decided(yes, no))
        other = cluster(again, clustering, 0.375, 0.0, decisions)
        assert one.labels.tolist() == other.labels.tolist()
        assert one.conflicts.tolist() == other.conflicts.tolist()
        first = figures(eighths(scores), one.labels, 0.0, decided(yes, no))
        second = figures(again, one.labels, 0.0, decisions)
        for name, value in vars(first).items():
            np.testing.assert_array_equal(value, getattr(second, name))


@given(EDGES, PAIRS, PAIRS, CUTOFFS)
def test_yes_is_together_and_no_is_apart_unless_the_decisions_contradict_it(scores, yes, no, cutoff):
    decisions = decided(yes, no)
    labels = cluster(eighths(scores), "average", cutoff, 0.0, decisions).labels
    chained = components(TEXTS, decisions.yes)
    assert all(labels[left] == labels[right] for left, right in yes)
    assert all((labels[left] == labels[right]) == (chained[left] == chained[right]) for left, right in no)


@given(EDGES, PAIRS, PAIRS, CUTOFFS)
def test_average_refines_components_and_all_labels_are_lowest_rows(scores, yes, no, cutoff):
    coarse, fine = (cluster(eighths(scores), name, cutoff, 0.0, decided(yes, no)) for name in ("components", "average"))
    assert together(fine.labels) <= together(coarse.labels)
    for clusters in (coarse, fine):
        assert all(np.flatnonzero(clusters.labels == label)[0] == label for label in clusters.labels)
        assert {tuple(pair) for pair in clusters.conflicts} == {tuple(sorted(p)) for p in no} & together(
            clusters.labels
        )


def test_figures_of_two_clusters_by_hand():
    # Triangles 0-1-2 and 4-5-6, joined by 2-4; 3 alone; 7-8.
    edges = edges_of(
        9, (0, 1, 0.75), (0, 2, 0.5), (1, 2, 1.0), (2, 4, 0.25), (4, 5, 0.5), (4, 6, 0.5), (5, 6, 0.5), (7, 8, 0.625)
    )
    clusters = cluster(edges, "components", 0.25, 0.0)
    result = figures(edges, clusters.labels, 0.0)
    assert result.labels.tolist() == [0, 7]
    assert result.sizes.tolist() == [6, 2]
    # Sums to the five others: 0: 1.25, 1: 1.75, 2: 0.5 + 1 + 0.25 = 1.75, 4: 1.25, 5 and 6: 1. Of 7 and 8 the lower.
    assert result.canonical.tolist() == [1, 7]
    # (0.75 + 0.5 + 1 + 0.25 + 3 * 0.5) / 15 pairs.
    assert result.cohesion.tolist() == [4 / 15, 0.625]
    assert result.lowest.tolist() == [0.25, 0.625]
    assert result.bridges.tolist() == [[2, 4]]
    # With 0.5 for the 8 pairs without an edge: (4 + 8 * 0.5) / 15.
    assert figures(edges, clusters.labels, 0.5).cohesion[0] == 8 / 15
    # With -1 fewer absent edges are better: 1 has 1.75 - 3, 2 has 1.75 - 2, 4 has 0.25 + 1 - 2.
    assert figures(edges, clusters.labels, -1.0).canonical[0] == 2


def test_an_edge_labelled_yes_is_no_bridge_and_a_cluster_without_edges_has_no_lowest_similarity():
    edges = edges_of(6, (0, 1, 0.5), (1, 2, 0.5), (2, 3, 0.5))
    decisions = decided(yes=[(2, 1), (4, 5)])
    labels = cluster(edges, "components", 0.5, 0.0, decisions).labels
    assert figures(edges, labels, 0.0).bridges.tolist() == [[1, 2]]
    result = figures(edges, labels, 0.0, decisions)
    assert not len(result.bridges)
    np.testing.assert_array_equal(result.lowest, [0.5, np.nan])
    assert result.cohesion.tolist() == [1.5 / 6, 0.0]


@given(EDGES, PAIRS)
def test_bridges_equal_a_slow_twin_that_removes_each_edge(scores, yes):
    edges, decisions = eighths(scores), decided(yes)
    labels = cluster(edges, "components", 0.5, 0.0, decisions).labels
    expected = []
    for at, (left, right) in enumerate(edges.pairs.tolist()):
        parts = components(TEXTS, np.concatenate([np.delete(edges.pairs, at, axis=0), decisions.yes]))
        sizes = [int((parts == parts[row]).sum()) for row in (left, right)]
        if parts[left] != parts[right] and min(sizes) >= 2:
            expected.append([left, right])
    assert figures(edges, labels, 0.0, decisions).bridges.tolist() == expected


def test_every_inner_edge_of_a_long_chain_in_random_order_is_a_bridge():
    rows = np.random.default_rng(0).permutation(20_000)
    edges = Edges.of(len(rows), ScoredPairs(as_pairs(rows[:-1], rows[1:]), np.full(len(rows) - 1, 0.5)))
    # All but the edges of both ends.
    assert len(figures(edges, np.zeros(len(rows), dtype=np.int64), 0.0).bridges) == len(rows) - 3


def test_pairwise_f1_by_hand():
    # Predicted pairs: 3 of 0-1-2 and 3-4; true pairs: 0-1 and 3 of 2-3-4; shared: 0-1 and 3-4.
    quality = pairwise_f1(np.array([0, 0, 0, 3, 3]), np.array([7, 7, 5, 5, 5]))
    assert (quality.precision, quality.recall, quality.f1) == (2 / 4, 2 / 4, 4 / 8)
    alone = pairwise_f1(np.arange(3), np.array([0, 0, 2]))
    assert np.isnan(alone.precision)
    assert (alone.recall, alone.f1) == (0.0, 0.0)


def test_b_cubed_equals_the_example_of_bagga_and_baldwin():
    true = np.repeat([0, 1, 2], [5, 2, 5])
    # Clusters of 2 and 5 joined: (5 * 1 + 2 * 2/7 + 5 * 5/7) / 12 = 16/21. Both of 5 joined: (10 * 5/10 + 2) / 12.
    first, second = b_cubed(np.repeat([0, 1], [5, 7]), true), b_cubed(np.repeat([0, 1, 0], [5, 2, 5]), true)
    assert first.precision == pytest.approx(16 / 21)
    assert second.precision == pytest.approx(7 / 12)
    assert (first.recall, second.recall) == (1.0, 1.0)
    # 2PR / (P + R) with R = 1: (32/21) / (37/21).
    assert first.f1 == pytest.approx(32 / 37)


@given(st.lists(st.tuples(st.integers(-2, 3), st.integers(0, 3)), min_size=1, max_size=12))
def test_quality_equals_a_slow_twin_over_all_pairs(labels):
    predicted, true = np.array(labels).T
    found, wanted = together(predicted), together(true)
    pairwise = pairwise_f1(predicted, true)
    for value, whole in ((pairwise.precision, found), (pairwise.recall, wanted)):
        assert value == pytest.approx(len(found & wanted) / len(whole) if whole else np.nan, nan_ok=True)
    rows = range(len(labels))
    mates = [({b for b in rows if predicted[a] == predicted[b]}, {b for b in rows if true[a] == true[b]}) for a in rows]
    cubed = b_cubed(predicted, true)
    assert cubed.precision == pytest.approx(np.mean([len(own & real) / len(own) for own, real in mates]))
    assert cubed.recall == pytest.approx(np.mean([len(own & real) / len(real) for own, real in mates]))


def test_last_digits_of_scores_do_not_choose_the_canonical_text():
    # The means are 0.8, 0.80005 and 0.80005 but for rounding: all are within 1e-4, so the lowest row is canonical.
    edges = edges_of(3, (0, 1, 0.8), (0, 2, 0.8), (1, 2, 0.8001))
    assert figures(edges, cluster(edges, "components", 0.5, 0.0).labels, 0.0).canonical.tolist() == [0]
    # 0.8, 0.81 and 0.81: the first text is farther from the others.
    edges = edges_of(3, (0, 1, 0.8), (0, 2, 0.8), (1, 2, 0.82))
    assert figures(edges, cluster(edges, "components", 0.5, 0.0).labels, 0.0).canonical.tolist() == [1]
