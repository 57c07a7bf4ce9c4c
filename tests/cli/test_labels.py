"""jobs.labels: the labels of a run counted, taken along, brought from elsewhere and corrected, as commands."""

import csv
import json
import re
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.ports import Oracle
from al_ray.cli import labels as job_of_labels
from al_ray.cli._shared.entry import as_called, job
from al_ray.cli.run import parse_arguments
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.core.labels import NO, UNSURE, YES, Answers, Batch, Model, make_answers
from al_ray.core.pairs import Pairs, as_pairs
from al_ray.core.progress import no_progress
from al_ray.core.scorer import Scorer
from al_ray.core.task import Corpus, Task
from al_ray.datasets.tables.label_tables import write_labels
from al_ray.datasets.task_folder import read_task, sealed, write_task
from al_ray.oracles.llm.oracle import labels_of_others
from al_ray.oracles.people import labellers_of
from al_ray.oracles.registry import OracleRequest
from al_ray.running.open_rounds import ask_pending
from al_ray.runs.dev_labels import DevLabels
from al_ray.runs.ledger import Ledger
from al_ray.runs.run_folder import opened
from tests.apps.reporting.made_runs import CONFIG, made_run
from tests.runs.made_dev_labels import answer, draw, labels_of

SAID = [YES, NO, UNSURE, YES]


@pytest.fixture
def place(tmp_path, task) -> Path:
    """A folder with a task in it."""
    write_task(task, tmp_path / "task", {})
    return tmp_path


@pytest.fixture
def begun(place) -> Path:
    """A run of that task with a sealed round of four pairs and an open one of three, of which one is answered."""
    task = read_task(place / "task")
    with opened(place / "run", task) as folder:
        folder.bind(RunConfig(task=str(place / "task")))
        fill(folder.ledger, 1, pairs_of(task, 0, 4), SAID)
        folder.ledger.add_batch(2, Batch(pairs_of(task, 4, 7), np.full(3, 0.5), "uncertainty"))
        folder.ledger.add_answers(2, make_answers(np.array([1]), np.array([YES], dtype=np.uint8), "file"))
    return place


def pairs_of(task: Task, start: int, stop: int) -> Pairs:
    space = task.split("train").space
    return space.pairs(space.at(np.arange(start, stop) * 7))


def fill(ledger: Ledger, number: int, pairs: Pairs, said: list[int]) -> None:
    ledger.add_batch(number, Batch(pairs, np.full(len(pairs), 0.9), "seed"))
    ledger.add_answers(number, make_answers(np.arange(len(said)), np.array(said, dtype=np.uint8), "file"))
    ledger.seal(number)


def ids(task: Task, pairs: Pairs) -> list[list[str]]:
    return [list(both) for both in zip(*task.ids_of(pairs), strict=True)]


def labels(monkeypatch, capsys, *arguments: object) -> str:
    """What the job prints."""
    monkeypatch.setattr(sys, "argv", ["labels", *map(str, arguments)])
    job(job_of_labels.main)
    return capsys.readouterr().out


