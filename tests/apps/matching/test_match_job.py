"""jobs.match: matches and clusters against a sort of all pairs; labels of the run; bad options."""

import csv
import json
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import al_ray
from al_ray.apps.matching import search
from al_ray.apps.matching.estimate import PairEstimate
from al_ray.cli import match
from al_ray.cli._shared import entry
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_task, write_task
from tests.apps.audit.test_audit_job import run_folder


@pytest.fixture(scope="module", params=[True, False], ids=["one table", "two tables"])
def ran(request, in_process, make_task, tmp_path_factory) -> tuple[Path, Task]:
    task = make_task(request.param, clusters=12, members=4)
    return run_folder(tmp_path_factory.mktemp("ran"), task), task


def do(monkeypatch, line: str) -> None:
    monkeypatch.setattr(sys, "argv", ["match", *shlex.split(line)])
    entry.job(match.main)


def refused(monkeypatch, capsys, line: str) -> str:
    with pytest.raises(SystemExit) as stop:
        do(monkeypatch, line)
    assert stop.value.code == 2
    return capsys.readouterr().err


def tables(task: Task, folder: Path) -> str:
    """The train texts of a task as tables, and the options that name them."""
    folder.mkdir(parents=True, exist_ok=True)
    space, options = task.split("train").space, ""
    for side, rows in (("left", space.left), *([] if task.symmetric else [("right", space.right)])):
        corpus = task.left if side == "left" else task.right
        with (folder / f"{side}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("key", "words"), *((corpus.ids[row], corpus.texts[row]) for row in rows)])
        options += f"--{side} {folder / side}.csv "
    return f"{options} --text-columns words --id-column key"


def labelled(run: Path, word: str) -> set[tuple[str, str]]:
    symmetric = read_task(Path(al_ray.load_run(run).config.task)).symmetric
    rows = [row for row in al_ray.load_run(run).labels().to_pylist() if row["answer"] == word]
    return {as_matched((row["left_id"], row["right_id"]), symmetric) for row in rows}


def as_matched(pair: tuple[str, str], symmetric: bool) -> tuple[str, str]:
    """A pair as matches have it: of one table the lesser id is the left one."""
    return (min(pair), max(pair)) if symmetric else pair


def cutoff_near(scores: Mapping[tuple[str, str], float], rank: int) -> float:
    """A cutoff that about `rank` scores reach, in the widest gap: how the last digits are computed decides nothing."""
    ordered = np.sort(np.array([*scores.values()]))[::-1][rank - 10 : rank + 10]
    place = int(np.argmax(ordered[:-1] - ordered[1:]))
    return float((ordered[place] + ordered[place + 1]) / 2)


def scores_by_loops(run: Path, task: Task) -> dict[tuple[str, str], float]:
    """The cosine of each pair of train, by the loaded model."""
    split, model = task.split("train"), al_ray.load_model(run)
    pairs = split.space.pairs(np.sort(split.space.at(np.arange(split.space.total))))
    left, right = task.ids_of(pairs)
    ids = [as_matched(pair, task.symmetric) for pair in zip(left, right, strict=True)]
    return dict(zip(ids, model.cosines(*task.texts_of(pairs)).tolist(), strict=True))


def written(out: Path) -> dict[tuple[str, str], dict]:
    rows = pq.read_table(out / "matches.parquet").to_pylist()
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    with (out / "matches.csv").open(newline="") as file:
        assert [row["left_id"] for row in csv.DictReader(file)] == [row["left_id"] for row in rows]
    return {(row["left_id"], row["right_id"]): row for row in rows}


def test_all_pairs_above_a_cutoff_are_matches_but_for_labelled_ones(either_way, ran, monkeypatch, tmp_path):
    run, task = ran
    scores, yes, no = scores_by_loops(run, task), labelled(run, "yes"), labelled(run, "no")
    cutoff = cutoff_near(scores, 30)
    for shards, name in ((1, "one"), (2, "two")):
        do(monkeypatch, f"--model {run} {tables(task, tmp_path)} --assign all --at-score {cutoff} "
                        f"--shards {shards} --out {tmp_path / name}")  # fmt: skip
    found = written(tmp_path / "one")
    for name in ("matches.parquet", "matches.html"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert set(found) == {pair for pair, score in scores.items() if score >= cutoff and pair not in no} | yes
    assert {pair for pair, row in found.items() if row["decided_by"] == "label"} == yes
    assert all(row["score"] == pytest.approx(scores[pair], abs=1e-6) for pair, row in found.items())
    assert {row["probability"] for row in found.values()} == {None}
    record = json.loads((tmp_path / "one/match.json").read_text())
    assert (record["matches"], record["by_label"], record["labelled_no"]) == (len(found), len(yes), len(no))


def test_the_number_of_pairs_is_estimated_before_the_search_and_too_many_are_refused(
    ran, monkeypatch, capsys, caplog, tmp_path
):
    run, task = ran
    scores, no = scores_by_loops(run, task), labelled(run, "no")
    cutoff = cutoff_near(scores, 30)
    number = sum(score >= cutoff and pair not in no for pair, score in scores.items())
    line = f"--model {run} {tables(task, tmp_path)} --assign all --at-score {cutoff} --out {tmp_path / 'out'}"
    said = f"have a score of {cutoff:.4g} or more"
    with caplog.at_level("INFO"):
        do(monkeypatch, line)
    assert re.search(rf"{number} pairs {said} \(`at_score={cutoff:g}`\)", caplog.text)
    error = refused(monkeypatch, capsys, f"{line}2 --most {number - 1}")
    fix = "give a higher --most, or match all texts with a higher cutoff or --best N"
    assert re.search(rf"{number} pairs {said} \(--at-score {cutoff:g}\), more than --most {number - 1}; {fix}", error)
    assert not list(tmp_path.glob("out2/match*"))
    # An estimate leaves it open whether there are too many: the search decides.
    monkeypatch.setattr(search, "estimate_pairs", lambda *_: PairEstimate(40, 20, 2, 50))
    caplog.clear()
    with caplog.at_level("INFO"):
        message = refused(monkeypatch, capsys, f"{line}3 --most {number - 1}")
    texts = "texts" if task.symmetric else "left texts"
    assert f"about 40 pairs (at least 20; estimated from 2 of 50 {texts}, drawn at random)" in caplog.text
    assert re.search(f"more than {number - 1} pairs {said}", message)


def test_mutual_best_matches_need_no_cutoff(ran, monkeypatch, tmp_path):
    run, task = ran
    yes, no = labelled(run, "yes"), labelled(run, "no")
    other = "left" if task.symmetric else "right"
    scores = {
        (("left", pair[0]), (other, pair[1])): 2.0 if pair in yes else score
        for pair, score in scores_by_loops(run, task).items()
        if pair not in no
    }
    best = {
        text: max((pair for pair in scores if text in pair), key=lambda pair: scores[pair])
        for text in set(sum(scores, ()))
    }
    taken = {text for pair in yes for text in (("left", pair[0]), (other, pair[1]))}
    do(monkeypatch, f"--model {run} {tables(task, tmp_path)} --assign mutual --out {tmp_path / 'out'}")
    found = {pair for pair, row in written(tmp_path / "out").items() if row["decided_by"] == "model"}
    assert found == {
        (pair[0][1], pair[1][1]) for pair in scores if best[pair[0]] == best[pair[1]] == pair and not taken & set(pair)
    }
    assert set(written(tmp_path / "out")) - found == yes


def test_clusters_of_one_table_are_connected_by_matches_and_one_text_of_each_is_left(ran, monkeypatch, tmp_path):
    run, task = ran
    cutoff = sorted(scores_by_loops(run, task).values())[-20]
    do(monkeypatch, f"--model {run} {tables(task, tmp_path)} --assign all --at-score {cutoff} --out {tmp_path / 'out'}")
    if not task.symmetric:
        assert "table" in pq.read_table(tmp_path / "out/clusters.parquet").column_names
        return
    rows = pq.read_table(tmp_path / "out/clusters.parquet").to_pylist()
    cluster = {row["id"]: row["cluster"] for row in rows}
    assert set(cluster) == {task.left.ids[row] for row in task.split("train").space.left}
    assert all(cluster[one] == cluster[other] for one, other in written(tmp_path / "out"))
    with (tmp_path / "out/deduplicated.csv").open(newline="") as file:
        kept = [row["id"] for row in csv.DictReader(file)]
    assert sorted(kept) == sorted({row["canonical"] for row in rows})
    assert len({cluster[name] for name in kept}) == len(kept) == len(set(cluster.values()))


def test_a_split_of_a_task_is_matched_as_its_tables_are(ran, monkeypatch, tmp_path):
    run, task = ran
    write_task(task, tmp_path / "task", {})
    do(monkeypatch, f"--model {run} --left {tmp_path / 'task'} --best 25 --assign all --out {tmp_path / 'one'}")
    do(monkeypatch, f"--model {run} {tables(task, tmp_path)} --best 25 --assign all --out {tmp_path / 'two'}")
    assert list(written(tmp_path / "one").items()) == list(written(tmp_path / "two").items())


def test_a_rerun_replaces_nothing_of_other_texts(ran, monkeypatch, capsys, tmp_path):
    run, task = ran
    line = f"--model {run} {tables(task, tmp_path)} --best 5 --assign all --out {tmp_path / 'out'}"
    do(monkeypatch, line)
    first = (tmp_path / "out/matches.parquet").read_bytes()
    do(monkeypatch, line)
    assert (tmp_path / "out/matches.parquet").read_bytes() == first
    write_task(task, tmp_path / "task", {})
    other = f"--model {run} --left {tmp_path / 'task'} --split dev --best 5 --assign all --out {tmp_path / 'out'}"
    assert "holds matches of another model or of other texts" in refused(monkeypatch, capsys, other)
    assert (tmp_path / "out/matches.parquet").read_bytes() == first


def test_changed_texts_lose_their_labels_and_nothing_above_the_cutoff_is_no_error(ran, monkeypatch, capsys, tmp_path):
    run, task = ran
    changed = replace(task.left, texts=tuple(f"{text} x" for text in task.left.texts))
    other = replace(task, left=changed, right=changed if task.symmetric else task.right)
    do(monkeypatch, f"--model {run} {tables(other, tmp_path)} --assign all --at-score 1 --out {tmp_path / 'out'}")
    assert written(tmp_path / "out") == {}
    shown = capsys.readouterr().out
    assert f"labels that are not used, as a text has changed since: {len(al_ray.load_run(run).labels())}" in shown
    assert "matches: 0" in shown
    assert "No pair is a match." in (tmp_path / "out/matches.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--at-p 0.5", r"--at-p needs probabilities.*jobs.audit estimate --update-scorer"),
        (
            "--precision 0.9",
            r"has no threshold for precision=0.9; choose one: python -m jobs.evaluate --run .* --threshold-for",
        ),
        (
            "--costs 10 1",
            r"threshold for costs=10,1; choose one: python -m jobs.evaluate .* --threshold-for \S*$",
        ),
        ("--assign all", r"has no threshold, and no cutoff is given.*--assign mutual"),
        ("--at-score 0.5 --best 3", r"--at-score and --best are two cutoffs"),
        ("--assign mutual --best 3", r"--best N takes the N pairs of all"),
        (
            "--at-score -1 --assign all --most 3",
            r"[\d,]+ pairs have a score of -1 or more \(--at-score -1\), more than --most 3; .*nothing was written",
        ),
        ("--best 3 --split dev", r"--split goes with a task folder, and --left .* is none"),
        ("--at-score 3", r"--at-score is 3.0; give at most 2"),
        ("--text-columns nothing --best 3", r"has no column 'nothing'"),
    ],
)
def test_what_cannot_be_matched_is_refused_with_a_fix(ran, monkeypatch, capsys, tmp_path, options, message):
    run, task = ran
    line = f"--model {run} {tables(task, tmp_path)} {options} --out {tmp_path / 'out'}"
    assert re.search(message, refused(monkeypatch, capsys, line))
    assert not list(tmp_path.glob("out/match*"))


def test_a_task_that_was_made_of_no_tables_needs_columns(ran, monkeypatch, capsys, tmp_path):
    run, task = ran
    line = f"--model {run} {tables(task, tmp_path)} --best 3 --out {tmp_path / 'out'}".replace(
        "--text-columns words", ""
    )
    assert "so give the columns of the texts: --text-columns" in refused(monkeypatch, capsys, line)
