"""Several calls of a function at a time: threads that meet at barriers and wait for events, never for a time."""

import math
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
import pytest

from al_ray.active_learning import labelling
from al_ray.core.errors import BadFile, CostReached, FolderInUse, OracleFailed
from al_ray.core.labels import OPEN
from al_ray.core.task import Task
from al_ray.oracles import function
from al_ray.oracles.calls import LONGEST_WAIT, Calls
from al_ray.oracles.function import CallableOracle, Reply
from al_ray.oracles.python_function import FunctionService
from tests.oracles.label_server import ALL, LONG, Bench


@pytest.fixture
def bench(make_task: Callable[[bool], Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return Bench(make_task(False), tmp_path / "run")


class Judge:
    """A function that counts the pairs it is asked and how many calls are in it at a time; `during` runs in each."""

    def __init__(self, bench: Bench, during: Callable[[int], object]) -> None:
        self.texts, self.during, self.lock = bench.texts, during, threading.Lock()
        self.asked, self.inside, self.most = Counter[int](), 0, 0

    def __call__(self, left: list[str], right: list[str]) -> object:
        rows = [self.texts.index(pair) for pair in zip(left, right, strict=True)]
        with self.lock:
            self.asked.update(rows)
            self.inside += 1
            self.most = max(self.most, self.inside)
        try:
            return self.during(rows[0]) or [1] * len(rows)
        finally:
            with self.lock:
                self.inside -= 1


def asking(bench: Bench, judge: Judge, spent: float = 0.0, **options: Any) -> CallableOracle:
    oracle = bench.oracle(code="def label(left, right): ...", spent=spent, **options)
    assert isinstance(oracle.service, FunctionService)
    oracle.service.function = judge
    return oracle


@pytest.mark.parametrize("at_once", [2, 3])
def test_so_many_calls_run_at_once_and_no_more(at_once: int, bench: Bench):
    """12 pairs, one a call: each call ends when as many are in the function as may be."""
    meeting = threading.Barrier(at_once)
    judge = Judge(bench, lambda row: meeting.wait(LONG) and None)
    pieces = bench.bought(asking(bench, judge, pairs_per_call=1, calls_at_once=at_once, retries=0))
    assert judge.most == at_once
    assert sorted(row for piece in pieces for row in piece.rows.tolist()) == ALL.tolist()
    assert set(judge.asked.values()) == {1}


def test_answers_are_handed_over_as_they_come(bench: Bench):
    released = threading.Event()
    judge = Judge(bench, lambda row: row == 0 and not released.wait(LONG))
    pieces = asking(bench, judge, calls_at_once=2).label(1, bench.batch, ALL)
    assert next(pieces).rows.tolist() == [4, 5, 6, 7]
    assert next(pieces).rows.tolist() == [8, 9, 10, 11]
    released.set()
    assert next(pieces).rows.tolist() == [0, 1, 2, 3]
    assert next(pieces, None) is None


def test_what_the_other_calls_brought_is_stored_before_an_error_is_raised(bench: Bench):
    """Rows 0 to 3 fail while 4 to 7 wait until that is known; 8 to 11 are not asked any more."""
    known = threading.Event()

    def during(row: int) -> None:
        if row == 0:
            raise RuntimeError("overloaded")
        assert known.wait(LONG)

    judge, ledger = Judge(bench, during), bench.ledger()
    oracle = asking(bench, judge, calls_at_once=2, retries=0)
    oracle.watch = lambda stage, done, total: known.set()
    with pytest.raises(OracleFailed, match=r"RuntimeError: overloaded \(tried once.*: 4 of 12 pairs of round 1 are an"):
        labelling.label_batch(1, ledger, oracle)
    assert np.flatnonzero(ledger.labels(1) != OPEN).tolist() == [4, 5, 6, 7]
    assert sorted(judge.asked) == list(range(8))
    judge.during = lambda row: None
    _, labels = labelling.label_batch(1, ledger, asking(bench, judge, calls_at_once=2))
    assert labels.tolist() == [1] * 12
    assert judge.asked == Counter({row: 2 if row < 4 else 1 for row in range(12)})


def test_a_pair_that_failed_is_asked_again_beside_the_others(bench: Bench):
    first = threading.Lock()

    def during(row: int) -> object:
        if row == 4 and first.acquire(blocking=False):
            return ["perhaps", 1, 1, 1]
        return None

    judge = Judge(bench, during)
    pieces = bench.bought(asking(bench, judge, calls_at_once=3))
    assert judge.asked == Counter({row: 2 if row == 4 else 1 for row in range(12)})
    assert sorted(row for piece in pieces for row in piece.rows[piece.labels != OPEN].tolist()) == ALL.tolist()


@pytest.mark.parametrize("price", [0.25, None])
def test_calls_at_once_stay_in_the_limit_of_cost(price: float | None, bench: Bench):
    """A call of 4 pairs costs 1: two fit into 2.2. With an unknown price the first call is made alone."""
    judge, ledger = Judge(bench, lambda row: Reply([1] * 4, 1.0)), bench.ledger()
    oracle = asking(bench, judge, calls_at_once=3, cost_per_pair=price, max_cost=2.2)
    with pytest.raises(CostReached, match=r"cost 2 so far, .* 4 .* 3; 4 pairs of round 1 are open"):
        labelling.label_batch(1, ledger, oracle)
    assert (len(judge.asked), ledger.cost()) == (8, 2.0)
    if price is None:
        assert next(iter(ledger.answers(1))).rows.tolist() == [0, 1, 2, 3]


def test_a_call_waits_for_the_cost_of_those_under_way_and_is_made_if_they_are_cheaper(bench: Bench):
    """Expected: 1 a call, and 2 are allowed; each costs 1/2, so the third is made when one has come back."""
    judge = Judge(bench, lambda row: Reply([1] * 4, 0.5))
    pieces = bench.bought(asking(bench, judge, calls_at_once=3, cost_per_pair=0.25, max_cost=2.0))
    assert sum(piece.cost for piece in pieces) == 1.5
    assert judge.most <= 2


class InstantCalls(Calls[Any]):
    """Calls that end as they start, by a clock that only waiting moves."""

    now, starts = 0.0, list[float]()

    def start(self, request: Any, function: Callable[[], object], seconds: float) -> None:
        InstantCalls.starts.append(InstantCalls.now)
        super().start(request, function, seconds)

    def wait(self, until: float = math.inf) -> Any:
        if until == math.inf:
            return super().wait()
        InstantCalls.now = until
        return None


@pytest.mark.parametrize("at_once", [1, 3])
def test_the_rate_holds_over_all_calls_and_retries(at_once: int, bench: Bench, monkeypatch):
    monkeypatch.setattr(InstantCalls, "now", 0.0)
    monkeypatch.setattr(InstantCalls, "starts", [])
    monkeypatch.setattr(function, "Calls", InstantCalls)
    monkeypatch.setattr(function, "monotonic", lambda: InstantCalls.now)
    judge = Judge(bench, lambda row: ["perhaps", 1, 1] if not row and judge.asked[0] == 1 else None)
    pieces = bench.bought(asking(bench, judge, calls_at_once=at_once, calls_per_minute=30, pairs_per_call=3))
    assert len(pieces) == 5
    assert InstantCalls.starts == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_no_call_starts_once_the_run_was_taken_over(bench: Bench):
    judge, calls = Judge(bench, lambda row: None), iter((None, FolderInUse("taken over")))

    def check() -> None:
        error = next(calls)
        if error is not None:
            raise error

    bench.check = check
    with pytest.raises(FolderInUse, match="taken over"):
        bench.bought(asking(bench, judge, retries=0))
    assert sorted(judge.asked) == [0, 1, 2, 3]


def test_calls_under_way_are_stored_before_an_error_of_the_lock_that_may_pass(bench: Bench):
    """Rows 0 to 3 come back, and the lock cannot be renewed while 4 to 7 are under way: 8 to 11 are not asked."""
    refused, proofs = threading.Event(), iter((None, None, BadFile("503 SlowDown")))

    def check() -> None:
        error = next(proofs, None)
        if error is not None:
            refused.set()
            raise error

    judge, ledger = Judge(bench, lambda row: row == 4 and not refused.wait(LONG)), bench.ledger()
    bench.check = check
    with pytest.raises(BadFile, match="503 SlowDown"):
        labelling.label_batch(1, ledger, asking(bench, judge, calls_at_once=2, cost_per_pair=0.25))
    assert np.flatnonzero(ledger.labels(1) != OPEN).tolist() == list(range(8))
    assert ledger.cost() == 2.0
    labelling.label_batch(1, ledger, asking(bench, judge, calls_at_once=2, cost_per_pair=0.25))
    assert judge.asked == Counter(range(12))


def test_the_late_result_of_a_call_whose_time_was_over_is_dropped():
    released, threads, calls = threading.Event(), list[threading.Thread](), Calls[str]()

    def late() -> str:
        threads.append(threading.current_thread())
        released.wait(LONG)
        return "late"

    calls.start("first", late, 0.0)
    over = calls.wait()
    assert over is not None
    released.set()
    while not threads:
        assert not over.outcome.ended
    threads[0].join()
    assert (over.request, over.outcome.ended) == ("first", False)
    calls.start("second", lambda: "in time", LONG)
    call = calls.wait()
    assert call is not None
    assert (call.request, call.outcome.value) == ("second", "in time")


def test_no_single_wait_is_long_so_that_an_interrupt_just_before_it_is_noticed_soon():
    waits = list[float | None]()

    class Watched(SimpleQueue):
        def get(self, block: bool = True, timeout: float | None = None) -> object:
            waits.append(timeout)
            if len(waits) == 3:
                raise KeyboardInterrupt
            raise Empty

    calls, never = Calls[str](), threading.Event()
    calls._ended = Watched()
    calls.start("stalls", lambda: never.wait(LONG), LONG)
    with pytest.raises(KeyboardInterrupt):
        calls.wait()
    never.set()
    assert waits == [LONGEST_WAIT] * 3


def test_calls_that_have_returned_are_stored_when_a_run_is_interrupted(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    """Three calls have returned, and the fourth is under way, when somebody presses Ctrl-C."""
    never = threading.Event()
    judge = Judge(bench, lambda row: row == 9 and not never.wait(LONG))

    def interrupted(calls: Calls, until: float) -> None:
        while calls._ended.qsize() < 3:
            threading.Event().wait(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(Calls, "wait", interrupted)
    pieces, rows = asking(bench, judge, pairs_per_call=3, calls_at_once=4).label(1, bench.batch, ALL), list[int]()
    with pytest.raises(KeyboardInterrupt):
        rows.extend(row for piece in pieces for row in piece.rows.tolist() if piece.labels.all())
    never.set()
    assert sorted(rows) == list(range(9))
