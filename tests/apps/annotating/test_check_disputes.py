"""Pairs on which people and a language model differ: the list of disputes, and what settling them changes."""

import json
from collections.abc import Iterator

import pytest

from al_ray.core.errors import LabelsAwaited
from al_ray.core.labels import NO, UNSURE, WORDS, YES
from tests.apps.annotating.waiting_runs import page_of
from tests.oracles.llm_server import KEY, serving
from tests.oracles.test_every_oracle import fill
from tests.oracles.test_llm import LABELS, Bench

CHECK = {"check_with": 4, "least_kappa": -1.0}
OPPOSITE = {YES: NO, NO: YES, UNSURE: YES}


@pytest.fixture
def bench(make_task, tmp_path, monkeypatch) -> Iterator[Bench]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    bench = Bench(make_task(False), tmp_path / "run")
    with serving(bench.truth) as bench.server:
        yield bench


def begin(bench: Bench) -> list[int]:
    """Draw the pairs of the check; return their rows."""
    with pytest.raises(LabelsAwaited, match="4 of 4 pairs wait"):
        bench.buy(CHECK)
    return json.loads((bench.folder / "check" / "drawn.json").read_text())["rows"]


def test_a_pair_on_which_the_model_differs_is_listed_and_settling_it_corrects_the_run(bench: Bench):
    rows = begin(bench)
    # Ann says the opposite of what the model will say of the first two, and the same of the others.
    given = [OPPOSITE[LABELS[row]] if place < 2 else LABELS[row] for place, row in enumerate(rows)]
    with page_of(bench.journal(), people=False) as page:
        ann = page.person("ann")
        for label in given:
            ann.answer(WORDS[label])
        assert "There are none" in ann.open("/disputes").text
    labels = bench.buy(CHECK)
    assert [labels[row] for row in rows] == given, "people win"
    with page_of(bench.journal(), people=False) as page:
        bob = page.person("bob")
        text = bob.open("/disputes").text
        assert [f"c001-{place:05d}" in text for place in (1, 2, 3, 4)] == [True, True, False, False]
        assert text.count("the language model</b>") == 2
        bob.send("/settle", pair="c001-00001", label=WORDS[LABELS[rows[0]]], request="s")
        assert "Settled by <bdi>bob</bdi>" in bob.open("/disputes").text
        # What is taken back is unknown then.
        page.person("ann").undo()
    after = bench.journal().ledger.labels(1)[rows].tolist()
    assert after == [LABELS[rows[0]], given[1], given[2], UNSURE]


def test_what_people_answered_in_the_sheet_is_listed_and_not_changed_on_the_page(bench: Bench):
    rows = begin(bench)
    fill(bench.folder / "check" / "batch.csv", 0)
    bench.buy(CHECK)
    differ = sum(LABELS[row] != YES for row in rows)
    assert differ
    with page_of(bench.journal(), people=False) as page:
        bob = page.person("bob")
        text = bob.open("/disputes").text
        assert (text.count("use the command labels correct"), 'action="/settle"' in text) == (differ, False)
        refused = bob.send("/settle", pair="c001-00001", label="no", request="s")
        assert "there is the command labels correct" in refused.text
    assert set(bench.journal().ledger.labels(1)[rows].tolist()) == {YES}


@pytest.mark.parametrize(
    ("name", "content"),
    [("check.json", {"disputed": [{"left_id": "nobody"}]}), ("drawn.json", {"round": 1, "rows": [0, 1, 2, 99]})],
)
def test_a_check_whose_files_name_other_pairs_is_refused(bench: Bench, name: str, content: dict[str, object]):
    begin(bench)
    fill(bench.folder / "check" / "batch.csv", 0)
    bench.buy(CHECK)
    (bench.folder / "check" / name).write_text(json.dumps(content))
    with page_of(bench.journal(), people=False) as page:
        bob = page.person("bob")
        assert "other pairs than" in bob.open("/disputes").text
