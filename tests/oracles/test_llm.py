"""--oracle llm before a server on loopback that speaks the protocol, and fails, refuses and misanswers as planned."""

import json
import logging
import shutil
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from ray.serve.schema import ServeDeploySchema

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.labelling import label_batch
from al_ray.core.config.llm import LlmConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.errors import BadFile, BadOption, CostReached, DryRun, OracleFailed
from al_ray.core.labels import NO, OPEN, UNSURE, YES, Batch, make_answers
from al_ray.core.pairs import as_pairs
from al_ray.core.progress import no_progress
from al_ray.core.task import Task
from al_ray.oracles.llm.client import _retry_after, check_url
from al_ray.oracles.llm.oracle import LlmOracle
from al_ray.oracles.llm.prompt import FORMAT, Prompts, digest_of, most_tokens, read_content
from al_ray.oracles.registry import OracleRequest, make_oracle
from al_ray.runs.run_folder import RunFolder
from tests.oracles.llm_server import KEY, MODEL, TOKENS, LlmServer, pairs_of, serving

COUNT, PER_CALL = 12, 4
TRUTH = ["yes", "no", "unsure"] * 4
LABELS = [YES, NO, UNSURE] * 4
PRICE = 2.0, 8.0  # Of a million tokens.
PAIR = (TOKENS[0] * PRICE[0] + TOKENS[1] * PRICE[1]) / 1e6


class Bench:
    """Twelve pairs, a run folder, and a server that knows their labels either way round."""

    def __init__(self, task: Task, folder: Path) -> None:
        space = task.split("train").space
        self.task, self.folder, self.server = task, folder, LlmServer({})
        pairs = as_pairs(np.repeat(space.left[:3], 4), np.tile(space.right[:4], 3))
        if task.symmetric:
            pairs = space.pairs(space.at(np.arange(COUNT)))
        self.batch = Batch(pairs, np.zeros(COUNT), "seed")
        self.texts = list(zip(*task.texts_of(pairs), strict=True))
        truth = dict(zip(self.texts, TRUTH, strict=True))
        self.truth = {(right, left): word for (left, right), word in truth.items()} | truth

    def journal(self) -> RunFolder:
        journal = RunFolder(self.folder, self.task)
        if journal.ledger.batch(1) is None:
            journal.ledger.add_batch(1, self.batch)
        return journal

    def oracle(self, journal: RunFolder, llm: dict[str, Any] | None = None, **options: Any) -> LlmOracle:
        base = {"model": MODEL, "base_url": self.server.url, "input_price": PRICE[0], "output_price": PRICE[1]}
        config = LlmConfig(**{**base, **(llm or {})})
        made = OracleConfig(
            **{"pairs_per_call": PER_CALL, "retry_seconds": 0.0, "retries": 2, "llm": config, **options}
        )
        run = RunConfig(task="t", oracle="llm", threads=1)
        oracle = make_oracle(OracleRequest(run, made, journal, no_progress))
        assert isinstance(oracle, LlmOracle)
        return oracle

    def buy(self, llm: dict[str, Any] | None = None, **options: Any) -> list[int]:
        journal = self.journal()
        return label_batch(1, journal.ledger, self.oracle(journal, llm, **options))[1].tolist()

    @property
    def cost(self) -> float:
        return RunFolder(self.folder, self.task).ledger.cost()

    @property
    def raw(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted((self.folder / "llm").glob("*.json"))]


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


def test_each_pair_is_asked_once_and_its_raw_answer_is_kept(bench: Bench):
    assert bench.buy() == LABELS
    assert bench.server.pairs == bench.texts
    assert set(bench.server.keys) == {f"Bearer {KEY}"}
    assert bench.cost == pytest.approx(COUNT * PAIR)
    pieces = list(bench.journal().ledger.answers(1))
    assert {piece.by for piece in pieces} == {f"llm:{MODEL}"}
    assert {value for piece in pieces for value in piece.confidences.tolist()} == {0.75}
    assert [len(raw["answers"]) for raw in bench.raw] == [PER_CALL] * 3
    assert sum(raw["cost"] for raw in bench.raw) == pytest.approx(bench.cost)
    assert bench.raw[0]["request"] == bench.server.asked[0]


