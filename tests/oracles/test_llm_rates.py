"""When requests to a language model start, by a clock of the test's own: limits of rates, and waits of the server's."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from al_ray.core.config.llm import LlmConfig
from al_ray.oracles import function
from al_ray.oracles.llm.prompt import Prompts, most_tokens
from tests.oracles.llm_server import KEY, MODEL, serving
from tests.oracles.test_llm import COUNT, LABELS, PER_CALL, Bench

RATE = 5_000


@pytest.fixture(scope="module")
def running(make_task, tmp_path_factory) -> Iterator[Bench]:
    bench = Bench(make_task(True), tmp_path_factory.mktemp("run"))
    with serving(bench.truth) as bench.server:
        yield bench


@pytest.fixture
def bench(running: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    running.server.reset()
    running.folder = tmp_path / "run"
    return running


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds at which calls started, by a clock that moves only when the oracle waits with no call under way."""
    now, starts = [0.0], list[float]()

    class Clocked(function.Calls[Any]):
        def start(self, request: Any, function: Any, seconds: float) -> None:
            starts.append(now[0])
            super().start(request, function, 1e9)

        def wait(self, until: float = float("inf")) -> Any:
            if not self.running:
                now[0] = max(now[0], until)
                return None
            return super().wait()

    monkeypatch.setattr(function, "Calls", Clocked)
    monkeypatch.setattr(function, "monotonic", lambda: now[0])
    return starts


def tokens_of(bench: Bench) -> list[int]:
    """The most tokens of each request, where none fails."""
    parts = [bench.texts[first : first + PER_CALL] for first in range(0, COUNT, PER_CALL)]
    return [sum(most_tokens(Prompts(LlmConfig(model=MODEL)).request(part))) for part in parts]


def test_a_wait_that_the_server_asks_for_holds_for_every_request(bench: Bench, starts: list[float]):
    """The second request starts 30 s after the reply to the first, not after a second."""
    bench.server.reset("429 after 30")
    assert bench.buy() == LABELS
    assert starts == [0, 30, 30, 30]


def test_requests_per_minute_hold(bench: Bench, starts: list[float]):
    assert bench.buy({"requests_per_minute": 6}) == LABELS
    assert starts == [0, 10, 20]


@pytest.mark.parametrize("calls_at_once", [1, 3])
@pytest.mark.parametrize("both_orders", [False, True])
def test_tokens_per_minute_hold(both_orders: bool, calls_at_once: int, bench: Bench, starts: list[float]):
    """A call starts when the tokens of all calls before it, those of both orders, are within the rate."""
    llm = {"tokens_per_minute": RATE, "both_orders": both_orders}
    assert bench.buy(llm, calls_at_once=calls_at_once) == LABELS
    # Either way round a request has as many bytes.
    seconds = [(1 + both_orders) * tokens / RATE * 60 for tokens in tokens_of(bench)]
    assert starts == pytest.approx([0, seconds[0], seconds[0] + seconds[1]])
    asked = [sum(most_tokens(body)) for body in bench.server.asked]
    assert sum(asked) == (1 + both_orders) * sum(tokens_of(bench))


def test_requests_that_are_sent_again_count_for_tokens_per_minute(bench: Bench, starts: list[float]):
    bench.server.reset("500", "few")
    assert bench.buy({"tokens_per_minute": RATE}) == LABELS
    asked = [sum(most_tokens(body)) for body in bench.server.asked]
    # The first request three times, the third time for one pair, then the others.
    assert len(asked) == 5
    assert asked[2] < asked[1] == asked[0]
    assert starts == pytest.approx([0, *itertools.accumulate(tokens / RATE * 60 for tokens in asked[:-1])])


@pytest.mark.parametrize(("requests", "slower"), [(1, "requests"), (1e6, "tokens")])
def test_of_two_rates_the_slower_one_holds(requests: float, slower: str, bench: Bench, starts: list[float]):
    bench.buy({"tokens_per_minute": RATE, "requests_per_minute": requests})
    # About 1,500 tokens of a request are at least 12 s and less than 60.
    assert 1_000 < tokens_of(bench)[0] < RATE
    assert starts[1] == pytest.approx(60 if slower == "requests" else tokens_of(bench)[0] / RATE * 60)


def test_a_wait_of_the_server_that_is_shorter_than_the_rate_changes_nothing(bench: Bench, starts: list[float]):
    bench.server.reset("429 after 1")
    bench.buy({"tokens_per_minute": RATE})
    tokens = tokens_of(bench)
    times = itertools.accumulate(one / RATE * 60 for one in (tokens[0], tokens[0], tokens[1]))
    assert starts == pytest.approx([0, *times])
