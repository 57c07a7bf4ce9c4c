"""Somebody who labels whatever the page of a run shows, and comes back when it does."""

import socket
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path

import httpx2
import pyarrow.parquet as pq

from al_ray.core.task import Task
from tests.apps.annotating.page_process import free_port
from tests.apps.annotating.waiting_runs import Person
from tests.oracles.llm_process import Judge
from tests.soak.checks import Call

SECONDS = 60.0
"""For which an answer is waited: a page that stands still for a while has it still."""


class Labeller:
    """A person at the page of a run; calls, start: as those of a Seller."""

    def __init__(self, task: Task, run: Path) -> None:
        """Look for the page until `close`."""
        self.task, self.run, self.port = task, run, free_port()
        self.calls, self.start, self.plan, self.truth = list[Call](), 0, deque[str](), Judge()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def reopen(self) -> None:
        """Nothing was closed."""

    def close(self) -> None:
        """Go away."""
        self.ended.set()
        self.thread.join()

    def _work(self) -> None:
        while not self.ended.wait(0.3):
            # The command is not there yet, or not any more. A client is dear, so one comes when somebody listens.
            with suppress(httpx2.HTTPError, OSError):
                socket.create_connection(("127.0.0.1", self.port), SECONDS).close()
                self._label()

    def _label(self) -> None:
        address = f"http://127.0.0.1:{self.port}"
        with httpx2.Client(base_url=address, follow_redirects=True, timeout=SECONDS) as client:
            person = Person(client, "ann")
            while not self.ended.is_set():
                if not person.code:
                    self.ended.wait(0.3)
                    person.open("/")
                    continue
                pair = self._pair(person.code)
                # Before it is sent: whoever is killed with it may have it on disk.
                self.calls.append(Call(self.start, ((pair, self.truth[pair]),)))
                person.answer(self.truth[pair])

    def _pair(self, code: str) -> tuple[str, str]:
        """Return the texts of a pair by its code, such as r001-00005."""
        part, _, place = code.removeprefix("r").partition("-")
        batch = pq.ParquetFile(self.run / f"round-{part}" / "batch.parquet").read()
        left, right = (batch[side][int(place) - 1].as_py() for side in ("left", "right"))
        return str(self.task.left.texts[left]), str(self.task.right.texts[right])
