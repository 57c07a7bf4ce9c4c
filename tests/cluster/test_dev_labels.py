"""Labels of drawn dev pairs on a real Ray: bought once, by the same labellers, and estimates that hold the truth."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import al_ray
from al_ray.cli import labels, run
from al_ray.core.labels import UNSURE, YES
from al_ray.datasets.task_folder import read_task, sealed, write_task
from al_ray.runs.dev_labels import DevLabels
from al_ray.runs.run_folder import RunFolder

# Answers by the truth; every eleventh pair is one of which nothing can be said.
JUDGE = """
import json
from pathlib import Path

TRUTH = {tuple(pair) for pair in json.loads(Path("truth.json").read_text())}


def label(left, right):
    with open("asked.txt", "a") as file:
        file.writelines(f"{pair}\\n" for pair in zip(left, right))
    asked = [(a, b) in TRUTH or (b, a) in TRUTH for a, b in zip(left, right)]
    return [None if sum(map(ord, a + b)) % 11 == 0 else match for a, b, match in zip(left, right, asked)]
"""
OPTIONS = (
    "--task task --out out --rounds 2 --first-batch 8 --growth 1 --dev-labels 24 --encoder random-bert "
    "--encoder-layers 1 --max-length 24 --encoder-batch 8 --threads 1 --search.neighbours 5 --training.epochs 1 "
    "--training.batch 4 --training.worst-loss 100 --evaluation.splits "
)


@pytest.fixture
def truth(make_task, tmp_path, monkeypatch):
    """A folder with a task of which two matches of dev are stated, and all matches of its texts."""
    task = make_task(True)
    dev = task.splits["dev"]
    matches = np.concatenate([split.positives for split in task.splits.values()])
    stated = {**task.splits, "dev": replace(dev, positives=dev.positives[:2])}
    monkeypatch.chdir(tmp_path)
    partial = sealed(task.name, task.symmetric, task.left, task.right, stated)
    write_task(replace(partial, labels_are="partial"), tmp_path / "task", {})
    Path("truth.json").write_text(json.dumps([[task.left.texts[row] for row in pair] for pair in matches.tolist()]))
    Path("judge.py").write_text(JUDGE)
    return {frozenset(pair) for pair in matches.tolist()}


@pytest.fixture
def do(call, truth):
    """Run a command beside the task of which little is known."""
    return call


def asked() -> list[str]:
    return Path("asked.txt").read_text().splitlines()


def estimates() -> list[dict]:
    return [dict(one) for one in DevLabels(Path("out"), read_task(Path("task"))).estimates()]


def fill(truth) -> list[str]:
    """A person fills in all open rows of all sheets."""
    task, filled = read_task(Path("task")), list[str]()
    row_of = {text: row for row, text in enumerate(task.left.texts)}
    for sheet in sorted(Path("out").rglob("batch.csv")):
        with sheet.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            if not row["label"]:
                filled.append(row["pair"])
                pair = frozenset((row_of[row["left_text"]], row_of[row["right_text"]]))
                row["label"] = "yes" if pair in truth else "no"
        with sheet.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    return filled


def test_a_function_labels_dev_pairs_once_and_their_cost_counts(do, truth):
    code, printed = do(run, f"{OPTIONS} --oracle judge:label --pairs-per-call 5 --cost-per-pair 1")
    assert code == 0, printed
    assert "plan: 2 rounds of 8, 8 pairs, and 24 of dev after each, 64 labels in all" in printed
    assert "at --cost-per-pair 1 they cost 64" in printed
    first, second = estimates()
    assert (first["labels"], second["labels"]) == (24, 48)
    assert len(asked()) == len(set(asked())) == 64
    folder = RunFolder(Path("out"), read_task(Path("task")))
    assert folder.cost == 64
    # Unsure pairs are neither matches nor not, and none is asked again: 24 were drawn from what was left.
    dev = folder.dev_labels
    assert (dev.ledger.labels(1) == UNSURE).any()
    keys, known = dev.known(2)
    assert second["known"] == (known != UNSURE).sum()
    audit, _ = dev.audit(2)
    assert audit.total == folder.task.split("dev").space.total - len(keys)
    assert first["average_precision"]["low"] < first["average_precision"]["high"]
    assert f"round 2: 48 dev labels drawn; average precision of the {second['ranked']:,} pairs of highest" in printed
    # The scores of the model are probabilities by these labels; the run goes on with its own w and b.
    path = Path("out/round-002/model/scorer.json")
    scorer = path.read_bytes()
    new = json.loads(scorer)["recalibration"]
    assert (new["source"], new["split"]) == ("dev-labels", "dev")
    assert new["labels"] == second["known"] + (dev.ledger.labels(2) != UNSURE).sum()
    assert sum(row["weight"] for row in new["reliability"]) == new["pairs"]
    # All pairs but the known ones that are neither matches nor not.
    assert new["pairs"] == second["total_pairs"] - (known == UNSURE).sum()
    model = al_ray.load_model("out")
    assert (model.calibrated_on, model.boundary) == ("dev-labels", pytest.approx(new["boundary"]))
    assert folder.model(2).scorer != model.scorer

    # Nothing is bought again, and the labels can be taken along.
    assert do(run, "--out out --config out")[0] == 0
    assert len(asked()) == 64
    Path("out/dev-labels/round-002/estimate.json").unlink()
    path.write_text(json.dumps({name: old for name, old in json.loads(scorer).items() if name != "recalibration"}))
    assert do(run, "--out out --config out")[0] == 0
    assert (len(asked()), json.loads(path.read_bytes())) == (64, json.loads(scorer))
    assert "dev-labels" in do(labels, "status --run out")[1]
    assert do(labels, "export --run out --out dev.csv --split dev --every-column")[0] == 0
    assert len(Path("dev.csv").read_text().splitlines()) == 1 + 48


@pytest.mark.slow
def test_a_limit_of_cost_counts_labels_of_dev_and_goes_on_where_it_stopped(do, truth):
    line = f"{OPTIONS} --oracle judge:label --pairs-per-call 4 --cost-per-pair 1"
    code, printed = do(run, f"{line} --max-cost 20")
    assert (code, len(asked())) == (0, 20)
    assert "stopped by --max-cost 20" in printed
    code, printed = do(run, f"{line} --max-cost none")
    assert code == 0
    assert len(asked()) == len(set(asked())) == 64
    assert [one["labels"] for one in estimates()] == [24, 48]


def test_people_get_the_pairs_of_dev_beside_the_next_batch(do, truth):
    line = f"{OPTIONS} --oracle file"
    assert "round 1: 8 of 8 pairs wait" in do(run, line)[1]
    assert len(fill(truth)) == 8
    printed = do(run, line)[1]
    assert "round 1, dev: 24 of 24 pairs wait" in printed
    assert "round 2: 8 of 8 pairs wait" in printed
    # Only the sheet of the round is filled in: the run waits for the other.
    dev = Path("out/dev-labels/round-001/batch.csv")
    empty = dev.read_bytes()
    codes = fill(truth)
    assert sorted({code[0] for code in codes}) == ["d", "r"]
    filled, _ = dev.read_bytes(), dev.write_bytes(empty)
    printed = do(run, line)[1]
    assert "round 1, dev: 24 of 24 pairs wait" in printed
    assert "round 2: " not in printed
    assert not estimates()
    dev.write_bytes(filled)
    assert "round 2, dev: 24 of 24 pairs wait" in do(run, line)[1]
    assert len(estimates()) == 1
    assert len(fill(truth)) == 24
    code, printed = do(run, line)
    assert (code, "wait for an answer" in printed) == (0, False)
    assert [one["labels"] for one in estimates()] == [24, 48]
    found = DevLabels(Path("out"), read_task(Path("task")))
    labelled = found.ledger.labelled()
    assert [label == YES for label in labelled.labels.tolist()] == [
        frozenset(pair) in truth for pair in labelled.pairs.tolist()
    ]


@pytest.mark.slow
def test_dev_labels_may_begin_at_a_later_round(do, truth):
    line = f"{OPTIONS} --oracle judge:label"
    assert do(run, line.replace("--dev-labels 24", ""))[0] == 0
    assert not estimates()
    assert do(run, line.replace("--rounds 2", "--rounds 3"))[0] == 0
    assert [one["round"] for one in estimates()] == [2, 3]
    assert len(asked()) == len(set(asked())) == 24 + 48


@pytest.mark.slow
def test_a_task_without_dev_pairs_is_told_so_and_its_labels_are_counted(do, make_task):
    task = make_task(True)
    bare = sealed(task.name, task.symmetric, task.left, task.right, {"train": task.splits["train"]})
    write_task(bare, Path("bare"), {})
    line = OPTIONS.replace("--task task", "--task bare")
    code, said = do(run, f"{line} --oracle judge:label")
    assert code == 2
    assert "has no dev pairs to label; leave out --dev-labels" in said
    assert do(run, f"{line.replace('--dev-labels 24', '')} --oracle judge:label")[0] == 0
    assert "complete rounds: 2" in do(labels, "status --run out")[1]


@pytest.mark.slow
def test_answers_are_stored_though_dev_labels_are_off_and_count_when_they_are_on_again(do, truth, caplog):
    caplog.set_level("INFO")
    line = f"{OPTIONS} --oracle file"
    off = line.replace("--dev-labels 24", "--dev-labels 0")
    do(run, line)
    fill(truth)
    do(run, line)
    # The batch of round 2 and half of the dev pairs are answered.
    dev = Path("out/dev-labels/round-001/batch.csv")
    empty = dev.read_text(encoding="utf-8-sig").splitlines()
    fill(truth)
    dev.write_text("\n".join([*dev.read_text().splitlines()[:13], *empty[13:]]))
    code, printed = do(run, off)
    assert (code, "wait for an answer" in printed) == (0, False)
    assert "round 1, dev: 12 of 24 pairs have a label; they are stored" in caplog.text
    printed = do(run, line)[1]
    assert "the others leave it, because pairs are drawn for the model of round 2" in caplog.text
    assert "round 2, dev: 24 of 24 pairs wait" in printed
    status = do(labels, "status --run out")[1]
    assert "round 2 waits for 24 dev labels" in status
    fill(truth)
    assert do(run, line)[0] == 0
    assert [(one["round"], one["labels"]) for one in estimates()] == [(1, 12), (2, 36)]
