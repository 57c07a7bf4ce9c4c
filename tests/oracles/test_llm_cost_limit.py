"""What a language model's server bills is within --max-cost, whatever fails and wherever a process stops."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from al_ray.active_learning.labelling import label_batch
from al_ray.core.config.llm import LlmConfig
from al_ray.core.errors import BadFile, CostReached, OracleFailed
from al_ray.core.labels import OPEN
from al_ray.oracles.llm import store
from al_ray.oracles.llm.prompt import Prompts, most_tokens
from tests.oracles.llm_server import KEY, MODEL, serving
from tests.oracles.test_llm import COUNT, LABELS, PAIR, PER_CALL, PRICE, Bench

# The client does not learn what the server bills: it counts the bound.
UNTOLD = ("cut", "drop", "garbage", "no usage", "408")
FAULTS = ("500", "503 after 0", "429 after 0", "404", "malformed", "refusal", "few", "word", "numbers", *UNTOLD)
# As rounding of sums is allowed for.
SLACK = 1 + 1e-6


@dataclass(frozen=True)
class Session:
    """A process that buys labels. factor: of the --max-cost that most sessions have.

    stored: the process ends when it has stored so many answers and has the next one, which it does not store; None if
    it is not killed.
    """

    factor: float
    per_call: int
    at_once: int
    plan: tuple[str, ...]
    stored: int | None


SESSIONS = st.builds(
    Session,
    factor=st.sampled_from((1.0, 1.0, 1.0, 0.5, 1.5)),
    per_call=st.integers(1, 6),
    at_once=st.integers(1, 3),
    plan=st.lists(st.sampled_from(("", "", *FAULTS)), max_size=6).map(tuple),
    stored=st.none() | st.integers(0, 3),
)
PRICES = st.sampled_from(((2.0, 8.0), (1 / 3, 0.0), (0.0, 0.1))) | st.tuples(*[st.floats(1e-3, 1e3)] * 2)
# Of the most tokens that a prompt, and an answer, could take: a server that takes them all leaves nothing to spare.
ALL_TOKENS = [(1.0, 1.0)]
SHARES = st.just(ALL_TOKENS) | st.lists(st.tuples(*[st.floats(0, 1)] * 2), min_size=1, max_size=5)


@pytest.fixture(scope="module")
def bench(make_task, tmp_path_factory) -> Iterator[Bench]:
    bench = Bench(make_task(True), tmp_path_factory.mktemp("run"))
    with pytest.MonkeyPatch.context() as patch, serving(bench.truth) as bench.server:
        patch.setenv("OPENAI_API_KEY", KEY)
        yield bench


@given(
    PRICES,
    SHARES,
    st.booleans(),
    st.floats(0.0, 1.0),
    st.lists(SESSIONS, min_size=1, max_size=4),
)
# What was bought and not stored in the ledger counts in the next process: there is room for 5 pairs one by one.
@example((2.0, 8.0), ALL_TOKENS, False, 5.5 / COUNT, [Session(1.0, 1, 1, (), 1), Session(1.0, 1, 1, (), None)])
# The first order of a call is charged though its second one fails: there is room for 11 requests.
@example((2.0, 8.0), ALL_TOKENS, True, 5.55 / COUNT, [Session(1.0, 1, 1, ("", "500"), None)])
@settings(max_examples=25)
def test_max_cost_holds_whatever_fails_and_no_answer_is_bought_twice(
    bench: Bench,
    prices: tuple[float, float],
    shares: list[tuple[float, float]],
    both_orders: bool,
    share: float,
    sessions: list[Session],
):
    llm = {"input_price": prices[0], "output_price": prices[1], "both_orders": both_orders}
    price = LlmConfig(input_price=prices[0], output_price=prices[1]).cost
    at = itertools.cycle(shares)

    def tokens(body: Any) -> tuple[int, int]:
        (prompt, answer), most = next(at), most_tokens(body)
        return math.floor(prompt * most[0]), math.floor(answer * most[1])

    # What all pairs cost at most, asked one by one.
    whole = sum(price(*most_tokens(Prompts(LlmConfig(model=MODEL)).request([texts]))) for texts in bench.texts)
    bench.server.reset()
    bench.server.tokens, highest = tokens, 0.0
    with TemporaryDirectory() as folder:
        bench.folder = Path(folder) / "run"
        for session in sessions:
            bench.server.plan.clear()
            bench.server.plan.extend(session.plan)
            limit = max(1e-9, session.factor * share * whole * (1 + both_orders))
            highest = max(highest, limit)
            buy(bench, session, llm, limit)
            assert math.fsum(price(*one) for one in bench.server.billed) <= highest * SLACK
        bench.server.plan.clear()
        assert bench.buy(llm, pairs_per_call=5) == LABELS
        billed, counted = math.fsum(price(*one) for one in bench.server.billed), bench.cost
        assert billed <= counted * SLACK
        if not {fault for session in sessions for fault in session.plan} & set(UNTOLD):
            assert counted == pytest.approx(billed)
        assert sum(raw["cost"] for raw in bench.raw) == pytest.approx(counted)
    assert set(Counter(bench.server.answered).values()) == {1}
    assert len(bench.server.answered) == COUNT * (1 + both_orders)


def buy(bench: Bench, session: Session, llm: dict[str, Any], limit: float) -> None:
    """Buy labels up to the end of a session; both ends that --max-cost and faults lead to are allowed."""
    # Calls under way would go on after the end of a process that is not one.
    at_once = session.at_once if session.stored is None else 1
    options = {"pairs_per_call": session.per_call, "calls_at_once": at_once, "max_cost": limit}
    try:
        if session.stored is None:
            bench.buy(llm, **options)
            return
        journal = bench.journal()
        missing = np.flatnonzero(journal.ledger.labels(1) == OPEN)
        answers = bench.oracle(journal, llm, **options).label(1, bench.batch, missing)
        for answer in itertools.islice(answers, session.stored):
            journal.ledger.add_answers(1, answer)
        next(answers, None)
    except (CostReached, OracleFailed):
        pass


def bound(bench: Bench) -> float:
    """The bound of the first request."""
    return LlmConfig(input_price=PRICE[0], output_price=PRICE[1]).cost(*most_tokens(bench.server.asked[0]))


@pytest.mark.parametrize("fault", ["", "malformed", "cut"])
def test_a_request_that_cannot_be_stored_is_counted_and_no_other_is_sent(fault: str, bench: Bench, tmp_path: Path):
    bench.server.reset(fault)
    bench.folder = tmp_path / "run"
    bench.journal()
    # Its files cannot be written, and those of the ledger can.
    (bench.folder / "llm").write_text("")
    with pytest.raises(OracleFailed, match=r"a paid request cannot be stored: .*tried once.* 0 of 12 pairs"):
        bench.buy()
    paid = bound(bench) if fault == "cut" else PER_CALL * PAIR
    assert bench.cost == pytest.approx(paid)
    # As long as nothing can be written, nothing is bought.
    with pytest.raises(BadFile, match="cannot be written"):
        bench.buy()
    assert len(bench.server.asked) == 1
    (bench.folder / "llm").unlink()
    # A reply that is bought, and not counted because the process ends, is not hidden by what was counted before.
    next(bench.oracle(bench.journal()).label(1, bench.batch, np.arange(COUNT)))
    assert bench.buy() == LABELS
    assert len(bench.server.asked) == 1 + COUNT // PER_CALL
    assert bench.cost == pytest.approx(paid + COUNT * PAIR)
    assert sum(raw["cost"] for raw in bench.raw) == pytest.approx(bench.cost)


def test_a_reply_that_was_stored_although_writing_it_failed_is_counted_once(bench: Bench, tmp_path: Path):
    """An object store took it, and the connection was cut before it said so."""
    bench.server.reset()
    bench.folder, write = tmp_path / "run", store.write_json

    def write_and_fail(path: Any, content: Any) -> None:
        write(path, content)
        raise BadFile("503 SlowDown")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "write_json", write_and_fail)
        with pytest.raises(OracleFailed, match="503 SlowDown"):
            bench.buy()
    assert bench.cost == pytest.approx(PER_CALL * PAIR)
    assert bench.buy() == LABELS
    assert bench.server.pairs == bench.texts
    assert bench.cost == pytest.approx(COUNT * PAIR)
    assert sum(raw["cost"] for raw in bench.raw) == pytest.approx(bench.cost)


def test_an_unforeseen_failure_is_charged_with_the_bound(bench: Bench, tmp_path: Path):
    bench.server.reset()
    bench.folder = tmp_path / "run"
    oracle = bench.oracle(journal := bench.journal(), retries=1)
    complete = oracle.service.client.complete

    def complete_and_fail(request: Any, bound: float) -> Any:
        complete(request, bound)
        raise TypeError(f"not foreseen: {KEY}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracle.service.client, "complete", complete_and_fail)
        with pytest.raises(OracleFailed, match=r"TypeError: not foreseen: \[key\].*tried 2 times"):
            label_batch(1, journal.ledger, oracle)
    assert bench.cost == pytest.approx(2 * bound(bench))
    assert sum(raw["cost"] for raw in bench.raw) == pytest.approx(bench.cost)
