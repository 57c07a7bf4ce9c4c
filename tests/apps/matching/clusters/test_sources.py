"""--at-most-one: values worked by hand, laws, and a slow twin."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.apps.matching.clusters.edges import Edges
from al_ray.apps.matching.clusters.sources import clusters_with_two, one_of_each
from al_ray.core.errors import BadOption
from al_ray.core.graph import components
from al_ray.core.labels import YES
from al_ray.core.pairs import NO_PAIRS, as_pairs
from al_ray.core.scored_pairs import ScoredPairs
from tests.apps.matching.incremental.loops import Matcher

TEXTS = 8
ROWS = st.integers(0, TEXTS - 1)
EDGES = st.lists(st.tuples(ROWS, ROWS, st.integers(1, 8)), max_size=24)
PAIRS = st.lists(st.tuples(ROWS, ROWS).filter(lambda pair: pair[0] != pair[1]), max_size=3)
SOURCES = st.lists(st.sampled_from(["A", "B", "C", ""]), min_size=TEXTS, max_size=TEXTS)


def edges_of(texts, *edges):
    pairs = as_pairs(*(np.array([edge[side] for edge in edges], dtype=np.int64) for side in (0, 1)))
    return Edges.of(texts, ScoredPairs(pairs, np.array([edge[2] for edge in edges], dtype=np.float64)))


def pairs_of(pairs):
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def twin(edges, first, yes, sources):
    """The rule as it is written, over sets."""
    groups = [
        set(np.flatnonzero(components(TEXTS, yes) == unit).tolist()) for unit in np.unique(components(TEXTS, yes))
    ]
    early = {frozenset(pair) for pair in first.tolist()}
    scored = zip(map(tuple, edges.pairs.tolist()), edges.scores.tolist(), strict=True)
    for pair, _ in sorted(scored, key=lambda edge: (frozenset(edge[0]) not in early, -edge[1], edge[0])):
        one, other = (next(group for group in groups if node in group) for node in pair)
        there = [{sources[node] for node in group} - {""} for group in (one, other)]
        if one is not other and not there[0] & there[1]:
            groups = [group for group in groups if group not in (one, other)] + [one | other]
    return [min(group) for node in range(TEXTS) for group in groups if node in group]


@given(edges=EDGES, first=PAIRS, yes=PAIRS, sources=SOURCES)
def test_clusters_are_those_of_the_slow_twin_and_parts_of_components(edges, first, yes, sources):
    of = edges_of(TEXTS, *[(left, right, score / 8) for left, right, score in edges])
    labels = one_of_each(of, pairs_of(first), pairs_of(yes), sources)
    assert labels.tolist() == twin(of, pairs_of(first), pairs_of(yes), sources)
    whole = components(TEXTS, np.concatenate([of.pairs, pairs_of(yes)]))
    assert all(whole[one] == whole[labels[one]] for one in range(TEXTS))
    # Two records of one source are in one cluster only where pairs labelled yes connect such records.
    units = components(TEXTS, pairs_of(yes))
    for one, other in combinations(range(TEXTS), 2):
        if labels[one] == labels[other] and sources[one] == sources[other] != "":
            assert clusters_with_two(units, sources) > 0


def test_the_highest_score_wins_and_last_digits_do_not_decide():
    # 0 is of source A; 1 and 2 are of B and match it as well but for the last digits: the lower row wins.
    edges = edges_of(3, (0, 2, 0.8000001), (0, 1, 0.8))
    assert one_of_each(edges, NO_PAIRS, NO_PAIRS, ["A", "B", "B"]).tolist() == [0, 0, 2]
    edges = edges_of(3, (0, 2, 0.9), (0, 1, 0.8))
    assert one_of_each(edges, NO_PAIRS, NO_PAIRS, ["A", "B", "B"]).tolist() == [0, 1, 0]
    # Without a source a record joins anything.
    assert one_of_each(edges, NO_PAIRS, NO_PAIRS, ["", "", "B"]).tolist() == [0, 0, 0]


NAMES = {"a1": "abcd", "b1": "abcde", "b2": "abcdef", "c1": "abcdefg", "c2": "xyz"}
CELLS = {name: ("", name[0]) for name in NAMES}


@pytest.fixture
def matcher(tmp_path, monkeypatch):
    made = Matcher(tmp_path, monkeypatch).trained_on(NAMES)
    made.cells["left"] = CELLS
    return made


def test_three_sources_give_clusters_of_one_record_each(matcher):
    # Scores to a tenth: b2-c1 6/7 and b1-b2 5/6 are 0.9 and 0.8, a1-b1 4/5 is 0.8, b1-c1 5/7 and a1-b2 4/6 are 0.7.
    found = matcher.match("out", NAMES, at_score=0.65, at_most_one="source")
    # b2-c1 first. a1-b1 joins; b1-b2 would bring two of b together, and so would all others.
    assert matcher.clusters("out") == {"a1": 0, "b1": 0, "b2": 1, "c1": 1, "c2": 2}
    assert found.record["clusters"]["parted"] == 3
    assert "matches between two clusters (`at_most_one='source'`): 3" in list(found.summary)


def test_a_label_yes_brings_two_records_of_a_source_together_and_is_counted(matcher):
    matcher.labels = [("b1", "b2", YES)]
    found = matcher.match("out", NAMES, at_score=0.65, at_most_one="source")
    clusters = matcher.clusters("out")
    assert clusters["b1"] == clusters["b2"] == clusters["c1"] == clusters["a1"]
    assert "clusters with two texts of one source, by labels: 1" in list(found.summary)


@pytest.mark.parametrize("known", [2, 3, 4])
def test_rows_that_come_later_make_the_clusters_of_all_at_once(matcher, known):
    options = {"at_score": 0.65, "at_most_one": "source"}
    matcher.match("out", dict(list(NAMES.items())[-known:]), **options)
    matcher.into("out", left=NAMES)
    matcher.match("once", NAMES, **options)
    groups = []
    for out in ("out", "once"):
        clusters = matcher.clusters(out)
        groups.append({frozenset(one for one in clusters if clusters[one] == number) for number in clusters.values()})
    assert groups[0] == groups[1]


def test_average_linkage_and_other_folders_refuse_it(matcher):
    with pytest.raises(BadOption, match="`at_most_one` goes with `clusters='components'`"):
        matcher.match("out", NAMES, at_score=0.5, at_most_one="source", clusters="average")
    matcher.match("out", NAMES, at_score=0.5)
    with pytest.raises(BadOption, match=r"`at_most_one`: `al_ray\.match_into` matches by the rules"):
        matcher.into("out", left=NAMES, at_most_one="source")
