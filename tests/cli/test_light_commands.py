"""What the commands import that read a run, its labels or a table: nothing that computes with a model."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from al_ray.apps.audit.folder import STEM, AuditFolder, AuditOptions, Record
from al_ray.core.labels import NO, YES, Batch, make_answers
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.metrics.audit.drawn_pairs import BandScores, DrawnPairs
from al_ray.oracles.people import write_sheets
from al_ray.runs.run_folder import opened
from tests.apps.reporting.made_runs import CONFIG, made_run
from tests.cli.test_evaluate import ROWS, scores_file
from tests.cli.test_help_pages import WITH_OPTIONS

# A line of each command that needs no model, in an order in which they can follow each other; their paths are in a
# folder with a task, a run and an audit.
LIGHT = {
    "prepare synthetic": "prepare synthetic --texts 100 --out made",
    "labels status": "labels status --run run",
    "labels close": "labels close --run run",
    "labels export": "labels export --run run --out labels.csv --every-column",
    "labels import": "labels import --run new --task task --labels labels.csv --columns left_id,right_id,answer",
    "labels correct": "labels correct --run run --labels labels.csv --columns left_id,right_id,answer",
    "annotate": "annotate --audit audit --dry-run",
    "audit estimate": "audit estimate --audit audit",
    "evaluate": "evaluate --scores scores.parquet --total-pairs 103",
    "report": "report run --out report",
}
# Commands that compute with texts or models, or, as grid, on Ray; and other sources of `prepare`, which work alike.
COMPUTING = {
    *("run", "train", "match", "serve", "export", "mine", "plan", "demo", "grid", "reproduce", "augment"),
    *("paraphrase train", "paraphrase index", "paraphrase search", "paraphrase evaluate", "paraphrase compare"),
    "audit sample",
    *("prepare pairs", "prepare logs", "prepare qqp", "prepare wikiqa", "prepare evaluation"),
}
HEAVY = "torch transformers sentence_transformers faiss sklearn ray tensorboardX"
# Runs lines one after the other in one process, and prints after each, as a list, which of HEAVY it has imported.
PROGRAM = f"""
import json, sys
from importlib import import_module
for line in sys.argv[1:]:
    words = line.split()
    sys.argv = [f"al-ray {{words[0]}}", *words[1:]]
    try:
        import_module(f"al_ray.cli.{{words[0]}}").main()
    except SystemExit as stop:
        assert not stop.code, line
    print(json.dumps([name for name in "{HEAVY}".split() if name in sys.modules]))
"""


def made_folder(folder: Path, task: Task) -> None:
    """A task, a run of it whose second round is open, an audit of it with labels, and scores of another program."""
    write_task(task, folder / "task", {})
    space = task.split("train").space
    pairs = space.pairs(space.at(np.arange(100, 103)))
    task = read_task(folder / "task")
    with opened(made_run(folder / "run", task, replace(CONFIG, task=str(folder / "task")), [(3, 9)]), task) as run:
        run.ledger.add_batch(2, Batch(pairs, np.full(len(pairs), 0.5), "seed"))
        run.ledger.add_answers(2, make_answers(np.arange(2), np.array([YES, NO], dtype=np.uint8), "file"))
    audit, drawn = AuditFolder(folder / "audit"), pairs[:3]
    options = AuditOptions("train", 1, 0, None, None, None, 3, 4, "model", task.digest)
    scored = BandScores(np.array([0.95, 0.9, 0.8, 0.7]), np.empty(0), np.empty(0, dtype=np.uint8))
    answers = DrawnPairs(drawn, ("near",) * 3, np.array([0, 3, 4]), np.array([0.9, 0.8, np.nan]))
    audit.keep(Record(options, space.total, 9.0, -8.0), answers, scored, task)
    codes, _, _ = audit.key()
    write_sheets(folder / "audit", STEM, codes, drawn, task)
    sheet = folder / "audit" / f"{STEM}.csv"
    sheet.write_text(sheet.read_text(encoding="utf-8-sig").replace(",,", ",no,"), encoding="utf-8")
    scores_file(folder / "scores.parquet", ROWS)


def test_every_command_is_light_or_computes():
    assert sorted([*LIGHT, *COMPUTING]) == WITH_OPTIONS


def test_a_command_that_needs_no_model_imports_nothing_heavy(tmp_path, make_task):
    made_folder(tmp_path, make_task(True))
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, *LIGHT.values()], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert ended.returncode == 0, ended.stderr
    imported = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("[")]
    assert dict(zip(LIGHT, imported, strict=True)) == {command: [] for command in LIGHT}
