"""jobs.match and --into, night after night, against matching all texts at once; the pool is a few loops."""

import numpy as np
import pytest

from al_ray.apps.matching import pipeline
from al_ray.apps.matching.incremental import renewal, state
from al_ray.apps.matching.incremental.state import read_state
from al_ray.apps.matching.options import MatchOptions
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import BadOption, WrongFolder
from al_ray.core.progress import no_progress
from tests.apps.matching.incremental.loops import Matcher


@pytest.fixture
def matcher(tmp_path, monkeypatch) -> Matcher:
    return Matcher(tmp_path, monkeypatch)


TEXTS = {"a": "abcd", "b": "abce", "c": "xyz", "d": "xyzw"}


def stop(*_) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("rule", ["best", "mutual"])
def test_candidates_are_the_best_pairs_of_the_texts_after_each_night(matcher, rule):
    rng = np.random.default_rng(0)
    left, right = ({f"{side}{row}": "".join(rng.choice(list("abcdefgh"), 5)) for row in range(8)} for side in "lr")
    matcher.trained_on(left, right).match("out", left, right, assign=rule, most=10)
    for night in range(4):
        # The best partner of some texts goes, and a new text comes.
        gone = list(right)[night]
        right = {name: text for name, text in right.items() if name != gone} | {f"n{night}": f"abc{night}d"}
        matcher.into("out", right=right, complete=True, most=10)
        matcher.match(f"once{night}", left, right, assign=rule, most=10)
        found, expected = (read_state(matcher.folder / name)[0].candidates for name in ("out", f"once{night}"))
        assert len(found.scores) == len(expected.scores) <= len(left) + len(right)
        assert matcher.matches("out") == matcher.matches(f"once{night}")


def test_the_command_of_all_texts_does_not_throw_away_those_that_were_added(matcher):
    matcher.trained_on(TEXTS).match("out", TEXTS, at_score=0.5)
    matcher.into("out", left={"e": "abcde"})
    before = matcher.matches("out")
    with pytest.raises(
        WrongFolder, match=r"which `al_ray.match_into` has added; add texts by that, or match all of them"
    ):
        matcher.match("out", TEXTS, at_score=0.5)
    assert matcher.matches("out") == before


def test_other_texts_are_refused_where_into_was_stopped(matcher, monkeypatch):
    matcher.trained_on(TEXTS).match("out", TEXTS, at_score=0.5)
    with monkeypatch.context() as context:
        context.setattr(renewal, "write_outcome", stop)
        with pytest.raises(KeyboardInterrupt):
            matcher.into("out", left={"e": "abcde"})
    assert not (matcher.folder / "out/match.json").exists()
    with pytest.raises(WrongFolder, match="holds matches of another model or of other texts"):
        matcher.match("out", {"x": "other", "y": "others"}, at_score=0.5)


def test_what_into_wrote_of_its_texts_goes_when_all_texts_are_matched_again(matcher):
    matcher.trained_on(TEXTS).match("out", TEXTS, at_score=0.5)
    matcher.labels = [("a", "c", 1)]
    matcher.into("out", left=TEXTS)
    assert (matcher.folder / "out/changes.csv").exists()
    matcher.match("out", TEXTS, at_score=0.5)
    names = {path.name for path in (matcher.folder / "out").iterdir()}
    assert "matches.csv" in names
    assert not names & {"changes.csv", "new_matches.csv", "new_matches.parquet"}


def test_a_stop_while_another_cutoff_is_written_leaves_the_state_of_the_first(matcher, monkeypatch):
    matcher.trained_on(TEXTS).match("out", TEXTS, at_score=0.3)
    first = matcher.matches("out")
    with monkeypatch.context() as context:
        context.setattr(state, "write_root", stop)
        with pytest.raises(KeyboardInterrupt):
            matcher.match("out", TEXTS, at_score=0.9)
    assert not (matcher.folder / "out/match.json").exists()
    matcher.into("out", left={"z": "qqq"})
    assert matcher.matches("out") == first != {}


def test_a_cluster_keeps_its_id_when_its_texts_are_edited(matcher):
    matcher.trained_on(TEXTS).match("out", TEXTS, at_score=0.5)
    before = matcher.clusters("out")
    matcher.into("out", left={"a": "abcdd", "b": "abcee"})
    assert matcher.clusters("out") == before
    assert matcher.rows("out/changes.csv") == []


