"""Run and grid folders as a report reads them: whole, unfinished, failed, damaged, and of earlier days."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from al_ray.apps.reporting.export import write_summary
from al_ray.apps.reporting.read_runs import read_runs
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.core.labels import Batch
from al_ray.core.scorer import Scorer
from al_ray.core.task import Task
from al_ray.datasets.task_folder import write_task
from al_ray.metrics.average_precision import StratumSummary
from al_ray.runs.other_runs import count_classes
from al_ray.storage.files import write_json, write_parquet
from tests.apps.reporting.made_runs import CONFIG, folder_of, made_grid, made_run


@pytest.fixture
def task(make_task) -> Task:
    return make_task(False)


@pytest.fixture
def config(task, tmp_path):
    write_task(task, tmp_path / "task", {})
    return replace(CONFIG, task=str(tmp_path / "task"))


def test_a_run_comes_with_the_figures_of_its_rounds(task, config, tmp_path):
    (run,) = read_runs(made_run(tmp_path / "first", task, config, index_recall=0.95))
    assert (run.name, run.trouble, run.config) == ("first", "", config)
    assert (run.task.name, run.task.digest) == ("small", task.digest)
    assert run.task.counts["dev"]["positives"] == len(task.split("dev").positives)
    assert [(one.number, one.labels, one.batch, one.positives, one.batch_positives) for one in run.rounds] == [
        (1, 8, 8, 2, 2), (2, 20, 12, 4, 2), (3, 38, 18, 6, 2),
    ]  # fmt: skip
    last = run.rounds[-1]
    # Two positives, at precision 1 and 2/3.
    assert last.splits["dev"].average_precision.value == pytest.approx(5 / 6)
    assert last.splits["dev"].recall == (0.5, 1.0)
    assert last.splits["dev"].precision == (1.0, pytest.approx(2 / 3))
    assert last.splits["dev"].exact
    assert last.splits["dev"].near is None
    assert sum(row.weight for row in last.splits["dev"].reliability) == 3
    assert last.index_recall == 0.95
    # All cosines of a batch are equal: two positives among 18 pairs.
    assert (last.agreement, last.prequential) == (None, pytest.approx(2 / 18))
    assert last.boundary == 0.5
    assert last.seconds == {"train": 180.0, "evaluate": 6.0}
    # Chosen at cosine 1/2 by a model with w = 10 and b = -5; nothing had been trained before the first.
    assert [one.batch_p for one in run.rounds] == [None, 0.5, 0.5]
    assert [one.batch_share for one in run.rounds] == [None, 2 / 12, 2 / 18]
    assert [shown.kind for shown in last.examples] == ["high-negative"] * 2 + ["low-positive"] * 2 + [
        "near-boundary"
    ] * 2
    assert last.examples_of == "dev"
    assert last.examples[0].left_text == task.left.texts[last.examples[0].left]


def test_an_estimate_keeps_its_interval_and_the_number_of_near_negatives(task, config, tmp_path):
    strata = [
        StratumSummary("near from 0.5", 10, 40),
        StratumSummary("near below 0.5", 10, 60),
        StratumSummary("random", 10, 1000),
    ]
    path = made_run(tmp_path / "run", task, config, above=((0, 1),))
    record = json.loads((path / "round-001" / "record.json").read_text())
    named = [{"name": one.name, "size": one.size, "population": one.population, "weight": one.weight} for one in strata]
    record["evaluations"]["dev"] |= {"strata": named, "exact": False}
    (path / "round-001" / "record.json").write_text(json.dumps(record))
    (run,) = read_runs(path)
    assert run.rounds[0].splits["dev"].near == 100
    assert not run.rounds[0].splits["dev"].exact


def scored(path: Path, number: int, cosines: list[float], labels: list[int | None]) -> None:
    """Change cosines and labels of the first pairs of a round."""
    for name, column, values in (("batch", "score", cosines), ("labels", "label", labels)):
        file = path / f"round-{number:03d}" / f"{name}.parquet"
        table = pq.ParquetFile(file).read()
        place, whole = table.column_names.index(column), table[column].to_pylist()
        changed = pa.array([*values, *whole[len(values) :]], table.schema.field(place).type)
        write_parquet(file, table.set_column(place, column, changed))


def test_a_run_without_an_evaluation_shows_pairs_of_its_labels_by_hand(task, config, tmp_path):
    path = made_run(tmp_path / "run", task, config, splits=())
    # Models with w = 10 and b = -5 chose the pairs of rounds 2 and 3; all others were chosen at p = 1/2 and are no.
    scored(path, 1, [0.99], [0])
    scored(path, 2, [0.9, 0.1, 0.7, 0.2], [0, 1, None, 1])
    scored(path, 3, [0.6, 0.05], [0, 0])
    pairs = [pq.ParquetFile(path / f"round-{number:03d}" / "batch.parquet").read() for number in (1, 2, 3)]
    last = read_runs(path)[0].rounds[-1]
    assert last.examples_of == "its labelled pairs"
    of = {
        kind: [one for one in last.examples if one.kind == kind]
        for kind in dict.fromkeys(one.kind for one in last.examples)
    }
    assert list(of) == ["yes-to-no", "no-to-yes", "uncertain", "confident"]
    # The seed set has a cosine of the untrained encoder and no p, and an unsure pair disagrees with nobody.
    assert [one.cosine for one in of["yes-to-no"]][:3] == [0.9, 0.6, 0.5]
    assert [one.cosine for one in of["no-to-yes"]] == [0.1, 0.2]
    assert [one.cosine for one in of["confident"]][:4] == [0.05, 0.9, 0.1, 0.2]
    assert of["uncertain"][0].p == 0.5
    first = of["yes-to-no"][0]
    assert (first.label, first.p) == (0, pytest.approx(1 / (1 + np.exp(-4.0))))
    assert (first.left, first.right) == (pairs[1]["left"][0].as_py(), pairs[1]["right"][0].as_py())
    assert (first.left_text, first.right_text) == (task.left.texts[first.left], task.right.texts[first.right])
    # A correction counts; and without the task its rows stand for its texts.
    folder_of(path, task).ledger.correct(np.array([[first.left, first.right]]), np.array([1], dtype=np.uint8))
    shutil.rmtree(config.task)
    again = read_runs(path)[0].rounds[-1].examples
    assert next(one.cosine for one in again if one.kind == "yes-to-no") == 0.6
    assert again[0].left_text == f"text {again[0].left} of the task"


def test_a_run_whose_pairs_no_model_chose_shows_them_by_the_untrained_encoder(task, config, tmp_path):
    path = made_run(tmp_path / "run", task, config, above=((3, 9),), splits=())
    scored(path, 1, [0.2, 0.9, 0.4, 0.8], [1, 1, 0, 0])
    shown = read_runs(path)[0].rounds[-1].examples
    assert [(one.kind, one.cosine, one.p) for one in shown if one.cosine != 0.5] == [
        ("similar-no", 0.8, None),
        ("similar-no", 0.4, None),
        ("different-yes", 0.2, None),
        ("different-yes", 0.9, None),
    ]


def test_pairs_that_left_a_closed_round_are_neither_shown_nor_in_its_mean_p(task, config, tmp_path):
    path = made_run(tmp_path / "run", task, config, above=((3, 9), (1, 4)), splits=())
    scored(path, 2, [0.9, 0.8, 0.1, 0.2], [0, 0, 1, 1])
    home = path / "round-002"
    labels, batch = (pq.ParquetFile(home / f"{name}.parquet").read() for name in ("labels", "batch"))
    # Only the second and the fourth pair were labelled before the round was closed.
    write_parquet(home / "labels.parquet", labels.take([1, 3]))
    write_json(home / "closed.json", {"pairs_without_label": len(labels) - 2})
    assert folder_of(path, task).ledger.labels(2).tolist() == [3, 0, 3, 1] + [3] * (len(labels) - 4)
    (run,) = read_runs(path)
    assert run.trouble == "ended after round 2 of 3"
    # p = sigmoid(10 * 0.8 - 5) and sigmoid(10 * 0.2 - 5): sigmoid(3) + sigmoid(-3) = 1.
    assert run.rounds[-1].batch_p == pytest.approx(0.5)
    shown = {one.kind: one for one in run.rounds[-1].examples if one.kind in ("yes-to-no", "no-to-yes")}
    assert {kind: (one.cosine, one.left) for kind, one in shown.items()} == {
        "yes-to-no": (0.8, batch["left"][1].as_py()),
        "no-to-yes": (0.2, batch["left"][3].as_py()),
    }


def test_a_damaged_batch_of_a_run_without_an_evaluation_is_trouble(task, config, tmp_path):
    path = made_run(tmp_path / "run", task, config, above=((3, 9),), splits=())
    write_parquet(path / "round-001" / "labels.parquet", pa.table({"a": [1]}))
    (run,) = read_runs(path)
    assert run.trouble.startswith("cannot be read after round 1: ")


def test_a_run_that_ended_early_is_at_its_end_until_it_goes_on(task, config, tmp_path):
    folder = folder_of(made_run(tmp_path / "run", task, config, above=((3, 9), (1, 4))), task)
    folder.end("stopped after round 2 of 3 by --stop.labels 20")
    (run,) = read_runs(folder.path)
    assert (run.trouble, len(run.rounds)) == ("", 2)
    assert count_classes(folder.path) == (4, 16)
    metrics = tmp_path / "run" / "metrics.jsonl"
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    metrics.write_text("".join(json.dumps({**line, "batch_unsure": 3}) + "\n" for line in lines))
    assert count_classes(folder.path) == (4, 10)
    write_json(folder.path / "state.json", {"round": 1, "labels": 10})
    assert read_runs(folder.path)[0].trouble == "ended after round 1 of 3"
    with pytest.raises(BadOption, match="has 1 of 3 rounds; run it to its end first"):
        count_classes(folder.path)


def test_a_run_that_is_not_through_says_how_far_it_is(task, config, tmp_path):
    (run,) = read_runs(made_run(tmp_path / "half", task, config, above=((3, 9), (1, 4))))
    assert run.trouble == "ended after round 2 of 3"
    (run,) = read_runs(made_run(tmp_path / "new", task, config, above=()))
    assert (run.trouble, run.rounds) == ("no round is complete", ())


def test_a_run_whose_pairs_people_have_yet_to_label_waits_for_labels(task, config, tmp_path):
    people = replace(config, oracle="file")
    for complete, above in enumerate(((), ((3, 9),), ((3, 9), (1, 4)))):
        folder = folder_of(made_run(tmp_path / f"run{complete}", task, people, above=above), task)
        assert "waits" not in read_runs(folder.path)[0].trouble
        pairs = task.split("train").space.pairs(task.split("train").space.at(np.arange(2) + 90))
        folder.ledger.add_batch(complete + 1, Batch(pairs, np.full(2, 0.5), "uncertainty"))
        (run,) = read_runs(folder.path)
        assert run.trouble == f"waits for the labels of round {complete + 1} of 3"
        assert (run.status, len(run.rounds)) == ("incomplete", complete)


def test_a_run_of_earlier_days_has_what_it_has(task, config, tmp_path):
    path = made_run(tmp_path / "old", task, config, examples=False)
    for number in (1, 2, 3):
        home = path / f"round-{number:03d}"
        record = json.loads((home / "record.json").read_text())
        for name in ("curve", "reliability", "l2_calibration_error"):
            del record["evaluations"]["dev"][name]
        del record["index_recall"], record["agreement"], record["prequential_average_precision"]
        (home / "record.json").write_text(json.dumps(record))
        table = pq.ParquetFile(home / "batch.parquet").read()
        write_parquet(home / "batch.parquet", table.drop_columns(["source"]).rename_columns({"score": "cosine"}))
    (run,) = read_runs(path)
    assert run.trouble == ""
    assert run.rounds[2].splits["dev"].reliability == run.rounds[2].splits["dev"].recall == ()
    assert run.rounds[2].batch_p == 0.5
    assert run.rounds[2].index_recall is None
    assert (run.rounds[2].agreement, run.rounds[2].prequential) == (None, None)
    assert run.rounds[2].examples == ()


def test_an_unsure_pair_is_no_negative_of_its_batch(task, config, tmp_path):
    path = made_run(tmp_path / "run", task, config)
    # Two of 12 pairs match, 8 are unsure; p = sigmoid(10 * 0.7 - 5) and sigmoid(10 * 0.3 - 5) of those that match.
    scored(path, 2, [0.7, 0.3, *[0.9] * 8], [1, 1, *[None] * 8])
    (run,) = read_runs(path)
    assert (run.rounds[1].batch_share, run.rounds[1].batch_p) == (2 / 4, pytest.approx(0.5))
    scored(path, 2, [], [None] * 12)
    (run,) = read_runs(path)
    assert (run.trouble, run.rounds[1].batch_share, run.rounds[1].batch_p) == ("", None, None)


def test_p_is_of_the_model_before_and_of_batches_that_a_model_chose(task, config, tmp_path):
    path = made_run(tmp_path / "run", task, config)
    record = json.loads((path / "round-001" / "record.json").read_text())
    record["model"] |= {"weight": 2.0, "bias": 1.0}
    (path / "round-001" / "record.json").write_text(json.dumps(record))
    (run,) = read_runs(path)
    assert run.rounds[1].batch_p == pytest.approx(float(Scorer(2.0, 1.0).probability(np.array([0.5]))[0]))
    assert run.rounds[2].batch_p == 0.5
    (static,) = read_runs(made_run(tmp_path / "static", task, replace(config, strategy="static"), above=((0, 1),)))
    assert [one.batch_p for one in static.rounds] == [None]


def test_a_damaged_round_is_trouble_and_those_before_it_stand(task, config, tmp_path):
    path = made_run(tmp_path / "run", task, config)
    start = '{"labels": 9, "positives": 1, "batch_positives": 0, "evaluations": '
    for content in (
        '{"labels": 1e999, "positives": 1, "batch_positives": 0, "seconds": {}, "evaluations": {}}',
        start + '{}, "seconds": {}, "boundary": "x"}',
        start + '{}, "seconds": {"train": 1e999}}',
        "{",
        '{"labels": 1}',
        '{"labels": "x", "positives": 1, "batch_positives": 0, "seconds": [], "evaluations": {}}',
    ):
        (path / "round-002" / "record.json").write_text(content)
        (run,) = read_runs(path)
        assert len(run.rounds) == 1
        assert run.trouble.startswith("cannot be read after round 1: ")
        assert "round-002" in run.trouble
        assert "restore it" in run.trouble


def test_a_task_that_is_gone_or_another_leaves_its_digest_and_the_name_of_its_folder(task, config, make_task, tmp_path):
    path = made_run(tmp_path / "run", task, config)
    shutil.rmtree(tmp_path / "task")
    (run,) = read_runs(path)
    assert (run.task.name, run.task.digest, dict(run.task.counts)) == ("task", task.digest, {})
    write_task(make_task(True), tmp_path / "task", {})
    (run,) = read_runs(path)
    assert (run.task.digest, dict(run.task.counts)) == (task.digest, {})


def test_every_cell_of_a_grid_is_there_whatever_came_of_it(task, config, tmp_path):
    whole, half = ((3, 9), (1, 4), (0, 1)), ((3, 9),)
    cells = {"static-s0": ((0, 2),), "uncertainty-s0": whole, "uncertainty-s1": half, "random-s1": None}
    grid = made_grid(tmp_path / "grid", task, cells, config)
    runs = read_runs(grid)
    assert {run.name: run.trouble for run in runs} == {
        "grid/static-s0": "",
        "grid/uncertainty-s0": "",
        "grid/uncertainty-s1": "ended after round 1 of 3",
        "grid/random-s1": "failed or not begun: it has no run folder",
    }
    missing = runs[-1]
    # Beside its like: the options are theirs.
    assert missing.config == replace(config, strategy="random", seed=1)
    assert missing.task.digest == task.digest


def test_a_grid_says_why_a_cell_failed_and_that_another_ended_early_as_it_was_told(task, config, tmp_path):
    half = ((3, 9), (1, 4))
    cells = {
        "uncertainty-s0": half,
        "uncertainty-s1": half,
        "uncertainty-s2": half,
        "random-s0": None,
        "static-s0": ((1, 2),),
    }
    grid = made_grid(tmp_path / "grid", task, cells, config)
    folder_of(grid / "runs" / "uncertainty-s0", task).end("stopped")
    errors = [None, "out of memory", None, "no node", "late"]
    rows = [
        {"run": f"old-name/{name}", "error": error, "rounds": len(cells[name] or ())}
        for name, error in zip(cells, errors, strict=True)
    ]
    write_parquet(grid / "summary.parquet", pa.Table.from_pylist(rows))
    assert [run.trouble for run in read_runs(grid)] == [
        "",
        "ended after round 2 of 3: failed: out of memory",
        "ended after round 2 of 3",
        "failed: no node",
        "",
    ]
    assert [run.status for run in read_runs(grid)] == ["complete", "failed", "incomplete", "failed", "complete"]
    # What is written of these runs is read the same again.
    runs = read_runs(grid)
    write_summary(grid / "summary.parquet", runs)
    assert read_runs(grid) == runs
    # A run that has come further since is not what it was then.
    before = [{**row, "rounds": row["rounds"] - 1} for row in rows]
    write_parquet(grid / "summary.parquet", pa.Table.from_pylist(before))
    assert [run.trouble for run in read_runs(grid)][:2] == ["", "ended after round 2 of 3"]
    write_parquet(grid / "summary.parquet", pa.Table.from_pylist(rows))
    # What cannot be read is not complete, whatever was found before.
    (grid / "runs" / "uncertainty-s0" / "round-002" / "record.json").write_text("{")
    assert read_runs(grid)[0].trouble.startswith("cannot be read after round 1")
    write_parquet(grid / "summary.parquet", pa.table({"run": ["a"]}))
    with pytest.raises(BadFile, match="has no columns run, error, rounds"):
        read_runs(grid)


def test_a_cell_whose_options_cannot_be_read_says_so_and_a_grid_without_any_run_has_its_cells(task, config, tmp_path):
    grid = made_grid(tmp_path / "grid", task, {"static-s0": ((0, 2),), "uncertainty-s0": None}, config)
    (grid / "runs" / "static-s0" / "config.json").write_text("{")
    first, second = read_runs(grid)
    assert first.trouble.startswith("cannot be read: ")
    assert (first.config.strategy, second.config.strategy) == ("static", "uncertainty")
    assert second.config.rounds == 3
    assert second.task.name == "small"


@pytest.mark.parametrize(("first", "growth"), [(1, 1.0), (7, 1.5), (123, 1.7), (1024, 1.5)])
def test_a_cell_without_its_like_has_the_first_batch_of_its_budget(task, config, tmp_path, first, growth):
    grid = made_grid(tmp_path / "grid", task, {"static-s0": None}, config)
    about = json.loads((grid / "grid.json").read_text())
    wanted = replace(config, first_batch=first, growth=growth)
    about["options"] |= {"growth": growth}
    about["cells"][0]["budget"] = sum(wanted.batches)
    (grid / "grid.json").write_text(json.dumps(about))
    (run,) = read_runs(grid)
    assert run.config.batches == replace(wanted, strategy="static").batches


def test_what_is_no_folder_of_runs_is_refused_and_so_is_a_grid_that_cannot_be_read(tmp_path):
    with pytest.raises(WrongFolder, match=r"holds neither config\.json nor grid\.json"):
        read_runs(tmp_path)
    for content in (
        "{",
        "{}",
        '{"options": {}, "cells": 5}',
        '{"options": {}, "cells": [1]}',
        '{"options": {}, "cells": [{"name": "a"}]}',
    ):
        (tmp_path / "grid.json").write_text(content)
        with pytest.raises(BadFile, match="restore it"):
            read_runs(tmp_path)
    cell = {"name": "a-s0", "strategy": "no-such", "seed": "x"}
    (tmp_path / "grid.json").write_text(json.dumps({"options": {"rounds": "many"}, "cells": [cell]}))
    with pytest.raises(BadFile, match=r"the options of a-s0 cannot be read"):
        read_runs(tmp_path)


def test_a_run_folder_without_readable_options_is_refused(tmp_path):
    (Path(tmp_path) / "config.json").write_text("{")
    with pytest.raises(BadFile):
        read_runs(tmp_path)


def test_a_state_that_counts_no_rounds_is_trouble(task, config, tmp_path):
    path = made_run(tmp_path / "run", task, config)
    for content in ('{"round": "x"}', '{"round": -1}', "{"):
        (path / "state.json").write_text(content)
        (run,) = read_runs(path)
        assert run.trouble.startswith("cannot be read after round 0: ")


def test_a_split_that_no_task_has_is_trouble(task, config, tmp_path):
    path = made_run(tmp_path / "run", task, config)
    home = path / "round-001" / "record.json"
    home.write_text(home.read_text().replace('"dev": {', '"all": {'))
    (run,) = read_runs(path)
    assert run.trouble.startswith("cannot be read after round 0: ")
