"""Which candidate edges are matches: values worked by hand, laws, and slow twins."""

from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.apps.matching import assignment
from al_ray.apps.matching.assignment import BY_MODEL, CHOOSERS, OFFSET, SAID_NO, SAID_YES, CandidateEdges, assign
from al_ray.apps.matching.assignment_rules import ASSIGNMENTS, AssignmentRule
from al_ray.apps.matching.cutoff import choose_assignment
from al_ray.apps.matching.options import MatchOptions, assignments_help
from al_ray.core.errors import BadOption
from al_ray.core.pairs import as_pairs
from al_ray.core.scored_pairs import ScoredPairs

RULES = tuple(CHOOSERS)
DECISIONS = st.sampled_from([BY_MODEL] * 8 + [SAID_YES, SAID_NO])
# Below all scores, among them, equal to one of them, above all but the highest.
CUTOFFS = st.sampled_from([-np.inf, -1.0, 0.3, 0.5, 0.875])


def edges_of(rows, symmetric=False):
    """(left, right, score) or (left, right, score, decision) of each edge."""
    left, right, scores, decisions = zip(*[(*row, BY_MODEL)[:4] for row in rows], strict=True) if rows else ((),) * 4
    pairs = as_pairs(np.array(left, dtype=np.int64), np.array(right, dtype=np.int64))
    return CandidateEdges(
        ScoredPairs(pairs, np.array(scores, dtype=np.float64)),
        symmetric,
        np.array(decisions, dtype=np.uint8),
    )


@st.composite
def graphs(draw, symmetric=None, texts=6, most=12):
    """Edges between few texts; scores are eighths, so many are equal."""
    symmetric = draw(st.booleans()) if symmetric is None else symmetric
    rows = st.integers(0, texts - 1)
    pairs = draw(st.lists(st.tuples(rows, rows), max_size=most))
    if symmetric:
        pairs = [(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]]
    distinct = list(dict.fromkeys(pairs))
    return edges_of([(*pair, draw(st.integers(1, 8)) / 8, draw(DECISIONS)) for pair in distinct], symmetric)


def matches(edges, rule, cutoff):
    mask = assign(edges, rule, cutoff)
    return sorted(zip(edges.left[mask].tolist(), edges.right[mask].tolist(), strict=True))


def texts_of(edges, at):
    """The two texts of an edge; a left and a right text of the same row are two texts unless symmetric."""
    return int(edges.left[at]), int(edges.right[at]) + (0 if edges.symmetric else 1000)


def split_by_decision(edges, cutoff):
    """Positions of the yes edges, of the model's edges from the cutoff on, and the texts of the yes edges."""
    yes = [at for at in range(len(edges)) if edges.decisions[at] == SAID_YES]
    candidates = [at for at in range(len(edges)) if edges.decisions[at] == BY_MODEL and edges.scores[at] >= cutoff]
    return yes, candidates, {text for at in yes for text in texts_of(edges, at)}


def free_and_weights(edges, cutoff):
    """Positions of the model's edges between texts without a yes, and their exact weights in one-to-one."""
    _, candidates, answered = split_by_decision(edges, cutoff)
    floor = min((edges.scores[at] for at in candidates), default=0) if cutoff == -np.inf else cutoff
    weights = {at: Fraction(float(edges.scores[at])) - Fraction(float(floor)) + Fraction(OFFSET) for at in candidates}
    return [at for at in candidates if not answered & set(texts_of(edges, at))], weights


def largest_total(edges, free, weights):
    """Try each edge in and out."""
    if not free:
        return Fraction(0)
    at, *rest = free
    compatible = [other for other in rest if not set(texts_of(edges, at)) & set(texts_of(edges, other))]
    return max(largest_total(edges, rest, weights), weights[at] + largest_total(edges, compatible, weights))


def twin(edges, rule, cutoff):
    """Rules other than one-to-one, one edge at a time."""
    yes, candidates, answered = split_by_decision(edges, cutoff)

    def is_best(at, side):
        text = texts_of(edges, at)[side]
        rivals = [other for other in candidates if text in texts_of(edges, other)]
        order = sorted(rivals, key=lambda other: (-edges.scores[other], edges.left[other], edges.right[other]))
        return text not in answered and order[0] == at

    kept = {
        "all": lambda at: True,
        "best": lambda at: is_best(at, 0) or (edges.symmetric and is_best(at, 1)),
        "mutual": lambda at: is_best(at, 0) and is_best(at, 1),
    }[rule]
    return [at in yes or (at in candidates and kept(at)) for at in range(len(edges))]


