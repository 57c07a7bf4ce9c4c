"""Workers work in the driver's folder, also if Ray was started in another one."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from al_ray.cluster.actors import deploy, get_results, run_in_worker, stream_from_workers
from al_ray.cluster.working_folder import work_in, working_folder
from al_ray.core.config.cluster import ClusterConfig

CONFIG = ClusterConfig(cpus_per_shard=0.5)


class Reader:
    """A worker that reads a file by a relative path."""

    def __init__(self, spec: None) -> None:
        """spec: nothing."""

    def read(self) -> str:
        with open("words.txt", encoding="utf-8") as file:
            return file.read()


def read(_: int) -> str:
    return Reader(None).read()


def read_each(number: int) -> Iterator[str]:
    for _ in range(number):
        yield read(number)


@pytest.fixture
def here(local_ray: None, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder in which Ray was not started."""
    (tmp_path / "words.txt").write_text("relative", encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def test_actors_tasks_and_streams_find_a_file_beside_the_driver(here):
    assert run_in_worker(read, 1, config=CONFIG) == "relative"
    assert list(stream_from_workers(read_each, [(2,)], CONFIG)) == ["relative"] * 2
    with deploy(Reader, [None], CONFIG) as (actor,):
        assert get_results(actor.read.remote()) == "relative"


def test_a_machine_without_the_folder_stays_where_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    work_in(str(tmp_path / "elsewhere"))
    assert working_folder() == str(tmp_path)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert working_folder() == ""
    work_in("")
    os.chdir(tmp_path)
