"""The simulated month: how its rows are dealt, what a day counts, and that both models of the first days are one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import al_ray
from al_ray.core.pairs import as_pairs
from benchmarks.row_file import Row
from studies.month import Month
from studies.month_report import COLUMNS, FIXED, RELABELLED, draw, format_weeks
from studies.month_stream import Stream, abbreviate

SMALL = Month(Path("work"), days=10, known=100, rows=20, calm=4, share=0.6, words=0.5)


def test_every_row_comes_once_and_the_new_source_from_the_calm_days_on():
    stream = SMALL.stream(3)
    assert np.bincount(stream.day).tolist() == [100, *[20] * 10]
    short = [int(stream.abbreviated[stream.day == day].sum()) for day in range(11)]
    # 20 rows, of which 60% on the last day: 12 of them, six days after the last calm one.
    assert short == [0, 0, 0, 0, 0, 2, 4, 6, 8, 10, 12]
    # Texts of clusters, whatever their day: the true pairs of all days are those of the task.
    task = al_ray.Synthetic(texts=300, seed=3).read()[0]
    every = sum(len(split.positives) for split in task.splits.values())
    none = np.empty((0, 2), dtype=np.int64)
    assert sum(stream.counts(day, none)["true"] for day in range(11)) == every > 50
    written = {abbreviate(text, 0.5) for text in task.left.texts}
    assert {text for text, own in zip(stream.texts, stream.abbreviated, strict=True) if own} <= written
    assert {text for text, own in zip(stream.texts, stream.abbreviated, strict=True) if not own} <= set(task.left.texts)


def test_words_lose_their_vowels_by_the_word_alone():
    assert abbreviate("How do I reset the Alderarch Comet 12?", 1) == "How do I rst the Aldrrch Cmt 12?"
    assert abbreviate("reset the Comet", 0) == "reset the Comet"
    some = [abbreviate(word, 0.5) == word for word in ("reset", "Comet", "engineer", "origin", "winter", "school")]
    assert 0 < sum(some) < 6
    assert abbreviate("engineer reset", 0.5).split() == [abbreviate(word, 0.5) for word in ("engineer", "reset")]


def test_a_day_counts_the_pairs_of_its_rows_with_all_rows_so_far():
    cluster, day = np.array([0, 0, 1, 1, 0, 1]), np.array([0, 0, 0, 1, 1, 2])
    stream = Stream(("",) * 6, cluster, day, np.zeros(6, dtype=np.bool_))
    # Of day 1: 3 with 2, 4 with 0, 4 with 1. Of day 2: 5 with 2, 5 with 3.
    found = as_pairs(np.array([0, 2, 3, 0, 5]), np.array([1, 3, 4, 4, 3]))
    assert stream.counts(1, found) == {"true": 3, "found": 3, "right": 2}
    assert stream.counts(2, found) == {"true": 2, "found": 1, "right": 1}


def month(right: dict[str, int]) -> list[Row]:
    return [
        dict.fromkeys(COLUMNS, "0")
        | {"arm": arm, "day": str(day), "rows": "20", "abbreviated": "5", "true": "10", "found": "8"}
        | {"right": str(right[arm] if day > 7 else 4), "drift": "1" if day == 8 else "0", "labels": str(10 * (day > 7))}
        | {"round": str(int(day > 7 and arm == RELABELLED))}
        for day in range(1, 10)
        for arm in (FIXED, RELABELLED)
    ]


def test_the_table_has_the_shares_of_each_week():
    lines = [line.split() for line in format_weeks(month({FIXED: 2, RELABELLED: 6})).splitlines()]
    # Seven days of 10 true pairs, 8 found and 4 right; then two days with 2 or 6 right.
    assert lines[1] == ["1-7", FIXED, "25", "0", "0", "70", "56", "50.0", "40.0"]
    assert lines[3] == ["8-9", FIXED, "25", "1", "10", "20", "16", "25.0", "20.0"]
    assert lines[4] == ["8-9", RELABELLED, "25", "1", "10", "20", "16", "75.0", "60.0"]


def test_the_picture_has_a_line_for_each_figure_and_model():
    svg = draw(month({FIXED: 2, RELABELLED: 6}))["svg"].decode()
    assert all(f"<!-- {name}, {arm} -->" in svg for name in ("recall", "precision") for arm in (FIXED, RELABELLED))


@pytest.mark.slow
def test_until_the_first_relabelling_both_models_are_one_and_days_are_computed_once(in_process, tmp_path):
    options = Month(
        tmp_path / "work", days=2, known=120, rows=20, calm=0, first_labels=32, encoder="random-bert",
        encoder_layers=1, threads=1, out=tmp_path / "month.csv",
        training=al_ray.TrainingConfig(epochs=1, batch=8, worst_loss=100.0),
    )  # fmt: skip
    rows = options.results()
    assert [(row["day"], row["arm"]) for row in rows] == [(day, arm) for day in "12" for arm in (FIXED, RELABELLED)]
    for fixed, other in zip(rows[::2], rows[1::2], strict=True):
        assert {**fixed, "arm": ""} == {**other, "arm": ""}
    content = (tmp_path / "month.csv").read_text()
    assert replace(options, work=tmp_path / "nowhere").results() == rows
    assert (tmp_path / "month.csv").read_text() == content
    assert not (tmp_path / "nowhere").exists()
