"""--canonical: which text stands for a cluster."""

import csv

import pytest

from al_ray.apps.matching import pipeline
from al_ray.apps.matching.clusters.canonical import CanonicalRule
from al_ray.apps.matching.options import MatchOptions
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import BadOption
from al_ray.core.progress import no_progress
from tests.apps.matching.incremental.loops import Matcher

TEXTS = {"1": "abc", "2": "abcd", "3": "abce", "4": "xyz"}
# Columns tax and source: here a price and a shop.
CELLS = {"1": ("9", "web"), "2": ("10", ""), "3": ("", "shop"), "4": ("7", "web")}


@pytest.fixture
def matcher(tmp_path, monkeypatch):
    made = Matcher(tmp_path, monkeypatch).trained_on(TEXTS)
    made.cells["left"] = CELLS
    return made


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        # 1-2 and 1-3 have 3 of 4 letters in common (0.8), and 2-3 3 of 5 (0.6).
        ("score", "1"),
        ("least-id", "1"),
        # One text column: 2 and 3 have the most characters, and 2 is the lesser id.
        ("complete", "2"),
        # As numbers 10 is above 9; an empty cell is the last.
        ("highest:tax", "2"),
        ("lowest:tax", "1"),
        ("highest:source", "1"),
        ("lowest:source", "3"),
        ("first:source=shop,web", "3"),
        ("first:source=web,shop", "1"),
        ("first:source=nowhere", "1"),
    ],
)
def test_a_rule_chooses_the_canonical_text_also_of_rows_that_come_later(matcher, rule, expected):
    matcher.match("out", TEXTS, at_score=0.55, canonical=rule)
    rows = {row["id"]: row["canonical"] for row in matcher.rows("out/clusters.csv")}
    assert rows == {"1": expected, "2": expected, "3": expected, "4": "4"}
    assert [row["id"] for row in matcher.rows("out/deduplicated.csv")] == [expected, "4"]
    matcher.match("later", {"2": "abcd", "4": "xyz"}, at_score=0.55, canonical=rule)
    matcher.into("later", left=TEXTS)
    assert {row["id"]: row["canonical"] for row in matcher.rows("later/clusters.csv")} == rows


def test_the_most_complete_text_has_the_most_text_columns(matcher):
    table = matcher.folder / "rows.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "name", "brand"), ("1", "abcd abcd", ""), ("2", "abc", "e")])
    options = {"text_columns": "name,brand", "id_column": "id", "at_score": 0.5, "drift": False}
    given = MatchOptions(left=table, canonical="complete", **options)
    pipeline.match_texts(given, matcher.model, matcher.folder / "out", ClusterConfig(), no_progress)
    assert [row["canonical"] for row in matcher.rows("out/clusters.csv")] == ["2", "2"]


@pytest.mark.parametrize("words", ["best", "highest", "highest:", "first:source", "first:=a", "first:source=a,,b", ""])
def test_other_words_are_refused(words):
    with pytest.raises(BadOption, match="give score, least-id, complete"):
        CanonicalRule.parse(words)


def test_numbers_and_other_values_in_one_column_are_refused_with_the_cell(matcher, tmp_path):
    matcher.match("out", TEXTS, at_score=0.5, canonical="highest:tax")
    matcher.cells["left"] = CELLS | {"2": ("n/a", "")}
    # The others are 9 and 7; the empty cell of 3 is neither.
    expected = r"`canonical='lowest:tax'`: 2 values are numbers, and 1 are none, such as 'n/a' of id '2'; correct"
    with pytest.raises(BadOption, match=expected):
        matcher.match("refused", TEXTS, at_score=0.5, canonical="lowest:tax")
    assert not (tmp_path / "refused").exists()
    with pytest.raises(BadOption, match="'n/a' of id '2'"):
        matcher.into("out", left=TEXTS)
