"""Answers of serve beside those of jobs.match on the same texts, and its table as the next texts of --into."""

import csv
import json
import shlex
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from al_ray.apps.matching.model import open_model
from al_ray.apps.serving.known import read_known
from al_ray.apps.serving.matcher import Matcher
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.questions import Question
from al_ray.apps.serving.store import StoreWriter, make_store
from al_ray.cli import match
from al_ray.cli._shared import entry
from al_ray.core.scorer import Scorer
from tests.apps.audit.test_audit_job import run_folder


def do(monkeypatch, line: str) -> None:
    monkeypatch.setattr(sys, "argv", ["match", *shlex.split(line)])
    entry.job(match.main)


def write(path: Path, ids: list[str], texts: list[str]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("key", "words"), *zip(ids, texts, strict=True)])


@pytest.mark.parametrize("weight", [0.0, 0.5], ids=["cosine", "neighbourhood"])
def test_scores_of_two_tables_are_those_of_match(weight, in_process, make_task, monkeypatch, tmp_path):
    task = make_task(False, clusters=10, members=4)
    run = run_folder(tmp_path, task, Scorer(20.0, -10.0, 0.1, "fitted", weight))
    for side, corpus in (("left", task.left), ("right", task.right)):
        write(tmp_path / f"{side}.csv", list(corpus.ids), list(corpus.texts))
    columns = "--text-columns words --id-column key"
    do(monkeypatch, f"--model {run} --left {tmp_path}/left.csv --right {tmp_path}/right.csv {columns} --assign all "
                    f"--at-score -2 --out {tmp_path}/out")  # fmt: skip
    rows = pq.read_table(tmp_path / "out/matches.parquet").to_pylist()
    expected = {(row["left_id"], row["right_id"]): row["score"] for row in rows if row["decided_by"] == "model"}
    options = ServeOptions(
        model=run, known=tmp_path / "right.csv", store=tmp_path / "store", limit=1000, text_columns="words",
        id_column="key",
    )  # fmt: skip
    model = open_model(run)
    make_store(options.store, *read_known(options, model))
    [answer] = Matcher(options, model).answer([Question(tuple(task.left.texts), 1000)])
    found = {
        (left, one.id): one.score for left, results in zip(task.left.ids, answer.found, strict=True) for one in results
    }
    assert len(found) == len(task.left) * len(task.right)
    assert {pair: found[pair] for pair in expected} == pytest.approx(expected, abs=1e-6)
    assert len(expected) > len(found) / 2


def test_clusters_of_a_match_folder_are_answered_and_its_next_texts_are_the_table(
    in_process, make_task, monkeypatch, tmp_path
):
    task = make_task(True, clusters=10, members=4)
    run, out = run_folder(tmp_path, task), tmp_path / "out"
    ids, texts = list(task.left.ids), list(task.left.texts)
    write(tmp_path / "left.csv", ids, texts)
    do(monkeypatch, f"--model {run} --left {tmp_path}/left.csv --text-columns words --id-column key --at-score 0.9 "
                    f"--out {out}")  # fmt: skip
    clusters = {row["id"]: row["cluster"] for row in pq.read_table(out / "clusters.parquet").to_pylist()}
    options = ServeOptions(model=run, known=out, store=tmp_path / "store")
    model = open_model(run)
    make_store(options.store, *read_known(options, model))
    [answer] = Matcher(options, model).answer([Question(tuple(texts), 1)])
    assert {one.id: one.cluster for [one] in answer.found} == clusters
    writer = StoreWriter(options.store)
    writer.put([("new", texts[0]), (ids[1], "another text")])
    writer.remove([ids[2]])
    table = writer.write_table()
    writer.close()
    do(monkeypatch, f"--into {out} --left {table} --complete --format jsonl --text-columns text --id-column id")
    assert json.loads((out / "match.json").read_text())["texts"] == {
        "new": 1, "changed": 1, "removed": 1, "same": len(ids) - 2
    }  # fmt: skip
    rows = pq.read_table(out / "clusters.parquet").to_pylist()
    of = {row["id"]: row["cluster"] for row in rows}
    assert of["new"] == of[ids[0]]
