"""jobs.match --into by scores with a neighbourhood: those of all texts, as if they were matched at once."""

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from al_ray.core.scorer import Scorer
from al_ray.core.task import Task
from tests.apps.audit.test_audit_job import run_folder
from tests.apps.matching.test_match_job import do, written

SCORERS = {
    "both sides of one table": (True, Scorer(20.0, -6.0, 0.1, "fitted", 0.5, both_sides=True)),
    "both sides of two": (False, Scorer(20.0, -6.0, 0.1, "fitted", 0.5, both_sides=True)),
    "the left side": (False, Scorer(20.0, -6.0, 0.1, "fitted", 0.75)),
}
Rows = dict[str, str]


@pytest.fixture(scope="module", params=list(SCORERS.values()), ids=list(SCORERS))
def ran(request, in_process, make_task, tmp_path_factory) -> tuple[Path, Task]:
    symmetric, scorer = request.param
    task = make_task(symmetric, clusters=12, members=4)
    return run_folder(tmp_path_factory.mktemp("ran"), task, scorer), task


def tables(folder: Path, sides: dict[str, Rows]) -> str:
    """Write tables, and return the options that name them."""
    folder.mkdir()
    for side, rows in sides.items():
        with (folder / f"{side}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("id", "words"), *rows.items()])
    paths = " ".join(f"--{side} {folder / side}.csv" for side in sides)
    return f"{paths} --text-columns words --id-column id"


def sides_of(task: Task) -> dict[str, Rows]:
    corpora = {"left": task.left} if task.symmetric else {"left": task.left, "right": task.right}
    return {side: dict(zip(one.ids, one.texts, strict=True)) for side, one in corpora.items()}


@pytest.mark.parametrize("rule", ["all", "best", "one-to-one"])
def test_added_changed_and_removed_texts_leave_the_matches_of_all_at_once(ran, monkeypatch, tmp_path, rule):
    run, task = ran
    now, options = sides_of(task), f"--model {run} --assign {rule} --at-score -0.1"
    first = {side: dict(list(rows.items())[: 3 * len(rows) // 4]) for side, rows in now.items()}
    out = tmp_path / "out"
    do(monkeypatch, f"{options} {tables(tmp_path / 'first', first)} --out {out}")
    kept = written(out)
    for side, rows in now.items():
        names = list(rows)
        rows[names[0]] = rows[names[-1]] + " " + rows[names[3]]
        del rows[names[1]]
        now[side] = rows
    do(monkeypatch, f"--into {out} {tables(tmp_path / 'now', now)} --complete")
    do(monkeypatch, f"{options} {tables(tmp_path / 'again', now)} --out {tmp_path / 'whole'}")
    whole, found = written(tmp_path / "whole"), written(out)
    assert len(whole) >= 10
    assert set(found) == set(whole)
    for column in ("score", "cosine"):
        assert [row[column] for row in found.values()] == pytest.approx(
            [whole[pair][column] for pair in found], abs=1e-6
        )
    # Scores of known pairs have moved, which is why all of them are compared again.
    moved = [abs(kept[pair]["score"] - found[pair]["score"]) for pair in kept.keys() & found.keys()]
    assert max(moved) > 1e-3
    texts = json.loads((out / "match.json").read_text())["texts"]
    assert texts["changed"] == texts["removed"] == len(now)
    assert texts["new"] == sum(len(rows) for rows in sides_of(task).values()) - sum(
        len(rows) for rows in first.values()
    )


def test_the_same_command_again_keeps_scores_and_cosines(ran, monkeypatch, tmp_path):
    run, task = ran
    out, line = tmp_path / "out", f"--model {run} --assign all --at-score -0.1"
    do(monkeypatch, f"{line} {tables(tmp_path / 'first', sides_of(task))} --out {out}")
    before = written(out)
    again = f"--into {out} {tables(tmp_path / 'again', sides_of(task))}"
    do(monkeypatch, again)
    assert written(out) == before
    # A state of an earlier al_ray has scores alone.
    [state] = out.glob("state-*")
    pq.write_table(pq.read_table(state / "candidates.parquet").drop_columns(["cosine"]), state / "candidates.parquet")
    about = json.loads((out / "state.json").read_text())
    del about["cosines"]
    (out / "state.json").write_text(json.dumps(about))
    do(monkeypatch, again)
    found = written(out)
    for column in ("score", "cosine"):
        assert [row[column] for row in found.values()] == pytest.approx(
            [before[pair][column] for pair in found], abs=1e-6
        )