def test_a_rule_is_added_by_its_entry_and_its_function(monkeypatch):
    assert set(ASSIGNMENTS) == set(CHOOSERS)
    with pytest.raises(BadOption, match=f"`assign` is 'one'; give one of {', '.join(ASSIGNMENTS)}"):
        MatchOptions(left=Path("t"), assign="one")
    monkeypatch.setitem(ASSIGNMENTS, "one", AssignmentRule("the best edge of all", of_best=True))
    monkeypatch.setitem(CHOOSERS, "one", lambda open_edges: open_edges.ranked[:1])
    edges = edges_of([(0, 0, 0.75), (0, 1, 0.875), (1, 0, 0.25), (2, 2, 0, SAID_YES)])
    assert matches(edges, "one", 0.0) == [(0, 1), (2, 2)]
    assert "; one: the best edge of all. Default" in assignments_help()
    assert choose_assignment(MatchOptions(left=Path("t"), assign="one"), True) == "one"
    with pytest.raises(BadOption, match="with `assign='one'` give another cutoff, or none"):
        MatchOptions(left=Path("t"), assign="one", best=3)


def test_all_takes_the_edges_from_the_cutoff_on():
    edges = edges_of([(0, 0, 0.75), (0, 1, 0.5), (1, 0, 0.25)])
    assert matches(edges, "all", 0.5) == [(0, 0), (0, 1)]
    assert matches(edges, "all", -np.inf) == [(0, 0), (0, 1), (1, 0)]


def test_best_mutual_and_one_to_one_of_two_sides_by_hand():
    # Left 0 and 1 are both nearest to right 0; right 1 is nearest to left 1; left 2 has an edge below the cutoff.
    edges = edges_of([(0, 0, 0.9), (1, 0, 0.8), (1, 1, 0.7), (2, 1, 0.1)])
    assert matches(edges, "best", 0.5) == [(0, 0), (1, 0)]
    assert matches(edges, "mutual", 0.5) == [(0, 0)]
    # (0.9 - 0.5) + (0.7 - 0.5) = 0.6 is more than 0.8 - 0.5 = 0.3.
    assert matches(edges, "one-to-one", 0.5) == [(0, 0), (1, 1)]


def test_best_of_one_collection_takes_the_best_edge_of_either_text():
    # The best of 0 is 1, of 1 is 2, of 2 is 1, of 3 is 2.
    edges = edges_of([(0, 1, 0.6), (0, 2, 0.5), (1, 2, 0.9), (2, 3, 0.7)], symmetric=True)
    assert matches(edges, "best", 0.0) == [(0, 1), (1, 2), (2, 3)]
    assert matches(edges, "mutual", 0.0) == [(1, 2)]
    # 0.6 + 0.7 = 1.3 is more than 0.9.
    assert matches(edges, "one-to-one", 0.0) == [(0, 1), (2, 3)]


@pytest.mark.parametrize(("cutoff", "expected"), [(0.0, [(0, 1), (1, 0)]), (0.75, [(0, 0)])])
def test_one_to_one_weighs_scores_above_the_cutoff(cutoff, expected):
    # Cutoff 0: 0.8 + 0.8 = 1.6 is more than 0.9. Cutoff 0.75: 0.05 + 0.05 = 0.1 is less than 0.15.
    edges = edges_of([(0, 0, 0.9), (0, 1, 0.8), (1, 0, 0.8)])
    assert matches(edges, "one-to-one", cutoff) == expected


def test_an_edge_exactly_at_the_cutoff_is_matched_one_to_one():
    # Each edge weighs 0 + OFFSET, so two are more than one.
    edges = edges_of([(0, 0, 0.5), (0, 1, 0.5), (1, 0, 0.5)])
    assert matches(edges, "one-to-one", 0.5) == [(0, 1), (1, 0)]


def test_the_lowest_score_replaces_a_cutoff_of_minus_infinity():
    # Above the lowest score, -3, the first three edges weigh 5, 3 and 3: 3 + 3 = 6 is more than 5.
    edges = edges_of([(0, 0, 2.0), (0, 1, 0.0), (1, 0, 0.0), (2, 2, -3.0)])
    assert matches(edges, "one-to-one", -np.inf) == [(0, 1), (1, 0), (2, 2)]
    # Scores of edges that people decided about do not count. Above 0 the three weigh 2, 0 and 0.
    decided = edges_of([(0, 0, 2.0), (0, 1, 0.0), (1, 0, 0.0), (2, 2, -3.0, SAID_NO), (3, 3, -9.0, SAID_YES)])
    assert matches(decided, "one-to-one", -np.inf) == [(0, 0), (3, 3)]


