"""A user's function as the oracle, before a real server on loopback that fails, stalls and misanswers."""

import math
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from al_ray.active_learning import labelling
from al_ray.active_learning.config import RunConfig
from al_ray.core.config.llm import LlmConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.errors import BadOption, CostReached, OracleFailed
from al_ray.core.labels import NO, OPEN, UNSURE, YES, Answers
from al_ray.core.pairs import Rows
from al_ray.core.progress import no_progress
from al_ray.core.task import Task
from al_ray.oracles.calls import Calls
from al_ray.oracles.function import read_reply
from al_ray.oracles.python_function import function_of
from al_ray.oracles.registry import OracleRequest, make_oracle
from al_ray.runs.run_folder import RunFolder
from tests.oracles.label_server import (
    ALL,
    CLIENT,
    COUNT,
    FAILURES,
    LONG,
    MISANSWERS,
    PRICE,
    TRUTH,
    Bench,
    serving,
    write,
)


@pytest.fixture(scope="module")
def running(make_task: Callable[[bool], Task], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(make_task(False), tmp_path_factory.mktemp("run"))
    assert len(bench.truth) == COUNT
    with serving(bench.truth) as bench.server:
        yield bench


@pytest.fixture
def bench(running: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    running.server.reset()
    running.folder = tmp_path / "run"
    return running


def taken(pieces: Sequence[Answers]) -> dict[int, int]:
    """Row -> label of all that could be read; each row once."""
    found = [pair for piece in pieces for pair in zip(piece.rows.tolist(), piece.labels.tolist(), strict=True)]
    readable = [(row, label) for row, label in found if label != OPEN]
    assert len(dict(readable)) == len(readable)
    return dict(readable)


@pytest.fixture
def no_clock(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of a call is over as soon as the server stalls it, and not before, however busy the machine is."""

    class ServedCalls(Calls[Any]):
        def start(self, request: Any, function: Callable[[], object], seconds: float) -> None:
            assert seconds == 1.0
            stalls = list(bench.server.plan)[:1] == ["stall"]
            super().start(request, function, LONG)
            if stalls:
                assert bench.server.stalling.acquire(timeout=LONG)
                self.running[-1].deadline = -math.inf

    monkeypatch.setattr("al_ray.oracles.function.Calls", ServedCalls)


def true_labels(rows: Rows = ALL) -> dict[int, int]:
    return dict(zip(rows.tolist(), TRUTH[rows].tolist(), strict=True))


@pytest.mark.parametrize(
    ("fault", "again"),
    [("", 0), ("slow", 0), ("stall", 4), *((fault, 4) for fault in FAILURES)]
    + [(fault, {"all": 4, "first": 1}[which]) for fault, which in MISANSWERS.items()],
)
@pytest.mark.usefixtures("no_clock")
def test_what_was_not_answered_is_asked_again_and_nothing_else(fault: str, again: int, bench: Bench):
    bench.server.reset("", fault)
    seen: list[tuple[int, int]] = []
    asks = bench.oracle(call_timeout=1.0)
    asks.watch = lambda stage, done, total: seen.append((done, total))
    pieces = bench.bought(asks)
    assert taken(pieces) == true_labels()
    repeated = [bench.texts[4:8][:again]] if again else []
    assert bench.server.calls == [bench.texts[:4], bench.texts[4:8], *repeated, bench.texts[8:]]
    readable = [piece.rows[piece.labels != OPEN].tolist() for piece in pieces]
    parted = {0: [[4, 5, 6, 7]], 1: [[5, 6, 7], [4]], 4: [[], [4, 5, 6, 7]] if fault in MISANSWERS else [[4, 5, 6, 7]]}
    assert readable == [[0, 1, 2, 3], *parted[again], [8, 9, 10, 11]]
    assert seen[-1] == (12, 12)
    assert seen == sorted(seen)
    for piece in pieces:
        told = piece.labels != OPEN
        assert piece.by == asks.service.name
        np.testing.assert_array_equal(piece.confidences, np.where(told, 0.75, np.nan))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    plan=st.lists(st.sampled_from(["", *FAILURES, *MISANSWERS]), max_size=12),
    missing=st.sets(st.integers(0, COUNT - 1)),
    per_call=st.integers(1, COUNT),
    at_once=st.integers(1, 4),
)
def test_whatever_fails_each_row_is_read_once_and_all_that_was_billed_is_counted(
    plan: list[str], missing: set[int], per_call: int, at_once: int, bench: Bench
):
    bench.server.reset(*plan)
    options = {"pairs_per_call": per_call, "calls_at_once": at_once, "retries": len(plan), "cost_per_pair": 7.0}
    asks = bench.oracle("priced", spent=1.0, **options)
    rows = np.array(sorted(missing), dtype=np.int64)
    pieces = list(asks.label(3, bench.batch, rows))
    assert taken(pieces) == true_labels(rows)
    first = list(dict.fromkeys(row for piece in pieces for row in piece.rows.tolist()))
    assert (first if at_once == 1 else sorted(first)) == rows.tolist()
    assert all(piece.rows.dtype == np.int64 and piece.labels.dtype == np.uint8 for piece in pieces)
    # A quarter is exact in binary: so are the sums.
    assert sum(piece.cost for piece in pieces) == bench.server.billed == asks.spent - 1.0


def test_a_piece_is_handed_over_before_the_next_call(bench: Bench):
    for number, _ in enumerate(bench.oracle().label(1, bench.batch, ALL), start=1):
        assert len(bench.server.calls) == number


@pytest.mark.parametrize(
    ("fault", "words"), [("500", "HTTP 500"), ("drop", "RemoteDisco"), ("text", "it returned '1'")]
)
def test_a_service_that_stays_down_stops_the_run_and_a_restart_asks_only_what_is_open(
    fault: str, words: str, bench: Bench
):
    ledger = bench.ledger()
    bench.server.reset("", "word", *[fault] * 3)
    with pytest.raises(
        OracleFailed, match=f"{words}.*tried 4 times.*rerun the same command to resume: 7 of 12 pairs of round 1"
    ):
        labelling.label_batch(1, ledger, bench.oracle("priced", retries=3))
    assert bench.server.calls == [bench.texts[:4], bench.texts[4:8], *[[bench.texts[4]]] * 3]
    assert np.flatnonzero(ledger.labels(1) == OPEN).tolist() == [4, 8, 9, 10, 11]
    _, labels = labelling.label_batch(1, ledger, bench.oracle("priced", spent=ledger.cost(), retries=3))
    assert labels.tolist() == TRUTH.tolist()
    assert bench.server.calls[5:] == [[bench.texts[4], *bench.texts[8:11]], [bench.texts[11]]]
    assert ledger.cost() == bench.server.billed


def test_failures_of_all_kinds_count_together(bench: Bench):
    bench.server.reset("500", "count", "drop", "word")
    with pytest.raises(OracleFailed, match="tried 3 times"):
        bench.bought(bench.oracle(retries=2))
    assert len(bench.server.calls) == 3
    bench.server.reset("500")
    with pytest.raises(OracleFailed, match="tried once"):
        bench.bought(bench.oracle(retries=0))


def test_what_cannot_be_read_is_shown_with_its_pair(bench: Bench):
    asks = bench.oracle(code="def label(left, right):\n    return [1, 0, {'maybe': 'x' * 999}, 1]", retries=0)
    with pytest.raises(OracleFailed, match=r"it returned \{'maybe': 'xxx.*not 1, 0, yes, no") as failed:
        bench.bought(asks)
    assert f"the pair {bench.texts[2][0]!r} and {bench.texts[2][1]!r}" in str(failed.value)
    assert "3 of 12 pairs" in str(failed.value)
    assert len(str(failed.value)) < 500


def test_a_failed_call_waits_longer_each_time(bench: Bench):
    bench.server.reset("500", "drop", "garbage", "count")
    bench.bought(bench.oracle(retry_seconds=0.2, pairs_per_call=COUNT))
    # 0.2, 0.4 and 0.8 s, less up to half; none after an answer that cannot be read, of which only the order is told.
    assert len(bench.server.started) == 5
    assert all(np.diff(bench.server.started)[:3] >= [0.1, 0.2, 0.4])


@pytest.mark.parametrize(("function", "price"), [("label", PRICE), ("priced", 0.0)])
def test_the_run_stops_before_a_call_too_dear_and_goes_on_when_more_is_allowed(
    function: str, price: float, bench: Bench
):
    """A call of 4 pairs costs 1: two fit into 2.2. A function's own price is known once it was called."""
    ledger, stop = bench.ledger(), r"by `max_cost=2.2`: .* cost 2 so far, .* 4 .* 3; 4 pairs of round 1 are open"
    for known in (price, PRICE):
        with pytest.raises(CostReached, match=stop):
            labelling.label_batch(1, ledger, bench.oracle(function, ledger.cost(), cost_per_pair=known, max_cost=2.2))
        assert len(bench.server.calls) == 2
    _, labels = labelling.label_batch(
        1, ledger, bench.oracle(function, ledger.cost(), cost_per_pair=price, max_cost=3.0)
    )
    assert labels.tolist() == TRUTH.tolist()
    assert ledger.cost() == bench.server.billed == 3.0


@pytest.mark.parametrize(("price", "calls"), [(None, 2), (0.0, 3)])
def test_after_a_restart_a_function_without_a_stated_price_is_expected_to_cost_what_it_did(
    price: float | None, calls: int, bench: Bench
):
    """A call of 4 pairs costs 1, and a third one would exceed 2.2. A price that is stated holds, even if it is 0."""
    name, options = write(CLIENT.format(port=bench.server.server_port)), {"pairs_per_call": 4, "max_cost": 2.2}
    journal, config = RunFolder(bench.folder, bench.task), RunConfig(task="t", oracle=f"{name}:priced", threads=1)
    journal.ledger.add_batch(1, bench.batch)
    for stated in (None, price):
        request = OracleRequest(config, OracleConfig(cost_per_pair=stated, **options), journal, no_progress)
        with suppress(CostReached):
            labelling.label_batch(1, journal.ledger, make_oracle(request))
    assert len(bench.server.calls) == calls


@pytest.mark.parametrize(("limit", "sizes"), [(2.75, [4, 4, 3]), (0.9, [3]), (0.24, [])])
def test_all_pairs_that_the_limit_pays_for_are_bought(limit: float, sizes: list[int], bench: Bench):
    """A pair costs 0.25, and 4 are asked at a time: 2.75 pays for 11 pairs, 0.9 for 3 and 0.24 for none."""
    ledger, bought = bench.ledger(), sum(sizes)
    left = (
        f"cost {bought * PRICE:g} so far, and the next {4 - bought % 4:,} .*; {12 - bought} pairs of round 1 are open"
    )
    with pytest.raises(CostReached, match=left):
        labelling.label_batch(1, ledger, bench.oracle(cost_per_pair=PRICE, max_cost=limit, pairs_per_call=4))
    assert [len(call) for call in bench.server.calls] == sizes
    assert ledger.cost() == bench.server.billed == bought * PRICE <= limit
    _, labels = labelling.label_batch(1, ledger, bench.oracle(spent=ledger.cost(), cost_per_pair=PRICE, max_cost=3.0))
    assert labels.tolist() == TRUTH.tolist()
    assert bench.server.billed == 3.0


def test_a_limit_is_not_reached_by_the_last_bits_of_a_sum(bench: Bench):
    # 0.1 + 0.1 + 0.1 is 0.30000000000000004.
    bench.bought(bench.oracle(pairs_per_call=1, cost_per_pair=0.1, max_cost=0.3), ALL[:3])
    with pytest.raises(CostReached):
        bench.bought(bench.oracle(spent=0.3, pairs_per_call=1, max_cost=0.3), ALL[:3])
    assert len(bench.server.calls) == 3


@pytest.mark.usefixtures("no_clock")
def test_a_stalled_call_is_counted_as_billed_and_a_raising_one_is_not(bench: Bench):
    bench.server.reset("stall", "500")
    asks = bench.oracle(call_timeout=1.0, cost_per_pair=PRICE, pairs_per_call=COUNT)
    pieces = bench.bought(asks)
    assert [piece.cost for piece in pieces] == [3.0, 3.0]
    assert set(pieces[0].labels.tolist()) == {OPEN}
    assert asks.spent == 6.0


@pytest.mark.parametrize("cost", ["-1", "float('nan')", "float('inf')", "'free'"])
def test_a_cost_that_is_none_stops_the_run_at_once_and_keeps_the_labels(cost: str, bench: Bench):
    code = f"from al_ray.oracles.function import Reply\ndef label(left, right):\n    return Reply([1] * 4, {cost})"
    pieces = bench.oracle(code=code, cost_per_pair=PRICE).label(1, bench.batch, ALL)
    piece = next(pieces)
    assert (piece.labels.tolist(), piece.cost) == ([YES] * 4, 1.0)
    with pytest.raises(OracleFailed, match=r"returned the cost .*4 of 12 pairs"):
        next(pieces)


@pytest.mark.parametrize("last", ["[1] * 4", "Reply([1] * 4)"])
@pytest.mark.parametrize("calls", [1, 2])
def test_a_limit_of_cost_stops_a_function_that_states_none_and_keeps_the_labels(last: str, calls: int, bench: Bench):
    """Its first call states no cost, or its second one."""
    code = f"""
from al_ray.oracles.function import Reply
replies = [Reply([1] * 4, 1.0), {last}][2 - {calls}:]
def label(left, right):
    return replies.pop(0)
"""
    ledger = bench.ledger()
    with pytest.raises(OracleFailed, match=rf"returned no cost.*give `cost_per_pair`.* {4 * calls} of 12"):
        labelling.label_batch(1, ledger, bench.oracle(code=code, max_cost=9.0))
    assert np.count_nonzero(ledger.labels(1) != OPEN) == 4 * calls
    free = "def label(left, right):\n    return [1] * len(left)"
    labelling.label_batch(1, ledger, bench.oracle(code=free, spent=ledger.cost(), cost_per_pair=0.0, max_cost=9.0))
    # The second call counts as the first one, whose price is known.
    assert ledger.cost() == {1: 0.0, 2: 2.0}[calls]


@pytest.mark.parametrize(
    ("answer", "label"),
    [(answer, YES) for answer in (1, True, np.bool_(True), np.int64(1), 1.0, "yes", " MATCH\n", "True", "1", ("y", 1))]
    + [(answer, NO) for answer in (0, False, np.bool_(False), np.uint8(0), "No", "non-match", [0, 0.5], (False, 0))]
    + [(answer, UNSURE) for answer in (None, "unsure", (None, 0.5), ["UNSURE", np.float32(0.5)])]
    + [(answer, OPEN) for answer in ("", "perhaps", 2, -1, 0.5, float("nan"), b"yes", {}, (), (1,), (1, 1, 1))]
    + [(("yes", confidence), OPEN) for confidence in (-0.1, 1.1, float("nan"), None, "0.9", True)]
    + [((("yes", 1), 1), OPEN), (object, OPEN), (np.array([1, 0]), OPEN)],
    ids=repr,
)  # fmt: skip
def test_an_answer_is_a_number_a_word_or_nothing(answer: object, label: int):
    labels, confidences, wrong = read_reply([0, answer], 2)
    assert labels.tolist() == [NO, label]
    given = isinstance(answer, tuple | list) and label != OPEN
    assert confidences[1] == pytest.approx(float(answer[1]) if given else np.nan, nan_ok=True)  # type: ignore[index]
    assert bool(wrong) == (label == OPEN)


def test_answers_may_be_an_array():
    assert read_reply(np.array([True, False]), 2)[0].tolist() == [YES, NO]
    labels, confidences, _ = read_reply(np.array([[1, 0.5], [0, 0.25]]), 2)
    assert (labels.tolist(), confidences.tolist()) == ([YES, NO], [0.5, 0.25])


@pytest.mark.parametrize(
    "answers", ["10", b"10", None, 1, {1: 1, 0: 0}, {0, 1}, iter([1, 0]), [1], [1, 0, 0], np.array(1)]
)
def test_of_what_is_no_list_of_the_right_length_nothing_is_read(answers: object):
    assert read_reply(answers, 2)[0].tolist() == [OPEN, OPEN]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import no_such_thing", "fails when imported: ModuleNotFoundError: No module named 'no_such_thing'"),
        ("import os\nos.environ['NO_SUCH_KEY']", "fails when imported: KeyError: 'NO_SUCH_KEY'; fix it"),
        ("def label(left, right)", "fails when imported: SyntaxError"),
        ("raise SystemExit('no key')", "fails when imported: SystemExit: no key"),
        ("def other(left, right): ...", r"label of .*judge\d+.py is none; define: def label\(left, right\)"),
        ("label = ['yes']", r"is \['yes'\], no function; define"),
        ("async def label(left, right): ...", "is async; define"),
        ("def label(left): ...", "does not take two lists of texts .*; define"),
        ("def label(left, right, model): ...", "missing a required argument: 'model'"),
    ],
)  # fmt: skip
def test_a_function_that_cannot_be_is_refused(code: str, words: str, bench: Bench):
    with pytest.raises(BadOption, match=words):
        function_of(f"{write(code)}:label")


def test_a_module_that_is_not_there_is_refused(bench: Bench):
    with pytest.raises(BadOption, match=f"there is no module nowhere in {Path.cwd()}"):
        function_of("nowhere:label")
    with pytest.raises(BadOption, match=r"there is no module judge\d+.part"):
        function_of(f"{write('')}.part:label")


@pytest.mark.parametrize(
    ("option", "value"),
    [(name, 0) for name in ("pairs_per_call", "calls_at_once", "max_cost", "calls_per_minute", "call_timeout")]
    + [("retry_seconds", 61), ("max_cost", 1e13)]
    + [
        (f.name, bad)
        for f in fields(OracleConfig)
        if f.type not in (bool, LlmConfig)
        for bad in (float("nan"), float("inf"), -1.0)
    ],
)
def test_an_option_that_cannot_be_is_refused(option: str, value: float):
    with pytest.raises(BadOption, match=f"`{option}` is {value}; give"):
        OracleConfig(**{option: value})  # type: ignore[arg-type]


def test_an_interrupt_goes_through_at_once(bench: Bench):
    code = "calls = []\ndef label(left, right):\n    calls.append(1)\n    raise KeyboardInterrupt"
    asks = bench.oracle(code=code)
    with pytest.raises(KeyboardInterrupt):
        bench.bought(asks)
    assert sys.modules[asks.service.name.partition(":")[0]].calls == [1]


STALLING = """
import signal
import time
from al_ray.oracles.calls import Calls

signal.signal(signal.SIGINT, signal.default_int_handler)
calls = Calls()
calls.start("", lambda: time.sleep(600), 0.1)
print(calls.wait().outcome.ended, flush=True)
calls.start("", lambda: (print("asking", flush=True), time.sleep(600)), 600)
calls.wait()
"""


def test_neither_an_interrupt_nor_the_end_of_the_process_waits_for_a_stalled_call():
    with subprocess.Popen(
        [sys.executable, "-c", STALLING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as it:
        assert it.stdout is not None
        assert [next(it.stdout), next(it.stdout)] == ["False\n", "asking\n"]
        it.send_signal(signal.SIGINT)
        _, said = it.communicate(timeout=LONG)
    assert said.strip().endswith("KeyboardInterrupt")
    assert it.returncode == -signal.SIGINT
