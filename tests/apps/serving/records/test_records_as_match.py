"""Answers about records by a matcher, beside those of jobs.match when the record is one more left text."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from al_ray.apps.matching.model import open_model
from al_ray.apps.serving.http_api import make_api
from al_ray.apps.serving.known import fill_store
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.questions import Question
from al_ray.apps.serving.records.record_matcher import load_matcher
from al_ray.apps.serving.store import StoreWriter
from tests.apps.matching.incremental.test_matched_into import GROUP, Rows, ran, table, tables
from tests.apps.matching.test_match_job import do, written
from tests.apps.serving.test_http import PlainService

__all__ = ["ran"]
EVERY = "--text-columns name,price --id-column id --assign all --at-score 0"
LAST = "~"
ASKED: Rows = {"new": ("amber delta lamp new", 31), "odd": ("x", ""), "same": GROUP}


def match_of(run: Path, monkeypatch, folder: Path, sides: dict[str, Rows], row: tuple[str, object]) -> dict[str, float]:
    """The score of each pair of a record that is one more left text, by the id of the other one."""
    left = sides["left"] | {LAST: row}
    do(monkeypatch, f"--model {run} {tables(folder, sides | {'left': left})} {EVERY} --out {folder / 'out'}")
    scores = {pair: found["score"] for pair, found in written(folder / "out").items() if LAST in pair}
    return {next(one for one in pair if one != LAST): score for pair, score in scores.items()}


def asked(row: tuple[str, object], limit: int = 1000, **more: Any) -> Question:
    return Question((), limit, records=({"name": row[0], "price": row[1]},), **more)


def test_a_record_has_the_scores_of_match(ran, monkeypatch, tmp_path):
    run, sides = ran
    known = tmp_path / "known"
    do(monkeypatch, f"--model {run} {tables(tmp_path / 'first', sides)} {EVERY} --out {known}")
    options = ServeOptions(model=run, known=known, store=tmp_path / "store", limit=1000, at_score=0.0)
    model = open_model(run)
    fill_store(options, model)
    matcher = load_matcher(options, model)
    for name, row in ASKED.items():
        [answer] = matcher.answer([asked(row)])
        expected = match_of(run, monkeypatch, tmp_path / name, sides, row)
        # p has steps of 2e-10. The cosine, which orders equal p, has other last bits where texts are encoded in others'
        # company: it moves a score by less than 1e-12.
        found = {one.id: one.score for one in answer.found[0]}
        assert found == pytest.approx(expected, rel=0, abs=1e-12)
        assert len(expected) >= 5
        if "right" not in sides and name == "same":
            assert {one for one in expected if one.startswith("s")} == {f"s{row}" for row in range(12)}
    # From what is on disk, in a new process, all is the same.
    questions = [asked(row) for row in ASKED.values()]
    assert load_matcher(options, model).answer(questions) == matcher.answer(questions)


def test_why_sums_to_the_score_and_what_cannot_be_asked_names_its_place(ran, tmp_path):
    run, sides = ran
    known = table(tmp_path / "right.csv", sides.get("right", sides["left"]))
    options = ServeOptions(model=run, known=known, store=tmp_path / "store", limit=3)
    model = open_model(run)
    fill_store(options, model)
    matcher = load_matcher(options, model)
    [plain, answer] = matcher.answer([asked(ASKED["new"], 3), asked(ASKED["new"], 3, why=True)])
    assert len(answer.found[0]) == len(plain.found[0]) == 3
    for one, other in zip(answer.found[0], plain.found[0], strict=True):
        why = one.why
        assert why is not None
        assert replace(one, why=None) == other
        assert one.score == pytest.approx(why.base + sum(part.adds for part in why.parts), abs=2e-6)
        assert {"similarity of letters (3-grams)", "price: relative difference"} <= {
            part.comparison for part in why.parts
        }
    for question, error in (
        (
            Question(("amber lamp",), 3),
            "texts[0]: is a text, and the model compares fields; send records with name, price",
        ),
        (Question((), 3, records=({"name": "amber", "size": 3},)), "records[0]: has the field 'size'"),
        (Question((), 3, records=({"name": " "},)), "records[0]: is empty"),
        (Question((), 3, records=({"name": {"a": 1}},)), "records[0]: its 'name' is a dict, not text"),
    ):
        [refused] = matcher.answer([question])
        assert refused.results is None
        assert refused.error.startswith(error)


def test_records_are_asked_over_http(ran, tmp_path):
    run, sides = ran
    known = table(tmp_path / "right.csv", sides.get("right", sides["left"]))
    options = ServeOptions(model=run, known=known, store=tmp_path / "store", limit=3)
    model = open_model(run)
    fill_store(options, model)
    with closing(StoreWriter(options.store)) as writer:
        service = PlainService(load_matcher(options, model), writer)
        with TestClient(make_api(service, options, None)) as client:
            record = {"name": "amber delta lamp new", "price": 31}
            answer = client.post("/match", json={"records": [record, record | {"price": None}], "limit": 2})
            assert answer.status_code == 200
            [first, second] = answer.json()["results"]
            assert (len(first), len(second)) == (2, 2)
            assert set(first[0]) == {"id", "score", "probability", "cluster"}
            assert first != second
            [[why]] = client.post("/match", json={"records": [record], "limit": 1, "why": True}).json()["results"]
            assert why.pop("why")["parts"][0].keys() == {"comparison", "value", "adds"}
            assert why == first[0]
            assert client.get("/model").json()["fields"] == ["name", "price"]
            for body, said in (
                (
                    {"records": [record, {"size": 3}]},
                    "records[1]: has the field 'size'; the model compares name, price",
                ),
                ({"records": [record], "texts": "a"}, "give texts or records, one of both"),
                ({"limit": 2}, "give texts or records, one of both"),
                ({"texts": "a"}, "texts[0]: is a text, and the model compares fields; send records with"),
                ({"records": [{"name": "\ud800"}]}, "records[0]: has half of a character"),
            ):
                refused = client.post("/match", content=json.dumps(body), headers={"Content-Type": "application/json"})
                assert (refused.status_code, said in refused.json()["error"]) == (400, True), refused.json()
