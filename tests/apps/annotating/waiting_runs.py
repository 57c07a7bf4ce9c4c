"""Runs that wait for people, and the page of one as a client of the tests reaches it."""

import re
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import numpy as np
from starlette.testclient import TestClient

from al_ray.active_learning.config import RunConfig
from al_ray.apps.annotating.access import Access
from al_ray.apps.annotating.annotator import Annotator, RunStatus
from al_ray.apps.annotating.options import PageOptions
from al_ray.apps.annotating.sheets import RunSheets
from al_ray.apps.annotating.web import make_application
from al_ray.core.labels import Batch
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.runs.run_folder import RunFolder, opened

TOKEN = "a-token-of-sixteen-letters"


def waiting_run(
    root: Path, task: Task, pairs: int = 6, oracle: str = "file", lowest: float = 0.5, source: str = "uncertainty"
) -> RunFolder:
    """A run whose first round waits for people; the pairs have cosines (or scores) 0.5, 0.51, ..."""
    write_task(task, root / "task", {})
    task = read_task(root / "task")
    space = task.split("train").space
    batch = Batch(space.pairs(space.at(np.arange(pairs) * 3)), lowest + np.arange(pairs) / 100, source)
    with opened(root / "run", task) as folder:
        folder.bind(RunConfig(task=str(root / "task"), oracle=oracle, encoder="random-bert", encoder_layers=1))
        folder.ledger.add_batch(1, batch)
    return folder


class Person:
    """Somebody at a browser, signed in under a name."""

    def __init__(self, client: httpx2.Client, name: str, token: str = "") -> None:
        self.client = client
        self.page = self.client.get("/").text
        self.signed_in = self.send("/sign-in", name=name, token=token)

    @property
    def code(self) -> str:
        """The code of the pair on the page, "" if there is none."""
        return self.field("pair")

    def field(self, name: str) -> str:
        found = re.search(rf'name="{name}" value="([^"]*)"', self.page)
        return found[1] if found else ""

    def send(self, path: str, **fields: str) -> Any:
        """Send a form of the page as it is now, and look at what comes back."""
        answer = self.client.post(path, data={"csrf": self.field("csrf"), **fields})
        self.page = answer.text
        return answer

    def open(self, path: str) -> Any:
        answer = self.client.get(path)
        self.page = answer.text
        return answer

    def answer(self, label: str, **fields: str) -> Any:
        """Answer the pair on the page."""
        return self.send("/answer", pair=self.code, request=self.field("request"), label=label, **fields)

    def undo(self) -> Any:
        return self.send("/undo", request=self.field("request") + "-undo")


@contextmanager
def page_of(
    folder: RunFolder, token: str | None = None, status: RunStatus | None = None, people: bool = True, **options: Any
):
    """The page of a run: .application, .annotator, .person(NAME), and .clock, whose seconds a test sets.

    people: whether they label its rounds.
    """
    clock = SimpleNamespace(now=0.0)
    chosen, current = PageOptions(**options), status or RunStatus(command="al-ray run")
    annotator = Annotator(RunSheets(folder, 0, people), chosen, lambda: current, lambda: clock.now)
    application = make_application(annotator, Access(chosen.host, chosen.port, token))
    try:
        yield SimpleNamespace(
            application=application,
            annotator=annotator,
            clock=clock,
            person=lambda name, token="": Person(
                TestClient(application, base_url="http://127.0.0.1:8001"), name, token
            ),
        )
    finally:
        annotator.close()
