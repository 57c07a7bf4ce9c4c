"""jobs.match --oracle that is killed while it asks: no stored answer is asked for again, and the files are the same."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from al_ray.oracles.llm.store import AnswerStore
from tests.apps.audit.test_audit_job import run_folder
from tests.apps.matching.test_match_job import tables
from tests.oracles.llm_process import ROOT, Judge, RunProcess
from tests.oracles.llm_server import KEY, MODEL, serving

pytestmark = pytest.mark.faults

PER_CALL = 4
LINE = f"--assign all --no-drift --retries 0 --pairs-per-call {PER_CALL}"
BAND = "--at-score 0.975 --oracle-low 0.96 --oracle-high 0.985 --oracle-budget 22"
FILES = ("matches.csv", "clusters.csv", "deduplicated.csv", "matches.html", "match.json")
# It writes the pairs of a call before it answers, and dies in the third one of a process as long as a file says so.
JUDGE = """
import os, signal
from pathlib import Path

calls = 0

def label(left, right):
    global calls
    calls += 1
    if calls == 3 and Path("die").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    with Path("asked.txt").open("a") as file:
        file.writelines(f"{one}|{other}\\n" for one, other in zip(left, right))
    return [("yes", "no", "unsure")[(len(one) * len(other)) % 3] for one, other in zip(left, right)]
"""


@pytest.fixture(scope="module")
def line(make_task, tmp_path_factory) -> str:
    """The options of a match of one table by a run."""
    folder, task = tmp_path_factory.mktemp("killed"), make_task(True, clusters=12, members=4)
    return f"--model {run_folder(folder, task)} {tables(task, folder)} {LINE} {BAND}"


def match(folder: Path, options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "jobs.match", *shlex.split(options)], cwd=folder, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip


def files(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def asked(folder: Path) -> list[str]:
    return (folder / "asked.txt").read_text().splitlines()


def test_a_match_that_is_killed_while_a_function_answers_goes_on_where_it_was(line, tmp_path):
    (tmp_path / "judge.py").write_text(JUDGE)
    (tmp_path / "die").touch()
    command = f"{line} --oracle judge:label"
    for calls in (2, 4):
        assert match(tmp_path, f"{command} --out killed").returncode == -signal.SIGKILL
        assert len(asked(tmp_path)) == calls * PER_CALL
        assert not (tmp_path / "killed/matches.csv").exists()
    (tmp_path / "die").unlink()
    ended = match(tmp_path, f"{command} --out killed")
    assert ended.returncode == 0, ended.stderr
    once = asked(tmp_path)
    assert len(once) == len(set(once)) == 22
    assert match(tmp_path, f"{command} --out quiet").returncode == 0
    assert asked(tmp_path) == [*once, *once]
    assert files(tmp_path / "killed") == files(tmp_path / "quiet")


def test_a_language_model_is_not_asked_again_for_answers_that_are_stored(line, tmp_path):
    with serving(Judge()) as server:
        prices = "--llm.input-price 2 --llm.output-price 8 --max-cost 1"
        service = f"--llm.model {MODEL} --llm.base-url {server.url} {prices} --calls-at-once 1"
        command = f"{line} --oracle llm {service}"
        server.plan.extend(("", "", "stall"))
        killed = RunProcess(
            ["-m", "jobs.match", *shlex.split(f"{command} --out killed")], tmp_path, {"OPENAI_API_KEY": KEY}
        )
        killed.await_stalls(server, 1)
        killed.kill()
        stored = list(server.answered)
        assert len(stored) == 2 * PER_CALL
        environment = {"OPENAI_API_KEY": KEY}
        for out in ("killed", "quiet"):
            again = RunProcess(["-m", "jobs.match", *shlex.split(f"{command} --out {out}")], tmp_path, environment)
            assert again.end() == 0, again.printed
        # The pairs of the call that was under way are asked for again: they have no answer.
        assert len(server.answered) == 2 * len(set(server.answered))
        costs = [AnswerStore(tmp_path / out / "oracle").cost for out in ("killed", "quiet")]
    assert costs[0] == pytest.approx(costs[1])
    assert files(tmp_path / "killed") == files(tmp_path / "quiet")
