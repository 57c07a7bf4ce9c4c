"""The table of codes: each answer of the HTTP interface, by the real classes in one process, without Ray."""

import asyncio
import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from al_ray.apps.http.token import token_digest
from al_ray.apps.matching.model import open_model
from al_ray.apps.serving import gate
from al_ray.apps.serving.answers import MatchAnswer, PutCounts, RemovedCounts, ServedModel, StoredTable
from al_ray.apps.serving.http_api import NotReady, NotStored, make_api, require
from al_ray.apps.serving.known import read_known
from al_ray.apps.serving.matcher import Matcher
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.questions import Put, Question
from al_ray.apps.serving.store import StoreWriter, make_store
from al_ray.core.errors import BadFile, BadOption
from tests.apps.audit.test_audit_job import run_folder

TOKEN = "a token of sixteen".replace(" ", "-")
WITH = {"Authorization": f"Bearer {TOKEN}"}
KNOWN = {"a": "how do i swim", "b": "why", "c": "who"}


class PlainService:
    """The matcher and the writer of a store in this process."""

    def __init__(self, matcher: Matcher, writer: StoreWriter) -> None:
        self.matcher, self.writer = matcher, writer
        self.ready, self.release = True, asyncio.Event()
        self.release.set()

    async def about(self) -> ServedModel:
        if not self.ready:
            raise NotReady("the model and the known texts are being loaded")
        return self.matcher.about()

    async def match(self, question: Question) -> MatchAnswer:
        await self.about()
        await self.release.wait()
        return self.matcher.answer([question])[0]

    async def put(self, texts: Sequence[Put]) -> PutCounts:
        checked = require(self.matcher.check(texts))
        try:
            return self.writer.put(checked)
        except BadFile as error:
            raise NotStored(str(error)) from error

    async def remove(self, ids: Sequence[str]) -> RemovedCounts:
        return self.writer.remove(ids)

    async def write_table(self) -> StoredTable:
        return self.writer.write_table_for_matching(self.matcher.about().known_fields or ())


@pytest.fixture(scope="module")
def run(make_task, tmp_path_factory) -> Path:
    return run_folder(tmp_path_factory.mktemp("run"), make_task(True, clusters=10, members=4))


