"""A driver whose connection to S3 fails in every way, and then for longer than its lease lives, beside another one."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from al_ray.core.labels import Batch
from al_ray.datasets.task_folder import write_task
from al_ray.runs.ledger import Ledger
from al_ray.storage import lock
from al_ray.storage.uri import Uri, storage_path
from tests.storage.buying import BEAT, PAIRS_PER_CALL, bought
from tests.storage.proxy import Fault, proxied
from tests.storage.s3 import Server, served

HERE = Path(__file__).resolve().parent
CALLS = 7
# Each fault meets the first upload of the labels of a call.
FAULTS: dict[str, Fault] = {
    "answers-00001.parquet": "late",
    "answers-00002.parquet": "refused",
    "answers-00003.parquet": "cut",
    "answers-00004.parquet": "unanswered",
}
# The confidence tells by which driver an answer was bought.
FIRST, SECOND = 0.25, 0.75
JUDGE = f"""
import json, os
from pathlib import Path

def label(left, right):
    first = "FIRST_DRIVER" in os.environ
    with Path(__file__).with_name("first" if first else "second").open("a") as bought:
        print(json.dumps(list(zip(left, right))), file=bought)
    return [(one[0] == other[0], {FIRST} if first else {SECOND}) for one, other in zip(left, right)]
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served() as started:
        yield started


def everything(server: Server, folder: Uri) -> dict[str, bytes]:
    """All objects but the lock."""
    return {name: server.content(f"{folder.key}/{name}") for name in server.names(folder.key) if name != ".lock"}


def calls(path: Path) -> list[list[list[str]]]:
    """The pairs of texts that a driver asked for, call by call."""
    return [json.loads(line) for line in path.read_text().splitlines()]


# What it was at as the connection went: between two calls, or at an upload of labels that it had bought.
@pytest.mark.parametrize(
    ("name", "fault", "paid_twice"),
    [
        pytest.param("answers-00005.parquet", "answered last", 0, id="between two calls"),
        pytest.param(
            *("answers-00006.parquet", "held", 1), id="in an upload", marks=[pytest.mark.faults, pytest.mark.long]
        ),
    ],
)
def test_a_driver_cut_off_from_s3_writes_nothing_after_another_took_over_and_no_label_is_lost(
    server, make_task, tmp_path, monkeypatch, name, fault, paid_twice
):
    task, folder = make_task(True), storage_path(server.uri(tmp_path.name))
    assert isinstance(folder, Uri)
    write_task(task, tmp_path / "task", {})
    (tmp_path / "judge.py").write_text(JUDGE)
    space, count = task.split("train").space, CALLS * PAIRS_PER_CALL
    batch = Batch(space.pairs(space.at(np.arange(count))), np.zeros(count), "seed")
    Ledger(folder, task).add_batch(1, batch)
    monkeypatch.setattr(lock, "BEAT", BEAT)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "judge", raising=False)

    log = tmp_path / "log"
    with proxied(server.address, {**FAULTS, name: fault}) as proxy, log.open("w") as stderr:
        uri = replace(server, address=proxy.address).uri(tmp_path.name)
        first = subprocess.Popen(
            [sys.executable, str(HERE / "buying.py"), "task", uri], cwd=tmp_path, stderr=stderr,
            env={**os.environ, "PYTHONPATH": str(HERE.parents[1]), "FIRST_DRIVER": ""},
        )  # fmt: skip
        try:
            while not proxy.held.wait(0.1):
                assert first.poll() is None, log.read_text()
            with bought(tmp_path / "task", folder):
                taken_over = everything(server, folder)
                # What the first driver had sent arrives now.
                proxy.restore()
                code = first.wait(120)
                assert everything(server, folder) == taken_over
        finally:
            first.kill()
            first.wait()
    assert not proxy.faults
    assert [proxy.puts[key] for key in FAULTS] == [1, 2, 2, 2]
    (said,) = [line for line in log.read_text().splitlines() if line.startswith(("error", "Traceback"))]
    assert re.search("is being written by process|was written by another process at the same time", said), said
    assert code == 2

    pieces = list(Ledger(folder, task).answers(1))
    assert np.concatenate([piece.rows for piece in pieces]).tolist() == list(range(count))
    assert [set(piece.confidences) for piece in pieces] == 5 * [{FIRST}] + 2 * [{SECOND}]
    assert "round-001/labels.parquet" in taken_over
    left, right = task.texts_of(batch.pairs)
    asked = [list(pair) for pair in zip(left, right, strict=True)]
    of_calls = [asked[start : start + PAIRS_PER_CALL] for start in range(0, count, PAIRS_PER_CALL)]
    assert calls(tmp_path / "second") == of_calls[5:]
    assert calls(tmp_path / "first") == of_calls[: 5 + paid_twice], "what a driver pays for, it can write at once"
