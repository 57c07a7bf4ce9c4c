"""The measurement of what labels buy: its figures are those of the run and of slow loops, and are computed once."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from al_ray.core.config.sections import CandidatesConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.datasets.task_folder import write_task
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.uri import storage_path
from studies import __main__ as studies
from studies.records.labels_bought import Records, Trials
from studies.records.stated_files import read_stated
from studies.records.table import format_markdown, spread

COMMON = {
    "encoder": "random-bert", "encoder_layers": 1, "max_length": 24, "threads": 1, "seeds": (3,), "labels": (12, 20),
    "first_batch": 12, "batch": 4, "candidates": CandidatesConfig(cosine=5, trigrams=5, of_right=5),
}  # fmt: skip


@pytest.fixture(params=["symmetric", "two-sided", "with a rule"])
def task(request, make_task, make_ruled):
    if request.param == "with a rule":
        return make_ruled(False, clusters=18)
    return make_task(request.param == "symmetric", clusters=18)


@pytest.fixture
def options(task, tmp_path):
    """Options with files of test and valid pairs, which are the stated ones."""
    write_task(task, tmp_path / "task", {})
    split = task.split("train")
    for name, part in (("test", slice(0, None, 2)), ("valid", slice(1, None, 2))):
        lines = ["ltable_id,rtable_id,label"]
        for label, pairs in ((1, split.positives[part]), (0, split.stated_negatives[part])):
            lines += [f"{left},{right},{label}" for left, right in zip(*task.ids_of(pairs), strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    files = {"test_pairs": tmp_path / "test.csv", "valid_pairs": tmp_path / "valid.csv"}
    return Records(tmp_path / "task", tmp_path / "out", **COMMON, **files)


@pytest.mark.usefixtures("in_process")
def test_figures_are_those_of_the_run_and_are_computed_once(options, task, monkeypatch):
    rows = options.results()["rows"]
    folder = RunFolder(storage_path(str(options.folder(3))), task)
    lines, labelled = folder.complete_rounds(), folder.ledger.labelled()
    assert [row["labels"] for row in rows] == [0, 0, 12, 20]
    assert [row["positives"] for row in rows] == [0, 0, lines[0]["positives"], lines[2]["positives"]]
    assert rows[0]["average_precision"] == pytest.approx(lines[0]["candidates"]["train"]["cosine_average_precision"])
    for row, number in zip(rows[2:], (1, 3), strict=True):
        assert row["average_precision"] == pytest.approx(lines[number - 1]["average_precision"])
        assert row["recall"] == lines[number - 1]["candidates"]["train"]["recall"]["both"]
    split, pairs = task.split("train"), Trials(options, task)._pairs
    scores = pairs.scores(options.folder(3) / "round-003" / "model", 1)
    assert split.space.total == int(pairs.truth.counted.sum())
    known, bought = (set(map(tuple, of.tolist())) for of in (split.positives, labelled.pairs))
    of = {
        (int(pairs.left[row]), int(pairs.right[column])): scores[row, column]
        for row, column in np.argwhere(pairs.truth.counted).tolist()
    }
    left = {pair: score for pair, score in of.items() if pair not in bought}
    steps = [
        sum(left[pair] >= left[own] for pair in known & left.keys())
        / sum(score >= left[own] for score in left.values())
        for own in known & left.keys()
    ]
    assert rows[3]["average_precision_unlabelled"] == pytest.approx(np.mean(steps))
    assert rows[3]["average_precision_unlabelled"] != rows[3]["average_precision"]
    test, right = read_stated(options.test_pairs, options.pair_columns, task)
    found = {pair for pair in map(tuple, test.tolist()) if of[pair] >= 2.5}
    right = {tuple(pair) for pair in test[right].tolist()}
    assert rows[3]["test_f1_half"] == pytest.approx(2 * len(found & right) / (len(found) + len(right)))
    assert rows[3]["test_labelled"] == len(bought & set(map(tuple, test.tolist()))) > 0
    assert json.loads((options.out / "results.json").read_text())["rows"] == rows
    assert (options.out / "results.md").read_text() == format_markdown(rows) + "\n"
    monkeypatch.setattr(Records, "_run", lambda *_: pytest.fail("run again"))
    assert options.results()["rows"] == rows
    with pytest.raises(pytest.fail.Exception):
        replace(options, labels=(12, 16)).results()


@pytest.mark.usefixtures("in_process")
def test_seeds_share_the_pool_and_a_run_goes_on(make_task, tmp_path, capsys, monkeypatch):
    write_task(make_task(False, clusters=18), tmp_path / "task", {})
    line = ["records", "--task", str(tmp_path / "task"), "--out", str(tmp_path / "out"), "--encoder", "random-bert"]
    line += ["--encoder-layers", "1", "--max-length", "24", "--threads", "1", "--first-batch", "12", "--batch", "4"]
    line += ["--candidates.cosine", "5", "--candidates.trigrams", "5"]
    monkeypatch.setattr(sys, "argv", ["studies", *line, "--seeds", "0", "--labels", "12"])
    studies.main()
    batch = (tmp_path / "out" / "seed-0" / "round-001" / "batch.parquet").read_bytes()
    monkeypatch.setattr(sys, "argv", ["studies", *line, "--seeds", "0", "1", "--labels", "12", "16"])
    studies.main()
    assert (tmp_path / "out" / "seed-0" / "round-001" / "batch.parquet").read_bytes() == batch
    assert "| 16 | matcher | 2 |" in capsys.readouterr().out
    assert not any((tmp_path / "out" / f"seed-{seed}" / "pool").exists() for seed in (0, 1))
    assert (tmp_path / "out" / "shared" / "pool").is_dir()


def test_numbers_of_labels_are_those_of_whole_rounds(tmp_path):
    options = Records(tmp_path, tmp_path, first_batch=60, batch=20, labels=(60, 100, 300))
    assert options.rounds_of() == {60: 1, 100: 3, 300: 13}
    for labels in (70, 40):
        with pytest.raises(BadOption, match=f"--labels {labels} is not --first-batch 60 and a multiple of --batch 20"):
            replace(options, labels=(60, labels)).rounds_of()


def test_files_of_pairs_of_other_tables_are_refused(make_task, tmp_path):
    task, path = make_task(False), tmp_path / "pairs.csv"
    path.write_text("ltable_id,rtable_id,label\nnobody,nobody,1\n")
    with pytest.raises(BadFile, match="has the id nobody, which the task does not have"):
        read_stated(path, "ltable_id,rtable_id,label", task)
    with pytest.raises(BadFile, match="no columns a,b,label; give --pair-columns"):
        read_stated(path, "a,b,label", task)
    with pytest.raises(BadOption, match="--pair-columns is a,b; give three names"):
        read_stated(path, "a,b", task)


def test_the_table_has_means_and_deviations_in_percent():
    assert spread("f1", [0.5, 0.6]) == "55.0 ± 7.1"
    assert spread("f1", [0.5]) == "50.0"
    assert spread("positives", [10, 13]) == "12 ± 2"
    assert spread("seconds", [1.0, 2.0]) == "1.5"
    rows = [{"labels": 1_000, "ranking": "matcher", "f1": value, "recall": None} for value in (0.5, 0.6)]
    assert format_markdown(rows).splitlines() == [
        "| labels | ranking | seeds | best F1 |",
        "|---|---|---|---|",
        "| 1,000 | matcher | 2 | 55.0 ± 7.1 |",
    ]
