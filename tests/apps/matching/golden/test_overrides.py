"""Overrides of golden records: which are in effect, what stays next month, and what is a named conflict."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import al_ray
from al_ray.apps.matching.golden.editor import GoldenEditor
from al_ray.apps.matching.golden.overrides import LOG, Override, RecordId, applied, read_overrides, resolve
from al_ray.core.errors import BadFile, BadOption
from tests.apps.matching.incremental.loops import Matcher

# 1, 2 and 3 have 3 of 4 letters in common (0.8) or 3 of 5 (0.6), and 4 has none of these.
TEXTS = {"1": "abc", "2": "abcd", "3": "abce", "4": "xyz"}
# Columns tax and source: here a price and a shop.
CELLS = {"1": ("9", "web"), "2": ("10", ""), "3": ("", "shop"), "4": ("7", "web")}
RULES = "*=longest,tax=most-frequent"


@pytest.fixture
def matcher(tmp_path, monkeypatch):
    made = Matcher(tmp_path, monkeypatch).trained_on(TEXTS)
    made.cells["left"] = CELLS
    made.match("out", TEXTS, at_score=0.55, golden=RULES)
    return made


def golden(matcher, name: str = "text") -> dict[str, tuple[str, str, str]]:
    """Value, record and reason of a field by the number of the cluster."""
    rows = matcher.rows("out/golden.csv")
    return {row["cluster"]: (row[name], row[f"{name}_from"], row[f"{name}_by"].partition(",")[0]) for row in rows}


def states(matcher) -> list[tuple[str, str, str]]:
    """Value, state and clusters of the overrides."""
    if not (matcher.folder / "out/golden_overrides.csv").exists():
        return []
    return [(row["value"], row["state"], row["clusters"]) for row in matcher.rows("out/golden_overrides.csv")]


def override(matcher, cluster: int, text: str | None, by: str = "Ann") -> None:
    al_ray.override_golden(matcher.folder / "out", cluster, {"text": text}, by=by)


def test_an_override_is_in_the_files_at_once_and_stays_when_the_cluster_grows(matcher):
    assert golden(matcher) == {"0": ("abcd", "2", "longest"), "1": ("xyz", "4", "longest")}
    override(matcher, 0, "alphabet")
    expected = {"0": ("alphabet", "", "override: ann"), "1": ("xyz", "4", "longest")}
    assert golden(matcher) == expected
    found = matcher.into("out", left={"5": "abcdef"[:5]})
    assert golden(matcher) == expected
    # The other field is chosen by its rule: 5 has no cells, and 9 and 10 are there once each.
    assert golden(matcher, "tax")["0"] == ("9", "1", "most-frequent")
    assert states(matcher) == [("alphabet", "in effect", "0")]
    assert "values of golden records that people gave: 1 in effect" in list(found.summary)
    # Matching all texts again with the same folder is refused; another folder has no overrides.
    matcher.match("other", TEXTS, at_score=0.55, golden=RULES)
    assert matcher.rows("other/golden.csv")[0]["text"] == "abcd"


def test_an_override_can_be_replaced_be_empty_and_be_taken_back(matcher):
    override(matcher, 0, "alphabet")
    override(matcher, 0, "letters", by="  Bob  B ")
    assert golden(matcher)["0"] == ("letters", "", "override: bob b")
    override(matcher, 0, "")
    assert golden(matcher)["0"] == ("", "", "override: ann")
    override(matcher, 0, None)
    assert golden(matcher)["0"] == ("abcd", "2", "longest")
    assert states(matcher) == []
    # All four lines stay in the log.
    assert [one.value for one in read_overrides(matcher.folder / "out")] == ["alphabet", "letters", "", None]


def test_of_merged_clusters_with_other_values_none_is_used_until_a_person_decides(matcher):
    override(matcher, 0, "letters")
    override(matcher, 1, "end of the alphabet", by="bob")
    # A label joins the two clusters, which have no letter in common.
    matcher.trained_on(TEXTS).labels = [("1", "4", 1)]
    found = matcher.into("out", left={"9": "mno"})
    assert golden(matcher)["0"] == ("abcd", "2", "longest")
    assert states(matcher) == [("letters", "conflict", "0"), ("end of the alphabet", "conflict", "0")]
    (line,) = [line for line in found.summary if "not used" in line]
    assert (
        line
        == "such values that are not used, because others were given to the same clusters: 2 (golden_overrides.csv)"
    )
    assert found.record["golden"]["overrides"] == {"conflict": 2}
    override(matcher, 0, "all letters")
    assert golden(matcher)["0"] == ("all letters", "", "override: ann")
    assert states(matcher) == [("all letters", "in effect", "0")]


def test_of_a_split_cluster_no_part_has_the_value_until_a_person_decides(matcher):
    override(matcher, 0, "letters")
    # Without 1 and with another text of 3 two clusters are left of one.
    matcher.into("out", left={"2": "abcd", "3": "rst", "4": "xyz"}, complete=True)
    clusters = matcher.clusters("out")
    one, other = clusters["2"], clusters["3"]
    assert one != other
    assert states(matcher) == [("letters", "split", " ".join(map(str, sorted((one, other)))))]
    assert {golden(matcher)[str(at)][2] for at in (one, other)} == {"longest"}
    # A value for one part takes its record over, and the other part keeps what was given.
    override(matcher, other, "rest")
    assert golden(matcher)[str(one)] == ("letters", "", "override: ann")
    assert golden(matcher)[str(other)] == ("rest", "", "override: ann")


def test_an_override_whose_records_are_gone_is_kept_for_when_they_come_back(matcher):
    override(matcher, 1, "end")
    matcher.into("out", left={name: TEXTS[name] for name in "123"}, complete=True)
    assert states(matcher) == [("end", "gone", "")]
    found = matcher.into("out", left={"4": "xyz"})
    assert golden(matcher)[str(matcher.clusters("out")["4"])] == ("end", "", "override: ann")
    assert found.record["golden"]["overrides"] == {"in_effect": 1}


def test_ids_of_two_tables_that_coincide_are_two_records(tmp_path, monkeypatch):
    matcher = Matcher(tmp_path, monkeypatch).trained_on({"1": "abc", "2": "xyz"}, {"1": "xyzw", "2": "abcd"})
    tables = {"1": "abc", "2": "xyz"}, {"1": "xyzw", "2": "abcd"}
    matcher.match("out", *tables, at_score=0.55, golden="*=longest,source=first:tax=1")
    rows = matcher.rows("out/golden.csv")
    assert [(row["text"], row["text_from"], row["text_from_table"]) for row in rows] == [
        ("abcd", "2", "right"),
        ("xyzw", "1", "right"),
    ]
    override(matcher, 0, "letters")
    matcher.into("out", right={"3": "qqq"})
    assert [row["text"] for row in matcher.rows("out/golden.csv")] == ["letters", "xyzw", "qqq"]
    assert [row["records"] for row in matcher.rows("out/golden_overrides.csv")] == ["left: 1, right: 2"]


@pytest.mark.parametrize(
    ("cluster", "values", "by", "said"),
    [
        (9, {"text": "a"}, "ann", "has no cluster 9; its clusters are in clusters.csv"),
        (0, {"tax": "a", "price": "b"}, "ann", "no field 'price'; they have 'text', 'tax'"),
        (0, {"text": "a" * 100_001}, "ann", "has 100,001 characters; give at most 100,000"),
        (0, {"text": 1}, "ann", "the value of 'text' is 1; give text"),
        (0, {"text": "a"}, " ", "`by` is ' '; give a name"),
    ],
)
def test_what_is_not_there_is_refused_and_nothing_is_stored(matcher, cluster, values, by, said):
    with pytest.raises(BadOption, match=said):
        al_ray.override_golden(matcher.folder / "out", cluster, values, by=by)
    assert read_overrides(matcher.folder / "out") == []


def test_matches_without_golden_records_are_refused(matcher):
    matcher.match("plain", TEXTS, at_score=0.55)
    with pytest.raises(BadOption, match="has no golden records of tables; match the texts with"):
        al_ray.override_golden(matcher.folder / "plain", 0, {"text": "a"}, by="ann")


def test_a_damaged_log_is_an_error_before_texts_are_matched(matcher):
    override(matcher, 0, "letters")
    log = matcher.folder / "out" / LOG
    log.write_bytes(log.read_bytes().replace(b"letters", b"lettres"))
    before = (matcher.folder / "out" / "state.json").read_bytes()
    with pytest.raises(BadFile, match="damaged; restore the file from a copy"):
        matcher.into("out", left={"5": "abcf"})
    assert (matcher.folder / "out" / "state.json").read_bytes() == before


def test_an_override_on_disk_counts_even_if_its_writer_was_killed_before_the_files_were_written(matcher):
    editor = GoldenEditor(matcher.folder / "out")
    editor.override(0, "text", "letters", "ann", "request-1")
    # The same form sent again counts once.
    editor.override(0, "text", "letters", "ann", "request-1")
    editor.close()
    assert golden(matcher)["0"] == ("abcd", "2", "longest")
    # Half a line of a writer that was killed was never acknowledged.
    with (matcher.folder / "out" / LOG).open("ab") as log:
        log.write(b"00000000 {")
    matcher.into("out", left={"5": "abcf"})
    assert golden(matcher)["0"] == ("letters", "", "override: ann")
    again = GoldenEditor(matcher.folder / "out")
    again.override(0, "text", "other", "ann", "request-1")
    again.close()
    assert len(read_overrides(matcher.folder / "out")) == 1


def test_the_view_of_a_cluster_has_the_values_of_its_records(matcher):
    editor = GoldenEditor(matcher.folder / "out")
    text, tax = editor.view(0)
    assert (text.value, text.record, text.override, text.rule) == ("abcd", "2", "", "longest")
    assert text.values == (("abc", ("1",)), ("abcd", ("2",)), ("abce", ("3",)))
    # 3 has no price.
    assert tax.values == (("9", ("1",)), ("10", ("2",)))
    assert editor.largest(5) == [(0, 3)]
    assert (editor.cluster_of("4"), editor.cluster_of("5")) == (1, None)
    editor.close()


def test_rules_come_from_the_state_and_no_others_can_be_given(matcher):
    with pytest.raises(BadOption, match=r"`golden`: `al_ray\.match_into` matches by the rules"):
        matcher.into("out", left={"5": "abcf"}, golden="*=longest")


RECORDS: list[RecordId] = [("left", str(one)) for one in range(5)]
GIVEN = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.sets(st.sampled_from(RECORDS), min_size=1)), max_size=5
)
CLUSTERS = st.dictionaries(st.sampled_from(RECORDS), st.integers(0, 2))


def overrides_of(given: Sequence[tuple[str | None, set[RecordId]]]) -> list[Override]:
    return [Override("f", value, tuple(sorted(of)), "ann", "now", at) for at, (value, of) in enumerate(given, start=1)]


@settings(max_examples=200, deadline=None)
@given(GIVEN, CLUSTERS)
def test_overrides_in_effect_are_those_of_a_slow_twin(given, clusters):
    expected = dict[int, str]()
    for cluster in set(clusters.values()):
        # The last line about each record of the cluster; those that are taken back have no value.
        last = {
            record: max((at for at, (_, of) in enumerate(given) if record in of), default=None) for record in clusters
        }
        lines = {at for record, at in last.items() if at is not None and clusters[record] == cluster}
        here = {at for at in lines if given[at][0] is not None}
        spread = {at for at in here if any(one == at and clusters[record] != cluster for record, one in last.items())}
        if len({given[at][0] for at in here}) == 1 and here - spread:
            # Only a line that no other cluster of it contradicts: see below.
            expected[cluster] = str(given[max(here - spread)][0])
    standing = resolve(overrides_of(given), clusters)
    found = {cluster: str(one.value) for cluster, one in applied(standing).get("f", {}).items()}
    assert found == expected
    # All that were not replaced are listed.
    owners = {record: at for at, (_, of) in enumerate(given, start=1) for record in of}
    listed = sorted({at for at in owners.values() if given[at - 1][0] is not None})
    assert [one.override.number for one in standing] == listed


@settings(max_examples=100, deadline=None)
@given(st.sets(st.sampled_from(RECORDS), min_size=1), st.sampled_from(["a", None]))
def test_a_cluster_that_only_grows_keeps_its_value(members, value):
    ((standing),) = [resolve(overrides_of([("a", members)]), dict.fromkeys(RECORDS, 7))]
    assert applied(standing)["f"][7].value == "a"
    # What a person gives for the whole cluster replaces all before.
    standing = resolve(
        overrides_of([("a", members), ("b", set(RECORDS)), (value, set(RECORDS))]), dict.fromkeys(RECORDS, 7)
    )
    assert [one.override.value for one in standing] == ([value] if value else [])
