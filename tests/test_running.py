"""What a run decides, on workers in memory: it needs neither cluster/ nor an encoder."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.ports import Oracle
from al_ray.active_learning.stopping import NEVER, StopConfig
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.labels import Labelled, Model
from al_ray.core.progress import no_progress
from al_ray.core.task import Task
from al_ray.datasets.task_folder import write_task
from al_ray.oracles.registry import OracleRequest
from al_ray.running.run import RunSpec, run_on
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.files import write_text
from tests.active_learning.plain_world import RUN, Fixed, Plain


class Saving(Fixed):
    """A trainer whose models have a folder, as a resumed run looks for it."""

    def __init__(self, journal: RunFolder) -> None:
        super().__init__()
        self.journal = journal

    def train(self, labelled: Labelled, number: int, start: Model | None) -> Model:
        write_text(self.journal.round(number) / "model" / "model.safetensors", "")
        return replace(super().train(labelled, number, start), path=str(self.journal.round(number) / "model"))


class InMemory:
    """The Workers of a run that train nothing, and count how often they are asked for."""

    def __init__(self) -> None:
        self.sessions, self.deployed = 0, 0

    def check_task_fits(self, config: RunConfig, task: Task) -> None:
        """Take every task."""

    @contextmanager
    def session(self, trainers: int) -> Iterator[None]:
        self.sessions += 1
        yield

    @contextmanager
    def deploy(self, config: RunConfig, request: OracleRequest, oracle: Oracle, dev: Oracle | None) -> Iterator[Any]:
        self.deployed += 1
        services: Any = Plain(config, request.journal.task)
        services.journal, services.oracle, services.peak_memory = request.journal, oracle, dict
        services.trainer, services.explain = Saving(request.journal), lambda *_: None
        assert dev is None
        yield services


@pytest.fixture
def config(make_task, tmp_path: Path) -> RunConfig:
    write_task(make_task(True), tmp_path / "task", {})
    return replace(RUN, task=str(tmp_path / "task"))


def rounds_of(
    workers: InMemory, config: RunConfig, out: Path, oracle: OracleConfig, stop: StopConfig = NEVER
) -> tuple[list[int], str | None]:
    """Run in a folder: the rounds of this session, and why the run ended early."""
    lines = list[dict[str, Any]]()
    work = RunSpec(config, ClusterConfig(), oracle, stop)
    folder = run_on(workers, work, out, no_progress, lines.append)
    return [line["round"] for line in lines], folder.end_reason


def test_a_run_has_workers_once_and_none_when_nothing_is_left(config, tmp_path):
    workers = InMemory()
    assert rounds_of(workers, config, tmp_path / "run", OracleConfig()) == ([1, 2, 3], None)
    assert (workers.sessions, workers.deployed) == (1, 1)
    assert rounds_of(workers, config, tmp_path / "run", OracleConfig()) == ([], None)
    assert (workers.sessions, workers.deployed) == (1, 1)


def test_released_workers_are_started_again_after_each_batch_of_labels(config, tmp_path):
    workers = InMemory()
    assert rounds_of(workers, config, tmp_path / "run", OracleConfig(release_actors=True)) == ([1, 2, 3], None)
    # The first ones choose the first batch; the next ones learn from it and choose the second, and so on.
    assert (workers.sessions, workers.deployed) == (1, 4)


def test_a_run_stops_at_a_limit_and_resumes_beyond_a_higher_one(config, tmp_path):
    workers = InMemory()
    rounds, why = rounds_of(workers, config, tmp_path / "run", OracleConfig(), StopConfig(labels=8))
    assert rounds == [1]
    assert why is not None
    assert "8" in why
    rounds, why = rounds_of(workers, config, tmp_path / "run", OracleConfig(), StopConfig(labels=10_000))
    assert (rounds, why) == ([2, 3], None)