@pytest.mark.parametrize(
    ("fault", "again", "paid"),
    [
        # How many pairs are asked again, and for how many pairs of the failed request is paid; None: for its bound.
        *(("500", 4, 0), ("429 after 0", 4, 0), ("503 after 0", 4, 0), ("malformed", 4, 4), ("refusal", 4, 4)),
        *(("few", 1, 4), ("word", 1, 4), ("numbers", 4, 4), ("cut", 4, None), ("drop", 4, None)),
        ("garbage", 4, None),
    ],
)
def test_what_was_not_answered_is_asked_again(fault: str, again: int, paid: int | None, bench: Bench):
    bench.server.reset(fault)
    assert bench.buy() == LABELS
    assert len(bench.server.pairs) == COUNT + again
    if paid is None:
        assert bench.cost > COUNT * PAIR
        most = most_tokens(bench.server.asked[0])
        paid_for = (most[0] * PRICE[0] + most[1] * PRICE[1]) / 1e6
    else:
        paid_for = paid * PAIR
    kept = paid if again < 4 and paid else 0
    assert bench.cost == pytest.approx(paid_for + (COUNT - (kept - again if kept else 0)) * PAIR)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (["refusal"] * 3, "the model refuses"),
        (["malformed"] * 3, "not JSON; it was cut off after 288 tokens: give more `llm.output_tokens`"),
        (["500"] * 3, "HTTP 500: no: "),
        (["401"], "refuses the key"),
        (["404"], "HTTP 404"),
        (["dear"], "the server charges"),
        (["", "model other"], "answers as 'other', and before as 'judge-1'|llm.accept_model=NAME"),
        (["429 after 7200"], "asks to wait 7,200 s"),
    ],
)
def test_it_stops_when_asking_again_does_not_help_and_the_key_is_nowhere(
    plan: list[str], message: str, bench: Bench, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    bench.server.reset(*plan)
    with pytest.raises(OracleFailed, match=message) as failure:
        bench.buy()
    chain: list[BaseException | None] = [failure.value]
    while chain[-1] is not None:
        chain.append(chain[-1].__cause__ or chain[-1].__context__)
    said = " ".join(f"{one!r} {one} {vars(one)}" for one in chain[:-1] if one is not None) + caplog.text
    files = b"".join(path.read_bytes() for path in bench.folder.rglob("*") if path.is_file())
    for secret in (KEY, "sk-pl****cdef"):
        assert secret not in said
        assert secret.encode() not in files
    assert len(bench.server.asked) == len(plan)


@pytest.mark.parametrize("fault", ["few", "word"])
def test_the_message_counts_the_pairs_that_were_answered(fault: str, bench: Bench):
    bench.server.reset(fault)
    with pytest.raises(OracleFailed, match="`oracle='llm'`: the model answered 3 of 4 pairs"):
        bench.buy(retries=0)


def test_pairs_of_the_same_texts_are_asked_once(bench: Bench):
    one, other = bench.texts[:2]
    reply = bench.oracle(bench.journal()).service.ask(*map(list, zip(one, other, one, strict=True)))
    assert bench.server.pairs == [one, other]
    assert reply.answers == [(TRUTH[place], 0.75) for place in (0, 1, 0)]
    assert reply.cost == pytest.approx(2 * PAIR)


def test_a_server_that_cannot_be_reached_costs_nothing(bench: Bench):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        # Bound and not listening: no other process can take the port, and nothing answers there.
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        with pytest.raises(OracleFailed, match="the connection failed"):
            bench.buy({"base_url": url})
    assert bench.cost == 0


def test_the_configuration_of_ray_serve_in_the_guide_fits_its_schema():
    guide = (Path(__file__).parents[2] / "docs" / "llm.md").read_text(encoding="utf-8")
    content = yaml.safe_load(guide.partition("```yaml\n")[2].partition("```")[0])
    (application,) = ServeDeploySchema.model_validate(content).applications
    assert application.import_path == "ray.serve.llm:build_openai_app"


def test_the_key_is_not_in_what_is_kept_of_a_round_that_went_well(bench: Bench):
    bench.server.reset("429 after 0", "refusal")
    bench.buy()
    assert not [path for path in bench.folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def test_another_model_is_accepted_when_it_is_named(bench: Bench):
    bench.server.reset("", "model other", "model other")
    assert bench.buy({"accept_model": "other"}) == LABELS


@pytest.mark.parametrize("calls_at_once", [1, 3])
def test_max_cost_holds_to_the_cent(calls_at_once: int, bench: Bench):
    prompts, price = Prompts(LlmConfig(model=MODEL)), LlmConfig(input_price=PRICE[0], output_price=PRICE[1]).cost
    bounds = [price(*most_tokens(prompts.request(bench.texts[at : at + PER_CALL]))) for at in range(0, COUNT, PER_CALL)]
    assert min(bounds) > PER_CALL * PAIR
    # Enough for the bound of the second request after the first was paid, and not for the third after both.
    limit = max(bounds) + 1.9 * PER_CALL * PAIR
    assert bounds[2] + 2 * PER_CALL * PAIR > limit
    with pytest.raises(CostReached, match="stopped by `max_cost="):
        bench.buy(max_cost=limit, calls_at_once=calls_at_once)
    assert bench.cost == pytest.approx(2 * PER_CALL * PAIR)
    assert bench.cost <= limit
    assert bench.buy(max_cost=1.0) == LABELS


def test_a_reply_without_usage_costs_its_bound(bench: Bench):
    bench.server.reset("no usage")
    bench.buy()
    most = most_tokens(bench.server.asked[0])
    bound = (most[0] * PRICE[0] + most[1] * PRICE[1]) / 1e6
    assert bench.cost == pytest.approx(bound + (COUNT - PER_CALL) * PAIR)


def test_a_stop_between_the_raw_answer_and_its_label_buys_nothing_twice(bench: Bench):
    journal = bench.journal()
    # Asked, on disk, and never stored in the ledger, as if the process had been killed here.
    next(bench.oracle(journal).label(1, bench.batch, np.arange(COUNT)))
    assert bench.cost == 0
    # In groups of another size, too.
    assert bench.buy(pairs_per_call=3) == LABELS
    assert bench.server.pairs == bench.texts
    assert bench.cost == pytest.approx(COUNT * PAIR)


@pytest.mark.parametrize("both_orders", [False, True])
def test_answers_that_an_earlier_version_stored_are_not_bought_again(both_orders: bool, bench: Bench):
    """Its keys held the most tokens of an answer, too."""
    options = {"both_orders": both_orders, "output_tokens": 96}
    assert bench.buy(options) == LABELS
    system = Prompts(LlmConfig(model=MODEL)).system
    for path, raw in zip(sorted((bench.folder / "llm").glob("*.json")), bench.raw, strict=True):
        keys = [digest_of([MODEL, system, FORMAT, 96, *texts]) for texts in pairs_of(raw["request"])]
        path.write_text(json.dumps({**raw, "keys": keys}))
    shutil.rmtree(bench.folder / "round-001")
    asked = len(bench.server.pairs)
    assert bench.buy(options) == LABELS
    assert len(bench.server.pairs) == asked == COUNT * (1 + both_orders)


@pytest.mark.parametrize(
    ("plan", "llm", "paid"),
    [
        # Pairs that are paid for before the stop and after it.
        (["malformed"] * 3, {}, 12 + 12),
        (["few", "404"], {}, 4 + 1 + 8),
        (["", "500", "500", "500"], {"both_orders": True}, 24),
    ],
)
def test_what_failed_before_a_stop_is_counted_once(plan: list[str], llm: dict[str, Any], paid: int, bench: Bench):
    bench.server.reset(*plan)
    with pytest.raises(OracleFailed):
        bench.buy(llm)
    assert bench.buy(llm) == LABELS
    assert bench.cost == pytest.approx(paid * PAIR)


def test_what_was_bought_and_not_counted_is_within_the_limit(bench: Bench):
    """A cut connection is charged with its bound, and the answer after it was bought as the process ended."""
    bench.server.reset("cut")
    answers = bench.oracle(journal := bench.journal()).label(1, bench.batch, np.arange(COUNT))
    journal.ledger.add_answers(1, next(answers))
    next(answers)
    bound = bench.cost
    bench.server.reset()
    with pytest.raises(CostReached, match=f"labels cost {bound + PER_CALL * PAIR:,.6g} so far"):
        bench.buy(max_cost=bound + PER_CALL * PAIR)
    assert bench.server.asked == []
    assert bench.cost == pytest.approx(bound + PER_CALL * PAIR)
    assert sum(raw["cost"] for raw in bench.raw) == pytest.approx(bench.cost)


@pytest.mark.parametrize("key", ["1", "a", "token", "no"])
def test_a_short_key_that_occurs_in_answers_does_not_change_them(
    key: str, bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    assert bench.buy() == LABELS
    assert bench.cost == pytest.approx(COUNT * PAIR)


def test_the_url_may_be_in_the_environment(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("OPENAI_BASE_URL", bench.server.url)
    assert bench.buy({"base_url": None}) == LABELS
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:password@127.0.0.1/v1")
    with pytest.raises(BadOption, match="OPENAI_BASE_URL holds a user") as refusal:
        bench.oracle(bench.journal(), {"base_url": None})
    assert "user:password" not in str(refusal.value)


def test_the_time_to_wait_may_be_a_date():
    date = "Wed, 25 Nov 2026 20:00:00 GMT"
    assert _retry_after({"date": date, "retry-after": "Wed, 25 Nov 2026 20:01:40 GMT"}) == 100
    assert _retry_after({"date": date, "retry-after": "Wed, 25 Nov 2026 19:00:00 GMT"}) == 0
    assert _retry_after({"date": date, "retry-after": "soon"}) is None
    assert _retry_after({}) is None


def test_a_damaged_raw_answer_is_refused(bench: Bench):
    bench.buy()
    (bench.folder / "llm" / "00001.json").write_text("{}")
    with pytest.raises(BadFile, match=r"00001\.json"):
        bench.oracle(bench.journal())


def test_both_orders_that_disagree_are_unsure(bench: Bench):
    left, right = bench.texts[0]
    bench.server.truth = {**bench.truth, (right, left): "no"}
    try:
        assert bench.buy({"both_orders": True}) == [UNSURE, *LABELS[1:]]
    finally:
        bench.server.truth = bench.truth
    assert len(bench.server.pairs) == 2 * COUNT
    assert bench.cost == pytest.approx(2 * COUNT * PAIR)


def test_the_second_order_alone_is_asked_again_when_it_failed(bench: Bench):
    bench.server.reset("", "500")
    assert bench.buy({"both_orders": True}) == LABELS
    assert len(bench.server.asked) == 2 * 3 + 1
    assert bench.cost == pytest.approx(2 * COUNT * PAIR)


def test_examples_are_of_earlier_rounds_and_people(bench: Bench):
    journal = bench.journal()
    journal.ledger.add_answers(1, make_answers(np.arange(6), np.array([0, 1] * 3, np.uint8), "people"))
    journal.ledger.add_answers(1, make_answers(np.arange(6, 12), np.array([0, 1] * 3, np.uint8), "llm:x"))
    journal.ledger.seal(1)
    space = bench.task.split("train").space
    batch = Batch(space.pairs(space.at(np.arange(COUNT, COUNT + 3))), np.zeros(3), "x")
    oracle = bench.oracle(journal, {"examples": 4})
    examples = oracle._examples(2, batch)
    assert examples == oracle._examples(2, batch)
    assert [one.answer for one in examples].count("yes") == 2
    stated = np.concatenate([bench.task.split("train").positives, bench.task.split("train").stated_negatives])
    allowed = set(zip(*bench.task.texts_of(stated), strict=True)) | set(bench.texts[:6])
    assert {one.texts for one in examples} <= allowed


def test_a_dry_run_prints_and_buys_nothing(bench: Bench):
    with pytest.raises(DryRun, match="nothing was bought; the 12 open pairs of round 1 would cost at most") as end:
        bench.buy({"dry_run": True})
    assert json.dumps(bench.texts[0][0])[1:-1] in str(end.value)
    assert bench.server.asked == []
    assert not (bench.journal().ledger.labels(1) != OPEN).any()


@pytest.mark.parametrize(
    ("llm", "options", "message"),
    [
        ({"model": ""}, {}, "give `llm.model`"),
        ({"input_price": None}, {"max_cost": 1.0}, "`llm.input_price`"),
        ({"definition": "@nowhere.txt"}, {}, "nowhere.txt'` cannot be read"),
    ],
)
def test_bad_options_are_refused(llm, options, message, bench: Bench):
    with pytest.raises((BadOption, BadFile), match=message):
        bench.buy(llm, **options)


@pytest.mark.parametrize("url", ["nowhere", "ftp://a/b", "http://u:p@h/v1", "http://h/v1?key=1", "http://[/"])
def test_a_bad_url_is_refused_without_being_repeated(url: str):
    with pytest.raises(BadOption, match=r"llm\.base_url") as refusal:
        check_url(url, "`llm.base_url`")
    assert url not in str(refusal.value)


@pytest.mark.parametrize("key", ["sk-…abc", "sk-abc\ndef", "sk-ábc"])
def test_a_key_that_no_header_can_hold_is_refused_before_a_request(
    key: str, bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(BadOption, match="OPENAI_API_KEY has characters that no key has") as refusal:
        bench.buy()
    assert key not in str(refusal.value)
    assert bench.server.asked == []


def test_without_a_key_there_must_be_a_server(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(BadOption, match="OPENAI_API_KEY"):
        bench.oracle(bench.journal(), {"base_url": None})
    assert bench.buy() == LABELS
    assert replace(LlmConfig(), model="a").cost(10**6, 10**6) == 0


@pytest.mark.parametrize("text", ["", "é" * 40, "\ud800", "日本" * 9, '"\\\n', "🙂" * 5])
def test_the_bound_of_a_prompt_counts_bytes(text: str):
    request = Prompts(LlmConfig(model=MODEL)).request([(text, "b")])
    said = "".join(message["content"] for message in request["messages"])
    assert most_tokens(request)[0] >= len(said.encode("utf-8", errors="surrogatepass"))


def test_answers_are_read_by_their_number():
    content = json.dumps({"answers": [{"pair": 2, "answer": "no", "confidence": 1}]})
    assert read_content(content, 2) == ([None, ("no", 1.0)], "the model answered 1 of 2 pairs")
