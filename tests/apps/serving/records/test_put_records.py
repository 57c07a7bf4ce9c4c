"""Records that are put and removed while they are served: answers as of jobs.match, and of a serve that starts anew."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import al_ray
from al_ray.apps.matching.model import open_model
from al_ray.apps.serving.http_api import make_api
from al_ray.apps.serving.known import fill_store
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.questions import Question
from al_ray.apps.serving.records.left_records import FieldNames
from al_ray.apps.serving.records.record_matcher import SECOND_ID, RecordMatcher, load_matcher
from al_ray.apps.serving.store import StoreWriter
from al_ray.apps.serving.text_lines import KnownText, record_lines
from al_ray.core.config.sections import CandidatesConfig
from al_ray.core.errors import BadFile
from tests.apps.matching.incremental.test_matched_into import Rows, lamps, ran, table, tables
from tests.apps.matching.test_match_job import do
from tests.apps.serving.records.test_records_as_match import ASKED, EVERY, asked, match_of
from tests.apps.serving.test_http import PlainService

__all__ = ["ran"]


def before(rows: Rows) -> Rows:
    """Most of the rows, of which one is another; and one that goes later."""
    first = dict(list(rows.items())[: 3 * len(rows) // 4])
    return first | {next(iter(first)): ("of another name", 5), "gone": ("amber delta lamp", 31)}


def body(rows: Rows) -> dict[str, Any]:
    """A body of PUT: a missing price is left out."""
    records = [{"id": one, "name": name, "price": price} for one, (name, price) in rows.items()]
    return {"records": [{name: value for name, value in one.items() if value != ""} for one in records]}


@contextmanager
def served(options: ServeOptions) -> Iterator[tuple[TestClient, PlainService]]:
    model, writer = open_model(options.model), None
    fill_store(options, model)
    writer = StoreWriter(options.store)
    service = PlainService(load_matcher(options, model), writer)
    with TestClient(make_api(service, options, None)) as client:
        yield client, service
    writer.close()


def scores(matcher, row: tuple[str, object]) -> dict[str, float]:
    [answer] = matcher.answer([asked(row)])
    return {one.id: one.score for one in answer.found[0]}


def test_after_changes_answers_are_those_of_match_and_of_a_start_with_the_new_table(ran, monkeypatch, tmp_path):
    run, sides = ran
    side = "right" if "right" in sides else "left"
    first, whole = before(sides[side]), sides[side]
    known = tmp_path / "known"
    do(monkeypatch, f"--model {run} {tables(tmp_path / 'first', sides | {side: first})} {EVERY} --out {known}")
    options = ServeOptions(model=run, known=known, store=tmp_path / "store", limit=1000, at_score=0.0)
    with served(options) as (client, service):
        new = {one: row for one, row in whole.items() if one not in first}
        later = dict(list(new.items())[:2])
        kept, changed = list(first)[1], next(iter(first))
        now = {one: row for one, row in new.items() if one not in later} | {one: whole[one] for one in (kept, changed)}
        put = client.put("/texts", json=body(now))
        assert (put.status_code, put.json()) == (
            200, {"sequence": 1, "added": len(new) - 2, "changed": 1, "same": 1}
        )  # fmt: skip
        gone = client.request("DELETE", "/texts", json={"ids": ["gone", "nobody"]})
        assert gone.json() == {"sequence": 2, "removed": 1, "unknown": 1}
        service.matcher.follow()
        shown = service.matcher.catalogue
        assert shown.clusters[shown.row_of[kept]] is not None
        assert {shown.clusters[shown.row_of[one]] for one in now if one != kept} == {None}
        for number, (one, row) in enumerate(later.items()):
            assert client.put("/texts", json=body({one: row})).json()["sequence"] == 3 + number
        # A price as a number and as text is the same.
        name, price = whole[kept]
        same = client.put("/texts", json={"records": [{"id": f" {kept} ", "name": f"{name}\t", "price": str(price)}]})
        assert same.json() == {"sequence": 4, "added": 0, "changed": 0, "same": 1}
        fresh = replace(options, known=table(tmp_path / "whole.csv", whole), store=tmp_path / "fresh")
        with served(fresh) as (_, anew):
            restarted = load_matcher(options, open_model(run))
            for name, row in ASKED.items():
                expected = match_of(run, monkeypatch, tmp_path / name, sides, row)
                for matcher in (service.matcher, anew.matcher, restarted):
                    # As in test_records_as_match.py: a vector has other last bits in other company.
                    assert scores(matcher, row) == pytest.approx(expected, rel=0, abs=1e-12)
                assert len(expected) >= 5
            assert service.matcher.number == restarted.number == 4
        # All known records as a table are the next ones of jobs.match.
        written = client.post("/table").json()
        assert (written["sequence"], written["texts"], written["side"]) == (4, len(whole), f"--{side}")
        columns = f"--text-columns {','.join(written['text_columns'])} --id-column {written['id_column']}"
        do(monkeypatch, f"--into {known} --{side} {written['path']} --complete --format jsonl {columns}")
        do(monkeypatch, f"--model {run} {tables(tmp_path / 'last', sides)} {EVERY} --out {tmp_path / 'once'}")
        assert (known / "matches.csv").read_bytes() == (tmp_path / "once/matches.csv").read_bytes()


def test_what_cannot_be_put_names_its_place_and_changes_nothing(ran, tmp_path):
    run, sides = ran
    known = table(tmp_path / "known.csv", sides.get("right", sides["left"]))
    options = ServeOptions(model=run, known=known, store=tmp_path / "store", limit=3, most_characters=60)
    record = {"id": "new", "name": "amber lamp", "price": 3}
    with served(options) as (client, service):
        assert isinstance(service.matcher, RecordMatcher)
        assert client.get("/model").json()["known_fields"] == ["name", "price"]
        for content, code, said in (
            (
                {"records": [record, {"id": "b", "size": 3}]},
                400,
                "records[1]: has the field 'size'; the model compares",
            ),
            ({"records": [{"id": "b", "price": {"a": 3}}]}, 400, "records[0]: its 'price' is a dict, not text"),
            ({"records": [{"id": "b"}]}, 400, "records[0]: is empty; give a text in one of name, price"),
            ({"records": [{"name": "amber"}]}, 400, "records[0].id: Field required"),
            ({"records": [{"id": 3, "name": "amber"}]}, 400, "records[0].id: Input should be a valid string"),
            ({"records": [{"id": "b", "name": "\ud800"}]}, 400, "records[0]: has half of a character"),
            ({"records": [record, record]}, 400, "records[1].id: 'new' is also records[0].id; give each id once"),
            ({"records": [record | {"name": "a" * 61}]}, 413, "records[0]: has 63 characters; send at most 60"),
            ({"records": [record], "texts": [{"id": "a", "text": "b"}]}, 400, "give texts or records, one of both"),
            ({"records": []}, 400, "give texts or records, one of both, with one entry at least"),
            ({"texts": [{"id": "a", "text": "b"}]}, 400, "texts[0]: is a text, and the model compares fields; send"),
        ):
            content = json.dumps(content)
            refused = client.put("/texts", content=content, headers={"Content-Type": "application/json"})
            assert (refused.status_code, said in refused.json()["error"]) == (code, True), refused.json()
        assert service.writer.number == 0
        # A record has one id, which is no field.
        names, service.matcher.names = service.matcher.names, FieldNames(("id", "price"), ("id", "price"))
        refused = client.put("/texts", json={"records": [record]})
        assert (refused.status_code, refused.json()["error"][:60]) == (400, SECOND_ID[:60])
        service.matcher.names = names
        # A field that is left out is missing.
        assert client.put("/texts", json={"records": [{"id": "b", "name": "amber"}]}).json()["added"] == 1
        assert json.loads(service.writer.texts["b"].text) == {"name": "amber", "price": ""}


def test_a_table_of_records_has_a_column_of_ids_that_is_no_field():
    # In the order of the fields that are asked for, and without others.
    known = {
        "a": KnownText('{"name": "x", "id": "7", "more": ""}'),
        "b": KnownText('{"name": "", "id": "", "more": ""}'),
    }
    lines = [json.loads(line) for line in record_lines(known, ("id", "name"))]
    assert lines == [{"id_": "a", "id": "7", "name": "x"}, {"id_": "b", "id": "", "name": ""}]
    with pytest.raises(BadFile, match="the record 'a' has not the fields size"):
        list(record_lines(known, ("size",)))


def test_all_records_can_go_and_others_come(ran, tmp_path):
    run, sides = ran
    rows = sides.get("right", sides["left"])
    options = ServeOptions(
        model=run, known=table(tmp_path / "known.csv", rows), store=tmp_path / "store", limit=3,
        text_columns="price,name", id_column="id",
    )  # fmt: skip
    question = {"records": [{"name": "amber delta lamp new", "price": 31}]}
    with served(options) as (client, service):
        # The table had its fields in another order.
        same = client.put("/texts", json=body(dict(list(rows.items())[:3])))
        assert same.json() == {"sequence": 0, "added": 0, "changed": 0, "same": 3}
        assert client.request("DELETE", "/texts", json={"ids": list(rows)}).json()["removed"] == len(rows)
        assert client.post("/match", json=question).json()["results"] == [[]]
        assert load_matcher(options, open_model(run)).answer([asked(ASKED["new"])])[0].results == [[]]
        # Removed and put again between two answers: in no cluster, but otherwise as before.
        first = next(iter(rows))
        client.put("/texts", json=body({first: rows[first], "other": ("x", "")}))
        client.request("DELETE", "/texts", json={"ids": ["other"]})
        [found] = client.post("/match", json=question).json()["results"]
        assert [one["id"] for one in found] == [first]
        assert service.matcher.number == service.writer.number == 3


def test_texts_of_a_matcher_on_one_column_are_put_as_texts(in_process, tmp_path):
    left, right = lamps()
    labels = tmp_path / "labels.csv"
    labels.write_text("l,r,same\n" + "".join(f"l{row},r{row},1\n" for row in range(len(left))))
    texts = al_ray.OwnTexts(
        left=table(tmp_path / "left.csv", left), right=table(tmp_path / "right.csv", right), labels=labels,
        label_columns="l,r,same", labels_are="complete", split="1,0,0", id_column="id", text_columns="name",
    )  # fmt: skip
    al_ray.prepare(texts, tmp_path / "task")
    config = al_ray.RunConfig(
        task=str(tmp_path / "task"), rounds=1, first_batch=24, encoder="random-bert", encoder_layers=1, max_length=24,
        threads=1, matcher="on", candidates=CandidatesConfig(cosine=5, trigrams=5, of_right=5),
        evaluation=al_ray.EvaluationConfig(splits=()),
    )  # fmt: skip
    al_ray.run(config, tmp_path / "run")
    options = ServeOptions(model=tmp_path / "run", known=tmp_path / "right.csv", store=tmp_path / "store", limit=1000)
    with served(options) as (client, service):
        put = client.put("/texts", json={"texts": [{"id": "new", "text": "amber lamp"}, {"id": "r1", "text": "basil"}]})
        assert put.json() == {"sequence": 1, "added": 1, "changed": 1, "same": 0}
        client.request("DELETE", "/texts", json={"ids": ["r2"]})
        refused = client.put("/texts", json={"records": [{"id": "a", "name": "b"}]})
        said = "records[0]: is a record, and the model matches texts of one column; send texts"
        assert (refused.status_code, refused.json()["error"]) == (400, said)
        written = client.post("/table").json()
        assert (written["text_columns"], written["id_column"], written["texts"]) == (["text"], "id", len(right))
        fresh = replace(
            options, known=Path(written["path"]), store=tmp_path / "fresh", format="jsonl", text_columns="text",
            id_column="id",
        )  # fmt: skip
        with served(fresh) as (_, anew):
            [found], [expected] = (
                one.answer([Question(("amber lamp",), 1000)])[0].found for one in (service.matcher, anew.matcher)
            )
            assert [one.id for one in found] == [one.id for one in expected]
            assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-12)
