"""A request to a language model without an answer in time is charged with its bound: once, and on disk."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from al_ray.core.errors import OracleFailed
from al_ray.oracles import function
from al_ray.oracles.llm.prompt import most_tokens
from tests.oracles.llm_server import KEY, serving
from tests.oracles.test_llm import COUNT, LABELS, PAIR, PER_CALL, PRICE, Bench


@pytest.fixture
def bench(make_task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """The time of the first call is over as soon as the server stalls it."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    bench = Bench(make_task(True), tmp_path / "run")
    stalled = list[bool]()

    class Stalled(function.Calls[Any]):
        def start(self, request: Any, function: Any, seconds: float) -> None:
            super().start(request, function, 1e9 if stalled else 0.0)
            if not stalled:
                stalled.append(bench.server.stalling.acquire(timeout=600))

    monkeypatch.setattr(function, "Calls", Stalled)
    with serving(bench.truth) as bench.server:
        yield bench


def bound(bench: Bench) -> float:
    """The bound of the first request."""
    most = most_tokens(bench.server.asked[0])
    return (most[0] * PRICE[0] + most[1] * PRICE[1]) / 1e6


def await_late_replies(bench: Bench) -> None:
    """End the stalls, and wait until the calls that stalled have ended."""
    bench.server.released.set()
    for thread in threading.enumerate():
        if thread.name.endswith("(work)"):
            thread.join()


def test_it_is_charged_with_its_bound_and_asked_again(bench: Bench):
    bench.server.reset("stall")
    assert bench.buy() == LABELS
    assert len(bench.server.asked) == 4
    assert bench.cost == pytest.approx(bound(bench) + COUNT * PAIR)
    assert sum(raw["cost"] for raw in bench.raw) == pytest.approx(bench.cost)


@pytest.mark.parametrize("both_orders", [False, True])
def test_a_late_reply_costs_nothing_more(both_orders: bool, bench: Bench):
    bench.server.reset("stall")
    assert bench.buy({"both_orders": both_orders}) == LABELS
    await_late_replies(bench)
    assert sum(raw["cost"] for raw in bench.raw) == pytest.approx(bench.cost)
    assert bench.cost == pytest.approx((1 + both_orders) * (bound(bench) + COUNT * PAIR))


def test_of_two_orders_the_first_is_charged_with_its_tokens_once(bench: Bench):
    """The second order stalls: the bounds of both are charged, of which the first order's tokens are a part."""
    bench.server.reset("", "stall")
    assert bench.buy({"both_orders": True}) == LABELS
    await_late_replies(bench)
    assert sum(raw["cost"] for raw in bench.raw) == pytest.approx(bench.cost)


def test_its_charge_does_not_hide_that_of_an_answer_that_was_bought_and_not_counted(bench: Bench):
    bench.server.reset("stall")
    answers = bench.oracle(journal := bench.journal()).label(1, bench.batch, np.arange(COUNT))
    journal.ledger.add_answers(1, next(answers))
    # Asked again, on disk, and never stored in the ledger, as if the process had been killed here.
    assert len(next(answers).rows) == PER_CALL
    assert bench.buy() == LABELS
    assert bench.cost == pytest.approx(bound(bench) + COUNT * PAIR)


def test_a_charge_that_cannot_be_stored_is_counted_and_the_run_stops(bench: Bench):
    bench.server.reset("stall")
    bench.journal()
    (bench.folder / "llm").write_text("")
    with pytest.raises(OracleFailed, match=r"no answer within .*, and a paid request cannot be stored: .* 0 of 12"):
        bench.buy()
    assert bench.cost == pytest.approx(bound(bench))
    (bench.folder / "llm").unlink()
    await_late_replies(bench)
    assert bench.buy() == LABELS
    # The late reply is on disk, is not bought again, and costs no more than the bound.
    assert bench.cost == pytest.approx(bound(bench) + (COUNT - PER_CALL) * PAIR)
    assert sum(raw["cost"] for raw in bench.raw) == pytest.approx(bench.cost)
