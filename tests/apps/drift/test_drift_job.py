"""jobs.match --drift and --suggest on a real Ray: warnings, suggested pairs, and the import of their labels."""

import csv
import json
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import al_ray
from al_ray.cli import labels, match
from al_ray.cli._shared import entry
from al_ray.core.task import Corpus, Task
from tests.apps.audit.test_audit_job import run_folder
from tests.apps.matching.test_match_job import as_matched, labelled, refused, scores_by_loops, tables
from tests.journeys.terminal import fill


@pytest.fixture(scope="module", params=[True, False], ids=["one table", "two tables"])
def ran(request, in_process, make_task, tmp_path_factory) -> tuple[Path, Task]:
    task = make_task(request.param, clusters=24, members=6)
    return run_folder(tmp_path_factory.mktemp("ran"), task), task


def do(monkeypatch, capsys, command, line: str) -> str:
    monkeypatch.setattr(sys, "argv", [command.__name__.rpartition(".")[2], *shlex.split(line)])
    capsys.readouterr()
    entry.job(command.main)
    return capsys.readouterr().out


def record(out: Path) -> dict:
    return json.loads((out / "match.json").read_text())


def suggested(out: Path) -> list[dict]:
    rows = pq.read_table(out / "suggested.parquet").to_pylist()
    with (out / "suggested.csv").open(newline="", encoding="utf-8-sig") as file:
        sheet = list(csv.DictReader(file))
    # People do not see scores.
    assert list(sheet[0]) == ["pair", "label", "left_text", "right_text", "left_id", "right_id"]
    names = ("pair", "left_id", "right_id")
    assert [[row[name] for name in names] for row in sheet] == [[row[name] for name in names] for row in rows]
    assert {row["label"] for row in sheet} == {""}
    return rows


def other_domain(task: Task) -> Task:
    """The same ids with other texts: digits, and three times as long."""

    def changed(corpus: Corpus) -> Corpus:
        return replace(corpus, texts=tuple(f"{row * 7919 % 10007} " * 8 for row in range(len(corpus))))

    left = changed(task.left)
    return replace(task, left=left, right=left if task.symmetric else changed(task.right))


