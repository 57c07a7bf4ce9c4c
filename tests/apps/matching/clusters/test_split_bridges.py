"""--split-bridges: a weak match that alone holds two parts of a cluster together joins nothing."""

import pytest

from al_ray.core.errors import BadOption
from al_ray.core.labels import YES
from tests.apps.matching.incremental.loops import Matcher

# 1-2: 4 of 5 letters, 0.8. 2-3: d, e of 7, 0.3. 3-4: f, g of 5, 0.4. 1-3: d of 7, 0.1. So 2-3 is a bridge.
TEXTS = {"1": "abcd", "2": "abcde", "3": "defg", "4": "fgh"}


@pytest.fixture
def matcher(tmp_path, monkeypatch):
    return Matcher(tmp_path, monkeypatch).trained_on(TEXTS)


def test_a_weak_bridge_is_left_out_and_listed(matcher):
    whole = matcher.match("whole", TEXTS, at_score=0.25)
    assert matcher.clusters("whole") == dict.fromkeys(TEXTS, 0)
    assert (whole.record["clusters"]["bridges"], (matcher.folder / "whole/bridges.csv").exists()) == (1, False)
    found = matcher.match("out", TEXTS, at_score=0.25, split_bridges=0.35)
    assert matcher.clusters("out") == {"1": 0, "2": 0, "3": 1, "4": 1}
    assert matcher.rows("out/bridges.csv") == [{"left_id": "2", "right_id": "3", "score": "0.3"}]
    line = "matches that join no clusters, as weak bridges (`split_bridges=0.35`): 1 (bridges.csv)"
    assert line in list(found.summary)
    # It is still a match.
    assert frozenset(("2", "3")) in matcher.matches("out")
    # A bridge that reaches the score stays.
    assert matcher.match("same", TEXTS, at_score=0.25, split_bridges=0.3).record["clusters"]["split_bridges"] == 0
    matcher.match("out", TEXTS, at_score=0.25)
    assert not (matcher.folder / "out/bridges.csv").exists()


def test_a_bridge_that_people_labelled_yes_stays(matcher):
    matcher.labels = [("2", "3", YES)]
    assert matcher.match("out", TEXTS, at_score=0.25, split_bridges=0.35).record["clusters"]["split_bridges"] == 0
    assert matcher.clusters("out") == dict.fromkeys(TEXTS, 0)


@pytest.mark.parametrize("known", [2, 3])
def test_rows_that_come_later_are_split_as_all_at_once(matcher, known):
    matcher.match("out", dict(list(TEXTS.items())[:known]), at_score=0.25, split_bridges=0.35)
    matcher.into("out", left=TEXTS)
    assert matcher.clusters("out") == {"1": 0, "2": 0, "3": 1, "4": 1}
    assert len(matcher.rows("out/bridges.csv")) == 1


def test_average_linkage_has_no_bridges(matcher):
    with pytest.raises(BadOption, match="`split_bridges` goes with `clusters='components'`"):
        matcher.match("out", TEXTS, at_score=0.5, split_bridges=0.6, clusters="average")


@pytest.mark.parametrize("score", [0.2, 0.5])
def test_a_score_that_is_not_above_the_cutoff_is_refused_because_it_does_nothing(matcher, score):
    with pytest.raises(BadOption, match=rf"`split_bridges={score}` is not above the cutoff 0.5 \(`at_score=0.5`\)"):
        matcher.match("out", TEXTS, at_score=0.5, split_bridges=score)
