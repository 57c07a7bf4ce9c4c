"""A driver that buys the labels of round 1 with judge:label, and does nothing else: buying.py TASK RUN."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from al_ray.active_learning.labelling import label_batch
from al_ray.cli._shared.entry import job
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.progress import no_progress
from al_ray.datasets.task_folder import read_task
from al_ray.oracles.function import CallableOracle
from al_ray.oracles.python_function import FunctionService
from al_ray.runs.run_folder import opened
from al_ray.storage import lock
from al_ray.storage.uri import StoragePath, storage_path

PAIRS_PER_CALL = 4
BEAT = 0.4


@contextmanager
def bought(task: Path, run: StoragePath) -> Iterator[None]:
    """Buy the labels, and own the folder until the context ends."""
    with opened(run, read_task(task)) as journal:
        options, before_call = OracleConfig(pairs_per_call=PAIRS_PER_CALL), journal.ledger.prove_lock
        service = FunctionService("judge:label", options)
        oracle = CallableOracle(service, journal.task, options, 0, journal.cost, no_progress, before_call)
        label_batch(1, journal.ledger, oracle)
        yield


def main() -> None:
    """Buy and end."""
    with bought(Path(sys.argv[1]), storage_path(sys.argv[2])):
        pass


if __name__ == "__main__":
    lock.BEAT = BEAT
    job(main)
