"""Runs that train by several actors: what one with as large a batch comes to, whoever dies on the way."""

import json
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import ray

from al_ray.active_learning.config import RunConfig
from al_ray.cli import run as run_pipeline
from al_ray.cli._shared.progress import Progress
from al_ray.cluster import training_group
from al_ray.cluster.session import session
from al_ray.cluster.training_group import deploy_training
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import SearchConfig, TrainingConfig
from al_ray.core.errors import BadFile, BadOption, NoPlacement
from al_ray.core.labels import Labelled, Model
from al_ray.datasets.task_folder import write_task
from al_ray.metrics.round_comparison import GAIN
from al_ray.runs.run_folder import bound_config
from al_ray.training.optimizer import Step
from al_ray.training.trainer import Trainer, TrainerSpec
from tests.cluster.outcomes import results
from tests.cluster.processes import await_end, workers
from tests.running import run

WHERE = ClusterConfig(shards=2, timeout=600, checkpoint_seconds=0)


@pytest.fixture(scope="module")
def asked(make_task, tmp_path_factory) -> RunConfig:
    """Two small rounds; a training of the first has eight steps."""
    folder = tmp_path_factory.mktemp("task")
    write_task(make_task(True), folder / "task", {})
    return RunConfig(
        task=str(folder / "task"), rounds=2, first_batch=16, encoder="random-bert", encoder_layers=1, max_length=24,
        encoder_batch=8, threads=1, search=SearchConfig(neighbours=5, block=16),
        training=TrainingConfig(epochs=4, batch=4, workers=2, learning_rate=1e-3, worst_loss=100.0),
    )  # fmt: skip


@pytest.fixture(scope="module")
def quiet(local_ray, asked, tmp_path_factory) -> Path:
    """A run of two workers in which nobody dies."""
    path = tmp_path_factory.mktemp("quiet") / "run"
    run(asked, WHERE, path)
    return path


@pytest.mark.slow
def test_a_run_of_two_workers_comes_to_what_one_with_twice_the_batch_does(quiet, asked, tmp_path):
    assert json.loads((quiet / "config.json").read_text())["training"]["workers"] == 2
    alone = replace(asked, training=replace(asked.training, workers=1, batch=8))
    run(alone, replace(WHERE, shards=1), tmp_path / "alone")
    labels, figures = results(tmp_path / "alone")
    found, measured = results(quiet)
    assert found == labels
    for here, there in zip(measured, figures, strict=True):
        # Floats are added in another order.
        assert here.pop("warnings") == there.pop("warnings")
        unknown = [name for name, value in there.items() if value is None]
        assert [here.pop(name) for name in unknown] == [there.pop(name) for name in unknown]
        if there["round"] == 2:
            # A difference of two rounds, so near 0.
            assert here.pop(GAIN) == pytest.approx(there.pop(GAIN), abs=1e-3)
        assert here == pytest.approx(there, rel=1e-3)


def test_the_group_of_a_run_ends_with_it(quiet):
    placements = ray.util.placement_group_table()
    assert {placement["state"] for placement in placements.values()} == {"REMOVED"}


def test_a_config_from_before_there_were_workers_has_one(quiet, tmp_path):
    content = json.loads((quiet / "config.json").read_text())
    del content["training"]["workers"]
    (tmp_path / "config.json").write_text(json.dumps(content))
    assert bound_config(tmp_path).training.workers == 1


@pytest.mark.parametrize("workers", [0, 1025])
def test_workers_beyond_their_limits_are_refused(workers):
    with pytest.raises(BadOption, match=f"`training.workers` is {workers}; give at"):
        RunConfig(task="t", training=TrainingConfig(workers=workers))


def test_workers_that_share_a_gpu_are_refused():
    with pytest.raises(BadOption, match="needs a whole GPU for each"), session(ClusterConfig(gpus_per_shard=0.5), 2):
        pass