def test_a_cycle_of_five_equal_edges_has_two_matches_one_to_one():
    edges = edges_of([(0, 1, 0.5), (1, 2, 0.5), (2, 3, 0.5), (3, 4, 0.5), (0, 4, 0.5)], symmetric=True)
    assert len(matches(edges, "one-to-one", 0.0)) == 2


def test_a_large_component_with_an_odd_cycle_is_refused_one_to_one_and_no_other():
    # Rows 0 to 4 make a cycle of five equal edges: five texts times five edges are 25. Rows 5 to 10 make one of six.
    odd = [(0, 1, 0.5), (1, 2, 0.5), (2, 3, 0.5), (3, 4, 0.5), (0, 4, 0.5)]
    even = [(5, 6, 0.5), (6, 7, 0.5), (7, 8, 0.5), (8, 9, 0.5), (9, 10, 0.5), (5, 10, 0.5)]
    edges = edges_of([*even, *odd], symmetric=True)
    with patch.object(assignment, "MOST_STEPS", 25):
        assert len(matches(edges, "one-to-one", 0.0)) == 5
    with patch.object(assignment, "MOST_STEPS", 24):
        with pytest.raises(
            BadOption, match=r"5 texts are connected by 5 pairs above the cutoff.*higher cutoff, or `assign='mutual'`"
        ):
            assign(edges, "one-to-one", 0.0)
        assert len(matches(edges_of(even, symmetric=True), "one-to-one", 0.0)) == 3
        # The fix.
        assert matches(edges, "mutual", 0.0) == [(0, 1), (5, 6)]


@pytest.mark.parametrize("rule", RULES)
def test_no_edge_and_no_edge_above_the_cutoff_give_no_match(rule):
    assert assign(edges_of([]), rule, -np.inf).tolist() == []
    assert assign(edges_of([(0, 0, 0.5)]), rule, np.inf).tolist() == [False]


def test_people_overrule_the_model_by_hand():
    # Left 0 has a yes below the cutoff with right 1, and another with right 2. Left 1 is nearest to right 1.
    edges = edges_of(
        [(0, 0, 0.9), (0, 1, 0.1, SAID_YES), (0, 2, np.nan, SAID_YES), (1, 1, 0.9), (1, 3, 0.8), (2, 3, 0.95, SAID_NO)]
    )
    yes = [(0, 1), (0, 2)]
    assert matches(edges, "all", 0.5) == sorted([*yes, (0, 0), (1, 1), (1, 3)])
    # Only the left texts count: right 1 may have a second match.
    assert matches(edges, "best", 0.5) == [*yes, (1, 1)]
    # The best of right 1 is a yes. Right 3 has no better edge than (1, 3), but left 1 has.
    assert matches(edges, "mutual", 0.5) == yes
    assert matches(edges, "one-to-one", 0.5) == [*yes, (1, 3)]


def test_in_one_collection_a_text_without_a_yes_keeps_its_best_edge():
    edges = edges_of([(0, 1, 0.1, SAID_YES), (1, 2, 0.9), (0, 3, 0.8), (2, 3, 0.7)], symmetric=True)
    # 2 is nearest to 1 and 3 to 0, which both have a yes.
    assert matches(edges, "best", 0.5) == [(0, 1), (0, 3), (1, 2)]
    assert matches(edges, "mutual", 0.5) == [(0, 1)]
    assert matches(edges, "one-to-one", 0.5) == [(0, 1), (2, 3)]


