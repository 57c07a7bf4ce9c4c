"""Clusters over two tables: the components of their matches, whose ids may coincide."""

import json

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from al_ray.apps.serving.known import read_known
from al_ray.apps.serving.options import ServeOptions
from al_ray.core.errors import BadOption
from al_ray.storage.files import read_json, write_parquet
from tests.apps.matching.incremental.loops import Matcher

LEFT = {"1": "abcd", "2": "xyz", "3": "mno", "4": "abce"}
RIGHT = {"1": "abcd", "2": "abcf", "3": "xyz", "5": "qqq"}


@pytest.fixture
def matcher(tmp_path, monkeypatch):
    return Matcher(tmp_path, monkeypatch).trained_on(LEFT, RIGHT)


def groups(matcher: Matcher, out: str) -> set[frozenset[tuple[str, str]]]:
    clusters = dict[str, set[tuple[str, str]]]()
    for row in matcher.rows(f"{out}/clusters.csv"):
        clusters.setdefault(row["cluster"], set()).add((row["table"], row["id"]))
    return {frozenset(group) for group in clusters.values()}


def test_a_cluster_has_texts_of_both_tables_and_ids_that_coincide_are_two_texts(matcher):
    matcher.match("out", LEFT, RIGHT, at_score=0.5, assign="all")
    # abcd, abce and abcf have 3 of 5 letters in common, and left 1 is right 1 letter by letter.
    assert groups(matcher, "out") == {
        frozenset({("left", "1"), ("left", "4"), ("right", "1"), ("right", "2")}),
        frozenset({("left", "2"), ("right", "3")}),
        *(frozenset({one}) for one in (("left", "3"), ("right", "5"))),
    }
    # Numbers by the least id of the left table, then of the right one.
    assert [(row["table"], row["id"], row["cluster"]) for row in matcher.rows("out/clusters.csv")] == [
        *(("left", "1", "0"), ("left", "2", "1"), ("left", "3", "2"), ("left", "4", "0")),
        *(("right", "1", "0"), ("right", "2", "0"), ("right", "3", "1"), ("right", "5", "3")),
    ]
    # Mean scores to three others, where a pair of one table counts 0: left 1 has (1 + 0.6) / 3, as right 1 has.
    kept = [(row["table"], row["id"], row["text"]) for row in matcher.rows("out/deduplicated.csv")]
    assert kept == [("left", "1", "abcd"), ("left", "2", "xyz"), ("left", "3", "mno"), ("right", "5", "qqq")]
    assert {row["canonical_table"] for row in matcher.rows("out/clusters.csv") if row["cluster"] == "0"} == {"left"}


@given(left=st.integers(1, 4), right=st.integers(1, 4))
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_rows_that_come_later_make_the_clusters_of_all_at_once(matcher, tmp_path_factory, left, right):
    out, once = (str(tmp_path_factory.mktemp(name)) for name in ("out", "once"))
    first = [dict(list(table.items())[-count:]) for table, count in ((LEFT, left), (RIGHT, right))]
    matcher.match(out, *first, at_score=0.5, assign="all")
    before = {(row["table"], row["id"]): row["cluster"] for row in matcher.rows(f"{out}/clusters.csv")}
    matcher.into(out, left=LEFT, right=RIGHT)
    matcher.match(once, LEFT, RIGHT, at_score=0.5, assign="all")
    assert groups(matcher, out) == groups(matcher, once)
    after = {(row["table"], row["id"]): row["cluster"] for row in matcher.rows(f"{out}/clusters.csv")}
    # A cluster that was not merged keeps its id.
    merged = {row["cluster"] for row in matcher.rows(f"{out}/changes.csv") if row["change"] == "gone"}
    assert all(after[one] == cluster for one, cluster in before.items() if cluster not in merged)


def test_served_right_texts_have_their_clusters(matcher, tmp_path):
    matcher.match("out", LEFT, RIGHT, at_score=0.5, assign="all")
    options = ServeOptions(model=tmp_path / "run", known=tmp_path / "out", store=tmp_path / "store")
    texts = read_known(options, matcher.model)[1]
    assert {one: known.cluster for one, known in texts.items()} == {"1": 0, "2": 0, "3": 1, "5": 3}


def test_average_linkage_is_of_one_table(matcher):
    with pytest.raises(BadOption, match="pairs within one of two tables are not compared"):
        matcher.match("out", LEFT, RIGHT, at_score=0.5, clusters="average")


def test_a_folder_of_an_earlier_version_without_clusters_gets_them(matcher):
    matcher.match("out", LEFT, RIGHT, at_score=0.5, assign="all")
    path = matcher.folder / "out/state.json"
    content = read_json(path, [])
    for name in ("always", "at_most_one", "split_bridges", "canonical"):
        del content["about"]["rules"][name]
    path.write_text(json.dumps({**content, "next_cluster": 0}))
    write_parquet(matcher.folder / "out/state-0001/clusters.parquet", pa.table({"cluster": pa.array([], pa.int64())}))
    matcher.into("out", left={"9": "xyz"})
    matcher.match("once", LEFT | {"9": "xyz"}, RIGHT, at_score=0.5, assign="all")
    assert matcher.rows("out/clusters.csv") == matcher.rows("once/clusters.csv")


def test_rules_hold_over_two_tables(matcher):
    matcher.cells |= {"left": {"3": ("T", "")}, "right": {"5": ("T", "")}}
    rules = {"always": "tax", "at_most_one": "source", "canonical": "highest:tax"}
    matcher.match("out", {"3": "mno"}, {"5": "qqq"}, at_score=0.5, assign="all", **rules)
    matcher.into("out", left=LEFT, right=RIGHT)
    matcher.match("once", LEFT, RIGHT, at_score=0.5, assign="all", **rules)
    assert groups(matcher, "out") == groups(matcher, "once")
    assert frozenset({("left", "3"), ("right", "5")}) in groups(matcher, "out")
    assert matcher.rows("out/matches.csv") == matcher.rows("once/matches.csv")
