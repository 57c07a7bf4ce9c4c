"""A labelling service on loopback that knows the truth, and fails, stalls and misanswers as it is told."""

import importlib
import itertools
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from al_ray.core.config.oracle import OracleConfig
from al_ray.core.labels import NO, UNSURE, YES, Answers, Batch
from al_ray.core.pairs import Rows, as_pairs
from al_ray.core.task import Task
from al_ray.oracles.function import CallableOracle
from al_ray.oracles.python_function import FunctionService
from al_ray.runs.ledger import Ledger

PRICE = 0.25
# Seconds of a wait that ends at once, unless the code is wrong.
LONG = 600.0
Texts = tuple[str, str]

# What a user would write: it trusts its service, and raises whatever goes wrong on the way.
CLIENT = """
import http.client
import json
from contextlib import closing

from al_ray.oracles.function import Reply


def asked(left, right):
    with closing(http.client.HTTPConnection("127.0.0.1", {port})) as service:
        service.request("POST", "/", json.dumps([left, right]))
        with service.getresponse() as response:
            if response.status != 200:
                raise RuntimeError(f"HTTP {{response.status}}")
            return json.loads(response.read())


def label(left, right):
    return asked(left, right)["answers"]


def priced(left, right):
    said = asked(left, right)
    return Reply(said["answers"], said["cost"])
"""
# Faults of which the function returns something, which then cannot be read, and how much of it not.
MISANSWERS = {"count": "all", "text": "all", "nothing": "all", "word": "first", "confidence": "first", "empty": "first"}
# Faults of which the function raises.
FAILURES = ("500", "garbage", "drop")


COUNT = 12
TRUTH = np.array([YES, NO, UNSURE] * 4)
ALL: Rows = np.arange(COUNT)
WORDS = {YES: "Match", NO: " no ", UNSURE: "unsure"}
names = (f"judge{number}" for number in itertools.count())


def write(code: str) -> str:
    """Write a module into the current folder; its name."""
    name = next(names)
    Path(f"{name}.py").write_text(code)
    # Python may have looked into the folder in this very tick of the file system's clock.
    importlib.invalidate_caches()
    return name


class LabelServer(ThreadingHTTPServer):
    """Answers a POST of [lefts, rights]; the next fault of `plan`, if there is one, spoils the answer.

    calls: the pairs of each call, as they came; started: when, by this machine's monotonic clock; billed: PRICE for
    each pair of the calls that were answered with something a function can return; stalling: acquired once for each
    call that began to stall.
    """

    # A stalled call may outlive the test.
    daemon_threads, block_on_close = True, False

    def __init__(self, truth: Mapping[Texts, str], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.truth, self.released, self.counting = truth, threading.Event(), threading.Lock()
        self.stalling = threading.Semaphore(0)
        self.reset()

    def reset(self, *plan: str) -> None:
        self.plan, self.billed = deque(plan), 0.0
        self.calls: list[list[Texts]] = []
        self.started: list[float] = []

    def answers(self, pairs: list[Texts], fault: str) -> object:
        right: list[object] = [[self.truth[pair], 0.75] for pair in pairs]
        first = {"word": "perhaps", "confidence": ["yes", 2], "empty": ""}
        spoilt: dict[str, object] = {"count": [*right, "no"], "text": "1" * len(pairs), "nothing": None}
        return [first[fault], *right[1:]] if fault in first else spoilt.get(fault, right)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, LabelServer)
        server.started.append(time.monotonic())
        body = self.rfile.read(int(self.headers["Content-Length"]))
        pairs: list[Texts] = [(left, right) for left, right in zip(*json.loads(body), strict=True)]
        server.calls.append(pairs)
        with server.counting:
            fault = server.plan.popleft() if server.plan else ""
        if fault == "stall":
            server.stalling.release()
            server.released.wait(LONG)
        elif fault == "slow":
            time.sleep(0.05)
        if fault == "drop":
            self.close_connection = True
            return
        if fault not in (*FAILURES, "stall"):
            with server.counting:
                server.billed += PRICE * len(pairs)
        said = json.dumps({"answers": server.answers(pairs, fault), "cost": PRICE * len(pairs)})
        self.send_response(500 if fault == "500" else 200)
        self.end_headers()
        self.wfile.write(said.encode()[: 5 if fault == "garbage" else None])

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def in_thread(server: ThreadingHTTPServer, released: threading.Event) -> Iterator[None]:
    """Serve in a thread, and set `released` at the end."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield
    released.set()
    server.shutdown()
    thread.join()


@contextmanager
def serving(truth: Mapping[Texts, str]) -> Iterator[LabelServer]:
    """A server in a thread; its stalled calls go on as it ends."""
    with LabelServer(truth) as server, in_thread(server, server.released):
        yield server


class Bench:
    """Twelve pairs, a server that knows their labels, and a ledger."""

    def __init__(self, task: Task, folder: Path) -> None:
        space = task.split("train").space
        self.task, self.folder = task, folder
        self.batch = Batch(as_pairs(np.repeat(space.left[:3], 4), np.tile(space.right[:4], 3)), np.zeros(COUNT), "seed")
        self.texts = list(zip(*task.texts_of(self.batch.pairs), strict=True))
        self.truth = {pair: WORDS[label] for pair, label in zip(self.texts, TRUTH.tolist(), strict=True)}
        self.server: LabelServer
        self.check: Callable[[], None] = lambda: None

    def oracle(self, function: str = "label", spent: float = 0.0, code: str = "", **options: Any) -> CallableOracle:
        """An oracle that asks the server, or a code of its own."""
        name = write(code or CLIENT.format(port=self.server.server_port))
        config = OracleConfig(**{"pairs_per_call": 4, "retry_seconds": 0.0, "call_timeout": LONG, **options})
        service = FunctionService(f"{name}:{function}", config)
        return CallableOracle(service, self.task, config, 0, spent, lambda stage, done, total: None, self.check)

    def bought(self, oracle: CallableOracle, rows: Rows = ALL) -> list[Answers]:
        return list(oracle.label(1, self.batch, rows))

    def ledger(self) -> Ledger:
        ledger = Ledger(self.folder, self.task)
        ledger.add_batch(1, self.batch)
        return ledger