@pytest.mark.parametrize("rule", ["best", "mutual", "one-to-one"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_of_equal_scores_the_lowest_rows_match(rule, symmetric):
    edges = edges_of([(0, 4, 0.5), (0, 3, 0.5), (0, 2, 0.5)], symmetric)
    expected = [(0, 2), (0, 3), (0, 4)] if rule == "best" and symmetric else [(0, 2)]
    assert matches(edges, rule, 0.25) == expected


@given(graphs(), CUTOFFS, st.sampled_from(["all", "best", "mutual"]))
def test_rules_by_text_equal_a_slow_twin(edges, cutoff, rule):
    assert assign(edges, rule, cutoff).tolist() == twin(edges, rule, cutoff)


@given(graphs(), CUTOFFS, st.sampled_from([0, 10**6]))
def test_one_to_one_is_a_matching_with_the_total_of_brute_force(edges, cutoff, dense_cells):
    with patch.object(assignment, "DENSE_CELLS", dense_cells):
        mask = assign(edges, "one-to-one", cutoff)
    yes, _, _ = split_by_decision(edges, cutoff)
    free, weights = free_and_weights(edges, cutoff)
    kept = [at for at in np.flatnonzero(mask).tolist() if at not in yes]
    texts = [text for at in kept for text in texts_of(edges, at)]
    assert set(kept) <= set(free)
    assert len(texts) == len(set(texts))
    total, greedy, used = sum(weights[at] for at in kept), Fraction(0), set()
    assert float(total) == pytest.approx(float(largest_total(edges, free, weights)), abs=1e-12)
    for at in sorted(free, key=lambda at: -weights[at]):
        if not used & set(texts_of(edges, at)):
            used |= set(texts_of(edges, at))
            greedy += weights[at]
    assert float(total) >= float(greedy) - 1e-12


@given(graphs(), CUTOFFS, st.sampled_from(RULES), st.randoms(use_true_random=False))
def test_the_order_of_the_edges_changes_nothing(edges, cutoff, rule, random):
    order = np.array(random.sample(range(len(edges)), len(edges)), dtype=np.int64)
    assert assign(edges.where(order), rule, cutoff).tolist() == assign(edges, rule, cutoff)[order].tolist()


@given(graphs(), CUTOFFS)
def test_each_rule_keeps_yes_drops_no_and_takes_part_of_a_wider_rule(edges, cutoff):
    masks = {rule: assign(edges, rule, cutoff) for rule in RULES}
    for mask in masks.values():
        assert mask[edges.decisions == SAID_YES].all()
        assert not mask[edges.decisions == SAID_NO].any()
        assert not (mask & ~masks["all"]).any()
    assert not (masks["mutual"] & ~masks["best"]).any()
    by_model = edges.decisions == BY_MODEL
    assert masks["all"][by_model].tolist() == (edges.scores[by_model] >= cutoff).tolist()


def random_edges(seed, texts, count, symmetric):
    """Distinct edges between random texts, with scores so similar that few edges are dominant."""
    rng = np.random.default_rng(seed)
    pairs = np.unique(np.sort(rng.integers(0, texts, (count, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    scores = rng.uniform(0.8, 1, len(pairs))
    return edges_of([(*pair, score) for pair, score in zip(pairs, scores, strict=True)], symmetric)


@pytest.mark.parametrize("seed", range(3))
def test_dense_and_sparse_solutions_are_the_same(seed):
    edges = random_edges(seed, 80, 300, symmetric=False)
    with patch.object(assignment, "DENSE_CELLS", 0):
        sparse = assign(edges, "one-to-one", 0.0)
    with patch.object(assignment, "DENSE_CELLS", 10**6):
        dense = assign(edges, "one-to-one", 0.0)
    assert sparse.tolist() == dense.tolist()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("symmetric", [False, True])
def test_many_components_of_all_kinds_have_the_total_of_one_matching_of_the_whole_graph(seed, symmetric):
    # With as many texts as edges there are trees, cycles of even and of odd length, and one large component.
    edges = random_edges(seed, 200, 200, symmetric)
    graph = nx.Graph()
    for at in range(len(edges)):
        graph.add_edge(*texts_of(edges, at), weight=float(edges.scores[at]) - 0.5 + OFFSET)
    whole = sum(graph.edges[pair]["weight"] for pair in nx.max_weight_matching(graph))
    mask = assign(edges, "one-to-one", 0.5)
    assert (edges.scores[mask] - 0.5 + OFFSET).sum() == pytest.approx(whole, abs=1e-9)


def test_a_long_path_of_falling_scores_is_matched_at_every_second_edge():
    # Only the first open edge is dominant: rounds of reduction alone would be as many as matches.
    rows = np.arange(2_001)
    edges = CandidateEdges(
        ScoredPairs(as_pairs(rows[:-1], rows[1:]), 1 - rows[:-1] / 4_000), True, np.zeros(2_000, dtype=np.uint8)
    )
    with patch.object(assignment, "_is_dominant", wraps=assignment._is_dominant) as rounds:
        mask = assign(edges, "one-to-one", 0.0)
    assert np.flatnonzero(mask).tolist() == list(range(0, 2_000, 2))
    assert rounds.call_count == 1
