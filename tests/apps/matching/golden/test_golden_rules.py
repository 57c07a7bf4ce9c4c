"""The rules of golden records: worked values, a slow twin, and laws."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from al_ray.apps.matching.clusters.nodes import Nodes
from al_ray.apps.matching.golden.fields import GoldenPlan
from al_ray.apps.matching.golden.records import NONE, ClusteredRecords, golden_batches
from al_ray.apps.matching.golden.rules import GOLDEN_RULES, FieldRule, GoldenRules, golden_help
from al_ray.apps.matching.incremental.order import task_of
from al_ray.core.errors import BadOption
from al_ray.core.task import Corpus, Fields

Row = tuple[str, str, str, str]
"""Cells of a record: title, brand, updated and shop. Title and brand are the text columns."""
TABLE = {"text_columns": "title,brand", "right_text_columns": None}


def nodes_of(rows: Sequence[Row], ids: Sequence[str] | None = None) -> Nodes:
    """The records in their order, with row numbers as ids unless others are given."""
    texts = tuple(" ".join(filter(None, row[:2])) for row in rows)
    lengths = np.array([[len(cell) for cell in row[:2]] for row in rows], dtype=np.int64).reshape(-1, 2)
    columns = {name: tuple(row[at] for row in rows) for at, name in ((2, "updated"), (3, "shop"))}
    names = tuple(ids) if ids is not None else tuple(map(str, range(len(rows))))
    corpus = Corpus(names, texts, Fields(("title", "brand"), lengths), columns)
    return Nodes(task_of("records", corpus, corpus, True))


def golden(words: str, rows: Sequence[Row], clusters: Sequence[int], at_once: int = 65_536):
    """(cluster, value, node) of each field by its name, of rules as the option has them. Canonical: the last record."""
    nodes, numbers = nodes_of(rows), np.array(clusters, dtype=np.int64)
    plan = GoldenPlan.of(words, nodes.task, TABLE)
    last = np.array([at == max(np.flatnonzero(numbers == numbers[at])) for at in range(len(rows))])
    found: dict[str, list[tuple[int, str | None, int]]] = {field.name: [] for field in plan.fields}
    records = ClusteredRecords(np.arange(len(rows)), numbers, last)
    for batch in golden_batches(nodes, plan, records, {}, at_once):
        for field, chosen in zip(plan.fields, batch.fields, strict=True):
            found[field.name] += zip(batch.clusters.tolist(), chosen.values, chosen.nodes.tolist(), strict=True)
    return found


ROWS: list[Row] = [
    ("tv", "sony", "2026-01-05", "web"),
    ("tv 40 inch", "", "2026-03-01", "erp"),
    ("tv", "sony corp", "", "shop"),
    ("lamp", "", "2026-02-01", "web"),
]


WORKED = [
    # Of cluster 0 (records 0, 1, 2): tv is there twice, and brands once each, so the first record's is taken.
    ("most-frequent", ("tv", 0), ("sony", 0)),
    ("longest", ("tv 40 inch", 1), ("sony corp", 2)),
    # Record 1 is the newest but has no brand. Record 2 has no date, so it is the oldest of none.
    ("newest:updated", ("tv 40 inch", 1), ("sony", 0)),
    ("oldest:updated", ("tv", 0), ("sony", 0)),
    ("first:shop=shop,erp", ("tv", 2), ("sony corp", 2)),
    ("first:shop=erp,shop", ("tv 40 inch", 1), ("sony corp", 2)),
    # 0 and 2 have both fields, and 2 has more characters.
    ("complete", ("tv", 2), ("sony corp", 2)),
    ("canonical", ("tv", 2), ("sony corp", 2)),
]


@pytest.mark.parametrize(("rule", "title", "brand"), WORKED)
def test_each_rule_chooses_the_value_that_it_names(rule, title, brand):
    found = golden(f"*={rule}", ROWS, [0, 0, 0, 7])
    assert found == {
        "title": [(0, *title), (7, "lamp", 3)],
        # All brands of cluster 7 are empty.
        "brand": [(0, *brand), (7, None, NONE)],
    }


def test_every_rule_has_a_worked_value():
    assert {rule.partition(":")[0] for rule, *_ in WORKED} == GOLDEN_RULES.keys()


def test_every_rule_is_in_the_docs_and_in_the_help():
    page = (Path(__file__).parents[4] / "docs" / "golden.md").read_text(encoding="utf-8")
    for name, rule in GOLDEN_RULES.items():
        assert f"| `{name}{rule.form}` | {rule.summary.partition(',')[0]}" in page.replace(
            "[canonical record](clusters.md#the-record-that-stands-for-a-cluster)", "canonical record"
        )
        assert f"{name}{rule.form}: the value {rule.summary}" in golden_help()


def test_fields_are_the_text_columns_in_their_order_then_the_others():
    found = golden("shop=longest,brand=longest,*=most-frequent", ROWS, [0, 0, 0, 7])
    assert [*found] == ["title", "brand", "shop"]
    assert found["brand"][0] == (0, "sony corp", 2)
    assert found["shop"] == [(0, "shop", 2), (7, "web", 3)]


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        ("*=longest", {"*": FieldRule("longest")}),
        (
            "price=newest:updated, title=longest",
            {"price": FieldRule("newest", "updated"), "title": FieldRule("longest")},
        ),
        # Commas within `first` and between fields.
        (
            "price=first:source=erp,web shop,a=complete",
            {"price": FieldRule("first", "source", ("erp", "web shop")), "a": FieldRule("complete")},
        ),
        # A quoted part may have commas.
        ('"a,b=longest"', {"a,b": FieldRule("longest")}),
    ],
)
def test_words_are_read_as_rules_and_written_as_they_were(words, fields):
    rules = GoldenRules.parse(words)
    assert rules.fields == fields
    if '"' not in words:
        again = ",".join(f"{name}={rule}" for name, rule in rules.fields.items())
        assert GoldenRules.parse(again).fields == fields


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "has no rule; give FIELD=RULE"),
        ("title", "'title' is no rule; give FIELD=RULE"),
        ("title=best", "'title=best' is no rule"),
        ("title=longest:updated", "is no rule"),
        ("title=newest", "is no rule"),
        ("title=newest:", "is no rule"),
        ("title=first:source", "is no rule"),
        ("=longest", "is no rule"),
        # A misspelt rule after `first` is not one of its values.
        ("title=first:source=a,b,brand=longst", "'brand=longst' is no rule"),
        ("title=longest,title=complete", "two rules of 'title'"),
    ],
)
def test_other_words_are_refused(words, said):
    with pytest.raises(BadOption, match=said):
        GoldenRules.parse(words)


@pytest.mark.parametrize(
    ("cells", "newest"),
    [
        (["9", "10", ""], 1),
        (["2026-03-01", "2026-11-02", "2025-12-31"], 1),
        # A time of the same day, a zone, and a date without a time.
        (["2026-03-01 10:00", "2026-03-01T12:30:00+01:00", "2026-03-01"], 1),
        (["31.12.2025", "1 March 2026", "2026/02/28"], 1),
    ],
)
def test_newest_reads_numbers_and_dates(cells, newest):
    rows = [("a" * (at + 1), "", cell, "") for at, cell in enumerate(cells)]
    assert golden("title=newest:updated", rows, [0] * len(rows))["title"] == [(0, "a" * (newest + 1), newest)]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["2026-03-01", "7"], "must be dates, such as 2026-11-27, or all of them numbers, and there is '7' of id '1'"),
        (["2026-03-01", "03/04/2026"], "'03/04/2026' of id '1', which can be read as two dates"),
        (["soon", "9"], "'soon' of id '0'; correct such cells or empty them"),
    ],
)
def test_a_column_that_is_neither_dates_nor_numbers_is_refused_with_the_cell(cells, said):
    rows = [("a", "", cell, "") for cell in cells]
    with pytest.raises(BadOption, match=said):
        golden("title=newest:updated", rows, [0] * len(rows))


def test_two_columns_of_one_name_are_refused():
    corpus = Corpus(("1", "2"), ("a", "b"), None, {"title_by": ("x", "y")})
    task = task_of("records", corpus, corpus, True)
    with pytest.raises(BadOption, match="two columns 'title_by'; rename the column 'title_by'"):
        GoldenPlan.of("*=longest,title_by=longest", task, {"text_columns": "title"})


def test_columns_of_two_tables_with_other_names_are_one_by_their_places():
    lengths = np.array([[1, 1]])
    left = Corpus(("1",), ("a b",), Fields(("title", "brand"), lengths))
    right = Corpus(("1",), ("c d",), Fields(("name", "maker"), lengths))
    plan = GoldenPlan.of("*=longest", task_of("two", left, right, False), TABLE | {"right_text_columns": "name,maker"})
    nodes = Nodes(task_of("two", left, right, False))
    assert [field.name for field in plan.fields] == ["title", "brand"]
    assert plan.cells(nodes, np.array([0, 1])) == [["a", "c"], ["b", "d"]]


# Few different values, so that ties and empty cells are frequent.
CELL = st.sampled_from(["", "a", "b", "ab", "abc"])
RECORD = st.tuples(
    CELL.filter(bool), CELL, st.sampled_from(["", "2026-01-01", "2026-01-02"]), st.sampled_from(["", "x", "y"])
)
CLUSTERED = st.lists(st.tuples(RECORD, st.integers(0, 4)), min_size=1, max_size=14)
RULES = ["most-frequent", "longest", "newest:updated", "oldest:updated", "first:shop=y,x", "complete", "canonical"]


def worth(rule: str, rows: list[Row], at: int, field: int) -> Any:
    """How good a record of a cluster is by a rule: the higher the better."""
    row = rows[at]
    match rule.partition(":")[0]:
        case "most-frequent":
            return sum(other[field] == row[field] for other in rows)
        case "longest":
            return len(row[field])
        case "newest":
            return row[2]
        case "oldest":
            # An empty date is the last.
            return {"2026-01-01": 2, "2026-01-02": 1, "": 0}[row[2]]
        case "first":
            return {"y": 2, "x": 1, "": 0}[row[3]]
        case "complete":
            return (sum(map(bool, row[:2])), sum(map(len, row[:2])))
        case _:
            return at == len(rows) - 1


def all_best(rule: str, rows: list[Row], field: int) -> list[int]:
    """The places of the best of the records of one cluster that have a value, by the definition; [] if none has one."""
    there = [at for at, row in enumerate(rows) if row[field]]
    return [at for at in there if all(worth(rule, rows, at, field) >= worth(rule, rows, one, field) for one in there)]


@settings(max_examples=60, deadline=None)
@given(CLUSTERED, st.sampled_from(RULES), st.integers(1, 20))
def test_all_clusters_in_batches_of_any_size_are_those_of_a_slow_twin(records, rule, at_once):
    rows, clusters = [row for row, _ in records], [cluster for _, cluster in records]
    found = golden(f"*={rule}", rows, clusters, at_once)
    for place, name in enumerate(("title", "brand")):
        expected = list[tuple[int, str | None, int]]()
        for cluster in sorted(set(clusters)):
            nodes = [at for at, of in enumerate(clusters) if of == cluster]
            own = [rows[at] for at in nodes]
            first = next(iter(all_best(rule, own, place)), None)
            expected.append((cluster, None, NONE) if first is None else (cluster, own[first][place], nodes[first]))
        assert found[name] == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(RECORD, min_size=1, max_size=8), st.data())
def test_a_value_is_that_of_the_record_that_is_named_and_one_more_of_the_most_frequent_changes_nothing(rows, data):
    rule = data.draw(st.sampled_from(RULES))
    for name, field in (("title", 0), ("brand", 1)):
        ((_, value, node),) = golden(f"*={rule}", rows, [0] * len(rows))[name]
        # An empty value is taken only if all are empty.
        assert value == (None if node == NONE else rows[node][field])
        assert (value is None) == (not any(row[field] for row in rows))
    ((_, value, node),) = golden("*=most-frequent", rows, [0] * len(rows))["title"]
    again = [*rows, rows[node]]
    assert golden("*=most-frequent", again, [0] * len(again))["title"] == [(0, value, node)]


@settings(max_examples=60, deadline=None)
@given(st.lists(RECORD, min_size=1, max_size=8), st.randoms(use_true_random=False), st.sampled_from(RULES[:-1]))
def test_the_order_of_records_decides_among_the_best_alone(rows, random, rule):
    order = list(range(len(rows)))
    random.shuffle(order)
    for name, field in (("title", 0), ("brand", 1)):
        ((_, _, node),) = golden(f"*={rule}", [rows[at] for at in order], [0] * len(rows))[name]
        best = all_best(rule, rows, field)
        assert (order[node] in best) if best else (node == NONE)
