"""An audit that a language model and people label, before a server on loopback: who is asked what, and only once."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import al_ray
from al_ray.api.audits import Audit
from al_ray.apps.audit.folder import AuditFolder
from al_ray.apps.audit.labelled_audit import read_labelled
from al_ray.cli import audit
from al_ray.cli._shared import entry
from al_ray.core.config.llm import LlmConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.errors import BadOption, CostReached, DryRun, OracleFailed, WrongFolder
from al_ray.core.labels import NO, OPEN, UNSURE, YES
from al_ray.oracles.llm.store import AnswerStore, RawAnswer
from tests.apps.audit.test_audit_job import fill, knows, run_folder
from tests.oracles.llm_server import KEY, MODEL, TOKENS, LlmServer, Texts, serving

ROOT = Path(__file__).resolve().parents[3]
CONFIG = al_ray.AuditConfig(split="train", by_score=True, top=200, budget=40, oracle="llm", answers=160)
# A million tokens of a prompt, and of an answer.
PRICE = 2.0, 8.0
PAIR = (TOKENS[0] * PRICE[0] + TOKENS[1] * PRICE[1]) / 1e6


class Judge(dict[Texts, str]):
    """The truth, but for pairs whose texts have a certain length: unsure, or wrong."""

    def __init__(self, word) -> None:
        super().__init__()
        self.word = word

    def __missing__(self, texts: Texts) -> str:
        length = len(texts[0]) + 3 * len(texts[1])
        if length % 11 == 0:
            return "unsure"
        word = self.word(texts)
        return word if length % 7 else {"yes": "no", "no": "yes"}[word]


@pytest.fixture(scope="module")
def ran(in_process, make_task, tmp_path_factory):
    """A run, and the judge of its pairs."""
    task = make_task(True, clusters=12, members=6)
    return run_folder(tmp_path_factory.mktemp("model"), task), knows(task, "train")


@pytest.fixture(scope="module")
def running(ran):
    with serving(Judge(ran[1])) as server:
        yield server


@pytest.fixture
def server(running: LlmServer, monkeypatch) -> LlmServer:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    running.reset()
    return running


def options(server: LlmServer, llm=None, **more) -> OracleConfig:
    made = {"model": MODEL, "base_url": server.url, "input_price": PRICE[0], "output_price": PRICE[1], **(llm or {})}
    return OracleConfig(**{"retry_seconds": 0.0, "retries": 1, "llm": LlmConfig(**made), **more})


def sample(ran, server: LlmServer, out: Path, config=CONFIG, **more) -> Audit:
    return al_ray.sample_audit(al_ray.load_run(ran[0]), config, out, oracle_options=options(server, **more))


def test_the_model_answers_many_pairs_once_and_people_some_of_each_cell(ran, server, tmp_path):
    made = sample(ran, server, tmp_path / "audit")
    folder = AuditFolder(made.path)
    first, (codes, _, people) = folder.first(), folder.key()
    assert (len(first.answers), len(codes), made.pairs) == (160, 40, 40)
    assert Counter(server.pairs).most_common(1)[0][1] == 1
    task = al_ray.load_run(ran[0]).folder.task
    texts = list(zip(*task.texts_of(first.drawn.pairs), strict=True))
    assert [("no", "yes", "unsure")[one] for one in first.answers.tolist()] == [server.truth[one] for one in texts]
    # The pairs of people are of the first sample, under the codes of their sheet, and both samples have each cell.
    of_code = dict(zip(first.codes, first.drawn.pairs.tolist(), strict=True))
    assert [of_code[code] for code in codes] == people.pairs.tolist()
    asked = [code != "" for code in first.codes]
    assert {NO, YES} <= set(first.answers[asked].tolist())
    # People must not see what the model said.
    assert "judge" not in (made.path / "audit.csv").read_text(encoding="utf-8-sig").lower()
    said = "\n".join(made.lines())
    assert f"llm:{MODEL} answered 160 pairs: " in said
    assert f" for {len(server.pairs) * PAIR:.6g}" in said
    assert "people answer 40 of these" in said
    # The same again asks nothing.
    assert not sample(ran, server, tmp_path / "audit").written
    assert len(server.pairs) == len(set(texts))


def test_an_estimate_takes_no_answer_of_the_model_for_that_of_people(ran, server, tmp_path):
    path = sample(ran, server, tmp_path / "audit").path
    fill(path, ran[1])
    found = al_ray.estimate_audit(path)
    assert (found.figures["yes"] + found.figures["no"], sum(found.figures["model_answers"].values())) == (40, 160)
    cells = [cell for band in found.figures["bands"] for cell in band["cells"].values()]
    assert sum(cell["drawn"] for cell in cells) == 160
    assert sum(cell["answered"] for cell in cells) == 40
    for at in found.figures["thresholds"]:
        assert 0 <= at["precision"]["low"] <= at["precision"]["value"] <= at["precision"]["high"] <= 1
    assert f"people and llm:{MODEL} agree on " in found.text
    # What the model said decides cells alone: people who contradict it are believed.
    refill(ran, server, path, lambda pair: "no")
    contrary = al_ray.estimate_audit(path)
    assert [at["precision"]["value"] for at in contrary.figures["thresholds"]] < [0.5] * 9
    # Unsure is no answer: as if the pair had not been drawn.
    refill(ran, server, path, lambda pair: "unsure" if ran[1](pair) == "no" else "yes")
    labels = read_labelled(path, None, True).bands.labels
    assert set(labels.tolist()) <= {YES, UNSURE, OPEN}
    assert al_ray.estimate_audit(path).figures["no"] == 0
    with pytest.raises(BadOption, match="go with audits that people alone label"):
        al_ray.estimate_audit(path, threshold_for=["precision=0.5"])
    with pytest.raises(BadOption, match="go with audits that people alone label"):
        al_ray.estimate_audit(path, update_scorer=True)


def test_a_dry_run_says_who_answers_what_and_what_it_costs_and_sends_nothing(ran, server, tmp_path):
    with pytest.raises(DryRun) as shown:
        sample(ran, server, tmp_path / "audit", llm={"dry_run": True})
    said = str(shown.value)
    assert "Two texts match if they describe the same thing" in said
    assert f"llm:{MODEL} answers 160 pairs, of which 0 are stored: 10 requests for about " in said
    assert "people answer 40 of these pairs" in said
    assert not server.asked
    assert not (tmp_path / "audit" / "audit.csv").exists()
    # Nothing was bought, so that other sizes may follow in the same folder.
    smaller = al_ray.AuditConfig(split="train", by_score=True, top=200, budget=20, oracle="llm", answers=60)
    assert sample(ran, server, tmp_path / "audit", smaller).pairs == 20
    assert len(server.pairs) <= 60


def test_the_limit_of_cost_stops_and_a_higher_one_continues_without_buying_twice(ran, server, tmp_path):
    with pytest.raises(CostReached, match="pairs of the audit are open"):
        sample(ran, server, tmp_path / "audit", max_cost=0.018)
    bought = list(server.pairs)
    assert 0 < len(bought) < 160
    # What was bought is of these options.
    other = al_ray.AuditConfig(split="train", by_score=True, top=200, budget=20, oracle="llm", answers=60)
    with pytest.raises(WrongFolder, match=r"has bought answers for an audit with other options \(budget: 40 there, 20"):
        sample(ran, server, tmp_path / "audit", other)
    with pytest.raises(WrongFolder, match="question: "):
        sample(ran, server, tmp_path / "audit", llm={"definition": "Two texts match if they rhyme."})
    assert sample(ran, server, tmp_path / "audit", max_cost=1.0).pairs == 40
    assert max(Counter(server.pairs).values()) == 1
    assert AnswerStore(tmp_path / "audit").cost == pytest.approx(len(server.pairs) * PAIR)


def test_pairs_that_get_no_readable_answer_are_a_part_of_the_other_cell(ran, server, tmp_path):
    server.reset("refusal", "refusal")
    made = sample(ran, server, tmp_path / "audit")
    answers = AuditFolder(made.path).first().answers
    assert (answers == OPEN).sum() == 16
    assert "16 without a readable answer" in "\n".join(made.lines())
    fill(made.path, ran[1])
    assert al_ray.estimate_audit(made.path).figures["model_answers"]["open"] == 16
    # A server that cannot be asked gives no answers up.
    server.reset(*["401"] * 2)
    with pytest.raises(OracleFailed, match="refuses the key"):
        sample(ran, server, tmp_path / "other")


def test_the_command_does_the_same_and_prints_it(ran, server, tmp_path, monkeypatch, capsys):
    line = (
        f"sample --run {ran[0]} --split train --by-score --top 200 --budget 40 --oracle llm --answers 160 "
        f"--llm.model {MODEL} --llm.base-url {server.url} --out {tmp_path / 'audit'} --retry-seconds 0"
    )
    do(monkeypatch, f"{line} --llm.dry-run")
    assert "for an unknown price (give --llm.input-price and --llm.output-price)" in capsys.readouterr().out
    do(monkeypatch, line)
    said = capsys.readouterr().out
    assert f"llm:{MODEL} answered 160 pairs: " in said
    assert "audit estimate --audit" in said
    fill(tmp_path / "audit", ran[1])
    do(monkeypatch, f"estimate --audit {tmp_path / 'audit'}")
    said = capsys.readouterr().out
    assert f"llm:{MODEL} says" in said
    assert json.loads((tmp_path / "audit" / "estimate.json").read_text())["asked"]["oracle"] == f"llm:{MODEL}"
    # The same pairs as by the function.
    mine = AuditFolder(sample(ran, server, tmp_path / "mine").path).first()
    assert mine.codes == AuditFolder(tmp_path / "audit").first().codes
    with pytest.raises(SystemExit) as end:
        do(monkeypatch, f"estimate --audit {tmp_path / 'audit'} --update-scorer")
    assert end.value.code == 2
    assert "--threshold-for and --update-scorer go with audits that people alone label" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("config", "more", "words"),
    [
        ({"by_score": False, "budget": None, "top": None}, {}, "`oracle` goes with `by_score=True`"),
        ({"oracle": None}, {}, "`answers` goes with `oracle='llm'`"),
        ({"answers": 30}, {}, "`answers=30` is less than the 40 pairs of people"),
        ({"oracle": None, "answers": None}, {}, "options of a language model go with `oracle='llm'`"),
        ({}, {"llm": {"model": " "}}, "needs the name of a model; give `llm.model`"),
        ({}, {"llm": {"check_with": 3}}, "examples for a language model, and labels to check it with, are for runs"),
        ({}, {"llm": {"input_price": None}, "max_cost": 1.0}, "`max_cost` needs `llm.input_price`"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_sent(ran, server, tmp_path, config, more, words):
    with pytest.raises(BadOption, match=words):
        sample(ran, server, tmp_path / "audit", al_ray.AuditConfig(**{**vars(CONFIG), **config}), **more)
    assert not server.asked


def test_no_second_draw_follows_an_audit_with_a_model(ran, server, tmp_path):
    path = sample(ran, server, tmp_path / "audit").path
    fill(path, ran[1])
    second = al_ray.AuditConfig(split="train", by_score=True, budget=9, after=path, threshold_for="precision=0.5")
    with pytest.raises(BadOption, match="is an audit with a language model; give one of people alone"):
        al_ray.sample_audit(al_ray.load_run(ran[0]), second, tmp_path / "second")


@pytest.mark.faults
def test_a_killed_sample_continues_and_buys_no_stored_answer_again(ran, server, tmp_path):
    out = tmp_path / "audit"
    arguments = (
        f"sample --run {ran[0]} --split train --by-score --top 200 --budget 40 --oracle llm --answers 160 --out {out} "
        f"--llm.model {MODEL} --llm.base-url {server.url} --retry-seconds 0 --llm.input-price 2 --llm.output-price 8"
    )
    for dies_after in (1, 3):
        process = subprocess.run(
            [sys.executable, __file__, str(dies_after), *shlex.split(arguments)],
            env={**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": KEY},
            check=False,
            capture_output=True,
        )
        assert process.returncode == -signal.SIGKILL, process.stderr
        assert not (out / "audit-key.json").exists()
    assert len(list((out / "llm").glob("*.json"))) == 4
    whole = sample(ran, server, out)
    assert max(Counter(server.pairs).values()) == 1, "each pair was asked once, although it died twice"
    # It has the pairs of a sample that nobody killed.
    other = AuditFolder(sample(ran, server, tmp_path / "other").path)
    mine = AuditFolder(whole.path)
    assert mine.first().codes == other.first().codes
    assert mine.key()[2].pairs.tolist() == other.key()[2].pairs.tolist()


def refill(ran, server: LlmServer, path: Path, word) -> None:
    """Answer the sheet anew."""
    (path / "audit.csv").unlink()
    sample(ran, server, path)
    fill(path, word)


def do(monkeypatch, line: str) -> None:
    monkeypatch.setattr(sys, "argv", ["audit", *shlex.split(line)])
    entry.job(audit.main)


def die_after(count: int) -> None:
    """Have this process kill itself when it has written so many raw answers."""
    add, written = AnswerStore.add, list[RawAnswer]()

    def add_and_die(self: AnswerStore, raw: RawAnswer) -> None:
        add(self, raw)
        written.append(raw)
        if len(written) == count:
            os.kill(os.getpid(), signal.SIGKILL)

    AnswerStore.add = add_and_die


if __name__ == "__main__":
    die_after(int(sys.argv.pop(1)))
    entry.run_process(audit.main)
