"""The check of a language model by people, before a round is bought from it."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.labelling import label_batch_and_dev, measure
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.errors import BadOption, LabellingStopped, LabelsAwaited, OracleFailed
from al_ray.core.labels import IMPORTED, NO, UNSURE, YES, Batch, Labelled, Model, State, make_answers
from al_ray.core.pairs import as_pairs
from al_ray.core.progress import no_progress
from al_ray.oracles.registry import OracleRequest
from al_ray.running.dev_sampler import FolderDevSampler
from al_ray.running.open_rounds import ask_pending
from al_ray.runs.run_folder import RunFolder
from tests.oracles.llm_server import KEY, serving
from tests.oracles.test_every_oracle import fill
from tests.oracles.test_llm import COUNT, LABELS, PAIR, Bench

CHECKED = 6


@pytest.fixture(scope="module")
def running(make_task, tmp_path_factory) -> Iterator[Bench]:
    bench = Bench(make_task(False), tmp_path_factory.mktemp("run"))
    with serving(bench.truth) as bench.server:
        yield bench


@pytest.fixture
def bench(running: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(sys, "path", list(sys.path))
    running.server.reset()
    running.folder = tmp_path / "run"
    return running


def answered(bench: Bench, words: list[str] | None = None) -> list[int]:
    """Have people answer the drawn pairs, by the truth or by these words; return the rows."""
    with pytest.raises(LabelsAwaited, match=f"{CHECKED} of {CHECKED} pairs wait"):
        bench.buy({"check_with": CHECKED})
    assert bench.server.asked == [], "nothing is bought before people have answered"
    rows = json.loads((bench.folder / "check" / "drawn.json").read_text())["rows"]
    truth = {YES: "yes", NO: "no", UNSURE: "unsure"}
    sheet = bench.folder / "check" / "batch.csv"
    fill(sheet, 0)
    text = sheet.read_text(encoding="utf-8")
    for row, word in zip(range(CHECKED), words or [truth[LABELS[row]] for row in rows], strict=True):
        text = text.replace(f"c001-{row + 1:05d},yes", f"c001-{row + 1:05d},{word}")
    sheet.write_text(text, encoding="utf-8")
    return rows


def test_a_model_that_agrees_labels_the_rest(bench: Bench):
    rows = answered(bench)
    assert len(set(rows)) == CHECKED
    assert bench.buy({"check_with": CHECKED, "least_kappa": 0.1}) == LABELS
    assert len(bench.server.pairs) == len(set(bench.server.pairs)) == COUNT
    content = json.loads((bench.folder / "check" / "check.json").read_text())
    assert (content["pairs"], content["agreement"], content["kappa"]["value"], content["disputed"]) == (6, 1, 1, [])
    assert content["kappa"]["low"] < 1
    for shares in content["classes"].values():
        assert all(one is None or (one["value"] == 1 and one["low"] < 1) for one in shares.values())
    by = [piece.by for piece in bench.journal().ledger.answers(1)]
    assert "people" in by


def test_the_run_stops_where_the_model_disagrees_and_people_win(bench: Bench):
    rows = answered(bench)
    sheet = bench.folder / "check" / "batch.csv"
    truth = [LABELS[row] for row in rows]
    # People say the opposite of what the model will say.
    text = sheet.read_text(encoding="utf-8")
    swapped = {YES: ("yes", "no"), NO: ("no", "yes"), UNSURE: ("unsure", "no")}
    for place, label in enumerate(truth, start=1):
        was, now = swapped[label]
        text = text.replace(f"c001-{place:05d},{was}", f"c001-{place:05d},{now}")
    sheet.write_text(text, encoding="utf-8")
    with pytest.raises(LabellingStopped, match=r"stopped by `llm\.least_kappa=0\.6`"):
        bench.buy({"check_with": CHECKED})
    asked = len(bench.server.pairs)
    assert asked == CHECKED, "only the checked pairs are bought"
    content = json.loads((bench.folder / "check" / "check.json").read_text())
    assert len(content["disputed"]) == CHECKED
    labels = bench.journal().ledger.labels(1)[rows].tolist()
    assert labels == [{YES: NO, NO: YES, UNSURE: NO}[label] for label in truth]
    # The check holds without the option, and costs nothing again.
    with pytest.raises(LabellingStopped, match=r"`llm\.least_kappa"):
        bench.buy()
    assert len(bench.server.pairs) == asked
    # Who lowers the limit goes on, and the labels of people stay.
    final = bench.buy({"check_with": CHECKED, "least_kappa": -1.0})
    assert [final[row] for row in rows] == labels
    assert len(bench.server.pairs) == COUNT


def test_of_a_disputed_pair_the_label_of_people_counts_and_the_check_says_who_said_what(bench: Bench):
    people = ["yes", "no", "no", "no", "unsure", "yes"]
    rows = answered(bench, people)
    # The model differs on the second pair.
    said = {bench.texts[row]: word for row, word in zip(rows, ["yes", "yes", *people[2:]], strict=True)}
    truth, bench.server.truth = bench.server.truth, {**bench.server.truth, **said}
    try:
        labels = bench.buy({"check_with": CHECKED, "least_kappa": -1.0})
    finally:
        bench.server.truth = truth
    codes = {"yes": YES, "no": NO, "unsure": UNSURE}
    assert [labels[row] for row in rows] == [codes[word] for word in people]
    assert len(bench.server.pairs) == len(set(bench.server.pairs)) == COUNT
    content = json.loads((bench.folder / "check" / "check.json").read_text())
    (left,), (right,) = bench.task.ids_of(bench.batch.pairs[[rows[1]]])
    assert content["disputed"] == [{"left_id": left, "right_id": right, "people": "no", "model": "yes"}]
    # Rows: people said no, yes, unsure. Columns: the model did.
    assert content["table"] == [[2, 1, 0], [0, 2, 0], [0, 0, 1]]
    assert content["agreement"] == pytest.approx(5 / 6)
    # By chance (3 * 2 + 2 * 3 + 1 * 1) / 36 = 13/36 agree: (30/36 - 13/36) / (1 - 13/36).
    assert content["kappa"]["value"] == pytest.approx(17 / 23)
    shares = {(word, name): one["value"] for word, both in content["classes"].items() for name, one in both.items()}
    # Of 3 that the model calls yes 2 are, and it finds both; of 3 that are no it finds 2, and calls no other one no.
    assert shares == pytest.approx(
        {("yes", "precision"): 2 / 3, ("yes", "recall"): 1, ("no", "precision"): 1, ("no", "recall"): 2 / 3}
    )
    by = [(piece.by, row) for piece in bench.journal().ledger.answers(1) for row in piece.rows.tolist()]
    assert ("people", rows[1]) in by


def test_one_label_for_all_tells_nothing(bench: Bench):
    answered(bench, ["yes"] * CHECKED)
    truth, bench.server.truth = bench.server.truth, dict.fromkeys(bench.server.truth, "yes")
    try:
        with pytest.raises(LabellingStopped, match="cannot be told from chance"):
            bench.buy({"check_with": CHECKED, "least_kappa": -1.0})
    finally:
        bench.server.truth = truth


@pytest.mark.parametrize("llm", [{}, {"definition": "Same product."}])
def test_a_check_that_was_begun_holds_without_the_option(llm: dict[str, str], bench: Bench):
    with pytest.raises(LabelsAwaited):
        bench.buy({"check_with": CHECKED})
    with pytest.raises(LabelsAwaited, match=r"until .*check is moved away"):
        bench.buy(llm)
    assert bench.server.asked == []


def test_another_definition_is_checked_without_the_option(bench: Bench):
    answered(bench)
    with pytest.raises(LabellingStopped):
        bench.buy({"check_with": CHECKED, "least_kappa": 0.99})
    with pytest.raises(LabellingStopped, match=r"`llm\.least_kappa"):
        bench.buy({"definition": "Same product.", "least_kappa": 0.99})
    assert len(bench.server.pairs) == 2 * CHECKED


def test_people_win_where_the_process_ends_before_their_answers_are_stored(bench: Bench):
    """Of a whole batch that is checked: the model has answered every pair."""
    options = {"check_with": COUNT, "least_kappa": -1.0}
    with pytest.raises(LabelsAwaited):
        bench.buy(options)
    fill(bench.folder / "check" / "batch.csv", 0)
    journal = bench.journal()
    for answers in bench.oracle(journal, options).label(1, bench.batch, np.arange(COUNT)):
        if answers.by == "people":
            break
        journal.ledger.add_answers(1, answers)
    assert bench.buy(options) == [YES] * COUNT
    assert len(bench.server.pairs) == COUNT
    assert bench.cost == pytest.approx(COUNT * PAIR)


def test_both_orders_need_a_symmetric_task(bench: Bench):
    with pytest.raises(BadOption, match=r"`llm\.both_orders` needs a symmetric task"):
        bench.buy({"both_orders": True})


def test_another_model_is_checked_on_the_same_answers(bench: Bench):
    answered(bench)
    with pytest.raises(LabellingStopped):
        bench.buy({"check_with": CHECKED, "least_kappa": 0.99})
    before = len(bench.server.pairs)
    with pytest.raises(LabellingStopped):
        bench.buy({"check_with": CHECKED, "least_kappa": 0.99, "definition": "Same product."})
    assert len(bench.server.pairs) == before + CHECKED


def test_a_check_that_fails_counts_its_own_pairs_and_buys_none_again_with_more_output_tokens(bench: Bench):
    answered(bench)
    bench.server.reset("", "malformed")
    with pytest.raises(OracleFailed, match=r"4 of 6 pairs of round 1 are answered and stored"):
        bench.buy({"check_with": CHECKED}, retries=0)
    assert len(bench.server.pairs) == CHECKED
    bench.server.reset()
    assert bench.buy({"check_with": CHECKED, "least_kappa": -1.0, "output_tokens": 128}) == LABELS
    assert len(bench.server.pairs) == COUNT - 4


@pytest.fixture
def measured(bench: Bench) -> Iterator[RunFolder]:
    """A run with an imported round and drawn dev pairs for its model; the server knows their labels, too."""
    journal, space, dev = (
        RunFolder(bench.folder, bench.task),
        *(bench.task.split(name).space for name in ("train", "dev")),
    )
    journal.ledger.add_batch(1, Batch(as_pairs(space.left[3:5], space.right[3:5]), np.full(2, np.nan), IMPORTED))
    journal.ledger.add_answers(1, make_answers(np.arange(2), np.array([YES, NO], dtype=np.uint8), "labels.csv"))
    journal.ledger.seal(1)
    drawn = Batch(dev.pairs(dev.at(np.arange(5))), np.zeros(5), "dev-labels")
    journal.dev_labels.ledger.add_batch(1, drawn)
    truth = bench.server.truth
    bench.server.truth = {**truth, **dict.fromkeys(zip(*bench.task.texts_of(drawn.pairs), strict=True), "no")}
    yield journal
    bench.server.truth = truth


def sampler_of(bench: Bench, journal: RunFolder) -> FolderDevSampler:
    oracle = bench.oracle(journal, {"check_with": CHECKED, "least_kappa": 0.1})
    return FolderDevSampler(RunConfig(task="t", oracle="llm", dev_labels=5), journal, oracle)


def answer_check(bench: Bench, words: dict[int, str]) -> None:
    """Have people answer the drawn pairs of round 2: by the label of a pair."""
    rows = json.loads((bench.folder / "check" / "drawn.json").read_text())["rows"]
    sheet = bench.folder / "check" / "batch.csv"
    fill(sheet, 0)
    text = sheet.read_text(encoding="utf-8")
    for place, row in enumerate(rows, start=1):
        text = text.replace(f"c002-{place:05d},yes", f"c002-{place:05d},{words[LABELS[row]]}")
    sheet.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("agree", [True, False])
def test_dev_pairs_are_not_bought_before_the_check_nor_from_a_model_that_fails_it(
    agree: bool, bench: Bench, measured: RunFolder
):
    measured.ledger.add_batch(2, bench.batch)
    sampler = sampler_of(bench, measured)
    with pytest.raises(LabelsAwaited) as waits:
        label_batch_and_dev(2, measured.ledger, sampler.oracle, sampler)
    first, *_, last = str(waits.value).splitlines()
    assert first == "before round 2 is sent to the model: 6 of 6 pairs wait for an answer of people"
    assert last == "round 1, dev: its pairs are bought after the check of the model on pairs of round 2"
    assert bench.server.asked == []
    truth = {YES: "yes", NO: "no", UNSURE: "unsure"}
    answer_check(bench, truth if agree else {YES: "no", NO: "unsure", UNSURE: "yes"})
    dev, sampler = measured.dev_labels.ledger, sampler_of(bench, measured)
    if agree:
        _, labels = label_batch_and_dev(2, measured.ledger, sampler.oracle, sampler)
        assert labels.tolist() == LABELS
        assert dev.labels(1).tolist() == [NO] * 5
        assert len(bench.server.pairs) == COUNT + 5
        return
    with pytest.raises(LabellingStopped, match=r"stopped by `llm\.least_kappa"):
        label_batch_and_dev(2, measured.ledger, sampler.oracle, sampler)
    # Nor for themselves, as after the last round.
    with pytest.raises(LabellingStopped, match=r"stopped by `llm\.least_kappa"):
        measure(sampler, 1)
    assert len(bench.server.pairs) == CHECKED
    assert dev.cost() == 0


def test_without_an_open_round_dev_pairs_wait_for_the_next_one_or_the_run_stops(bench: Bench, measured: RunFolder):
    sampler, state = sampler_of(bench, measured), State(1, Labelled(), Model("-", "d"))
    request = OracleRequest(sampler.config, OracleConfig(), measured, no_progress)
    # Another round will be chosen.
    ask_pending(request, sampler.oracle, sampler.oracle, state)
    with pytest.raises(
        LabellingStopped, match=r"dev pairs of round 1 are not bought .* more `rounds`, or `dev_labels=0`"
    ):
        ask_pending(request, None, sampler.oracle, state)
    assert bench.server.asked == []
