"""A labelling service over HTTP that notes what it answered, and comes back at the same port after it was killed."""

import threading
from collections import deque
from contextlib import suppress

from tests.oracles.label_server import FAILURES, MISANSWERS, LabelServer, Texts
from tests.oracles.llm_process import Judge
from tests.oracles.llm_server import LlmServer
from tests.soak.checks import Call

# The module judge.py, which the command loads.
CLIENT = """
import http.client
import json
from contextlib import closing


def label(left, right):
    with closing(http.client.HTTPConnection("127.0.0.1", {port}, timeout=60)) as service:
        service.request("POST", "/", json.dumps([left, right]))
        with service.getresponse() as response:
            if response.status != 200:
                raise RuntimeError(f"HTTP {{response.status}}")
            return json.loads(response.read())["answers"]
"""


class Shop(LabelServer):
    """A server that notes in `seller` what it answered."""

    def __init__(self, seller: "Seller", port: int) -> None:
        self.seller = seller
        super().__init__(Judge(), port)

    def answers(self, pairs: list[Texts], fault: str) -> object:
        self.seller.note(pairs, fault)
        return super().answers(pairs, fault)


class Seller:
    """What is sold over all lives of the server. start: the number of the command that asks."""

    def __init__(self) -> None:
        self.calls, self.start, self.plan, self.port = list[Call](), 0, deque[str](), 0
        self.truth, self.noting = Judge(), threading.Lock()
        self.open()

    def open(self) -> None:
        """Serve at the same port as before."""
        self.server = self.opened()
        self.server.plan, self.port = self.plan, self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def opened(self) -> "Shop | LlmServer":
        """Return a server at the same port as before."""
        return Shop(self, self.port)

    def close(self) -> None:
        """Answer nobody until it is opened."""
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def reopen(self) -> None:
        """Open it unless it is open."""
        if not self.thread.is_alive():
            with suppress(OSError):
                self.open()

    def note(self, pairs: list[Texts], fault: str) -> None:
        """Note the pairs of a call whose answers can be read."""
        unread = "all" if fault in FAILURES else MISANSWERS.get(fault, "")
        read = [] if unread == "all" else pairs[1:] if unread == "first" else pairs
        if read:
            with self.noting:
                self.calls.append(Call(self.start, tuple((pair, self.truth[pair]) for pair in read)))
