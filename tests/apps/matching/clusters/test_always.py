"""--always: equal values in a column make a match whatever the score, but for pairs that people labelled no."""

import shutil

import pytest

from al_ray.apps.matching.options import MatchOptions
from al_ray.apps.matching.texts import read_texts
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import NO, YES
from al_ray.datasets.task_folder import write_task
from tests.apps.matching.incremental.loops import Matcher

TEXTS = {"1": "abcd", "2": "xyz", "3": "abce", "4": "mno", "5": "qqq", "6": "rst"}
TAX = {"1": ("T7", ""), "2": ("T7", ""), "3": ("", ""), "4": ("T9", ""), "5": ("T9", ""), "6": ("", "")}


@pytest.fixture
def matcher(tmp_path, monkeypatch):
    made = Matcher(tmp_path, monkeypatch).trained_on(TEXTS)
    made.cells["left"] = TAX
    return made


def decided(matcher: Matcher, out: str) -> dict[tuple[str, str], str]:
    return {(row["left_id"], row["right_id"]): row["decided_by"] for row in matcher.rows(f"{out}/matches.csv")}


def test_equal_values_match_and_empty_ones_do_not(matcher):
    record = matcher.match("out", TEXTS, at_score=0.5, always="tax").record
    # abcd and abce have 3 of 5 letters in common. 1-2 and 4-5 have none, and one tax number.
    assert decided(matcher, "out") == {("1", "3"): "model", ("1", "2"): "rule", ("4", "5"): "rule"}
    clusters = matcher.clusters("out")
    assert clusters == {"1": 0, "2": 0, "3": 0, "4": 1, "5": 1, "6": 2}
    assert (record["by_rule"], record["by_label"], record["overruled"]) == (2, 0, 0)


def test_labels_overrule_the_rule_and_are_counted(matcher):
    matcher.labels = [("1", "2", NO), ("4", "5", YES)]
    found = matcher.match("out", TEXTS, at_score=0.5, always="tax")
    assert decided(matcher, "out") == {("1", "3"): "model", ("4", "5"): "label"}
    assert found.record["overruled"] == 1
    assert "pairs of `always` that are labelled no, which are no matches: 1" in list(found.summary)


@pytest.mark.parametrize("rule", ["best", "mutual", "one-to-one"])
def test_a_text_with_a_match_by_the_rule_has_no_worse_one_of_the_model(matcher, rule):
    matcher.match("out", TEXTS, at_score=0.5, always="tax", assign=rule)
    assert ("1", "2") in decided(matcher, "out")
    assert (("1", "3") in decided(matcher, "out")) == (rule == "best")


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("known", [2, 3, 4])
def test_rows_that_come_later_match_by_the_rule_of_the_folder(matcher, known, average):
    options = {"clusters": "average"} if average else {}
    first = dict(list(TEXTS.items())[:known])
    matcher.match("out", first, at_score=0.5, always="tax", **options)
    matcher.into("out", left=TEXTS)
    matcher.match("once", TEXTS, at_score=0.5, always="tax", **options)
    assert matcher.rows("out/matches.csv") == matcher.rows("once/matches.csv")
    assert matcher.clusters("out") == matcher.clusters("once")


def test_another_value_of_a_known_text_changes_its_matches(matcher):
    matcher.match("out", TEXTS, at_score=0.5, always="tax")
    matcher.cells["left"] = TAX | {"2": ("T9", ""), "6": ("T7", "")}
    counts = matcher.into("out", left={name: TEXTS[name] for name in ("2", "6")}).record["texts"]
    assert (counts["changed"], counts["same"]) == (0, 6)
    rule = [pair for pair, who in decided(matcher, "out").items() if who == "rule"]
    assert sorted(rule) == [("1", "6"), ("2", "4"), ("2", "5"), ("4", "5")]
    matcher.match("once", TEXTS, at_score=0.5, always="tax")
    assert matcher.rows("out/matches.csv") == matcher.rows("once/matches.csv")


def test_two_tables_match_by_the_column_that_both_have(matcher, tmp_path):
    right = {"1": "uvw", "2": "abcd"}
    shutil.rmtree(matcher.folder / "run-task")
    matcher.trained_on(TEXTS, right).cells["right"] = {"1": ("T7", ""), "2": ("", "")}
    matcher.match("out", TEXTS, right, at_score=0.5, assign="all", always="tax")
    assert decided(matcher, "out") == {
        ("1", "1"): "rule",
        ("2", "1"): "rule",
        ("1", "2"): "model",
        ("3", "2"): "model",
    }


def test_what_cannot_be_is_refused(matcher, tmp_path):
    with pytest.raises(BadFile, match="has no column 'vat'"):
        matcher.match("out", TEXTS, at_score=0.5, always="vat")
    matcher.cells["left"] = dict.fromkeys(TEXTS, ("T", ""))
    with pytest.raises(BadOption, match="`always='tax'`: more than `most=1` pairs have equal values"):
        matcher.match("out", TEXTS, at_score=0.5, always="tax", most=1)
    matcher.match("out", TEXTS, at_score=0.5)
    with pytest.raises(
        BadOption, match=r"`always`: `al_ray\.match_into` matches by the rules of the matches that are there"
    ):
        matcher.into("out", left=TEXTS, always="tax")
    write_task(matcher.task, tmp_path / "task", {})
    with pytest.raises(BadOption, match="the column 'tax' is one of a table"):
        read_texts(MatchOptions(left=tmp_path / "task", always="tax"), matcher.model)


@pytest.mark.parametrize("column", ["text", "id"])
def test_a_column_of_texts_or_ids_can_be_one_of_a_rule(matcher, column):
    texts = {"1": "abcd", "2": "abcd", "3": "xyz"}
    matcher.match("out", texts, at_score=1, always=column, canonical=f"highest:{column}")
    assert decided(matcher, "out") == {("1", "2"): "rule" if column == "text" else "model"}
