"""What is searched again after texts changed, and that the candidates are those of matching all at once."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.apps.matching.assignment_rules import Cutoff
from al_ray.apps.matching.clusters.rules import ClusterRules
from al_ray.apps.matching.incremental.about import MatchingRules, StateAbout
from al_ray.apps.matching.incremental.growth import NEW, Side, grow
from al_ray.apps.matching.incremental.merging import best_of_texts, merge, plan_requery
from al_ray.apps.matching.incremental.order import task_of
from al_ray.apps.matching.incremental.rectangle import rectangles
from al_ray.apps.matching.incremental.state import MatchState
from al_ray.core.pairs import NO_KEYS, NO_PAIRS, as_pairs
from al_ray.core.scored_pairs import ScoredPairs
from al_ray.core.task import Corpus, Task

# A text is a number, and the score of two texts is a symmetric function of both, with ties.
IDS = st.sampled_from([f"id{number}" for number in range(8)])
TEXTS = st.sampled_from("0123456789")
TABLE = st.dictionaries(IDS, TEXTS, min_size=1, max_size=8)
# Of no use here.
ABOUT = StateAbout({}, MatchingRules("all", ClusterRules(), Cutoff(0.5, 9, "a test")), {})


def corpus(table: dict[str, str]) -> Corpus:
    # As tables are matched: in the order of their ids, by which ties are decided.
    return Corpus(tuple(sorted(table)), tuple(table[name] for name in sorted(table)))


def score(one: str, other: str) -> float:
    return ((int(one) + 3) * (int(other) + 3) * 7) % 11 / 10


def found_by_loops(
    task: Task, lefts: Sequence[int], rights: Sequence[int], best: bool, no: set[tuple[int, int]]
) -> ScoredPairs:
    """The candidates among left and right rows: all pairs of 0.5 or more, or the best one of each text."""
    every = {}
    for left in lefts:
        for right in rights:
            pair = tuple(sorted((left, right))) if task.symmetric else (left, right)
            if not (task.symmetric and left == right) and pair not in no:
                every[left, right] = score(task.left.texts[left], task.right.texts[right])
    if best:
        keep = set()
        for column, rows in enumerate((lefts, rights)):
            for row in rows:
                own = [pair for pair in every if pair[column] == row]
                keep |= {min(own, key=lambda pair: (-every[pair], pair[1 - column]))} if own else set()
    else:
        keep = {pair for pair, value in every.items() if value >= 0.5}
    pairs = sorted(keep)
    arrays = as_pairs([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    arrays = np.sort(arrays, axis=1) if task.symmetric else arrays
    scored = ScoredPairs(arrays, np.array([every[pair] for pair in pairs]))
    return merge(ScoredPairs(NO_PAIRS, np.empty(0)), scored)


def pairs_of(labels: dict[tuple[str, str], bool], task: Task, wanted: bool) -> np.ndarray:
    """Rows of the labelled pairs of ids that are in the task."""
    rows = []
    for (one, other), yes in labels.items():
        if yes == wanted and one in task.left.ids and other in task.right.ids and not (task.symmetric and one == other):
            pair = task.left.ids.index(one), task.right.ids.index(other)
            rows.append(tuple(sorted(pair)) if task.symmetric else pair)
    return np.array(sorted(set(rows)), dtype=np.int64).reshape(-1, 2)


LABELS = st.dictionaries(st.tuples(IDS, IDS), st.just(False), max_size=4)


@pytest.mark.parametrize("best", [False, True], ids=["above a cutoff", "best of each"])
@pytest.mark.parametrize("symmetric", [True, False])
@given(st.data())
def test_new_texts_matched_into_known_ones_are_all_texts_matched_at_once(symmetric, best, data):
    first = [data.draw(TABLE), data.draw(TABLE)]
    task = task_of("task", corpus(first[0]), corpus(first[0] if symmetric else first[1]), symmetric)
    labels = data.draw(LABELS)
    every = range(len(task.left)), range(len(task.right))
    no = {tuple(pair) for pair in pairs_of(labels, task, False).tolist()}
    state = MatchState(
        1, "task", found_by_loops(task, *every, best, no), NO_PAIRS, pairs_of(labels, task, False), NO_KEYS, 0, ABOUT
    )
    for _ in range(2):
        arrived: dict[Side, Corpus] = {"left": corpus(data.draw(TABLE))}
        if not symmetric and data.draw(st.booleans()):
            arrived["right"] = corpus(data.draw(TABLE))
        labels = data.draw(st.sampled_from([labels, data.draw(LABELS)]))
        grown = grow(task, arrived, complete=data.draw(st.booleans()))
        negatives = pairs_of(labels, grown.task, False)
        no = {tuple(pair) for pair in negatives.tolist()}
        requery = plan_requery(state, (len(task.left), len(task.right)), grown, NO_PAIRS, negatives, best)
        parts = [(left.tolist(), right.tolist()) for left, right in rectangles(grown.task, requery)]
        task = grown.task
        scored = merge(requery.kept, *[found_by_loops(task, *rows, best, no) for rows in parts])
        at_once = found_by_loops(task, range(len(task.left)), range(len(task.right)), best, no)
        if best:
            scored = best_of_texts(scored, task.splits["train"].space, (len(task.left), len(task.right)), NO_KEYS)
        assert scored.pairs.tolist() == at_once.pairs.tolist()
        assert scored.scores.tolist() == at_once.scores.tolist()
        state = MatchState(2, "task", scored, NO_PAIRS, negatives, NO_KEYS, 0, ABOUT)


def test_known_texts_without_a_change_are_not_searched_again():
    task = task_of("task", corpus({"a": "1", "b": "2"}), corpus({"x": "3"}), symmetric=False)
    found = ScoredPairs(as_pairs([0], [0]), np.array([0.9]))
    state = MatchState(1, "task", found, NO_PAIRS, NO_PAIRS, NO_KEYS, 0, ABOUT)
    grown = grow(task, {"left": corpus({"b": "2", "c": "5"})}, complete=False)
    requery = plan_requery(state, (2, 1), grown, NO_PAIRS, NO_PAIRS, best=False)
    assert (requery.left.tolist(), requery.right.tolist(), requery.kept.pairs.tolist()) == ([2], [], [[0, 0]])
    assert [(left.tolist(), right.tolist()) for left, right in rectangles(grown.task, requery)] == [([2], [0])]


def test_the_texts_of_a_label_that_changed_are_searched_again():
    task = task_of("task", *[corpus({"a": "1", "b": "2", "c": "4"})] * 2, symmetric=True)
    state = MatchState(1, "task", ScoredPairs(NO_PAIRS, np.empty(0)), NO_PAIRS, as_pairs([0], [2]), NO_KEYS, 0, ABOUT)
    grown = grow(task, {}, complete=False)
    kept = plan_requery(state, (3, 3), grown, NO_PAIRS, as_pairs([0], [2]), best=False)
    assert not len(kept)
    again = plan_requery(state, (3, 3), grown, NO_PAIRS, NO_PAIRS, best=False)
    assert again.left.tolist() == [0, 2]


def test_texts_grow_by_hand():
    task = task_of("task", *[corpus({"a": "1", "b": "2", "c": "3"})] * 2, symmetric=True)
    arrived: dict[Side, Corpus] = {"left": corpus({"c": "9", "a": "1", "d": "4"})}
    grown = grow(task, arrived, complete=False)
    assert list(zip(grown.task.left.ids, grown.task.left.texts, strict=True)) == [
        *(("a", "1"), ("b", "2"), ("c", "9"), ("d", "4"))
    ]
    assert grown.before["left"].tolist() == [0, 1, NEW, NEW]
    assert grown.now("left", 3).tolist() == [0, 1, NEW]
    assert (grown.counts.new, grown.counts.changed, grown.counts.removed, grown.counts.same) == (1, 1, 0, 2)
    whole = grow(task, arrived, complete=True)
    assert list(whole.task.left.ids) == ["a", "c", "d"]
    assert (whole.counts.new, whole.counts.changed, whole.counts.removed, whole.counts.same) == (1, 1, 1, 1)


def test_a_row_replaces_a_known_one_whose_id_is_the_same_whole_number():
    task = task_of("task", *[corpus({"1": "one", "2": "two", "X": "three"})] * 2, symmetric=True)
    # A float in the table of today, beside an id that is none.
    grown = grow(task, {"left": corpus({"1.0": "one", "2.0": "other", "Y": "four"})}, complete=False)
    assert list(zip(grown.task.left.ids, grown.task.left.texts, strict=True)) == [
        *(("1", "one"), ("2", "other"), ("X", "three"), ("Y", "four"))
    ]
    assert (grown.counts.new, grown.counts.changed, grown.counts.same) == (1, 1, 2)
