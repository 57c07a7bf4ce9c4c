"""One contract for workers: actors of Ray, and plain objects in this process."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import torch
from threadpoolctl import threadpool_info

from al_ray.cluster.session import session
from al_ray.cluster.workers import (
    deploy,
    get_results,
    in_this_process,
    live_nodes,
    peak_of_workers,
    placement,
    put,
    run_in_worker,
    stream_from_workers,
    stream_results,
    wait_for,
    workers_in_this_process,
)
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import ActorLost, BadOption
from tests.ways import HERE, ON_RAY, has_workers_here

CPUS = ClusterConfig(timeout=600)


@dataclass(frozen=True)
class Numbers:
    """What crosses: an array in an object, and a list, which both sides could change."""

    array: np.ndarray
    names: list[str]


class Counting:
    """A worker of three threads that holds numbers, and knows itself by what it is handed."""

    def __init__(self, spec: Numbers) -> None:
        torch.set_num_threads(3)
        self.spec = spec

    def add(self, *others: np.ndarray) -> np.ndarray:
        return self.spec.array + sum(others)

    def is_writable(self, numbers: Numbers, in_tuple: tuple[Any]) -> tuple[bool, bool]:
        numbers.names.append("of the worker")
        return numbers.array.flags.writeable, wait_for(in_tuple[0]).flags.writeable

    def halves(self) -> list[np.ndarray]:
        return [self.spec.array[:2], self.spec.array[2:]]

    def count(self, to: int) -> Iterator[int]:
        for number in range(to):
            assert torch.get_num_threads() == 3
            yield number

    def refuse(self) -> None:
        raise BadOption("--seed is no number")

    def ask(self, handle: tuple[Any]) -> np.ndarray:
        return wait_for(handle[0].add.options(concurrency_group="serve").remote(put(np.ones(4))))

    def threads(self) -> tuple[int, set[int]]:
        assert scipy.linalg.norm(np.ones(4)) == 2
        blas = {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}
        return torch.get_num_threads(), blas


@pytest.fixture(scope="module", params=[HERE, ON_RAY])
def anywhere(request) -> None:
    """Workers of either kind: tests/conftest.py has them where the parameter says."""
    if request.param == ON_RAY:
        request.getfixturevalue("local_ray")


@pytest.fixture(scope="module")
def worker(anywhere) -> Iterator[Any]:
    """One worker for all tests, which leave its numbers as they are: on Ray each is a process that imports torch."""
    spec = Numbers(np.arange(4.0), [])
    with deploy(Counting, [spec], CPUS, groups={"serve": 1}) as (one,):
        yield one


def test_a_call_has_its_values_and_those_of_references(worker):
    reference = put(np.full(4, 2.0))
    added = worker.add.remote(reference, np.ones(4))
    assert get_results(added).tolist() == [3, 4, 5, 6]
    # The reference of a result is that of a value.
    assert get_results([worker.add.remote(added), worker.add.remote()])[0].tolist() == [3, 5, 7, 9]
    first, last = worker.halves.options(num_returns=2).remote()
    assert [one.tolist() for one in get_results([last, first])] == [[2, 3], [0, 1]]
    assert get_results(worker.__ray_call__.remote(lambda own, more: float(own.add().sum()) + more, 1.0)) == 7


def test_what_a_worker_is_handed_is_its_own_and_arrays_are_read_only(worker):
    numbers, array = Numbers(np.arange(3.0), ["mine"]), np.ones(3)
    assert get_results(worker.is_writable.remote(numbers, (put(array),))) == (False, False)
    assert numbers.names == ["mine"]
    assert numbers.array.flags.writeable
    answer = get_results(worker.add.remote())
    with pytest.raises(ValueError, match="read-only"):
        answer[0] = 9


def test_a_stream_yields_one_after_the_other(worker):
    assert list(stream_results(worker.count.options(num_returns="streaming").remote(5))) == [0, 1, 2, 3, 4]


class Sequences(Counting):
    """A worker whose stream is no generator, so that nothing can be sent into it."""

    def count(self, to: int) -> Iterator[int]:
        yield from range(to)


def test_a_stream_may_be_made_of_any_iterators(anywhere):
    with deploy(Sequences, [Numbers(np.zeros(1), [])], CPUS) as (worker,):
        assert list(stream_results(worker.count.options(num_returns="streaming").remote(3))) == [0, 1, 2]


def test_a_worker_bears_the_name_of_what_makes_its_object(anywhere):
    def make(spec: Numbers) -> Counting:
        return Counting(Numbers(spec.array + 1, []))

    make.__name__ = "Incremented"
    with deploy(make, [Numbers(np.zeros(2), [])], CPUS) as (worker,):
        assert get_results(worker.add.remote()).tolist() == [1, 1]
        title = get_results(worker.__ray_call__.remote(lambda _: Path("/proc/self/cmdline").read_text()))
    assert in_this_process() or title.startswith("ray::Incremented")


def test_a_worker_asks_itself_while_it_answers(worker):
    assert get_results(worker.ask.remote((worker,))).tolist() == [1, 2, 3, 4]


def test_errors_are_the_workers_own(worker):
    with pytest.raises(BadOption, match="--seed is no number"):
        get_results(worker.refuse.remote())


def test_a_worker_computes_with_its_own_threads_and_this_process_keeps_its_own(worker):
    before = torch.get_num_threads(), threadpool_info()
    assert get_results(worker.threads.remote()) == (3, {1})
    assert (torch.get_num_threads(), threadpool_info()) == before
    assert list(stream_results(worker.count.options(num_returns="streaming").remote(2))) == [0, 1]
    assert (torch.get_num_threads(), threadpool_info()) == before


def countdown(start: int) -> Iterator[int]:
    while start:
        yield start
        start -= 1


def product(*factors: int) -> tuple[int, int]:
    return int(np.prod(factors)), torch.get_num_threads()


def test_functions_run_in_workers_with_a_thread(anywhere):
    assert run_in_worker(product, 2, 3, 7, config=CPUS) == (42, 1)
    assert list(stream_from_workers(countdown, [(3,), (2,)], CPUS)) == [3, 2, 2, 1, 1]


def test_places_are_there_and_a_worker_that_is_deployed_leaves_this_process_its_threads(anywhere):
    before = torch.get_num_threads(), threadpool_info()
    with placement({"Counting": 1}, CPUS) as places, deploy(
        Counting, [Numbers(np.zeros(1), [])], places.config, places.slots("Counting")
    ) as (one,):  # fmt: skip
        assert get_results(one.add.remote()).tolist() == [0]
        peak = peak_of_workers([one])
        assert (torch.get_num_threads(), threadpool_info()) == before
    # That of this process is the driver's.
    assert peak is None if in_this_process() else peak
    assert live_nodes() == 1


class Hungry:
    """A worker that asks for more memory than there is."""

    def __init__(self, _: None) -> None:
        pass

    def eat(self) -> int:
        return len(np.ones(2**50))

    def nibble(self) -> Iterator[int]:
        yield 1
        yield len(np.ones(2**50))


# On Ray four restarts, of seconds each.
@pytest.mark.parametrize("anywhere", [HERE, pytest.param(ON_RAY, marks=pytest.mark.more)], indirect=True)
@pytest.mark.parametrize("call", ["eat", "nibble"])
def test_a_worker_without_memory_is_lost_with_words_that_help(anywhere, call):
    with deploy(Hungry, [None], CPUS) as (worker,):
        method = getattr(worker, call)
        if call == "eat":
            ask = lambda: get_results(method.remote())  # noqa: E731
        else:
            ask = partial(list, stream_results(method.options(num_returns="streaming").remote()))
        with pytest.raises(
            ActorLost, match=rf"out of memory in Hungry\.{call} .*more `shards`.*rerun the same command"
        ):
            ask()


def eat_in_a_session(of_worker: bool) -> None:
    with session(CPUS), deploy(Hungry, [None], CPUS) as (worker,):
        if of_worker:
            worker.eat.remote()
        np.ones(2**50)


@pytest.mark.parametrize(("of_worker", "what"), [(False, "the command"), (True, r"Hungry\.eat")])
def test_so_is_a_command_in_whose_own_process_memory_runs_out(of_worker, what):
    with workers_in_this_process(), pytest.raises(ActorLost, match=rf"^out of memory in {what} \(.*`shards`"):
        eat_in_a_session(of_worker)


def sessions(monkeypatch, connected: bool, config: ClusterConfig = CPUS, **workers: int) -> bool:
    """Whether a session of a fresh process is in that process."""
    from al_ray.cluster import ray_session

    monkeypatch.setattr(sys.modules["ray"], "is_initialized", lambda: connected)
    for name in ("init", "shutdown"):
        monkeypatch.setattr(ray_session.ray, name, lambda **_: None)
    monkeypatch.setattr(ray_session.ray, "cluster_resources", lambda: {"GPU": 8.0})
    with session(config, **workers):
        return in_this_process()


@pytest.fixture
def fresh() -> Iterator[None]:
    """A process that has no session yet, whatever tests share."""
    with workers_in_this_process(False):
        yield


@pytest.mark.parametrize(
    ("config", "workers"),
    [
        (ClusterConfig(ray=True), {}),
        (ClusterConfig(shards=2), {}),
        (ClusterConfig(gpus_per_shard=0.5), {}),
        (CPUS, {"trainers": 2}),
        (CPUS, {"runs": 2}),
        (CPUS, {"scorers": 2}),
    ],
)
def test_more_than_one_worker_of_a_kind_a_gpu_and_the_option_need_ray(monkeypatch, fresh, config, workers):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert sessions(monkeypatch, connected=False)
    assert sessions(monkeypatch, connected=False, trainers=0, scorers=1)
    assert not sessions(monkeypatch, False, config, **workers)


def test_a_cluster_that_is_named_and_a_session_of_ray_are_used(monkeypatch, fresh):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert not sessions(monkeypatch, connected=True)
    with workers_in_this_process():
        assert sessions(monkeypatch, connected=True)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert not sessions(monkeypatch, connected=False)


def test_a_session_in_this_process_has_any_number_of_shards_and_scorers_for_those_inside_it(monkeypatch):
    shards = ClusterConfig(shards=3)
    with workers_in_this_process():
        assert sessions(monkeypatch, True, shards, scorers=3)
        # But not what must run at the same time, or elsewhere.
        assert not sessions(monkeypatch, True, shards, trainers=2)
        assert not sessions(monkeypatch, True, shards, runs=2)
        assert not sessions(monkeypatch, True, ClusterConfig(gpus_per_shard=1))
        assert not sessions(monkeypatch, True, ClusterConfig(ray=True))


@pytest.mark.parametrize(
    ("fixtures", "parameters", "ray_is_up", "here"),
    [
        (["tmp_path"], [], False, False),
        (["tmp_path"], [3, "one"], True, True),
        (["in_process"], [], False, True),
        (["local_ray"], [], True, False),
        (["either_way"], [HERE], True, True),
        # A fixture of the file that asks for this process is made on Ray, too.
        (["either_way", "in_process"], [ON_RAY], True, False),
    ],
)
def test_the_workers_of_a_test_are_where_it_asks_for_them_whatever_other_tests_have_started(
    fixtures, parameters, ray_is_up, here
):
    assert has_workers_here(fixtures, parameters, ray_is_up) == here


def test_a_test_that_asks_for_both_is_refused():
    with pytest.raises(pytest.UsageError, match=r"in this process \(in_process\) and on Ray \(local_ray\)"):
        has_workers_here(["in_process", "local_ray"], [], True)


def test_the_workers_of_a_test_are_there(either_way, request):
    assert in_this_process() == (request.node.callspec.params["either_way"] == HERE)
