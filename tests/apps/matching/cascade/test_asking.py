"""Which uncertain pairs are asked, in which order, and what answers make of assignments: values worked out by hand."""

import numpy as np
import pytest

from al_ray.apps.matching.assignment import BY_MODEL, SAID_NO, SAID_YES, CandidateEdges, assign
from al_ray.apps.matching.cascade.asking import Verdicts, choose_questions
from al_ray.apps.matching.cascade.band import Band
from al_ray.core.pairs import as_pairs
from al_ray.core.scored_pairs import ScoredPairs

BAND = Band(0.2, 0.8, 0.55, ("", ""))
# Two tables: 0-0 is sure, and so its texts are settled; 1-1 and 2-2 are matches of the model, the others are not.
LEFT = np.array([0, 0, 1, 1, 2, 2, 3])
RIGHT = np.array([0, 1, 1, 2, 2, 3, 4])
SCORES = np.array([0.9, 0.45, 0.6, 0.3, 0.7, 0.25, 0.1])


def edges(decisions: dict[int, int] | None = None, symmetric: bool = False) -> CandidateEdges:
    by = np.full(len(LEFT), BY_MODEL, dtype=np.uint8)
    for place, word in (decisions or {}).items():
        by[place] = word
    return CandidateEdges(ScoredPairs(as_pairs(LEFT, RIGHT + 10 * symmetric), SCORES), symmetric, by)


def test_pairs_whose_answer_is_most_likely_to_change_the_result_come_first():
    asked = choose_questions(edges(), SCORES, BAND, "all")
    # Chances: 0.45 of 0-1 (no match), 1 - 0.6 of 1-1, 0.3 of 1-2 and 1 - 0.7 of 2-2, which is a match, 0.25 of 2-3.
    assert (asked.order.tolist(), asked.settled) == ([1, 2, 4, 3, 5], 0)


@pytest.mark.parametrize(
    ("rule", "order", "settled"),
    # Text 0 on the left and on the right have a sure match.
    [("all", [1, 2, 4, 3, 5], 0), *((rule, [2, 4, 3, 5], 1) for rule in ("best", "mutual", "one-to-one"))],
)
def test_a_pair_whose_text_has_a_sure_match_is_asked_only_if_a_text_may_have_several(rule, order, settled):
    asked = choose_questions(edges(), SCORES, BAND, rule)
    assert (asked.order.tolist(), asked.settled) == (order, settled)


def test_best_partners_of_one_table_are_asked_until_both_texts_have_a_sure_match():
    assert choose_questions(edges(symmetric=True), SCORES, BAND, "best").settled == 0
    assert choose_questions(edges(symmetric=True), SCORES, BAND, "mutual").settled == 1


def test_labelled_pairs_are_not_asked_and_a_yes_settles_its_texts():
    asked = choose_questions(edges({2: SAID_NO, 5: SAID_YES}), SCORES, BAND, "one-to-one")
    # 2-2 has the text of 2-3, which was labelled yes.
    assert (asked.order.tolist(), asked.settled) == ([3], 2)


def keys(*places: int) -> np.ndarray:
    return np.array(places, dtype=np.int64)


def assigned(verdicts: Verdicts, rule, decisions: dict[int, int] | None = None) -> list[int]:
    applied = verdicts.apply(np.arange(len(LEFT)), edges(decisions))
    return np.flatnonzero(assign(applied, rule, BAND.cutoff)).tolist()


def test_the_model_decides_where_there_is_no_answer():
    for rule in ("all", "mutual", "one-to-one"):
        assert assigned(Verdicts(BAND), rule) == [0, 2, 4]


def test_a_yes_below_the_cutoff_is_a_match_and_a_no_above_it_is_none():
    assert assigned(Verdicts(BAND, yes=keys(3), no=keys(4)), "all") == [0, 2, 3]


def test_one_to_one_is_assigned_after_the_answers():
    # 0.8 - 0.55 of 1-2, whose own score is 0.3, is more than 0.6 - 0.55 of 1-1 and 0.7 - 0.55 of 2-2 together.
    assert assigned(Verdicts(BAND, yes=keys(3)), "one-to-one") == [0, 3]
    # Of two yes of the left text 1 the pair with the higher score is the match; 1-2 is still better than 2-2.
    assert assigned(Verdicts(BAND, yes=keys(2, 3)), "mutual") == [0, 2]


def test_a_yes_is_no_better_than_a_sure_match():
    # The text 0 has the sure match 0-0.
    assert assigned(Verdicts(BAND, yes=keys(1)), "one-to-one") == [0, 2, 4]


def test_labels_overrule_the_oracle():
    assert assigned(Verdicts(BAND, yes=keys(4), no=keys(2)), "all", {4: SAID_NO, 2: SAID_YES}) == [0, 2]
