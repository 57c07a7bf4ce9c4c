"""jobs.match --into on a real Ray: new, changed and removed texts, against matching all of them at once."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from al_ray.apps.matching import pipeline
from al_ray.apps.matching.incremental import renewal
from al_ray.core.task import Task
from al_ray.search.known_vectors import KnownVectors
from al_ray.storage.files import read_json, write_json
from tests.apps.audit.test_audit_job import run_folder
from tests.apps.matching.test_match_job import do, refused, scores_by_loops, written

COLUMNS = "--text-columns words --id-column key"


@pytest.fixture(scope="module", params=[True, False], ids=["one table", "two tables"])
def ran(request, in_process, make_task, tmp_path_factory) -> tuple[Path, Task]:
    task = make_task(request.param, clusters=12, members=4)
    return run_folder(tmp_path_factory.mktemp("ran"), task), task


def table(path: Path, rows: dict[str, str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("key", "words"), *rows.items()])
    return path


def side(task: Task, name: str) -> dict[str, str]:
    corpus, space = (
        (task.left, task.split("train").space) if name == "left" else (task.right, task.split("train").space)
    )
    rows = space.left if name == "left" else space.right
    return {str(corpus.ids[row]): str(corpus.texts[row]) for row in rows.tolist()}


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def clusters_of(out: Path) -> set[frozenset[str]]:
    groups: dict[int, set[str]] = {}
    for row in pq.read_table(out / "clusters.parquet").to_pylist():
        groups.setdefault(row["cluster"], set()).add(row["id"])
    return {frozenset(group) for group in groups.values()}


def same_matches(one: Path, other: Path) -> None:
    found, expected = written(one), written(other)
    assert set(found) == set(expected)
    for pair, row in found.items():
        assert row["score"] == pytest.approx(expected[pair]["score"], abs=1e-6)
        assert row["decided_by"] == expected[pair]["decided_by"]


@pytest.mark.parametrize("rule", ["--assign all --at-score", pytest.param("--assign mutual", marks=pytest.mark.slow)])
def test_texts_matched_into_known_ones_are_matched_as_all_at_once(ran, monkeypatch, capsys, tmp_path, rule):
    run, task = ran
    if rule.endswith("score"):
        scores = sorted(scores_by_loops(run, task).values())
        # In the middle of a wide gap, so that the last digits of a score decide nothing.
        gaps = [(high - low, (high + low) / 2) for low, high in zip(scores[-60:-20], scores[-59:-19], strict=True)]
        rule = f"{rule} {max(gaps)[1]}"
    names = ["left"] if task.symmetric else ["left", "right"]
    every = {name: side(task, name) for name in names}
    # Most texts are known; one of them has another text at first, and one is there that goes later.
    first = {name: dict(list(rows.items())[: 3 * len(rows) // 4]) for name, rows in every.items()}
    changed = next(iter(first["left"]))
    first["left"] |= {changed: "of another text", "gone": every["left"][changed]}

    def tables(folder: str, rows: dict[str, dict[str, str]]) -> str:
        return " ".join(f"--{name} {table(tmp_path / folder / f'{name}.csv', own)}" for name, own in rows.items())

    do(monkeypatch, f"--model {run} {tables('first', first)} {COLUMNS} {rule} --out {tmp_path / 'out'}")
    do(monkeypatch, f"--into {tmp_path / 'out'} {tables('whole', every)} --complete --shards 2")
    shown = capsys.readouterr().out
    assert "1 changed, 1 removed" in shown
    do(monkeypatch, f"--model {run} {tables('once', every)} {COLUMNS} {rule} --out {tmp_path / 'once'}")
    same_matches(tmp_path / "out", tmp_path / "once")
    come = {one for name in names for one in every[name] if every[name][one] != first[name].get(one)}
    expected = [row for row in rows_of(tmp_path / "out/matches.csv") if come & {row["left_id"], row["right_id"]}]
    assert rows_of(tmp_path / "out/new_matches.csv") == expected != []
    assert f"matches of new and changed texts: {len(expected)} (new_matches.csv)" in shown
    if task.symmetric:
        assert clusters_of(tmp_path / "out") == clusters_of(tmp_path / "once")
    # The same command again: nothing is searched, and nothing changes.
    kept = [tmp_path / "out" / name for name in ("matches.csv", "new_matches.csv", "state.json")]
    before = [path.read_bytes() for path in kept]
    monkeypatch.setattr(pipeline, "session", None)
    do(monkeypatch, f"--into {tmp_path / 'out'} {tables('whole', every)} --complete --shards 2")
    assert before == [path.read_bytes() for path in kept]
    assert len(list((tmp_path / "out").glob("state-*"))) == len(list((tmp_path / "out").glob("task-*"))) == 1


def test_known_texts_are_not_encoded_again_and_clusters_keep_their_ids(ran, monkeypatch, tmp_path):
    run, task = ran
    if not task.symmetric:
        pytest.skip("its commands give one table; of two: clusters/test_two_tables.py")
    rows = list(side(task, "left").items())
    cutoff = sorted(scores_by_loops(run, task).values())[-30]
    known = table(tmp_path / "known.csv", dict(rows[:-1]))
    # Thresholds as evaluate stores them: their precision has an interval.
    precision = {"value": 0.9, "low": 0.8, "high": 0.95}
    threshold = {"rule": "costs=10,1", "cosine": cutoff, "precision": precision, "recall": None, "split": "dev"}
    scorer = run / "round-001/model/scorer.json"
    write_json(
        scorer, {**read_json(scorer, []), "thresholds": [{**threshold, "rule": "recall=1", "cosine": -1.0}, threshold]}
    )
    do(monkeypatch, f"--model {run} --left {known} {COLUMNS} --costs 10 1 --out {tmp_path / 'out'}")
    before = {row["id"]: row["cluster"] for row in pq.read_table(tmp_path / "out/clusters.parquet").to_pylist()}
    files = set((tmp_path / "out/vectors").glob("*/*.keys.npy"))
    do(monkeypatch, f"--into {tmp_path / 'out'} --left {table(tmp_path / 'new.csv', dict(rows[-1:]))}")
    # The vectors that were added are those of one text.
    added = KnownVectors(next((tmp_path / "out/vectors").iterdir()), np.dtype(np.float32))
    added.refresh()
    fresh = set((tmp_path / "out/vectors").glob("*/*.keys.npy")) - files
    assert [len(added._files[path.name.removesuffix(".keys.npy")][0]) for path in fresh] == [1]
    after = {row["id"]: row["cluster"] for row in pq.read_table(tmp_path / "out/clusters.parquet").to_pylist()}
    record = json.loads((tmp_path / "out/match.json").read_text())
    assert record["texts"] == {"new": 1, "changed": 0, "removed": 0, "same": len(rows) - 1}
    merged = record["changed_clusters"]["merges"]
    assert sum(after[name] != cluster for name, cluster in before.items()) <= merged * len(rows)
    if not merged:
        assert {name: after[name] for name in before} == before


def test_a_command_that_was_stopped_is_resumed(ran, monkeypatch, tmp_path):
    run, task = ran
    name = "left"
    rows = list(side(task, name).items())
    other = "" if task.symmetric else f"--right {table(tmp_path / 'right.csv', side(task, 'right'))}"
    known = table(tmp_path / "known.csv", dict(rows[:-4]))
    line = f"--model {run} --left {known} {other} {COLUMNS} --at-score 0.9 --assign all"
    into = f"--left {table(tmp_path / 'new.csv', dict(rows[-4:]))}"
    for out in ("quiet", "stopped"):
        do(monkeypatch, f"{line} --out {tmp_path / out}")
    do(monkeypatch, f"--into {tmp_path / 'quiet'} {into}")
    for place in ("write_state", "write_outcome"):

        def stop(*_) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as context:
            context.setattr(renewal, place, stop)
            with pytest.raises((KeyboardInterrupt, SystemExit)):
                do(context, f"--into {tmp_path / 'stopped'} {into}")
        assert not (tmp_path / "stopped/match.json").exists()
    do(monkeypatch, f"--into {tmp_path / 'stopped'} {into}")
    for file in ("matches.csv", "new_matches.csv", "changes.csv", "clusters.csv"):
        assert (tmp_path / "quiet" / file).read_bytes() == (tmp_path / "stopped" / file).read_bytes()


def test_what_cannot_be_added_is_refused_with_a_fix(ran, monkeypatch, capsys, tmp_path):
    run, task = ran
    new = table(tmp_path / "new.csv", dict(list(side(task, "left").items())[:3]))
    other = "" if task.symmetric else f"--right {table(tmp_path / 'right.csv', side(task, 'right'))}"
    tables = f"--left {new} {other}"
    do(monkeypatch, f"--model {run} {tables} {COLUMNS} --best 2 --assign all --out {tmp_path / 'best'}")
    do(monkeypatch, f"--model {run} {tables} --text-columns words --at-score 1 --assign all --out {tmp_path / 'rows'}")
    for line, message in (
        (f"--into {tmp_path / 'best'} --left {new}", "--into cannot add to the N best pairs of --best N"),
        (f"--into {tmp_path / 'rows'} --left {new}", "--into needs ids"),
        (f"--into {tmp_path / 'none'} --left {new}", "holds no matches of tables"),
        (f"--into {tmp_path / 'best'} --left {new} --at-score 0.5", "leave it out, or match all texts again"),
        (f"--into {tmp_path / 'best'} --left {new} --model {run}", "--into has its model; leave out --model"),
        (f"--into {tmp_path / 'best'} --left {new} --out {tmp_path}", "--out and --into exclude one another"),
        (f"--into {tmp_path / 'best'}", "no texts to match are given; give --left FILE"),
        (f"--model {run} --left {new} --out {tmp_path / 'x'} --complete", "--complete goes with --into"),
        (f"--model {run} --left {new}", "no folder of matches is given"),
        (f"--left {new} --out {tmp_path / 'x'}", "no model is given; give --model RUN"),
    ):
        assert message in refused(monkeypatch, capsys, line)
