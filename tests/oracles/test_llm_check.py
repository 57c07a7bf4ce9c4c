"""The check of a language model by people, before a round is bought from it."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from al_ray.core.errors import BadOption, BuyingStopped, LabelsAwaited
from al_ray.core.labels import NO, UNSURE, YES
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
    with pytest.raises(BuyingStopped, match=r"stopped by --llm\.least-kappa 0\.6"):
        bench.buy({"check_with": CHECKED})
    asked = len(bench.server.pairs)
    assert asked == CHECKED, "only the checked pairs are bought"
    content = json.loads((bench.folder / "check" / "check.json").read_text())
    assert len(content["disputed"]) == CHECKED
    labels = bench.journal().ledger.labels(1)[rows].tolist()
    assert labels == [{YES: NO, NO: YES, UNSURE: NO}[label] for label in truth]
    # The check holds without the option, and costs nothing again.
    with pytest.raises(BuyingStopped, match=r"--llm\.least-kappa"):
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
        with pytest.raises(BuyingStopped, match="cannot be told from chance"):
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
    with pytest.raises(BuyingStopped):
        bench.buy({"check_with": CHECKED, "least_kappa": 0.99})
    with pytest.raises(BuyingStopped, match=r"--llm\.least-kappa"):
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
    with pytest.raises(BadOption, match=r"--llm\.both-orders needs a symmetric task"):
        bench.buy({"both_orders": True})


def test_another_model_is_checked_on_the_same_answers(bench: Bench):
    answered(bench)
    with pytest.raises(BuyingStopped):
        bench.buy({"check_with": CHECKED, "least_kappa": 0.99})
    before = len(bench.server.pairs)
    with pytest.raises(BuyingStopped):
        bench.buy({"check_with": CHECKED, "least_kappa": 0.99, "definition": "Same product."})
    assert len(bench.server.pairs) == before + CHECKED
