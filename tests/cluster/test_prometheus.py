"""A run's figures are at its node's Prometheus endpoint while it works: those that its folder has."""

import json
import re
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import pytest
import ray

from al_ray.active_learning import loop
from al_ray.active_learning.config import RunConfig
from al_ray.cluster.services import RayRunServices, deploy_services
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import EvaluationConfig, SearchConfig, TrainingConfig
from al_ray.core.labels import State
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.oracles.simulated import SimulatedOracle
from al_ray.runs.run_folder import opened

RUN = RunConfig(
    task="task", rounds=2, first_batch=16, encoder="random-bert", encoder_layers=1, max_length=24, encoder_batch=8,
    threads=1, search=SearchConfig(neighbours=5, block=16),
    evaluation=EvaluationConfig(examples=0),
    training=TrainingConfig(epochs=1, batch=8, learning_rate=1e-3, worst_loss=100.0),
)  # fmt: skip


Figures = dict[tuple[str, str, str], float]


def scraped() -> Figures:
    """What the node serves of ours, as (name, stage, run) -> value, summed over its processes."""
    (node,) = ray.nodes()
    with urlopen(f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    found = defaultdict[tuple[str, str, str], float](float)
    for line in lines:
        sample = re.fullmatch(r"ray_al_ray_(\w+)\{(.*)\} (\S+)", line)
        if sample is not None:
            labels = dict(re.findall(r'(\w+)="([^"]*)"', sample[2]))
            found[sample[1], labels.get("stage", ""), labels.get("run", "")] += float(sample[3])
    return found


def settled() -> Figures:
    """What the node serves once the processes of earlier tests have told it all: each does so once a second."""
    served, deadline = False, time.monotonic() + 300
    while not served and time.monotonic() < deadline:
        # The node may have started before its agent.
        with suppress(OSError):
            served = scraped() is not None
        time.sleep(0.2)
    found, since = scraped(), time.monotonic()
    while time.monotonic() < since + 2.5:
        time.sleep(0.2)
        now = scraped()
        if now != found:
            found, since = now, time.monotonic()
    return found


def measured(make_task, folder: Path, kind: str) -> tuple[Figures, Figures]:
    """What a run of two sessions adds to the figures of its node, and what its folder has."""
    write_task(make_task(True), folder / "task", {})
    task, run = read_task(folder / "task"), f"run-{kind}-{folder.name}"
    asked = replace(RUN, task=str(folder / "task"), search=replace(RUN.search, kind=kind))
    train, dev = (len(task.split(name).space.left) for name in ("train", "dev"))
    before = settled()
    with (
        opened(folder / run, task) as journal,
        deploy_services(
            asked, ClusterConfig(shards=2, timeout=600), journal, SimulatedOracle(task.split("train")), lambda *_: None
        ) as world,
    ):
        next(loop.run(asked, task.split("train"), world, State()))
        # As a run that goes on: the labels of the first round are not told again.
        again = RayRunServices(asked, world.pool, world.trainer, journal, world.oracle)
        list(loop.run(asked, task.split("train"), again, journal.state()))
        wanted: Figures = {
            # Both rounds search the pool and measure dev, under other weights each time; the untrained encoder, too.
            ("pairs_searched_total", "", ""): 2 * task.split("train").space.total,
            ("texts_embedded_total", "", ""): 2 * train + 3 * dev,
            ("labels_bought_total", "", run): 40,
        }
        lines = [json.loads(line) for line in (folder / run / "metrics.jsonl").read_text().splitlines()]
        for stage in ("embed", "search", "label", "train", "evaluate"):
            wanted["stage_seconds_total", stage, run] = sum(line["seconds"][stage] for line in lines)
        deadline, seen = time.monotonic() + 30, Figures()
        # A process tells its node once a second (tests/conftest.py).
        while time.monotonic() < deadline and seen != pytest.approx(wanted, abs=0.01):
            time.sleep(0.2)
            now = scraped()
            seen = {name: now[name] - before[name] for name in wanted}
    return seen, wanted


# One function counts the pairs of searches of either kind.
@pytest.mark.parametrize("kind", ["knn", pytest.param("exact", marks=pytest.mark.more)])
def test_what_a_run_does_is_at_the_prometheus_endpoint(local_ray, make_task, tmp_path, kind):
    # On a busy machine Ray loses figures that a process does not tell in half a second, and others come late.
    seen, wanted = Figures(), Figures()
    for attempt in range(3):
        (tmp_path / str(attempt)).mkdir()
        seen, wanted = measured(make_task, tmp_path / str(attempt), kind)
        if seen == pytest.approx(wanted, abs=0.01):
            break
    assert seen == pytest.approx(wanted, abs=0.01)
