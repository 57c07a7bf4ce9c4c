"""A client of jobs.serve that changes the known texts and searches in them, and asks again until it is answered."""

import threading
from pathlib import Path

import pytest

from al_ray.apps.serving.options import ServeOptions
from tests.apps.serving.serving_process import ServingProcess
from tests.apps.serving.test_serve_killed import QUERIES, known_scores
from tests.apps.serving.test_serve_nodes import PatientLoad

PAUSE = 0.2
"""Seconds between two changes: each further known text makes every search dearer."""


class Address(ServingProcess):
    """A service that somebody else starts, and starts again at the same port."""

    def __init__(self, port: int) -> None:
        """No token: it listens on loopback."""
        self.port, self.token = port, "none"


class Searcher(PatientLoad):
    """Adds, replaces and removes texts, and searches, until `finish`; then it compares the answers with a loop.

    acknowledged: as of Load, of texts that come once and are removed or stay. replaced: id -> the last text of those
    that are replaced again and again. finished: the comparison is made, or something is wrong.
    """

    def __init__(self, port: int, options: ServeOptions, known: dict[str, str]) -> None:
        """known: the texts of --known by id."""
        self.options, self.replaced = options, dict[str, str]()
        self.begun, self.enough, self.finished = threading.Event(), threading.Event(), threading.Event()
        super().__init__(Address(port), known, {})

    @property
    def texts(self) -> dict[str, str]:
        """The texts that must be known when all changes are acknowledged."""
        own = {one: text for one, text in self.acknowledged.items() if text is not None}
        return {**self.base, **own, **self.replaced}

    def finish(self) -> None:
        """Make no more changes, and compare."""
        self.enough.set()

    def close(self) -> None:
        """Go away."""
        self.enough.set()
        self.ended.set()
        self.begun.set()
        self.__exit__()

    def read(self) -> None:
        """Search as soon as it is known what is to be found."""
        self.begun.wait()
        super().read()

    def write(self) -> None:
        """Change texts; each change is acknowledged before the next one is sent."""
        self.call("GET", "/ready", None)
        if not self.ended.is_set():
            # Of the texts of --known: there is a store by now, which has them.
            self.scores.update([known_scores(Path(str(self.options.model)), self.options, self.base)])
        self.begun.set()
        number = 0
        while not self.enough.wait(PAUSE) and not self.problems:
            number += 1
            name, again, text = f"new-{number}", f"again-{number % 3}", f"text {number} abc"
            if not self.put(name, text):
                break
            self.acknowledged[name] = text
            if number % 2 == 0:
                self.removed.add(name)
                if self.call("DELETE", "/texts", {"ids": [name]})[0] != 200:
                    break
                self.acknowledged[name] = None
            if not self.put(again, f"{text} again"):
                break
            self.replaced[again] = f"{text} again"
            self.count("changes")
        if not self.ended.is_set() and not self.problems:
            self.compare()
        self.finished.set()

    def put(self, name: str, text: str) -> bool:
        """Put a text, and return whether that was acknowledged; it is not if this client goes away."""
        return self.call("PUT", "/texts", {"texts": [{"id": name, "text": text}]})[0] == 200

    def compare(self) -> None:
        """Compare the answers to some queries with the scores of a loop over all texts."""
        code, answer = self.call("POST", "/match", {"texts": [*QUERIES]})
        if code != 200:
            self.problem(f"the last queries: {code} {answer}")
            return
        expected = known_scores(Path(str(self.options.model)), self.options, self.texts)[1]
        for query, results in zip(QUERIES, answer["results"], strict=True):
            found = {one["id"]: one["score"] for one in results}
            if found != pytest.approx(expected[query], abs=1e-5):
                self.problem(f"at the end, {query}: {found} and not {expected[query]}")
