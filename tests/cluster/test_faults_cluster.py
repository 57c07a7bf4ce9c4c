"""Actors and nodes that die in the middle of a stage, on a Ray of several nodes: the run ends as the quiet one does.

Nodes and GPUs are made up (ray.cluster_utils), processes and their deaths are real.
"""

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from ray.cluster_utils import Cluster

from al_ray.active_learning.config import RunConfig
from al_ray.cli import run as run_pipeline
from al_ray.cli._evaluate.options import EvaluateCommand
from al_ray.cli._evaluate.pipeline import evaluate_run
from al_ray.cli._shared.progress import Progress
from al_ray.cluster import services, training_group, watchdog
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import SearchConfig, TrainingConfig
from al_ray.core.errors import ActorLost, BadOption
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.runs.run_folder import RunFolder
from al_ray.search.shard import PoolShard
from al_ray.training.trainer import Trainer
from tests.cluster.outcomes import results
from tests.cluster.processes import await_end, workers
from tests.running import run

pytestmark = pytest.mark.faults

WHERE = ClusterConfig(shards=2, timeout=600, checkpoint_seconds=0, shared_storage=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A head without room for actors, and a node with room for all of them.

    Whatever its workers take of a page or more they take of the system, so that a limit to it is met at once.
    """
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "4096"
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 10**8})
    made.add_node(num_cpus=4, object_store_memory=10**8)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()
    del os.environ["MALLOC_MMAP_THRESHOLD_"]


@pytest.fixture(scope="module")
def asked(make_task, tmp_path_factory) -> RunConfig:
    """Two small rounds whose stages have several blocks."""
    folder = tmp_path_factory.mktemp("task")
    write_task(make_task(True), folder / "task", {})
    return RunConfig(
        task=str(folder / "task"), rounds=2, first_batch=16, encoder="random-bert", encoder_layers=1, max_length=24,
        encoder_batch=8, threads=1, search=SearchConfig(neighbours=5, block=8),
        training=TrainingConfig(epochs=2, batch=4, learning_rate=1e-3, worst_loss=100.0),
    )  # fmt: skip


def ended(asked: RunConfig, path: Path, where: ClusterConfig = WHERE) -> tuple[list, list]:
    """The labels of a run and its figures, times aside."""
    await_end("PoolShard", "Trainer")
    run(asked, where, path)
    return results(path)


@pytest.fixture(scope="module")
def quiet(cluster, asked, tmp_path_factory):
    """What a run comes to in which nobody dies."""
    return ended(asked, tmp_path_factory.mktemp("quiet") / "run")


def test_a_local_folder_is_refused_on_several_nodes_unless_it_is_shared(cluster, asked, tmp_path):
    with pytest.raises(BadOption, match=r"/task is a local folder, and the cluster has 2 nodes; give a URI"):
        run(asked, replace(WHERE, shared_storage=False), tmp_path / "run")
    assert not (tmp_path / "run" / "pool").exists()


class Killing(Progress):
    """Progress that once, in the middle of a stage, does away with somebody."""

    stage_of_death, deaths, victims = "", list[tuple[str, int, int]](), list[psutil.Process]()

    def strike(self) -> None:
        raise NotImplementedError

    def __call__(self, stage: str, done: int, total: int) -> None:
        super().__call__(stage, done, total)
        if stage == self.stage_of_death and 0 < done < total and not self.deaths:
            self.deaths.append((stage, done, total))
            self.strike()


def killer(stage: str, actor: str) -> type[Killing]:
    """One that kills the first process of a class with SIGKILL."""

    class Killer(Killing):
        stage_of_death, deaths = stage, list[tuple[str, int, int]]()

        def strike(self) -> None:
            victim = workers(actor)[0]
            os.kill(victim.pid, signal.SIGKILL)
            victim.wait(60)

    return Killer


@pytest.mark.parametrize(
    ("stage", "actor"),
    [
        pytest.param("embed", "PoolShard", marks=pytest.mark.long), ("search", "PoolShard"),
        pytest.param("count", "PoolShard", marks=pytest.mark.long), ("train", "Trainer"),
    ],
)  # fmt: skip
def test_an_actor_killed_in_mid_stage_costs_time_alone(cluster, asked, quiet, tmp_path, monkeypatch, stage, actor):
    killing = killer(stage, actor)
    monkeypatch.setattr(run_pipeline, "Progress", killing)
    done = ended(asked, tmp_path / "run")
    assert [death[0] for death in killing.deaths] == [stage], "it died inside"
    assert done == quiet


@pytest.mark.long
@pytest.mark.parametrize("stage", ["embed", "search"])
def test_a_shard_killed_while_vectors_are_kept_costs_time_alone(cluster, asked, quiet, tmp_path, monkeypatch, stage):
    killing = killer(stage, "PoolShard")
    monkeypatch.setattr(run_pipeline, "Progress", killing)
    keeping = replace(WHERE, keep_vectors=True)
    assert ended(asked, tmp_path / "run", keeping) == quiet
    assert [death[0] for death in killing.deaths] == [stage]
    kept = {path.name.split("-left-")[0] for path in (tmp_path / "run").glob("pool/vectors/*/*.npy")}
    done = RunFolder(tmp_path / "run", read_task(Path(asked.task)))
    last = done.model(2)
    assert {name for name in kept if name.startswith("trained-")} == {f"trained-{last.digest[:16]}"}
    # jobs.evaluate reads them back: weights that cannot be loaded any more are not missed.
    for weights in Path(last.path).glob("*.safetensors"):
        weights.write_text("gone")
    again, _ = evaluate_run(EvaluateCommand(run=done.path, cluster=keeping), done.path)
    assert again.average_precision.value == done.metrics()[-1]["average_precision"]


@pytest.mark.long
def test_a_shard_killed_in_mid_search_of_all_pairs_costs_time_alone(cluster, asked, tmp_path, monkeypatch):
    exact = replace(asked, search=replace(asked.search, kind="exact"))
    wanted = ended(exact, tmp_path / "quiet")
    killing = killer("search", "PoolShard")
    monkeypatch.setattr(run_pipeline, "Progress", killing)
    done = ended(exact, tmp_path / "run")
    assert [death[0] for death in killing.deaths] == ["search"]
    assert done == wanted


@pytest.mark.parametrize(
    "stage", [pytest.param(stage, marks=pytest.mark.long) for stage in ("embed", "search", "count")]
)
def test_a_shard_that_stands_still_in_mid_stage_costs_time_alone(cluster, asked, quiet, tmp_path, monkeypatch, stage):
    class Stopper(Killing):
        stage_of_death, deaths, victims = stage, list[tuple[str, int, int]](), list[psutil.Process]()

        def strike(self) -> None:
            victim = workers("PoolShard")[0]
            self.victims.append(victim)
            victim.suspend()

    monkeypatch.setattr(watchdog, "PATIENCE", 5.0)
    monkeypatch.setattr(watchdog, "PATIENCE_OF_STEPS", 5.0)
    monkeypatch.setattr(run_pipeline, "Progress", Stopper)
    done = ended(asked, tmp_path / "run")
    assert [death[0] for death in Stopper.deaths] == [stage]
    (victim,) = Stopper.victims
    assert not victim.is_running()
    assert done == quiet


@pytest.fixture(scope="module")
def of_small_blocks(cluster, asked, tmp_path_factory):
    """A run whose stages have more blocks than a shard must have done before one can be stuck, and what it comes to."""
    small = replace(asked, search=replace(asked.search, block=4))
    return small, ended(small, tmp_path_factory.mktemp("small") / "run")


@pytest.mark.long
@pytest.mark.parametrize("method", ["count_negatives", "nearest"])
def test_a_shard_with_a_stuck_call_costs_time_alone(of_small_blocks, tmp_path, monkeypatch, method):
    small, wanted = of_small_blocks
    plain, stuck = getattr(PoolShard, method), tmp_path / "stuck"

    # Made here, so that workers get it by value: they know no tests.
    def answer(self, *arguments: object) -> object:
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls > watchdog.LEAST + 1 and not stuck.exists():
            stuck.touch()
            threading.Event().wait()
        return plain(self, *arguments)

    monkeypatch.setattr(watchdog, "PATIENCE", 5.0)
    monkeypatch.setattr(watchdog, "PATIENCE_OF_STEPS", 5.0)
    monkeypatch.setattr(services, "PoolShard", type("PoolShard", (PoolShard,), {**vars(PoolShard), method: answer}))
    done = ended(small, tmp_path / "run")
    assert stuck.exists()
    assert done == wanted


@pytest.mark.long
def test_a_trainer_with_a_stuck_step_costs_time_alone(cluster, asked, quiet, tmp_path, monkeypatch):
    plain, stuck = Trainer.__init__, tmp_path / "stuck"

    def begin(self, spec, watch):
        def sticking(steps):
            for number, step in enumerate(steps):
                if number > watchdog.LEAST and not stuck.exists():
                    stuck.touch()
                    threading.Event().wait()
                yield step

        plain(self, spec, lambda steps: watch(sticking(steps)))

    monkeypatch.setattr(watchdog, "PATIENCE_OF_STEPS", 5.0)
    monkeypatch.setattr(training_group, "Trainer", type("Trainer", (Trainer,), {**vars(Trainer), "__init__": begin}))
    done = ended(asked, tmp_path / "run")
    assert stuck.exists()
    assert done == quiet


def starver(stage: str, actor: str) -> type[Killing]:
    """One that leaves the first process of a class no memory beyond what it holds; the next one has no such limit."""

    class Starver(Killing):
        stage_of_death, deaths, victims = stage, list[tuple[str, int, int]](), list[psutil.Process]()

        def strike(self) -> None:
            victim = workers(actor)[0]
            self.victims.append(victim)
            victim.rlimit(psutil.RLIMIT_AS, (victim.memory_info().vms, psutil.RLIM_INFINITY))

    return Starver


# Not in embed, which is so short here that memory nearly always runs out after it, in Ray's own reading.
@pytest.mark.long
@pytest.mark.parametrize(
    ("stage", "call"),
    [("search", "PoolShard."), pytest.param("train", "Trainer.train", marks=pytest.mark.long)],
)
def test_an_actor_out_of_memory_in_mid_stage_costs_time_alone(
    cluster, asked, quiet, tmp_path, monkeypatch, stage, call
):
    logs = Path(cluster.head_node.get_session_dir_path()) / "logs"
    met, own = "", "out of memory in Ray itself"
    # Where memory runs out is chance: Ray's own threads abort when they have none. Any such run ends well, too.
    for attempt in range(5):
        path, starving = tmp_path / f"run-{attempt}", starver(stage, call.split(".")[0])
        with monkeypatch.context() as patched:
            patched.setattr(run_pipeline, "Progress", starving)
            try:
                done, said = ended(asked, path), own
            except ActorLost as lost:
                # Ray had no memory to read what the next call was given, where no code of ours is: the run ended with
                # these words, and the same command goes on.
                said, done = str(lost), ended(asked, path)
        assert own in said
        assert done == quiet
        assert [death[0] for death in starving.deaths] == [stage]
        (victim,) = starving.victims
        assert not victim.is_running()
        met = "".join(log.read_text() for log in logs.glob(f"python-core-worker-*_{victim.pid}.log"))
        if said != own or f"out of memory in {call}" in met:
            return
    pytest.fail(f"it never met the limit inside; the last log: {met[-3000:]}")


@pytest.mark.parametrize("stage", [pytest.param("embed", marks=pytest.mark.long), "search"])
def test_a_node_that_dies_with_two_shards_costs_time_alone(cluster, asked, quiet, tmp_path, monkeypatch, stage):
    node: list[Any] = [cluster.add_node(num_cpus=4, object_store_memory=10**8)]
    cluster.remove_node(next(n for n in cluster.list_all_nodes() if n not in (cluster.head_node, node[0])))

    class Killer(Killing):
        stage_of_death, deaths = stage, list[tuple[str, int, int]]()

        def strike(self) -> None:
            cluster.add_node(num_cpus=4, object_store_memory=10**8)
            cluster.remove_node(node[0], allow_graceful=False)

    monkeypatch.setattr(run_pipeline, "Progress", Killer)
    done = ended(asked, tmp_path / "run")
    assert [death[0] for death in Killer.deaths] == [stage]
    assert done == quiet