def spec_of(letters, folder: Path) -> TrainerSpec:
    return TrainerSpec(str(folder), letters, TrainingConfig(workers=2), seed=0, symmetric=True)


def test_workers_without_room_are_told_of(local_ray, letters, tmp_path):
    where = ClusterConfig(cpus_per_shard=20, timeout=1)
    wanted = r"2 Trainer workers of 20 CPUs and 0.0 GPUs were not placed in 1 s.*fewer .* `training\.workers`"
    with pytest.raises(NoPlacement, match=wanted), deploy_training(spec_of(letters, tmp_path), where):
        pass


def test_what_only_a_worker_can_see_is_said_by_its_own_words(local_ray, letters, tmp_path):
    (tmp_path / "scorer.json").write_text("{")
    # Rank 0 alone reads it, and the other misses rank 0.
    wanted = pytest.raises(BadFile, match=r"scorer\.json cannot be read")
    with deploy_training(spec_of(letters, tmp_path), WHERE) as training, wanted:
        list(training(Labelled(), 1, None, str(tmp_path)))


@pytest.mark.faults
def test_a_trainer_that_dies_when_it_has_saved_the_model_costs_time_alone(local_ray, asked, tmp_path, monkeypatch):
    told, died = tmp_path / "told", tmp_path / "died"

    # Made here, so that the worker gets it by value: it knows no tests.
    def train(self, *arguments: object):
        for event in Trainer.train(self, *arguments):  # pyright: ignore[reportArgumentType]
            if isinstance(event, Model) and not died.exists():
                while not told.exists():
                    threading.Event().wait(0.05)
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield event

    class Telling(Progress):
        def __call__(self, stage: str, done: int, total: int) -> None:
            super().__call__(stage, done, total)
            if stage == "train" and done == total:
                told.touch()

    monkeypatch.setattr(training_group, "Trainer", type("Trainer", (Trainer,), {**vars(Trainer), "train": train}))
    monkeypatch.setattr(run_pipeline, "Progress", Telling)
    alone = replace(asked, rounds=1, training=replace(asked.training, workers=1))
    run(alone, replace(WHERE, shards=1), tmp_path / "run")
    assert died.exists()
    monkeypatch.undo()
    run(alone, replace(WHERE, shards=1), tmp_path / "quiet")
    assert results(tmp_path / "run") == results(tmp_path / "quiet")


@pytest.mark.long
@pytest.mark.faults
@pytest.mark.parametrize(
    "call", [pytest.param("follow", marks=pytest.mark.long, id="rank 1"), pytest.param("train", id="rank 0")]
)
def test_a_worker_killed_in_mid_training_costs_time_alone(quiet, asked, tmp_path, monkeypatch, call):
    deaths, told, struck = [], [], tmp_path / "struck"

    # Made here, so that workers get it by value: they know no tests. Both wait after the third step, or the training
    # could have ended when the driver hears of it.
    def train(self, *arguments: object):
        for event in Trainer.train(self, *arguments):  # pyright: ignore[reportArgumentType]
            yield event
            while isinstance(event, Step) and event.step == 3 and not struck.exists():
                threading.Event().wait(0.05)

    class Killing(Progress):
        def __call__(self, stage: str, done: int, total: int) -> None:
            super().__call__(stage, done, total)
            if stage == "train":
                told.append(done)
            if stage == "train" and 2 < done < total and not deaths:
                (victim,) = workers(f"Trainer.{call}")
                deaths.append(done)
                os.kill(victim.pid, signal.SIGKILL)
                victim.wait(60)
                struck.touch()

    await_end("PoolShard", "Trainer")
    monkeypatch.setattr(training_group, "Trainer", type("Trainer", (Trainer,), {**vars(Trainer), "train": train}))
    monkeypatch.setattr(run_pipeline, "Progress", Killing)
    run(asked, WHERE, tmp_path / "run")
    assert deaths == [3], "it died inside"
    assert told.count(1) >= 3, "all started again, and told the steps anew"
    assert results(tmp_path / "run") == results(quiet)
