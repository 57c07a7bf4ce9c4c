"""The path of docs/match.md, "Next month": match as is; or extend the task, take the labels along and train on."""

import csv
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from al_ray.cli import labels, match, prepare, run
from al_ray.cli._shared import entry
from al_ray.core.labels import UNSURE
from al_ray.datasets.task_folder import read_task
from al_ray.runs.run_folder import RunFolder
from tests.guides import block, commands

# Three trainings, and two searches with a pool of their own.
pytestmark = pytest.mark.slow

COMMANDS = {"labels": labels, "match": match, "prepare": prepare, "run": run}
SMALL = (
    "--encoder random-bert --encoder-layers 1 --max-length 24 --encoder-batch 8 --threads 1 --rounds 2 "
    "--first-batch 12 --growth 1 --search.neighbours 5 --training.epochs 1 --training.batch 8 "
    "--training.worst-loss 100 --evaluation.splits --oracle judge:label --timeout 600"
)
JUDGE = """
asked = []

def label(left, right):
    asked.extend(zip(left, right))
    return ["unsure" if "0" in a + b else a[0] == b[0] for a, b in zip(left, right)]
"""


def table(path: str, rows: dict[str, str]) -> None:
    with Path(path).open("w", newline="") as file:
        csv.writer(file).writerows([("sku", "title"), *rows.items()])


@pytest.mark.usefixtures("in_process")
def test_the_labels_of_may_are_trained_on_in_june_and_none_is_bought_twice(tmp_path, make_task, monkeypatch, capsys):
    def call(line: str) -> list[str]:
        name, *words = shlex.split(re.sub(r"^(python -m jobs\.|al-ray )", "", line))
        monkeypatch.setattr(sys, "argv", [f"al-ray {name}", *words])
        entry.job(COMMANDS[name].main)
        return capsys.readouterr().out.splitlines()

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "judge", raising=False)
    Path("judge.py").write_text(JUDGE)
    texts = dict(zip(make_task(True).left.ids, make_task(True).left.texts, strict=True))
    known, fresh = dict(list(texts.items())[:50]), dict(list(texts.items())[50:])
    table("may.csv", known)
    call("al-ray prepare pairs --left may.csv --id-column sku --text-columns title --split 1,0,0 --out tasks/may")
    printed = call(f"al-ray run --task tasks/may --out runs/may {SMALL}")
    assert printed[-1] == "match with it: al-ray match --model runs/may --left FILE --at-boundary --out DIR"

    may = RunFolder(Path("runs/may"), read_task(Path("tasks/may")))
    bought = may.ledger.labelled()
    assert len(bought) == 24
    changed = may.task.left.ids[int(bought.pairs[0, 0])]
    table("june.csv", {**known, changed: "quite another text", **fresh})
    lines = commands(block("docs/match.md", "## Next month", "al-ray prepare"))
    as_is = commands(block("docs/match.md", "## Next month", "al-ray match"))
    call(as_is[0])
    assert (tmp_path / "matches/june/matches.csv").exists()
    assert [line.split()[1] for line in lines] == ["prepare", "labels", "run", "match"]

    assert "  new: 10, changed: 1, as before: 49" in call(lines[0])
    stale = int((bought.pairs == may.task.left.ids.index(changed)).any(axis=1).sum())
    printed = call(lines[1])
    assert printed[0].startswith(f"round 1: {24 - stale} labels, ")
    assert f"labels that are not imported, as a text of the pair has changed: {stale}" in printed
    assert printed[-1] == "to train on them: al-ray run --config runs/may --task tasks/june --out runs/june"
    assert lines[2] == printed[-1].partition(": ")[2] + " --rounds 3"

    june = RunFolder(Path("runs/june"), read_task(Path("tasks/june")))
    imported = june.ledger.labelled()
    call(lines[2])
    every = june.ledger.labelled()
    keys = june.task.split("train").space.keys(every.pairs)
    assert len(np.unique(keys)) == len(every) == 24 - stale + 2 * 12
    assert every.labels[: len(imported)].tolist() == imported.labels.tolist()
    assert (imported.labels == UNSURE).any()
    # The judge was asked about the pairs of the two runs, and about none of them again.
    told = {ids for ids in zip(*may.task.ids_of(bought.pairs), strict=True) if changed not in ids}
    asked = set(zip(*june.task.ids_of(every.pairs[len(imported) :]), strict=True))
    assert not told & asked
    assert june.last == 3
    call(lines[3])
