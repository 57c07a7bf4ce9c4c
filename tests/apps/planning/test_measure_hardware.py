"""What is measured has the sizes of runs."""

from dataclasses import replace
from typing import Any

import pytest

from al_ray.apps.planning import measure_hardware
from al_ray.apps.planning.measure_hardware import SEARCH, clustered, count_speeds, exact_speed, index_speeds
from al_ray.core.vectors import Block
from al_ray.search.counting import count_block
from al_ray.search.faiss_index import CosineIndex
from al_ray.search.flat_index import FlatIndex
from al_ray.search.join.exact_join import ExactJoin


@pytest.mark.parametrize(("device", "block"), [("cpu", 32), ("cpu:0", 16 * 32)])
def test_an_exact_join_is_measured_in_blocks_of_a_run(monkeypatch, device, block):
    met = set[tuple[int, int]]()

    class Watched(ExactJoin):
        def add(self, left: Block, right: Block) -> None:
            met.add((len(left.rows), len(right.rows)))
            super().add(left, right)

    monkeypatch.setattr(measure_hardware, "ExactJoin", Watched)
    monkeypatch.setattr(measure_hardware, "SEARCH", replace(SEARCH, block=32))
    ((name, speed),) = exact_speed(clustered(2 * 16 * 32 + 6, 16), device)
    assert name == "exact"
    assert speed > 0
    # A GPU joins 16 times as many texts at once.
    assert met == {(block, block)}


@pytest.mark.parametrize(("device", "kind"), [("cpu", CosineIndex), ("cpu:0", FlatIndex)])
def test_an_index_is_measured_by_a_block_of_queries_for_the_neighbours_of_a_run(monkeypatch, device, kind):
    asked = list[tuple[type, int, int]]()

    def watched(index: type):
        def nearest_to(self: object, queries: Block, count: int):
            asked.append((type(self), len(queries.rows), count))
            return original(self, queries, count)

        original = vars(index)["nearest_to"]
        monkeypatch.setattr(index, "nearest_to", nearest_to)

    watched(kind)
    vectors = clustered(4096, 16)
    assert next(iter(index_speeds(vectors, device)))[0] == "flat"
    # 100 neighbours, the text itself, and 8 to settle ties.
    assert set(asked) == {(kind, 1024, 109)}


def test_a_count_is_one_of_a_block_of_queries_with_all_vectors(monkeypatch):
    shapes = set[tuple[int, int]]()

    def watched(left: Block, right: Block, *rest: Any) -> object:
        shapes.add((len(left.rows), len(right.rows)))
        return count_block(left, right, *rest)

    monkeypatch.setattr(measure_hardware, "count_block", watched)
    monkeypatch.setattr(measure_hardware, "SAMPLED", 1000)
    speeds = dict(count_speeds(clustered(4096, 16)))
    assert set(speeds) == {"count", "sampled"}
    assert min(speeds.values()) > 0
    assert shapes == {(1024, 4096)}
