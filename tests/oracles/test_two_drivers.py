"""Two drivers on one run folder of an object store buy each pair once; their steps are called in order."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from al_ray.active_learning import labelling
from al_ray.active_learning.config import RunConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.errors import FolderInUse
from al_ray.core.labels import OPEN, Batch
from al_ray.core.progress import no_progress
from al_ray.core.task import Task
from al_ray.oracles.function import CallableOracle
from al_ray.oracles.python_function import FunctionService
from al_ray.oracles.registry import OracleRequest, make_oracle
from al_ray.runs.run_folder import RunFolder
from al_ray.storage import lock
from al_ray.storage.lock import Lease
from al_ray.storage.uri import Uri, storage_path
from tests.oracles.label_server import write
from tests.storage.s3 import served

COUNT = 12


class Driver:
    """A driver of a run with its lock, which it renews only as it proves it, and with its oracle."""

    def __init__(self, folder: Uri, task: Task, asked: Counter[str]) -> None:
        self.lease = Lease(folder)
        self.lease.take(self.lease.require_expired())
        self.journal = RunFolder(Uri(folder.scheme, folder.path, folder.query, self.lease.fence), task)
        word = f"{write('def label(left, right): ...')}:label"
        options = OracleConfig(pairs_per_call=4, retries=0)
        config = RunConfig(task="t", oracle=word, threads=1)
        oracle = make_oracle(OracleRequest(config, options, self.journal, no_progress))
        assert isinstance(oracle, CallableOracle)

        def label(left: list[str], right: list[str]) -> list[int]:
            asked.update(f"{one}|{other}" for one, other in zip(left, right, strict=True))
            return [1] * len(left)

        assert isinstance(oracle.service, FunctionService)
        oracle.service.function = label
        self.oracle, self.ledger = oracle, self.journal.ledger

    def missing(self) -> np.ndarray:
        return np.flatnonzero(self.ledger.labels(1) == OPEN)


def test_a_driver_whose_run_was_taken_over_buys_no_more_and_each_pair_is_bought_once(
    make_task, tmp_path: Path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(lock, "sleep", lambda seconds: None)
    task, asked = make_task(False), Counter[str]()
    space = task.split("train").space
    batch = Batch(space.pairs(space.at(np.arange(COUNT))), np.zeros(COUNT), "seed")
    with served() as server:
        folder = storage_path(server.uri(tmp_path.name))
        assert isinstance(folder, Uri)
        early = Driver(folder, task, asked)
        early.ledger.add_batch(1, batch)
        pieces = early.oracle.label(1, batch, early.missing())
        early.ledger.add_answers(1, next(pieces))
        late = Driver(folder, task, asked)
        assert late.missing().tolist() == list(range(4, COUNT))
        # The first one comes back before the other has bought anything, and again after.
        with pytest.raises(FolderInUse, match="is being written by process"):
            next(pieces)
        with pytest.raises(FolderInUse, match="is being written by process"):
            labelling.label_batch(1, early.ledger, early.oracle)
        assert len(asked) == 4
        _, labels = labelling.label_batch(1, late.ledger, late.oracle)
        assert labels.tolist() == [1] * COUNT
        with pytest.raises(FolderInUse, match="is being written by process"):
            early.journal.end("done")
        assert len(asked) == COUNT
        assert set(asked.values()) == {1}
        assert sum(len(piece.rows) for piece in late.ledger.answers(1)) == COUNT
