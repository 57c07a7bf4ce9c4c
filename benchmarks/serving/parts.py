"""Seconds of a request, and of its parts, each by itself and without Ray Serve: python -m benchmarks.serving.parts

It reads options of jobs.serve, its address and bodies of requests as JSON from its standard input, and prints the
seconds as JSON. It is a process of its own, because the other benchmarks need no extra `serve`.
"""

import asyncio
import http.client
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from al_ray.apps.matching.model import open_model
from al_ray.apps.serving.answers import MatchAnswer, PutCounts, RemovedCounts, ServedModel, StoredTable
from al_ray.apps.serving.app import options_of
from al_ray.apps.serving.bodies import Answer, MatchBody
from al_ray.apps.serving.http_api import make_api
from al_ray.apps.serving.matcher import Matcher
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.questions import Put, Question
from al_ray.encoders.encoder import embed_rows
from benchmarks.serving.figures import WHOLE
from benchmarks.timing import seconds, timed

FEW = 3


class OneAnswer:
    """A service that gives the same answer to each question at once, so that a request costs what is around it."""

    def __init__(self, answer: MatchAnswer) -> None:
        """Keep the answer."""
        self.answer = answer

    async def about(self) -> ServedModel:
        """Raise an error: there is no model."""
        raise NotImplementedError

    async def match(self, question: Question) -> MatchAnswer:
        """Return the answer."""
        return self.answer

    async def put(self, texts: Sequence[Put]) -> PutCounts:
        """Raise an error: texts are not changed here."""
        raise NotImplementedError

    async def remove(self, ids: Sequence[str]) -> RemovedCounts:
        """Raise an error: texts are not changed here."""
        raise NotImplementedError

    async def write_table(self) -> StoredTable:
        """Raise an error: no table is written here."""
        raise NotImplementedError


def time_parts(options: ServeOptions, address: str, bodies: Sequence[str]) -> dict[str, float]:
    """Return the median seconds of a request to the service at `address`, host:port, and of each part, by name.

    Requests and parts are timed in turn, so that other work on the machine slows both. The parts are of the same code
    that serves: what is left of a request is Ray Serve, which is not called here.
    """
    matcher, times = Matcher(options, open_model(options.model)), dict[str, list[float]]()
    connection = http.client.HTTPConnection(address)

    def note(name: str, took: float) -> None:
        times.setdefault(name, []).append(took)

    for body in [bodies[0], *bodies]:
        texts = tuple(json.loads(body)["texts"])
        # The last of a few, because a service that was idle takes longer.
        note(WHOLE, [seconds(lambda body=body: _request(connection, body)) for _ in range(FEW)][-1])
        encoding, vectors = timed(lambda texts=texts: _encode(matcher, texts))
        searching = seconds(lambda vectors=vectors: matcher.catalogue.nearest(vectors, options.limit))
        answering, [answer] = timed(lambda texts=texts: matcher.answer([Question(texts, options.limit)]))
        coding = seconds(lambda body=body, answer=answer: _code(body, answer))
        asking = _time_api(make_api(OneAnswer(answer), options, None), body.encode())
        note("encoding", encoding)
        note("search", searching)
        note("rest of the answer", answering - encoding - searching)
        note("JSON", coding)
        note("FastAPI", asking - coding)
    connection.close()
    # The first one is a warm-up.
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def _request(connection: http.client.HTTPConnection, body: str) -> None:
    connection.request("POST", "/match", body.encode(), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200, answer.status


def _encode(matcher: Matcher, texts: Sequence[str]) -> Any:
    tokens = matcher.encoder.tokenise(list(texts), "left")
    return embed_rows(matcher.encoder, tokens, np.arange(len(tokens)))


def _code(body: str, answer: MatchAnswer) -> None:
    MatchBody.model_validate_json(body)
    Answer.of(answer).model_dump_json()


def _time_api(api: Callable[..., Any], body: bytes) -> float:
    """Return the seconds of the second of two requests to the interface, as a server calls it. api: an ASGI app."""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    about: dict[str, Any] = {
        "type": "http", "method": "POST", "path": "/match", "raw_path": b"/match", "query_string": b"",
        "headers": headers, "http_version": "1.1", "scheme": "http", "root_path": "",
        "server": ("127.0.0.1", 8000), "client": ("127.0.0.1", 1),
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def ask() -> float:
        codes = list[int]()

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                codes.append(message["status"])

        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(2):
            began = loop.time()
            await api(dict(about), receive, send)
        took = loop.time() - began
        assert codes == [200, 200], codes
        return took

    return asyncio.run(ask())


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps(time_parts(options_of(given["options"]), given["address"], given["bodies"])))
