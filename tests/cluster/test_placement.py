"""The places of a run's actors: one placement group, all of it or nothing."""

import json
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import ray
from ray.util.placement_group import PlacementGroup

from al_ray.active_learning.config import RunConfig
from al_ray.cluster import services
from al_ray.cluster.actors import BundleSlots, Placement
from al_ray.cluster.trial import bundles_of
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.config.sections import SearchConfig, TrainingConfig
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.runs.run_folder import RunFolder
from tests.cluster.outcomes import results
from tests.running import run

# Labels pairs, and notes for each call how many runs have places, the texts, and its seconds.
JUDGE = """
from time import monotonic

from ray.util import placement_group_table

CALLS = []


def label(left, right):
    started = monotonic()
    places = sum(group["state"] == "CREATED" for group in placement_group_table().values())
    CALLS.append((places, [*left, *right], monotonic() - started))
    return [len(one + other) % 2 == 0 for one, other in zip(left, right)]
"""
# Four actors with the trainer. This Ray has room for six: for the shards of two runs, and for no trainer beside them.
# The second run waits for the first one's end.
WHERE = ClusterConfig(shards=3, timeout=1200)


def groups() -> dict[str, list[dict[str, Any]]]:
    """The placement groups of this Ray by state: those with places, and those that wait for them."""
    found: dict[str, list[dict[str, Any]]] = {"CREATED": [], "PENDING": []}
    for group in ray.util.placement_group_table().values():
        found.get(group["state"], []).append(group)
    return found


def actors_of(found: list[dict[str, Any]]) -> int:
    """The bundles of placement groups, which have a CPU each."""
    return sum(len(group["bundles"]) for group in found)


def has_settled() -> bool:
    """Whether a second run has places for its shards, or waits for more than there are."""
    now = groups()
    free = 6 - actors_of(now["CREATED"])
    return (len(now["CREATED"]) == 2 and free < 3) or (bool(now["PENDING"]) and actors_of(now["PENDING"]) > free)


@pytest.mark.slow
def test_of_two_runs_on_room_for_one_and_a_half_the_second_waits_and_both_end_well(
    local_ray, make_task, tmp_path, monkeypatch
):
    write_task(make_task(True), tmp_path / "task", {})
    asked = RunConfig(
        task=str(tmp_path / "task"), rounds=1, first_batch=16, encoder="random-bert", encoder_layers=1, max_length=24,
        encoder_batch=8, threads=1, search=SearchConfig(neighbours=5, block=16),
        training=TrainingConfig(epochs=1, batch=8, learning_rate=1e-3, worst_loss=100.0),
    )  # fmt: skip
    assert ray.cluster_resources()["CPU"] == 6
    started, seconds, waiting = services.deploy_training, list[Future[RunFolder]](), list[Any]()

    def start_second_before(*arguments):
        """Start trainers, but those of the first run after the second run has asked for its places."""
        if not seconds:
            seconds.append(threads.submit(run, asked, WHERE, tmp_path / "second"))
            while not has_settled():
                assert not seconds[0].done()
                time.sleep(0.05)
            waiting.append(groups())
        return started(*arguments)

    monkeypatch.setattr(services, "deploy_training", start_second_before)
    with ThreadPoolExecutor(1) as threads:
        run(asked, WHERE, tmp_path / "first")
        seconds[0].result()
    (now,) = waiting
    assert (actors_of(now["CREATED"]), actors_of(now["PENDING"])) == (4, 4), "the second run has no places"
    assert results(tmp_path / "first") == results(tmp_path / "second")


@pytest.mark.slow
def test_a_run_gives_its_places_back_while_its_oracle_labels_and_ends_the_same(
    local_ray, make_task, tmp_path, monkeypatch
):
    write_task(make_task(True), tmp_path / "task", {})
    monkeypatch.syspath_prepend(tmp_path)
    config = RunConfig(
        task=str(tmp_path / "task"), rounds=2, first_batch=16, encoder="random-bert", encoder_layers=1, max_length=24,
        encoder_batch=8, threads=1, search=SearchConfig(neighbours=5, block=16), dev_labels=6,
        training=TrainingConfig(epochs=1, batch=8, learning_rate=1e-3, worst_loss=100.0), oracle="place_counter:label",
    )  # fmt: skip
    calls = {}
    for released in (False, True):
        (tmp_path / "place_counter.py").write_text(JUDGE)
        run(config, replace(WHERE, shards=1), tmp_path / str(released), OracleConfig(release_actors=released))
        calls[released] = sys.modules.pop("place_counter").CALLS
    # 16 pairs of the first round, and then of each round the pairs of dev; other runs' groups are removed by now.
    assert [places for places, *_ in calls[False]] == [1] * len(calls[False])
    assert [places for places, *_ in calls[True]] == [0] * len(calls[True])
    assert sorted(texts for _, texts, _ in calls[False]) == sorted(texts for _, texts, _ in calls[True])
    assert results(tmp_path / "False") == results(tmp_path / "True")
    estimates = [
        RunFolder(tmp_path / name, read_task(tmp_path / "task")).dev_labels.estimates() for name in ("False", "True")
    ]
    lines = (tmp_path / "True" / "metrics.jsonl").read_text().splitlines()
    # Dev pairs of the last round are labelled after it.
    in_rounds = sum(seconds for _, texts, seconds in calls[True] if len(texts) > 2 * 6)
    assert sum(json.loads(line)["seconds"]["label"] for line in lines) >= in_rounds > 0
    assert len(estimates[0]) == 2
    assert estimates[0] == estimates[1]


def test_trainers_have_the_first_bundles_of_a_run_and_shards_the_others():
    places = Placement({"Trainer": 2, "PoolShard": 3}, WHERE, BundleSlots(PlacementGroup.empty(), (4, 5, 6, 7, 8)))
    assert (places.slots("Trainer").bundles, places.slots("PoolShard").bundles) == ((4, 5), (6, 7, 8))
    assert places.workers == "2 Trainer and 3 PoolShard workers"
    assert len(bundles_of(WHERE, trainers=2)) == 5