def refused(monkeypatch, capsys, *arguments: object) -> str:
    """What the job says on stderr as it refuses."""
    monkeypatch.setattr(sys, "argv", ["labels", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        job(job_of_labels.main)
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1, said
    return said


def table(path: Path, rows: list[list[str]], header: str = "left,right,label") -> Path:
    path.write_text("\n".join([header, *(",".join(row) for row in rows)]) + "\n")
    return path


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_status_counts_what_is_said_by_round(begun, monkeypatch, capsys):
    said = labels(monkeypatch, capsys, "status", "--run", begun / "run").splitlines()
    assert said[1].split() == ["1", "seed", "4", "2", "1", "1", "0", "file", "0"]
    assert said[2].split() == ["2", "uncertainty", "3", "1", "0", "0", "2", "file", "0"]
    assert "corrections: 0; complete rounds: 0; cost: 0" in said
    assert said[-1] == f"to resume: python -m jobs.run --out {begun / 'run'} --config {begun / 'run'}"


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
def test_labels_are_exported_with_their_texts_in_the_order_bought(begun, monkeypatch, capsys, form):
    out, task = begun / f"out.{form}", read_task(begun / "task")
    said = labels(monkeypatch, capsys, "export", "--run", begun / "run", "--out", out)
    assert "wrote 4 labelled pairs (3 matches) without 1 unsure to" in said
    told = np.concatenate([pairs_of(task, 0, 4)[[0, 1, 3]], pairs_of(task, 4, 7)[[1]]])
    wanted = [
        {"sentence1": task.left.texts[left], "sentence2": task.right.texts[right], "label": label}
        for (left, right), label in zip(told.tolist(), (1, 0, 1, 1), strict=True)
    ]
    readers = {
        "parquet": lambda: pq.ParquetFile(out).read().to_pylist(),
        "csv": lambda: [{**row, "label": int(row["label"])} for row in csv.DictReader(out.read_text().splitlines())],
        "jsonl": lambda: [json.loads(line) for line in out.read_text().splitlines()],
    }
    assert readers[form]() == wanted
    assert list(readers[form]()[0]) == ["sentence1", "sentence2", "label"]


def test_an_export_says_which_cells_a_spreadsheet_would_run_and_escapes_them_on_request(tmp_path, caplog):
    table = pa.table({"sentence1": ["=1+1", "a"], "sentence2": ["b", "@c"], "label": [1, 0]})
    write_labels(tmp_path / "a.csv", table)
    assert "a spreadsheet would run 2 cells of a.csv as formulas; `escape_formulas`" in caplog.text
    assert [row["sentence1"] for row in csv.DictReader((tmp_path / "a.csv").read_text().splitlines())] == ["=1+1", "a"]
    caplog.clear()
    write_labels(tmp_path / "b.csv", table, escape_formulas=True)
    write_labels(tmp_path / "b.parquet", table)
    assert caplog.text == ""
    assert [row["sentence2"] for row in csv.DictReader((tmp_path / "b.csv").read_text().splitlines())] == ["b", "'@c"]
    with pytest.raises(BadOption, match="`escape_formulas` goes with a CSV file"):
        write_labels(tmp_path / "b.jsonl", table, escape_formulas=True)


def test_an_export_of_every_column_holds_the_unsure_too(begun, monkeypatch, capsys):
    task = read_task(begun / "task")
    printed = labels(
        monkeypatch, capsys, "export", "--run", begun / "run", "--out", begun / "all.parquet", "--every-column"
    )
    assert "wrote 4 labelled pairs (3 matches) and 1 unsure to" in printed
    rows = pq.ParquetFile(begun / "all.parquet").read().to_pylist()
    assert [row["answer"] for row in rows] == ["yes", "no", "unsure", "yes", "yes"]
    assert [row["label"] for row in rows] == [1, 0, None, 1, 1]
    assert [[row["left_id"], row["right_id"]] for row in rows[:4]] == ids(task, pairs_of(task, 0, 4))
    assert [(row["round"], row["source"]) for row in rows] == [(1, "seed")] * 4 + [(2, "uncertainty")]


def test_a_correction_is_kept_beside_what_it_corrects(begun, monkeypatch, capsys):
    task = read_task(begun / "task")
    (left, right), before = ids(task, pairs_of(task, 0, 1))[0], files(begun / "run")
    one = ("correct", "--run", begun / "run", "--left-id", left, "--right-id", right, "--label")
    assert "labels: 1 corrected, 0 correct before" in labels(monkeypatch, capsys, *one, "no")
    assert "labels: 0 corrected, 1 correct before" in labels(monkeypatch, capsys, *one, "no")
    ledger = Ledger(begun / "run", task)
    assert ledger.labels(1).tolist() == [NO, NO, UNSURE, YES]
    assert before.items() <= files(begun / "run").items(), "nothing that stood there was changed"
    assert pq.ParquetFile(begun / "run" / "round-001" / "labels.parquet").read()["label"].to_pylist() == [1, 0, None, 1]
    labels(monkeypatch, capsys, *one, "unsure")
    assert ledger.labels(1).tolist() == [UNSURE, NO, UNSURE, YES]
    history = [row for part in ledger.corrections() for row in part.to_pylist()]
    assert [(row["was"], row["label"], row["after"]) for row in history] == [(YES, NO, 2), (NO, UNSURE, 2)]
    assert "corrections: 2;" in labels(monkeypatch, capsys, "status", "--run", begun / "run")


def test_labels_of_dev_are_corrected_and_measured_again(place, monkeypatch, capsys):
    task = read_task(place / "task")
    home, unmeasured = str(place / "task"), EvaluationConfig(splits=())
    config = replace(CONFIG, task=home, oracle="file", dev_labels=12, evaluation=unmeasured)
    run = made_run(place / "run", task, config, splits=())
    dev = DevLabels(run, task)
    draw(dev, 3)
    assert "round 3 waits for 12 dev labels" in labels(monkeypatch, capsys, "status", "--run", run)
    answer(dev, 3, labels_of("ynnnnnnnnnnn"))
    dev.estimate_missing(lambda _: Model("-", "d", Scorer(10.0, -5.0, 0.1, "fitted")), config.seed)
    (before,) = dev.estimates()
    batch = dev.ledger.batch(3)
    assert batch is not None
    rows = ids(task, batch.pairs[[1, 2]])
    one = ("--left-id", rows[0][0], "--right-id", rows[0][1], "--label", "yes")
    printed = labels(monkeypatch, capsys, "correct", "--run", run, "--split", "dev", *one)
    assert "labels of dev: 1 corrected, 0 correct before\nround 3: 12 dev labels drawn; average precision" in printed
    (after,) = dev.estimates()
    assert after != before
    file = table(place / "new.csv", [[*rows[0], "no"], [*rows[1], "no"]])
    printed = labels(monkeypatch, capsys, "correct", "--run", run, "--split", "dev", "--labels", file)
    assert "labels of dev: 1 corrected, 1 correct before" in printed
    assert dev.estimates() == [before]
    assert "corrections: 2;" in labels(monkeypatch, capsys, "status", "--run", run)
    error = refused(monkeypatch, capsys, "correct", "--run", run, "--labels", file)
    assert "its pair is not in the split of these labels" in error


@pytest.mark.parametrize("oracle", ["file", "page"])
def test_a_pair_that_people_are_labelling_is_not_corrected(place, oracle, monkeypatch, capsys):
    """The correction would count in place of each answer that they give later."""
    task, run = read_task(place / "task"), place / "run"
    with opened(run, task) as folder:
        folder.bind(RunConfig(task=str(place / "task"), oracle=oracle, dev_labels=12))
        fill(folder.ledger, 1, pairs_of(task, 0, 4), SAID)
        folder.ledger.add_batch(2, Batch(pairs_of(task, 4, 7), np.full(3, 0.5), "uncertainty"))
        folder.ledger.add_answers(2, make_answers(np.array([1]), np.array([UNSURE], dtype=np.uint8), "file"))
        draw(folder.dev_labels, 1)
        answer(folder.dev_labels, 1, labels_of("yyn"))
        drawn = folder.dev_labels.ledger.batch(1)
    assert drawn is not None
    rows, before = ids(task, pairs_of(task, 0, 7)), files(run)
    both = table(place / "both.csv", [[*rows[0], "no"], [*rows[5][:: -1 if task.symmetric else 1], "no"]])
    for command, number, place_of in (
        (("correct", "--labels", both), "round 2", "round-002"),
        # A yes or no for a pair that was unsure is a correction, too.
        (("import", "--labels", table(place / "one.csv", [[*rows[5], "no"]])), "round 2", "round-002"),
        (
            ("correct", "--split", "dev", "--labels", table(place / "dev.csv", [[*ids(task, drawn.pairs)[0], "no"]])),
            *("round 1, dev", "dev-labels/round-001"),
        ),
    ):
        error = refused(monkeypatch, capsys, command[0], "--run", run, *command[1:])
        assert f"{number}: people are still labelling 1 of these pairs; change the answer where it was given" in error
        assert f"in {run / place_of} or on the page (nothing was corrected)" in error
        assert files(run) == before
    one = table(place / "one.csv", [[*rows[0], "no"]])
    assert "labels: 1 corrected" in labels(monkeypatch, capsys, "correct", "--run", run, "--labels", one)


def test_corrections_come_as_a_table_either_way_round(begun, monkeypatch, capsys):
    task = read_task(begun / "task")
    rows = ids(task, pairs_of(task, 0, 4))
    if task.symmetric:
        rows[2].reverse()
    file = table(begun / "new.csv", [[*rows[2], "yes"], [*rows[3], "no"], [*rows[1], "no"]])
    said = labels(monkeypatch, capsys, "correct", "--run", begun / "run", "--labels", file)
    assert "labels: 2 corrected, 1 correct before" in said
    assert Ledger(begun / "run", task).labels(1).tolist() == [YES, NO, YES, NO]


def test_imported_labels_are_the_first_round_of_a_new_run(place, monkeypatch, capsys):
    task = read_task(place / "task")
    rows = ids(task, pairs_of(task, 0, 5))
    said = [*zip(rows, ("yes", "no", "unsure", "1", "0"), strict=True), (rows[0], "Match")]
    file = table(place / "bought.csv", [[*row, word] for row, word in said])
    done = labels(monkeypatch, capsys, "import", "--run", place / "run", "--task", place / "task", "--labels", file)
    assert "round 1: 5 labels, 2 of them matches" in done
    assert "rows that repeat a pair: 1" in done
    with opened(place / "run", task) as folder:
        folder.bind(RunConfig(task=str(place / "task")))
        batch = folder.ledger.batch(1)
        assert batch is not None
        assert (batch.source, batch.pairs.tolist()) == ("imported", pairs_of(task, 0, 5).tolist())
        assert folder.ledger.labels(1).tolist() == [YES, NO, UNSURE, YES, NO]
        assert folder.ledger.sealed(1)


def test_an_import_that_was_broken_off_is_gone_on_with(place, monkeypatch, capsys):
    task = read_task(place / "task")
    rows = ids(task, pairs_of(task, 0, 2))
    take = ("import", "--run", place / "run", "--task", place / "task", "--labels")
    first, other = table(place / "a.csv", [[*rows[0], "yes"]]), table(place / "b.csv", [[*rows[1], "yes"]])
    ledger = Ledger(place / "run", task)
    ledger.add_batch(1, Batch(pairs_of(task, 0, 1), np.full(1, np.nan), "imported"))
    error = refused(monkeypatch, capsys, *take, other)
    assert (
        f"1 of its pairs have no label here, such as {rows[0][0]}, {rows[0][1]}; import the same labels again" in error
    )
    assert "round 1: 1 labels" in labels(monkeypatch, capsys, *take, first)
    assert ledger.labels(1).tolist() == [YES]
    assert "round 2: 1 labels" in labels(monkeypatch, capsys, *take, other)


def full(*_) -> None:
    raise BadFile("answers-00001.parquet cannot be written (No space left on device)")


def test_an_import_that_was_broken_off_is_ended_by_a_table_that_has_grown(place, monkeypatch, capsys):
    task = read_task(place / "task")
    rows = ids(task, pairs_of(task, 0, 5))
    file = table(place / "bought.csv", [[*row, "no"] for row in rows[1:3]])
    take = ("import", "--run", place / "run", "--task", place / "task", "--labels", file)
    with monkeypatch.context() as context:
        context.setattr(Ledger, "add_answers", full)
        assert "No space left" in refused(context, capsys, *take)
    # In another order, and the other way round where that is the same pair.
    if task.symmetric:
        rows[2].reverse()
    table(file, [[*row, word] for row, word in zip(rows, ("yes", "no", "unsure", "yes", "no"), strict=True)])
    assert "round 2: 5 labels, 2 of them matches" in labels(monkeypatch, capsys, *take)
    ledger = Ledger(place / "run", task)
    assert [ledger.labels(number).tolist() for number in (1, 2)] == [[NO, UNSURE], [YES, YES, NO]]
    assert ledger.sealed(1)
    assert ledger.sealed(2)
    assert "5 known before" in labels(monkeypatch, capsys, *take)


@pytest.fixture
def by_model(place) -> Path:
    """A run of a sealed round of four pairs that a language model labelled, the last two of them people instead."""
    task = read_task(place / "task")
    with opened(place / "may", task) as folder:
        folder.bind(RunConfig(task=str(place / "task"), oracle="llm"))
        folder.ledger.add_batch(1, Batch(pairs_of(task, 0, 4), np.full(4, 0.9), "seed"))
        for rows, said, by in (([0, 1, 2], [YES, NO, NO], "llm:judge"), ([2, 3], [UNSURE, YES], "people")):
            folder.ledger.add_answers(1, make_answers(np.array(rows), np.array(said, dtype=np.uint8), by))
        folder.ledger.seal(1)
    return place / "may"


def test_imported_labels_of_a_language_model_stay_its_own(place, by_model, monkeypatch, capsys):
    """So that they are not shown to it as examples; also if the import is interrupted between the two labellers."""
    task, steps = read_task(place / "task"), list[int]()
    take = ("import", "--run", place / "june", "--task", place / "task", "--labels", by_model)
    add_answers = Ledger.add_answers

    def full_later(ledger: Ledger, number: int, answers: Answers) -> None:
        steps.append(number)
        (add_answers if len(steps) == 1 else full)(ledger, number, answers)

    with monkeypatch.context() as context:
        context.setattr(Ledger, "add_answers", full_later)
        assert "No space left" in refused(context, capsys, *take)
    assert "round 1: 2 labels" in labels(monkeypatch, capsys, *take)
    ledger = Ledger(place / "june", task)
    assert ledger.labels(1).tolist() == [YES, NO, UNSURE, YES]
    assert labellers_of(ledger, 1).tolist() == ["llm:judge", "llm:judge", str(by_model), str(by_model)]
    rows, given = labels_of_others(ledger, 1)
    assert (rows.tolist(), given.tolist()) == ([2, 3], [UNSURE, YES])


def test_a_run_does_not_buy_the_labels_of_an_interrupted_import(place, monkeypatch, capsys):
    task = read_task(place / "task")
    rows = table(place / "bought.csv", [[*one, "no"] for one in ids(task, pairs_of(task, 0, 3))])
    take = ("import", "--run", place / "run", "--task", place / "task", "--labels", rows)
    with monkeypatch.context() as context:
        context.setattr(Ledger, "add_answers", full)
        assert "No space left" in refused(context, capsys, *take)
    config = RunConfig(task=str(place / "task"), oracle="judge:never")
    with opened(place / "run", task) as folder:
        folder.bind(config)
        request = OracleRequest(config, OracleConfig(), folder, no_progress)
        with pytest.raises(WrongFolder, match=r"round 1 of .* is an import that was interrupted; import the same"):
            # An oracle without a method: it is not asked.
            ask_pending(request, cast(Oracle, object()), None, folder.state())
    # Stopped once more, before the round is complete: another table then goes into a round of its own.
    with monkeypatch.context() as context:
        context.setattr(Ledger, "seal", full)
        assert "No space left" in refused(context, capsys, *take)
    more = table(place / "more.csv", [[*one, "no"] for one in ids(task, pairs_of(task, 3, 4))])
    assert "round 2: 1 labels" in labels(monkeypatch, capsys, *take[:-1], more)
    assert "3 known before" in labels(monkeypatch, capsys, *take)
    ledger = Ledger(place / "run", task)
    assert [ledger.labels(number).tolist() for number in (1, 2)] == [[NO] * 3, [NO]]


def test_a_batch_for_which_no_pair_was_left_is_no_import_when_its_run_is_resumed(place):
    task = read_task(place / "task")
    config = RunConfig(task=str(place / "task"), strategy="random", train_every_budget=True)
    with opened(place / "run", task) as folder:
        folder.bind(config)
        folder.ledger.add_batch(1, Batch(as_pairs([], []), np.empty(0), "random"))
        request = OracleRequest(config, OracleConfig(), folder, no_progress)
        # There is nothing to ask the oracle for.
        ask_pending(request, cast(Oracle, object()), None, folder.state())
        assert folder.ledger.sealed(1)
    with opened(place / "other", task) as folder:
        folder.bind(config)
        fill(folder.ledger, 1, pairs_of(task, 0, 4), SAID)
        request = OracleRequest(config, OracleConfig(), folder, no_progress)
        with pytest.raises(WrongFolder, match="has imported labels, and `strategy='random'` takes no seed set"):
            ask_pending(request, cast(Oracle, object()), None, folder.state())


def test_labels_are_not_read_with_another_task_in_the_place_of_their_own(begun, monkeypatch, capsys):
    task = read_task(begun / "task")
    texts = ("of another kind", *task.left.texts[1:])
    left = Corpus(task.left.ids, texts)
    changed = sealed(task.name, task.symmetric, left, left if task.symmetric else task.right, task.splits)
    shutil.rmtree(begun / "task")
    write_task(changed, begun / "task", {})
    before = files(begun / "run")
    first, second = ids(task, pairs_of(task, 0, 1))[0]
    for line in (
        ("status", "--run", begun / "run"),
        ("export", "--run", begun / "run", "--out", begun / "x.csv"),
        ("import", "--run", begun / "new", "--task", begun / "task", "--labels", begun / "run"),
        ("correct", "--run", begun / "run", "--left-id", first, "--right-id", second, "--label", "no"),
        ("close", "--run", begun / "run"),
    ):
        error = refused(monkeypatch, capsys, *line)
        assert f"{begun / 'task'} is not the task of {begun / 'run'} any more, but another one; restore it" in error
    assert files(begun / "run") == before


def test_a_run_whose_task_is_not_there_is_told_how_it_gets_its_new_path(begun, monkeypatch, capsys):
    (begun / "task").rename(begun / "moved")
    path, run = begun / "run" / "config.json", begun / "run"
    absolute = path.read_text()
    fix = f"restore it, or resume the run with its new path: python -m jobs.run --config {run} --out {run} --task TASK"
    error = refused(monkeypatch, capsys, "status", "--run", run)
    assert f"{run} is a run of the task {begun / 'task'}, which does not exist; {fix}" in error
    path.write_text(absolute.replace(str(begun / "task"), "tasks/small"))
    error = refused(monkeypatch, capsys, "status", "--run", run)
    assert "is a run of the task tasks/small, which does not exist here; go to the folder in which the run was" in error


def test_an_import_buys_no_label_twice_and_says_what_is_at_odds(place, monkeypatch, capsys):
    task = read_task(place / "task")
    with opened(place / "run", task) as folder:
        folder.bind(RunConfig(task=str(place / "task")))
        fill(folder.ledger, 1, pairs_of(task, 0, 4), SAID)
    rows = ids(task, pairs_of(task, 0, 6))
    take = ("import", "--run", place / "run", "--labels", place / "more.csv")
    table(place / "more.csv", [[*rows[0], "yes"], [*rows[4], "no"], [*rows[1], "yes"]])
    before = files(place / "run")
    assert f"{place}/more.csv:4: the run has the label no for this pair" in refused(monkeypatch, capsys, *take)
    assert files(place / "run") == before
    said = labels(monkeypatch, capsys, *take, "--bad-rows", "skip")
    assert "round 2: 1 labels, 0 of them matches; 1 known before" in said
    assert "rows skipped: 1" in said
    assert Ledger(place / "run", task).labels(2).tolist() == [NO]
    before = files(place / "run")
    again = labels(monkeypatch, capsys, *take, "--bad-rows", "skip")
    assert "round 2: 0 labels, 0 of them matches; 2 known before" in again
    assert "nothing is new, so nothing was changed" in again
    assert "to train on them" not in again
    assert files(place / "run") == before


def test_an_audit_sheet_and_a_table_without_header_are_imported_by_the_options_that_the_error_names(
    place, monkeypatch, capsys
):
    task = read_task(place / "task")
    first, second = ids(task, pairs_of(task, 0, 2))
    sheet = table(place / "audit.csv", [["p1", "yes", *first]], "pair,label,left_id,right_id")
    take = ("import", "--run", place / "run", "--task", place / "task", "--labels")
    error = refused(monkeypatch, capsys, *take, sheet)
    assert "has no column 'left'" in error
    assert "name its columns with --columns; if the file has no header, give --no-header" in error
    printed = labels(monkeypatch, capsys, *take, sheet, "--columns", "left_id", "right_id", "label")
    assert "round 1: 1 labels, 1 of them matches" in printed
    bare = table(place / "bare.csv", [], ",".join([*second, "no"]))
    assert "round 2: 1 labels, 0 of them" in labels(
        monkeypatch, capsys, *take, bare, "--no-header", "--columns", "0,1,2"
    )


def test_labels_go_into_a_run_of_a_larger_task_by_the_command_that_its_refusal_names(begun, monkeypatch, capsys):
    task = read_task(begun / "task")
    left = Corpus((*task.left.ids, "new"), (*task.left.texts, "a new text"))
    right = left if task.symmetric else task.right
    write_task(sealed("larger", task.symmetric, left, right, task.splits), begun / "larger", {})
    monkeypatch.chdir(begun)
    with opened(begun / "run", read_task(begun / "larger")) as folder, pytest.raises(WrongFolder) as refusal:
        folder.bind(RunConfig(task="larger"))
    (line,) = re.findall(r"jobs\.labels (import [^;]+)", as_called(str(refusal.value)))
    assert "--columns goes with a table" in refused(monkeypatch, capsys, *shlex.split(line), "--columns", "a,b,c")
    labels(monkeypatch, capsys, *shlex.split(line))
    moved = Ledger(begun / "NEW", read_task(begun / "larger"))
    old = Ledger(begun / "run", task).labelled()
    assert moved.labelled().pairs.tolist() == old.pairs.tolist()
    assert moved.labelled().labels.tolist() == old.labels.tolist()


def test_the_line_after_an_import_trains_the_imported_round(begun, monkeypatch, capsys):
    task = read_task(begun / "task")
    with opened(begun / "run", task) as folder:
        folder.ledger.add_answers(2, make_answers(np.array([0, 2]), np.array([NO, NO], dtype=np.uint8), "file"))
        folder.ledger.seal(2)
    file = table(begun / "more.csv", [[*ids(task, pairs_of(task, 9, 10))[0], "yes"]])
    take = ("import", "--run", begun / "run", "--labels", file)
    for command, planned, more in ((take, 4, []), (("status", "--run", begun / "run"), 2, ["--rounds", "3"])):
        config = json.loads((begun / "run" / "config.json").read_text())
        (begun / "run" / "config.json").write_text(json.dumps({**config, "rounds": planned}))
        printed = labels(monkeypatch, capsys, *command)
        line = shlex.split(printed.splitlines()[-1].partition(": ")[2])
        assert line == ["python", "-m", "jobs.run", "--out", str(begun / "run"), "--config", str(begun / "run"), *more]
        assert parse_arguments(line[3:]).run.rounds >= 3


@pytest.mark.parametrize(
    ("options", "added"),
    [
        ({}, []),
        ({"strategy": "adaptive"}, []),
        *(({"strategy": name}, ["--strategy", "uncertainty"]) for name in ("static", "random", "stratified-all")),
        ({"strategy": "random", "train_every_budget": True}, ["--strategy", "uncertainty"]),
        ({"oracle": "llm"}, ["--llm.model", "MODEL", "--llm.definition", "TEXT"]),
    ],
)
def test_the_line_after_labels_of_another_run_makes_a_run_that_trains_on_them(
    place, options, added, monkeypatch, capsys
):
    task = read_task(place / "task")
    with opened(place / "may", task) as folder:
        folder.bind(RunConfig(task=str(place / "task"), **options))
        fill(folder.ledger, 1, pairs_of(task, 0, 4), SAID)
    run = place / "june"
    printed = labels(monkeypatch, capsys, "import", "--run", run, "--task", place / "task", "--labels", place / "may")
    hint, _, command = printed.splitlines()[-1].partition(": ")
    before, after = (added, []) if "--strategy" in added else ([], added)
    words = ["--config", place / "may", "--task", place / "task", *before, "--out", run, *after]
    assert shlex.split(command) == ["python", "-m", "jobs.run", *map(str, words)]
    assert hint == "to train on them" + " (with all options of llm as before)" * ("oracle" in options)
    parsed = parse_arguments(shlex.split(command)[3:])
    with opened(run, task) as folder:
        folder.bind(parsed.run)
        # This is what refuses a run whose strategy would not train on them.
        request = OracleRequest(parsed.run, OracleConfig(), folder, no_progress)
        ask_pending(request, cast(Oracle, object()), None, folder.state())


def test_the_lines_that_resume_a_run_of_a_language_model_name_the_options_that_it_lacks(by_model, monkeypatch, capsys):
    task = read_task(by_model.parent / "task")
    (by_model / "state.json").write_text(json.dumps({"round": 1}))
    ledger = Ledger(by_model, task)
    ledger.add_batch(2, Batch(pairs_of(task, 4, 6), np.full(2, 0.5), "uncertainty"))
    ledger.add_answers(2, make_answers(np.array([1]), np.array([YES], dtype=np.uint8), "llm:judge"))
    line = f"python -m jobs.run --out {by_model} --config {by_model} --llm.model MODEL --llm.definition TEXT"
    hint = "(with all options of llm as before)"
    said = labels(monkeypatch, capsys, "status", "--run", by_model).splitlines()
    assert said[-1] == f"to resume {hint}: {line}"
    said = labels(monkeypatch, capsys, "close", "--run", by_model).splitlines()
    assert said[-1] == f"to train on them {hint}: {line}"
    more = table(by_model.parent / "more.csv", [[*ids(task, pairs_of(task, 9, 10))[0], "no"]])
    said = labels(monkeypatch, capsys, "import", "--run", by_model, "--labels", more).splitlines()
    assert said[-1] == f"to train on them {hint}: {line}"


def test_labels_are_not_imported_into_a_run_that_would_not_train_on_them(place, monkeypatch, capsys):
    task = read_task(place / "task")
    with opened(place / "run", task) as folder:
        folder.bind(RunConfig(task=str(place / "task"), strategy="static"))
    file = table(place / "more.csv", [[*ids(task, pairs_of(task, 0, 1))[0], "yes"]])
    error = refused(monkeypatch, capsys, "import", "--run", place / "run", "--labels", file)
    assert "trains on the pairs that it chooses alone; import the labels into another run" in error
    assert Ledger(place / "run", task).rounds == 0


BAD = {
    "no run": (["status", "--run", "nowhere"], "nowhere holds no config.json"),
    "no command": ([], "Expected one of {status, export, import, correct, close}"),
    "no such command": (["stats", "--run", "RUN"], "stats"),
    "format": (["export", "--run", "RUN", "--out", "labels.xlsx"], "ends with none of .parquet .csv .jsonl"),
    "out is a folder": (["export", "--run", "RUN", "--out", "task.csv"], "task.csv cannot be written"),
    "open round": (["import", "--run", "RUN", "--labels", "good.csv"], "round 2 of RUN waits for answers"),
    "another task": (["import", "--run", "RUN", "--task", ".", "--labels", "good.csv"], "is a run of"),
    "no task": (["import", "--run", "new", "--labels", "good.csv"], "give a run folder, or for a new one the --task"),
    "no pair": (["correct", "--run", "RUN"], "give --labels FILE, or one pair"),
    "half a pair": (["correct", "--run", "RUN", "--left-id", "t0", "--label", "no"], "give --labels FILE, or one pair"),
    "both": (["correct", "--run", "RUN", "--labels", "good.csv", "--label", "no"], "give --labels FILE, or one pair"),
    "id": (["correct", "--run", "RUN", "--left-id", "x", "--right-id", "t1", "--label", "no"], "'x' is not an id"),
    "word": (["correct", "--run", "RUN", "--left-id", "x", "--right-id", "t1", "--label", "maybe"], "maybe"),
    "no file": (["correct", "--run", "RUN", "--labels", "none.csv"], "none.csv cannot be read"),
    "columns": (["correct", "--run", "RUN", "--labels", "good.csv", "--columns", "a"], "give three"),
    "column": (["correct", "--run", "RUN", "--labels", "good.csv", "--columns", "a,b,c"], "has no column 'a'"),
    "never labelled": (["correct", "--run", "RUN", "--labels", "good.csv"], "has no label; leave it out"),
    "strange label": (["correct", "--run", "RUN", "--labels", "maybe.csv"], "maybe.csv:2: its label is 'maybe'"),
    "strange id": (["correct", "--run", "RUN", "--labels", "stranger.csv"], "stranger.csv:2: its 'left' is 'zz'"),
    "two labels": (["correct", "--run", "RUN", "--labels", "odd.csv"], "odd.csv:3: its label is no, but"),
    "other split": (["correct", "--run", "RUN", "--labels", "dev.csv"], "not in the split of these labels"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_is_refused_in_a_line_and_changes_nothing(begun, case, monkeypatch, capsys):
    arguments, words = BAD[case]
    task = read_task(begun / "task")
    monkeypatch.chdir(begun)
    (begun / "task.csv").mkdir()
    one = ids(task, pairs_of(task, 9, 10))[0]
    dev = ids(task, task.split("dev").positives[:1])[0]
    for name, rows in {
        "good.csv": [[*one, "yes"]],
        "maybe.csv": [[*one, "maybe"]],
        "stranger.csv": [["zz", one[1], "yes"]],
        "odd.csv": [[*one, "yes"], [*one, "no"]],
        "dev.csv": [[*dev, "yes"]],
    }.items():
        table(begun / name, rows)
    (begun / "run").rename(begun / "RUN")
    before = files(begun)
    assert words in refused(monkeypatch, capsys, *arguments)
    assert {path: text for path, text in files(begun).items() if path.name != ".lock"} == {
        path: text for path, text in before.items() if path.name != ".lock"
    }


def test_labels_are_not_touched_while_a_run_writes(begun, monkeypatch, capsys):
    with opened(begun / "run", read_task(begun / "task")):
        said = refused(monkeypatch, capsys, "import", "--run", begun / "run", "--labels", "x.csv")
    assert "being written by another process" in said


def test_a_round_that_is_closed_says_that_open_dev_pairs_are_asked_for_first(begun, monkeypatch, capsys):
    run = begun / "run"
    (run / "state.json").write_text(json.dumps({"round": 1}))
    with opened(run, read_task(begun / "task")) as folder:
        folder.bind(RunConfig(task=str(begun / "task"), dev_labels=12))
        draw(folder.dev_labels, 1)
        answer(folder.dev_labels, 1, labels_of("yyn"))
    printed = labels(monkeypatch, capsys, "close", "--run", run).splitlines()
    assert printed[0] == "round 2 is closed with 1 labels; 2 pairs leave it"
    assert (
        printed[2]
        == "it asks for the labels of 9 dev pairs first; with jobs.run --dev-labels 0 it goes on without them"
    )
    # Pairs, yes, no, unsure and open ones: the two pairs without a label have left the round.
    second = labels(monkeypatch, capsys, "status", "--run", run).splitlines()[2].split()
    assert [second[0], *second[2:7]] == ["2", "3", "1", "0", "0", "0"]
