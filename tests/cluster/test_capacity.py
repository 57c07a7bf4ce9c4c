"""The capacity of a cluster: how many groups of actors fit, and what a wait for places tells."""

import logging
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import ray
from ray.util.placement_group import placement_group, remove_placement_group

from al_ray.cluster import capacity
from al_ray.cluster.actors import placement
from al_ray.cluster.capacity import count_placements
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import NoPlacement


def test_no_bundle_is_parted_between_nodes(monkeypatch):
    nodes = [{"Alive": alive, "Resources": {"CPU": cpus}} for alive, cpus in ((True, 3.0), (True, 1.0), (False, 9.0))]
    monkeypatch.setattr("ray.nodes", lambda: nodes)
    # Of two CPUs one goes into the first node, and then none: one CPU is left on each.
    assert count_placements([{"CPU": 2.0}]) == 1
    assert count_placements([{"CPU": 1.0}] * 2) == 2
    assert count_placements([{"CPU": 1.0}, {"CPU": 3.0}]) == 1
    assert count_placements([{"CPU": 1.0, "GPU": 1.0}]) == 0


class Other(logging.Handler):
    """Another job, with five of the six CPUs of this Ray, and the lines of those who wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines, self.ends_at = list[str](), 1
        self.group = placement_group([{"CPU": 1}] * 5)
        ray.get(self.group.ready())

    def emit(self, record: logging.LogRecord) -> None:
        """End when so many lines were logged."""
        self.lines.append(record.getMessage())
        if len(self.lines) == self.ends_at:
            remove_placement_group(self.group)


@pytest.fixture
def other(local_ray, monkeypatch) -> Iterator[Other]:
    monkeypatch.setattr(capacity, "QUIET_SECONDS", 0.5)
    job = Other()
    capacity.logger.addHandler(job)
    yield job
    capacity.logger.removeHandler(job)
    remove_placement_group(job.group)


def test_who_waits_for_another_job_says_so_and_is_placed_when_it_ends(other):
    with placement({"Trainer": 1, "PoolShard": 2}, ClusterConfig(timeout=600)) as places:
        assert places.all_slots.group.wait(60)
    waiting, placed = other.lines
    assert re.fullmatch(
        r"waiting for places for 1 Trainer and 2 PoolShard workers of 1\.0 CPUs and 0\.0 GPUs, all at once, up to \d+ "
        r"s more; the cluster has 1 nodes \(6 CPUs, 0 GPUs\), of which 1 CPUs and 0 GPUs are free and "
        r"the rest is in use",
        waiting,
    )
    assert placed == "1 Trainer and 2 PoolShard workers of 1.0 CPUs and 0.0 GPUs have their places now"


def test_who_asks_later_is_placed_later_even_if_there_is_room_for_less(other):
    placed = list[str]()

    def ask(name: str, count: int) -> None:
        with placement({name: count}, ClusterConfig(timeout=600)):
            placed.append(name)

    other.ends_at = 2
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(ask, "Large", 6)
        while not other.lines:
            assert not first.done()
        # One CPU is free. Ray alone would give it away.
        threads.submit(ask, "Small", 1)
    large, small, *_ = other.lines
    assert "6 Large workers" in large
    assert "after" not in large
    assert "1 Small workers of 1.0 CPUs and 0.0 GPUs, all at once, after a command that has waited longer, up" in small
    assert placed == ["Large", "Small"]


def test_who_never_gets_places_is_told_whether_others_have_them_or_nobody(other):
    capacity.logger.removeHandler(other)
    with (
        pytest.raises(NoPlacement, match="of which 1 CPUs and 0 GPUs are free and the rest is in use: ask for"),
        placement({"PoolShard": 2}, ClusterConfig(timeout=1)),
    ):
        pass
    with (
        pytest.raises(NoPlacement, match=r"6 CPUs, 0 GPUs\), which is too small for them until it grows: ask for"),
        placement({"PoolShard": 7}, ClusterConfig(timeout=1)),
    ):
        pass


def test_who_needs_a_larger_cluster_holds_nobody_up(other):
    capacity.logger.removeHandler(other)
    group = placement_group([{"CPU": 1}] * 7, name=f"{capacity.NAME}0")
    try:
        with placement({"PoolShard": 1}, ClusterConfig(timeout=60)) as places:
            assert places.all_slots.group.wait(60)
    finally:
        remove_placement_group(group)
