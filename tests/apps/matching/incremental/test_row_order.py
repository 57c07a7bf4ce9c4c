"""The order of rows changes nothing: matches, clusters and canonical texts are those of the rows in another order."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.apps.matching.incremental.loops import Matcher

# Many pairs have equal scores, and some texts are the same.
WORDS: tuple[str, ...] = ("abcd", "abce", "abcf", "abc", "abd", "xyz", "xyw", "xy", "abcd", "q")
IDS: tuple[str, ...] = ("10", "9", "b", "a", "007", "x", "-1", "100", "2", "c")
TEXTS: dict[str, str] = dict(zip(IDS, WORDS, strict=True))
FILES = ("matches.csv", "matches.parquet", "clusters.csv", "deduplicated.csv", "matches.html", "match.json")


@pytest.fixture
def matcher(tmp_path, monkeypatch):
    return Matcher(tmp_path, monkeypatch).trained_on(TEXTS)


@pytest.fixture
def sorted_once() -> dict[str, Any]:
    """What the rows in one order give: it is the same for every other order that is tried."""
    return {}


def shuffled(order: list[str]) -> dict[str, str]:
    return {name: TEXTS[name] for name in order}


def files(matcher: Matcher, names: tuple[str, ...]) -> dict[str, bytes]:
    """The files of the match `one` by name."""
    return {name: (matcher.folder / "one" / name).read_bytes() for name in names}


def matches_and_canonical(matcher: Matcher, out: str) -> dict[str, Any]:
    """The matches in a folder, and the id that represents each id."""
    canonical = {row["id"]: row["canonical"] for row in matcher.rows(f"{out}/clusters.csv")}
    return {"matches": matcher.rows(f"{out}/matches.csv"), "canonical": canonical}


@pytest.mark.parametrize("rule", ["all", "best", "mutual", "one-to-one"])
@given(order=st.permutations(IDS))
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_rows_in_another_order_give_the_same_files(matcher, sorted_once, rule, order):
    options = {"at_score": 0.5, "assign": rule}
    if not sorted_once:
        matcher.match("one", shuffled(sorted(IDS)), **options)
        sorted_once.update(files(matcher, FILES))
    # The same folder takes them, as they are the same texts.
    matcher.match("one", shuffled(order), **options)
    assert files(matcher, FILES) == sorted_once


@pytest.mark.parametrize("rule", ["all", "best", "mutual"])
@given(order=st.permutations(IDS), known=st.integers(2, 8))
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_rows_that_come_later_give_the_matches_of_all_at_once_also_among_equal_scores(
    matcher, sorted_once, tmp_path_factory, rule, order, known
):
    out, options = str(tmp_path_factory.mktemp("out")), {"at_score": 0.5, "assign": rule}
    if not sorted_once:
        matcher.match("once", TEXTS, **options)
        sorted_once.update(matches_and_canonical(matcher, "once"))
    matcher.match(out, shuffled(order[:known]), **options)
    matcher.into(out, left=shuffled(order[known:]))
    assert matches_and_canonical(matcher, out) == sorted_once


def test_clusters_are_numbered_by_their_least_id_and_equal_texts_are_represented_by_it(matcher):
    matcher.match("out", TEXTS, at_score=0.99)
    # Only 10 and 2 have the same text. In order of ids: -1, 2 (with 10), 007, 9, 100, a, b, c, x.
    expected = {"-1": 0, "2": 1, "10": 1, "007": 2, "9": 3, "100": 4, "a": 5, "b": 6, "c": 7, "x": 8}
    assert matcher.clusters("out") == expected
    assert {row["id"] for row in matcher.rows("out/clusters.csv") if row["canonical"] == "2"} == {"2", "10"}


CELLS = {name: (tax, source) for name, tax, source in zip(IDS, "TTUU      ", "ABCABCABCA", strict=True)}


@pytest.mark.parametrize("canonical", ["complete", "highest:tax", "first:source=B,C"])
@given(order=st.permutations(IDS))
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_rules_of_clusters_do_not_depend_on_the_order_of_rows(matcher, sorted_once, canonical, order):
    matcher.cells["left"] = CELLS
    options = {"at_score": 0.3, "always": "tax", "at_most_one": "source", "split_bridges": 0.5, "canonical": canonical}
    names = *FILES, "bridges.csv"
    if not sorted_once:
        matcher.match("one", TEXTS, **options)
        sorted_once.update(files(matcher, names))
    matcher.match("one", shuffled(order), **options)
    assert files(matcher, names) == sorted_once
