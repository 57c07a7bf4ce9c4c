"""The comparison: its tables and truths, its figures, and which commands it calls with which tools."""

from pathlib import Path

import pytest

from studies.other_tools.comparison import COLUMNS, OtherTools, Trial, format_results


@pytest.mark.parametrize(("one_table", "rows", "matches"), [(True, 82, 51), (False, 100, 50)])
def test_tables_and_truth_are_written(tmp_path, one_table, rows, matches):
    trial = Trial(OtherTools(tmp_path, rows=100), one_table, tmp_path / "a", 0)
    trial._write_tables()
    assert len((tmp_path / "a" / "left.csv").read_text().splitlines()) == rows + 1
    assert len((tmp_path / "a" / "truth.csv").read_text().splitlines()) == matches + 1
    assert (tmp_path / "a" / "right.csv").exists() != one_table


def test_figures_are_of_all_pairs_and_of_those_without_a_label(tmp_path):
    (tmp_path / "truth.csv").write_text("left_id,right_id\na,x\nb,y\n")
    (tmp_path / "labels.csv").write_text("left_id,right_id,answer\na,x,yes\na,z,no\n")
    row = Trial(OtherTools(tmp_path), False, tmp_path, 0).measured(frozenset({("a", "x"), ("c", "z")}), 12.4)
    # One of two found pairs is right, of two; without the labelled pair (a, x) none is.
    names = ("precision", "recall", "f1")
    figures = dict.fromkeys(names, "50.0") | {f"{name}_unlabelled": "0.0" for name in names}
    assert row == {"labels": "2", "found": "2", "seconds": "12"} | figures


def test_tools_without_an_environment_are_left_out_and_all_others_get_the_same_labels(tmp_path):
    (tmp_path / "truth.csv").write_text("left_id,right_id\na,x\n")
    (tmp_path / "labels.csv").write_text("left_id,right_id,answer\na,x,yes\nb,y,no\n")
    assert Trial(OtherTools(tmp_path), False, tmp_path, 0)._others() == {}
    options = OtherTools(tmp_path, splink=Path("s/python"), dedupe=Path("d/python"))
    commands = Trial(options, False, tmp_path, 0)._others()
    for tool in ("dedupe same labels", "Splink same labels"):
        assert commands[tool][-2:] == ["--labels", "labels.csv"]
    # As many labels as al_ray had.
    assert commands["dedupe own labels"][2:4] == ["--ask", "2"]
    assert "one-to-one" not in " ".join(Trial(options, True, tmp_path, 0)._others())


def test_clusters_are_all_pairs_of_their_texts(tmp_path):
    (tmp_path / "clusters.csv").write_text("id,cluster,canonical\nc,1,c\na,1,c\nb,1,c\nd,2,d\n")
    trial = Trial(OtherTools(tmp_path), True, tmp_path, 0)
    assert trial._matches_of(tmp_path, "al_ray, clusters") == {("a", "b"), ("a", "c"), ("b", "c")}


def test_the_table_has_a_line_for_each_row():
    assert len(format_results([dict.fromkeys(COLUMNS, "1")] * 2).splitlines()) == 3