def test_the_texts_of_training_give_no_warning_however_many_shards_there_are(ran, monkeypatch, capsys, tmp_path):
    run, task = ran
    for shards in (1, 2):
        line = f"--model {run} {tables(task, tmp_path)} --best 5 --assign all --suggest 12 --shards {shards}"
        shown = do(monkeypatch, capsys, match, f"{line} --out {tmp_path / str(shards)}")
        assert "drift: none was found, but so few texts show only very large differences" in shown
    drift = record(tmp_path / "1")["drift"]
    assert drift == record(tmp_path / "2")["drift"]
    for name in ("suggested.csv", "suggested.parquet"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()
    split = task.split("train")
    sizes = [len(split.space.left)] + ([] if task.symmetric else [len(split.space.right)])
    assert drift["samples"] == {"training": sizes, "now": sizes}
    sides = ["texts"] if task.symmetric else ["left texts", "right texts"]
    kinds = ["characters", "truncated", "unknown words", "distance to training"]
    assert [(one["subject"], one["name"]) for one in drift["figures"]] == [
        *((side, kind) for side in sides for kind in kinds),
        ("random pairs", "cosine of random pairs"), ("best partners", "cosine of best partners"),
    ]  # fmt: skip
    figures = {(one["subject"], one["name"]): one for one in drift["figures"]}
    # The same texts: each is at no distance from itself, and the means of what is measured alike are the same.
    left = [task.left.texts[row] for row in split.space.left]
    mean = pytest.approx(np.mean([len(text) for text in left]), abs=1e-5)
    assert (figures[sides[0], "characters"]["training"], figures[sides[0], "characters"]["now"]) == (mean, mean)
    assert figures[sides[0], "distance to training"]["now"] == pytest.approx(0, abs=1e-6)
    assert figures[sides[0], "unknown words"]["now"] == 0
    # Each text has a number of its own.
    assert figures[sides[0], "unknown words"]["training"] >= 0.5
    best = figures["best partners", "cosine of best partners"]
    scores, lefts = scores_by_loops(run, task), {task.left.ids[row] for row in split.space.left}
    expected = np.mean(
        [max(s for pair, s in scores.items() if own == pair[0] or (task.symmetric and own in pair)) for own in lefts]
    )
    assert (best["training"], best["now"]) == (pytest.approx(expected, abs=1e-5),) * 2


def test_texts_of_another_domain_give_warnings_in_words(ran, monkeypatch, capsys, tmp_path):
    run, task = ran
    line = f"--model {run} {tables(other_domain(task), tmp_path)} --best 5 --assign all --suggest 8"
    shown = do(monkeypatch, capsys, match, f"{line} --out {tmp_path / 'out'}")
    warnings = record(tmp_path / "out")["drift"]["warnings"]
    assert [line for line in shown.splitlines() if line.startswith("drift: ")] == [f"drift: {one}" for one in warnings]
    side = "texts" if task.symmetric else "left texts"
    for words in ("are longer than in training", "have the maximum number of tokens", "are farther from the training"):
        assert any(one.startswith(f"{side} {words}") for one in warnings), words
    # The texts are not those of the run, so its folder takes no labels of them.
    assert "extend the task first" in shown
    assert record(tmp_path / "out")["suggested"] == {
        "kept": False, "asked": 8, "pairs": 8, "unlike_training": 8, "closest_to": "the boundary",
        "in_task_of_run": False,
    }  # fmt: skip
    # The same command again keeps the pairs, and still says so.
    do(monkeypatch, capsys, match, f"{line} --out {tmp_path / 'out'}")
    assert record(tmp_path / "out")["suggested"] == {"kept": True, "in_task_of_run": False}
    # A task that has these texts under their ids takes them; here the one that the command wrote.
    sheet, (new,) = tmp_path / "out/suggested.csv", (tmp_path / "out").glob("task-*")
    fill(sheet, lambda _: "no")
    line = f"import --run {tmp_path / 'new'} --task {new} --labels {sheet} --columns left_id,right_id,label"
    assert "round 1: 8 labels, 0 of them matches" in do(monkeypatch, capsys, labels, line)


def test_suggested_pairs_are_the_closest_to_the_cutoff_and_their_labels_can_be_imported(
    ran, monkeypatch, capsys, tmp_path
):
    run, task = ran
    scores, known = scores_by_loops(run, task), labelled(run, "yes") | labelled(run, "no")
    cutoff = sorted(scores.values())[-40]
    line = f"--model {run} {tables(task, tmp_path)} --at-score {cutoff} --assign all --suggest 9"
    shown = do(monkeypatch, capsys, match, f"{line} --out {tmp_path / 'out'}")
    rows = suggested(tmp_path / "out")
    found = [(row["left_id"], row["right_id"]) for row in rows]
    assert not known & set(found)
    assert all(row["score"] == pytest.approx(scores[pair], abs=1e-6) for pair, row in zip(found, rows, strict=True))
    # No text of training is unlike training, so the closest come first.
    assert all(row["left_distance"] == pytest.approx(0, abs=1e-6) for row in rows)
    times, closest = dict[tuple[str, str], int](), list[tuple[str, str]]()
    for pair in sorted(scores.keys() - known, key=lambda pair: abs(scores[pair] - cutoff)):
        texts = [("left", pair[0]), ("left" if task.symmetric else "right", pair[1])]
        if len(closest) < 9 and all(times.get(text, 0) < 3 for text in texts):
            closest.append(pair)
            times |= {text: times.get(text, 0) + 1 for text in texts}
    assert [as_matched(pair, task.symmetric) for pair in found] == [
        as_matched(pair, task.symmetric) for pair in closest
    ]

    sheet, copy = tmp_path / "out/suggested.csv", tmp_path / "run"
    assert f"label them on a page: python -m jobs.annotate --matches {tmp_path / 'out'}" in shown
    command = next(line for line in shown.splitlines() if "jobs.labels" in line)
    assert command == f"then: python -m jobs.labels import --run {run} --labels {tmp_path / 'out'}"
    answers = iter(["yes", "no", "unsure", *["no"] * 6])
    fill(sheet, lambda _: next(answers))
    shutil.copytree(run, copy)
    imported = command.partition("jobs.labels ")[2].replace(str(run), str(copy))
    assert "round 2: 9 labels, 1 of them matches; 0 known before" in do(monkeypatch, capsys, labels, imported)
    table = al_ray.load_run(copy).labels().to_pylist()[-9:]
    imported_pairs = [as_matched((row["left_id"], row["right_id"]), task.symmetric) for row in table]
    assert imported_pairs == [as_matched(pair, task.symmetric) for pair in found]
    assert [row["answer"] for row in table][:4] == ["yes", "no", "unsure", "no"]

    # The answers are not overwritten, and pairs that the run knows now, unsure ones too, are not suggested again.
    shown = do(monkeypatch, capsys, match, f"{line} --out {tmp_path / 'out'}")
    assert "was there before and may hold labels, so it was kept" in shown
    assert ",unsure," in sheet.read_text(encoding="utf-8-sig")
    do(monkeypatch, capsys, match, f"{line.replace(str(run), str(copy))} --out {tmp_path / 'again'}")
    assert not {(row["left_id"], row["right_id"]) for row in suggested(tmp_path / "again")} & (known | set(found))


def test_more_pairs_than_there_are_are_no_error(ran, monkeypatch, capsys, tmp_path):
    run, task = ran
    few = task.space(task.split("train").space.left[:4], task.split("train").space.right[:4])
    own = replace(task, splits={"train": replace(task.split("train"), space=few)})
    line = f"--model {run} {tables(own, tmp_path)} --best 2 --assign all --suggest 50 --out {tmp_path / 'out'}"
    shown = do(monkeypatch, capsys, match, line)
    pairs = len(suggested(tmp_path / "out"))
    assert 0 < pairs <= 3 * 4
    assert f"pairs to label next: {pairs}, closest to the boundary" in shown
    assert "--suggest 50 asks for more than there are: pairs without a label, 3 of a text at most, and none" in shown


def test_no_pair_with_a_text_of_dev_or_test_is_suggested(ran, monkeypatch, capsys, tmp_path):
    run, task = ran
    train = task.split("train").space
    every = np.unique(np.concatenate([split.space.left for split in task.splits.values()]))
    whole = task.space(every, every if task.symmetric else train.right)
    own = replace(task, splits={"train": replace(task.split("train"), space=whole)})
    line = f"--model {run} {tables(own, tmp_path)} --at-score 0.9 --assign all --suggest 40 --out {tmp_path / 'out'}"
    shown = do(monkeypatch, capsys, match, line)
    rows = suggested(tmp_path / "out")
    names = {row["left_id"] for row in rows} | {row["right_id"] for row in rows if task.symmetric}
    assert set() < names <= {task.left.ids[row] for row in train.left}
    # So the run takes their labels.
    assert f"then: python -m jobs.labels import --run {run} --labels {tmp_path / 'out'}" in shown


def test_without_drift_nothing_is_said_of_it_and_bad_numbers_are_refused(ran, monkeypatch, capsys, tmp_path):
    run, task = ran
    line = f"--model {run} {tables(task, tmp_path)} --best 5 --assign all --out {tmp_path / 'out'}"
    assert "--suggest is 0; give at least 1" in refused(monkeypatch, capsys, f"{line} --suggest 0")
    assert "which --no-drift does not look for; leave one of them out" in refused(
        monkeypatch, capsys, f"{line} --suggest 3 --no-drift"
    )
    assert not (tmp_path / "out").exists()
    assert "drift:" not in do(monkeypatch, capsys, match, f"{line} --no-drift")
    assert not {"drift", "suggested"} & set(record(tmp_path / "out"))
    assert not (tmp_path / "out/suggested.csv").exists()