def test_a_table_without_anything_new_has_numbers_of_its_own(matcher):
    matcher.trained_on(TEXTS).match("out", TEXTS, at_score=0.5)
    nothing = {"new": 0, "changed": 0, "removed": 0}
    first = matcher.into("out", left={"e": "abcdf"}).record
    assert (first["texts"]["new"], first["new_matches"]) == (1, 2)
    again = matcher.into("out", left={"e": "abcdf"}).record
    assert (again["texts"], again["new_matches"]) == (first["texts"], 2)
    other = matcher.into("out", left={"b": "abce"})
    assert (other.record["texts"], other.record["new_matches"]) == ({**nothing, "same": 5}, 0)
    assert other.record["changed_clusters"] == dict.fromkeys(("new", "gone", "splits", "merges"), 0)
    assert matcher.rows("out/new_matches.csv") == matcher.rows("out/changes.csv") == []
    # The same table as the whole one is another command.
    whole = matcher.into("out", left=TEXTS | {"e": "abcdf"}, complete=True).record
    assert (whole["texts"], whole["new_matches"]) == ({**nothing, "same": 5}, 0)


def test_the_first_table_may_have_nothing_new(matcher):
    matcher.trained_on(TEXTS).match("out", TEXTS, at_score=0.5)
    record = matcher.into("out", left={"a": "abcd"}).record
    assert (record["texts"], record["new_matches"]) == ({"new": 0, "changed": 0, "removed": 0, "same": 4}, 0)
    # All texts at once give what they gave.
    before = matcher.matches("out")
    matcher.match("out", TEXTS, at_score=0.5)
    assert matcher.matches("out") == before


def test_a_table_that_came_before_is_told_from_a_command_that_was_stopped(matcher, monkeypatch):
    matcher.trained_on(TEXTS).match("out", TEXTS, at_score=0.5)
    matcher.into("out", left={"a": "abcd"})
    with monkeypatch.context() as context:
        context.setattr(renewal, "write_outcome", stop)
        with pytest.raises(KeyboardInterrupt):
            matcher.into("out", left={"e": "abcdf"})
    # The state is written, and the same command goes on with its numbers.
    record = matcher.into("out", left={"e": "abcdf"}).record
    assert (record["texts"]["new"], record["new_matches"]) == (1, 2)
    assert len(matcher.rows("out/new_matches.csv")) == 2


def test_pairs_of_two_new_texts_count_once_in_most(matcher):
    texts = {f"k{row}": "abc" for row in range(6)}
    matcher.trained_on(texts).match("out", texts, at_score=0.5, most=15)
    matcher.into("out", left=dict.fromkeys(texts, "abcd"), most=15)
    assert len(matcher.matches("out")) == 15
    # One text more: 21 pairs, of which the new ones are 6.
    with pytest.raises(BadOption, match="more than 20 pairs are above the cutoff"):
        matcher.into("out", left={"k6": "abc"}, most=20)


def test_new_matches_are_written_anew_when_a_rerun_escapes_formulas_or_leaves_texts_out(matcher):
    texts = {"a": "=abcd", "b": "=abce", "c": "xyz"}
    matcher.trained_on(texts).match("out", texts, at_score=0.5)
    new = {"d": "=abcd1"}
    matcher.into("out", left=new)
    before = matcher.rows("out/new_matches.csv")
    assert {row["left_text"] for row in before} == {"=abcd", "=abce"}
    matcher.into("out", left=new, escape_formulas=True)
    assert {row["left_text"] for row in matcher.rows("out/new_matches.csv")} == {"'=abcd", "'=abce"}
    matcher.into("out", left=new, texts=False)
    bare = [{name: cell for name, cell in row.items() if "text" not in name} for row in before]
    assert matcher.rows("out/new_matches.csv") == bare


def test_one_text_that_would_be_left_is_an_error(matcher):
    matcher.trained_on(TEXTS).match("out", TEXTS, at_score=0.5)
    with pytest.raises(BadOption, match="`complete`: one text would be left, and a pair needs two"):
        matcher.into("out", left={"a": "abcd"}, complete=True)


def test_texts_keep_their_columns(matcher):
    matcher.trained_on(TEXTS)
    known, new = matcher.folder / "known.csv", matcher.folder / "new.csv"
    known.write_text("id,name,brand\n1,red bike,Acme\n2,red bikes,Acme\n3,blue,Zed\n")
    new.write_text("id,name,brand\n4,blue one,Zed\n1,bike,Acme\n")
    options = {"text_columns": "name,brand", "id_column": "id", "at_score": 0.5, "drift": False}
    config, watch = ClusterConfig(), no_progress
    out = matcher.folder / "out"
    pipeline.match_texts(MatchOptions(left=known, **options), matcher.model, out, config, watch)
    pipeline.match_into(MatchOptions(left=new), out, config, watch)
    left = read_state(out)[1].left
    cells = dict(zip(left.ids, left.cells(np.arange(4)), strict=True))
    assert cells == {"1": ["bike", "Acme"], "2": ["red bikes", "Acme"], "3": ["blue", "Zed"], "4": ["blue one", "Zed"]}
