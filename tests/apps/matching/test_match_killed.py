"""jobs.match that is killed anywhere: the same command ends in the files of one that was not."""

import csv
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.apps.audit.test_audit_job import run_folder

ROOT = Path(__file__).resolve().parents[3]

pytestmark = [pytest.mark.faults, pytest.mark.long]

# The command, which is killed as it tells of the first block of a stage, or before it calls a function of a module.
DYING = """
import os, signal, sys
from importlib import import_module

from al_ray.cli import match
from al_ray.cli._shared.entry import run_process
from al_ray.storage import lock

where = sys.argv.pop(1)
plain = match.Progress

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

class Dying(plain):
    def __call__(self, stage, done, total):
        if stage == where and done:
            die()

match.Progress = Dying
if "." in where:
    module, name = where.rsplit(".", 1)
    setattr(import_module(f"al_ray.apps.matching.{module}"), name, die)
lock.BEAT = 0.2
run_process(match.main)
"""
# In the order in which they come: of all texts, and of new ones into known ones, where what was left is removed last.
RENEWAL = "incremental.renewal"
DEATHS = ("embed", "search", f"{RENEWAL}.write_state", "outputs.remove_record", "outputs.write_clusters",
          "outputs.write_page", "outputs.write_record")  # fmt: skip
LAST = f"{RENEWAL}.remove_older"
FILES = ("matches.csv", "clusters.csv", "deduplicated.csv", "matches.html", "match.json", "state.json")


def matched(folder: Path, line: str, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command, *shlex.split(line), "--shards", "2"], cwd=folder, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True, timeout=1800,
    )  # fmt: skip


def table(path: Path, rows: list[tuple[str, str]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("key", "words"), *rows])


def files(folder: Path) -> dict[str, bytes]:
    """The files of a folder. The number of the state, which counts the commands that wrote one, is left out."""
    read = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    return read | {"state.json": re.sub(rb'"number": \d+', b"", read["state.json"])}


def test_a_killed_match_goes_on_and_ends_in_the_files_of_one_that_was_not(make_task, tmp_path):
    task = make_task(True, clusters=12, members=4)
    run = run_folder(tmp_path, task)
    rows = list(zip(task.left.ids, task.left.texts, strict=True))
    table(tmp_path / "known.csv", rows[: 3 * len(rows) // 4])
    table(tmp_path / "all.csv", rows[3:])
    first = f"--model {run.name} --left known.csv --text-columns words --id-column key --at-score 0.95"
    for quiet, killed, deaths in (
        (f"{first} --out quiet", f"{first} --out killed", DEATHS),
        ("--into quiet --left all.csv --complete", "--into killed --left all.csv --complete", (*DEATHS, LAST)),
    ):
        assert matched(tmp_path, quiet, "-m", "jobs.match").returncode == 0
        for where in deaths:
            assert matched(tmp_path, killed, "-c", DYING, where).returncode == -signal.SIGKILL, (killed, where)
        assert matched(tmp_path, killed, "-m", "jobs.match").returncode == 0
        expected, found = files(tmp_path / "quiet"), files(tmp_path / "killed")
        assert set(FILES) <= set(found)
        assert found == expected