@pytest.fixture
def service(run, tmp_path) -> Iterator[PlainService]:
    with (tmp_path / "k.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("key", "words"), *KNOWN.items()])
    options = ServeOptions(
        model=run, known=tmp_path / "k.csv", store=tmp_path / "store", text_columns="words", id_column="key", limit=2,
        most_texts=3, most_characters=50, most_bytes=500, most_waiting=1,
    )  # fmt: skip
    model = open_model(run)
    make_store(options.store, *read_known(options, model))
    writer = StoreWriter(options.store)
    yield PlainService(Matcher(options, model), writer)
    writer.close()


@pytest.fixture
def client(service) -> Iterator[TestClient]:
    with TestClient(make_api(service, service.matcher.options, token_digest(TOKEN)), headers=WITH) as made:
        yield made


def test_a_text_gets_its_matches_the_best_first(client, service):
    answer = client.post("/match", json={"texts": ["why", "how do i swim"]})
    assert answer.status_code == 200
    content = answer.json()
    assert (content["model"], content["sequence"]) == (service.matcher.digest, 0)
    assert [results[0]["id"] for results in content["results"]] == ["b", "a"]
    assert [len(results) for results in content["results"]] == [2, 2]
    assert content["results"][0][0] == {"id": "b", "score": pytest.approx(1), "probability": None, "cluster": None}
    one = client.post("/match", json={"texts": "why", "limit": 1}).json()["results"]
    assert [[match["id"] for match in results] for results in one] == [["b"]]


def test_what_was_put_is_found_and_what_was_removed_is_not(client, service):
    put = client.put("/texts", json={"texts": [{"id": "d", "text": "new words"}, {"id": "a", "text": "swimming"}]})
    assert (put.status_code, put.json()) == (200, {"sequence": 1, "added": 1, "changed": 1, "same": 0})
    answer = client.post("/match", json={"texts": ["new words", "swimming"], "limit": 1, "at_least": 1}).json()
    assert (answer["sequence"], [results[0]["id"] for results in answer["results"]]) == (1, ["d", "a"])
    gone = client.request("DELETE", "/texts", json={"ids": ["d", "nobody"]})
    assert (gone.status_code, gone.json()) == (200, {"sequence": 2, "removed": 1, "unknown": 1})
    answer = client.post("/match", json={"texts": "new words", "limit": 2}).json()
    assert "d" not in [match["id"] for match in answer["results"][0]]
    table = client.post("/table").json()
    assert (table["sequence"], table["texts"]) == (2, 3)
    rows = [json.loads(line) for line in Path(table["path"]).read_text().splitlines()]
    assert {row["id"]: row["text"] for row in rows} == {"a": "swimming", "b": "why", "c": "who"}
    # Of two sets of texts the known ones are the right ones.
    assert table["side"] == ("--left" if service.writer.source.symmetric else "--right")
    # White space around is left out, as where a table is read.
    put = client.put("/texts", json={"texts": [{"id": " b", "text": "why\u2003\n"}]})
    assert put.json() == {"sequence": 2, "added": 0, "changed": 0, "same": 1}
    gone = client.request("DELETE", "/texts", json={"ids": ["b\t"]})
    assert gone.json() == {"sequence": 3, "removed": 1, "unknown": 0}


# What is sent -> what is said of it.
BAD = {
    "no JSON": (b"{", "body: no JSON (Expecting property name enclosed in double quotes) at character 1"),
    "no UTF-8": (b'{"texts": "\xff"}', "There was an error parsing the body"),
    "nothing": (b"", "body: Field required"),
    "no JSON by its header": (b'{"texts": "a"}', "body: was not sent as JSON; send it with the header Content-Type"),
    "a list": (b"[]", "body: Input should be a valid dictionary or object"),
    "no texts": (b"{}", "body: give texts or records, one of both"),
    "an empty list": (b'{"texts": []}', "texts: List should have at least 1 item"),
    "a number": (b'{"texts": ["a", 3]}', "texts[1]: Input should be a valid string"),
    "an empty text": (b'{"texts": ["a", " "]}', "texts[1]: is empty; give a text with a visible character"),
    "a half character": (b'{"texts": ["\\ud800"]}', "texts[0]: has half of a character"),
    "an unknown field": (b'{"texts": "a", "cutoff": 1}', "cutoff: Extra inputs are not permitted"),
    "no matches": (b'{"texts": "a", "limit": 0}', "limit: Input should be greater than or equal to 1"),
    "too many matches": (b'{"texts": "a", "limit": 3}', "limit: is 3; give at most 2"),
    "a limit in words": (b'{"texts": "a", "limit": "2"}', "limit: Input should be a valid integer"),
    "two errors": (b'{"texts": [1, 2]}', "texts[0]: Input should be a valid string (and 1 more errors)"),
}


@pytest.mark.parametrize("name", BAD)
def test_400_has_the_place(client, name):
    (content, said), kind = BAD[name], "text/plain" if "header" in name else "application/json"
    answer = client.post("/match", content=content, headers={"Content-Type": kind})
    assert (answer.status_code, list(answer.json())) == (400, ["error"])
    assert answer.json()["error"].startswith(said)


def test_400_for_bad_changes(client, service):
    for body, said in (
        ({"texts": [{"id": "a", "text": "x"}, {"id": "a", "text": "y"}]}, "texts[1].id: 'a' is also texts[0].id"),
        ({"texts": [{"id": "", "text": "x"}]}, "texts[0].id: is empty"),
        ({"texts": [{"id": "a"}]}, "texts[0].text: Field required"),
        ({"texts": []}, "texts: List should have at least 1 item"),
        ({"records": [{"id": "a", "name": "x"}]}, "records, why: the model has no matcher"),
        ({}, "body: give texts or records, one of both"),
    ):
        answer = client.put("/texts", json=body)
        assert answer.status_code == 400
        assert answer.json()["error"].startswith(said)
    answer = client.request("DELETE", "/texts", json={"ids": ["a", "b", "a"]})
    assert (answer.status_code, answer.json()["error"]) == (400, "ids[2]: 'a' is also ids[0]; give each id once")
    assert client.post("/match", content=b"{}", headers={"Content-Length": "many"}).status_code == 400
    assert service.writer.number == 0


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer another"}, {"Authorization": f"Basic {TOKEN}"}])
def test_401_without_the_token(service, header):
    with TestClient(make_api(service, service.matcher.options, token_digest(TOKEN)), headers=header) as client:
        for answer in (
            client.post("/match", json={"texts": "a"}),
            client.put("/texts", json={"texts": [{"id": "z", "text": "z"}]}),
            client.request("DELETE", "/texts", json={"ids": ["a"]}),
            *(client.post("/table"), client.get("/model"), client.get("/metrics"), client.get("/anything")),
        ):
            assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
            assert "Authorization: Bearer TOKEN" in answer.json()["error"]
        for path in ("/health", "/ready", "/docs", "/openapi.json"):
            assert client.get(path).status_code == 200
    assert service.writer.number == 0


def test_no_token_is_needed_where_there_is_none(service):
    with TestClient(make_api(service, service.matcher.options, None)) as client:
        assert client.post("/match", json={"texts": "why"}).status_code == 200
        assert "securitySchemes" not in client.get("/openapi.json").json()["components"]


def test_413_for_too_many_or_too_large(client, service):
    long = "x" * 51
    for answer, said in (
        (client.post("/match", json={"texts": ["a"] * 4}), "texts: has 4 entries; send at most 3 at a time"),
        (client.post("/match", json={"texts": ["a", long]}), "texts[1]: has 51 characters; send at most 50"),
        (client.put("/texts", json={"texts": [{"id": "z", "text": long}]}), "texts[0].text: has 51 characters"),
        (client.put("/texts", json={"texts": [{"id": long, "text": "z"}]}), "texts[0].id: has 51 characters"),
        (client.request("DELETE", "/texts", json={"ids": ["a", "b", "c", "d"]}), "ids: has 4 entries"),
        (client.post("/match", content=b" " * 501), "the body has more than 500 bytes; send fewer texts at a time"),
        # In parts, without its length.
        (client.post("/match", content=iter([b" " * 300] * 2)), "the body has more than 500 bytes"),
    ):
        assert answer.status_code == 413
        assert answer.json()["error"].startswith(said)
    assert service.writer.number == 0


def test_429_if_too_many_wait(service):
    app = make_api(service, service.matcher.options, None)

    async def ask(path: str) -> tuple[int, dict[str, str], bytes]:
        sent, body = list[dict[str, Any]](), b'{"texts": "why"}'
        scope = {
            "type": "http", "method": "POST" if path == "/match" else "GET", "path": path, "raw_path": path.encode(),
            "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))],
            "query_string": b"", "http_version": "1.1", "scheme": "http",
        }  # fmt: skip

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await app(scope, receive, send)
        headers = {key.decode(): value.decode() for key, value in sent[0]["headers"]}
        return sent[0]["status"], headers, sent[1]["body"]

    async def both() -> None:
        service.release = asyncio.Event()
        waiting = asyncio.create_task(ask("/match"))
        while _waiting(app) != service.matcher.options.most_waiting:
            await asyncio.sleep(0)
        refused = await ask("/match")
        assert (refused[0], refused[1]["retry-after"]) == (429, "1")
        assert json.loads(refused[2])["error"] == "1 requests wait already; send it again later"
        # What does not wait for a replica is answered all the same.
        assert (await ask("/health"))[0] == 200
        assert b"al_ray_requests_waiting 1.0" in (await ask("/metrics"))[2]
        service.release.set()
        assert (await waiting)[0] == 200
        assert (await ask("/match"))[0] == 200

    asyncio.run(both())


def _waiting(app: Any) -> int:
    at = app.middleware_stack
    while at is not None and not hasattr(at, "waiting"):
        at = getattr(at, "app", None)
    return 0 if at is None else at.waiting


def test_503_while_a_model_is_loaded_or_a_change_has_not_arrived(client, service):
    late = client.post("/match", json={"texts": "why", "at_least": 1})
    assert (late.status_code, late.headers["Retry-After"]) == (503, "1")
    assert late.json()["error"] == "at_least: change 1 is not here yet; the last one here is 0"
    service.ready = False
    for answer in (client.post("/match", json={"texts": "why"}), client.get("/ready"), client.get("/model")):
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert "are being loaded" in answer.json()["error"]
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/metrics").status_code == 200


def test_507_if_a_change_cannot_be_written(client, service, monkeypatch):
    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    answer = client.put("/texts", json={"texts": [{"id": "z", "text": "z"}]})
    monkeypatch.undo()
    assert answer.status_code == 507
    assert "changes.log cannot be written (No space left on device)" in answer.json()["error"]
    assert "z" not in service.writer.texts


def test_422_for_texts_that_would_make_too_many_tokens_unknown_and_no_start_is_refused(client, service, run):
    def put(**texts: str) -> Any:
        return client.put("/texts", json={"texts": [{"id": one, "text": text} for one, text in texts.items()]})

    # The known texts have 10 + 3 + 3 letters, each a token; then 6 of 22 are unknown, and 8 of 24 would be.
    assert put(z=" ".join("ቀጫማሰጃኬ")).status_code == 200
    answer = put(y="ድ ቀ", x="why")
    assert answer.status_code == 422
    assert "would not know 33% of the tokens of the known texts" in answer.json()["error"]
    assert "`most_unknown` of the service allows 0.3; nothing was stored" in answer.json()["error"]
    assert set(service.writer.texts) == {*KNOWN, "z"}
    # In place of the other, and by more letters that it knows.
    assert put(z="ድ").status_code == 200
    assert put(y="ቀ ጫ ማ", x="abcdef").status_code == 200
    # Removing texts is never refused: 4 of 10 tokens are unknown then. Nor is a put that makes them fewer, 4 of 11.
    assert client.request("DELETE", "/texts", json={"ids": ["a", "b", "c"]}).status_code == 200
    assert put(w="e").status_code == 200
    # The store is served again, unless less is allowed than before.
    options = service.matcher.options
    assert len(Matcher(options, open_model(run)).catalogue) == 4
    with pytest.raises(BadOption, match="does not know 36% of the tokens of the texts"):
        Matcher(replace(options, most_unknown=0.2), open_model(run))


def test_404_and_405(client):
    assert client.get("/nothing").status_code == 404
    assert client.get("/match").status_code == 405


def test_state_and_figures(client, service):
    client.post("/match", json={"texts": "why"})
    client.post("/match", json={})
    for method in ("BREW", "\ud800"):
        client.request(method, "/match")
    assert client.get("/ready").json() == {"status": "ready"}
    model = client.get("/model").json()
    assert (model["texts"], model["search"], model["calibrated"]) == (3, {"kind": "exact"}, False)
    page = client.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
    for line in (
        'al_ray_requests_total{code="200",method="POST",path="/match"} 1.0',
        'al_ray_requests_total{code="400",method="POST",path="/match"} 1.0',
        'al_ray_requests_total{code="405",method="other",path="/match"} 2.0',
        "al_ray_known_texts 3.0",
        "al_ray_sequence 0.0",
        'al_ray_request_seconds_count{path="/match"} 4.0',
    ):
        assert line in page.text


def test_the_description_of_the_interface_has_every_path_and_code(client):
    page = client.get("/openapi.json").json()
    assert set(page["paths"]) == {"/match", "/texts", "/table", "/health", "/ready", "/model", "/metrics"}
    assert set(page["paths"]) <= {*gate.OPEN, *gate.WORK, *gate.OTHERS}, "a path is counted by its name"
    assert set(page["paths"]["/match"]["post"]["responses"]) >= {"200", "400", "401", "413", "429", "503"}
    assert set(page["paths"]["/texts"]["put"]["responses"]) >= {"200", "400", "401", "413", "429", "507"}
    assert page["components"]["securitySchemes"] == {"HTTPBearer": {"type": "http", "scheme": "bearer"}}
    assert client.get("/docs").status_code == 200


def test_another_digest_of_another_cutoff(service):
    matcher = service.matcher
    assert Matcher(replace(matcher.options, at_score=0.5), matcher.model).digest != matcher.digest
