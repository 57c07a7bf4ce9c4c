"""A server on loopback that speaks the protocol of OpenAI's chat completions, knows the truth, and fails as planned."""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.oracles.label_server import in_thread

MODEL, KEY = "judge-1", "sk-planted-0123456789abcdef"
# Tokens of a prompt and of an answer, for each pair.
TOKENS = 10, 4
Texts = tuple[str, str]


class LlmServer(ThreadingHTTPServer):
    """Answers chat completions; the next word of `plan`, if there is one, spoils an answer.

    asked: the bodies of all requests; keys: the header of each. tokens: how many of a prompt and of an answer a request
    takes. billed: those of each request that was not refused; answered: the pairs with a readable answer in a reply
    that was sent whole. released: ends stalled calls; stalling: acquired once for each call that began to stall.
    """

    daemon_threads, block_on_close = True, False

    def __init__(self, truth: Mapping[Texts, str], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.truth, self.released, self.lock = truth, threading.Event(), threading.Lock()
        self.stalling = threading.Semaphore(0)
        self.reset()

    def reset(self, *plan: str) -> None:
        self.plan, self.asked, self.keys = deque(plan), list[dict[str, Any]](), list[str]()
        self.tokens: Callable[[Mapping[str, Any]], tuple[int, int]] = usual_tokens
        self.billed, self.answered = list[tuple[int, int]](), list[Texts]()

    def note(self, pairs: list[Texts]) -> None:
        """Note pairs that are answered."""
        with self.lock:
            self.answered += pairs

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def pairs(self) -> list[Texts]:
        """The pairs of all requests, in order."""
        return [texts for body in self.asked for texts in pairs_of(body)]


def pairs_of(body: Mapping[str, Any]) -> list[Texts]:
    return [(one["left"], one["right"]) for one in json.loads(body["messages"][-1]["content"])]


def usual_tokens(body: Mapping[str, Any]) -> tuple[int, int]:
    return TOKENS[0] * len(pairs_of(body)), TOKENS[1] * len(pairs_of(body))


def answered_pairs(pairs: list[Texts], fault: str) -> list[Texts]:
    """The pairs with a readable answer in the reply to a request that goes wrong in this way."""
    part = {"": pairs, "no usage": pairs, "few": pairs[:-1], "word": pairs[1:]}
    return part.get(fault, [])


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, LlmServer)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.asked.append(body)
            server.keys.append(self.headers.get("Authorization", ""))
            fault = server.plan.popleft() if server.plan else ""
        status, _, wait = fault.partition(" after ")
        if fault == "stall":
            server.stalling.release()
            server.released.wait(600)
        if status.isdigit():
            # As servers do, it quotes the key.
            said = {"error": {"message": f"no: {self.headers['Authorization']} and sk-pl****cdef", "type": "x"}}
            self.reply(int(status), json.dumps(said), {"Retry-After": wait} if wait else {})
            return
        tokens = (TOKENS[0], 10**6) if fault == "dear" else server.tokens(body)
        with server.lock:
            server.billed.append(tokens)
        server.note(answered_pairs(pairs_of(body), fault))
        if fault == "drop":
            self.close_connection = True
            return
        self.reply(200, completion(server, body, fault, tokens), {}, cut=fault == "cut")

    def reply(self, status: int, text: str, headers: Mapping[str, str], cut: bool = False) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content[: len(content) // 2 if cut else None])
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def completion(server: LlmServer, body: Mapping[str, Any], fault: str, tokens: tuple[int, int]) -> str:
    pairs = pairs_of(body)
    answers = [
        {"pair": number, "answer": server.truth[texts], "confidence": 0.75} for number, texts in enumerate(pairs, 1)
    ]
    if fault == "few":
        answers = answers[:-1]
    elif fault == "word":
        answers[0]["answer"] = "perhaps"
    elif fault == "numbers":
        answers[0]["pair"] = 2
    content = "{" if fault == "malformed" else json.dumps({"answers": answers})
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
    if fault == "refusal":
        message |= {"content": None, "refusal": f"I cannot ({KEY})"}
    reply: dict[str, Any] = {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": fault.removeprefix("model ") if fault.startswith("model ") else MODEL,
        "choices": [{"index": 0, "finish_reason": "length" if fault == "malformed" else "stop", "message": message}],
        "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]},
        # It must not reach a file.
        "echo": server.keys[-1],
    }
    if fault == "no usage":
        del reply["usage"]
    return json.dumps(reply)[: 20 if fault == "garbage" else None]


@contextmanager
def serving(truth: Mapping[Texts, str]) -> Iterator[LlmServer]:
    """A server in a thread; its stalled calls go on as it ends."""
    with LlmServer(truth) as server, in_thread(server, server.released):
        yield server
