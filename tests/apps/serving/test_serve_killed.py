"""jobs.serve on a real Ray Serve: processes are killed and the model is replaced while requests come and go.

Every answer is compared with what its model and the known texts give by loops; nothing that was acknowledged is lost.
"""

import csv
import http.client
import signal
import threading
from pathlib import Path
from typing import Any, Self

import pytest
import torch

import al_ray
from al_ray.active_learning.config import RunConfig
from al_ray.apps.matching.model import open_model
from al_ray.apps.serving.matcher import Matcher
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.store import StoreWriter, read_store
from al_ray.core.scorer import Scorer
from al_ray.core.task import Task
from al_ray.encoders.encoder import saved
from al_ray.runs.run_folder import bound_config
from al_ray.training.saved_model import write_model
from tests.apps.audit.test_audit_job import run_folder
from tests.apps.serving.serving_process import ServingProcess

pytestmark = [pytest.mark.faults, pytest.mark.long]
TOKEN = "0123456789abcdef"
QUERIES = ("abcd", "just a text", "xyz 12")


def other_model(run: Path, folder: Path) -> Path:
    """A copy of a run's model outside of it, with other weights."""
    config: RunConfig = bound_config(run)
    encoder = saved(str(run / "round-001/model"), config.encoding)
    with torch.no_grad():
        for weights in encoder.network.parameters():
            weights.add_(0.05 * torch.randn(weights.shape, generator=torch.Generator().manual_seed(1)))
    write_model(encoder, Scorer(20.0, -10.0, 0.1, "fitted"), folder, "nothing")
    return folder


class Load:
    """Requests from threads until `ended`: changes from one, and from others matches whose answers are checked."""

    def __init__(
        self, server: ServingProcess, base: dict[str, str], scores: dict[str, dict[str, dict[str, float]]],
        readers: int = 1,
    ) -> None:  # fmt: skip
        """scores: digest of a model -> query -> id -> score, of the base texts."""
        self.server, self.base, self.scores = server, base, scores
        self.acknowledged, self.problems, self.models = dict[str, str | None](), list[str](), list[str]()
        self.answers, self.changes, self.ended = 0, 0, threading.Event()
        # The id of a change that was sent and not acknowledged.
        self.in_flight = ""
        # The ids of texts whose removal was sent.
        self.removed = set[str]()
        self.progress = threading.Condition()
        self.threads = [threading.Thread(target=work) for work in (self.write, *[self.read] * readers)]

    def __enter__(self) -> Self:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        for thread in self.threads:
            thread.join()

    def wait_for(self, answers: int, changes: int) -> None:
        """Wait until so many further requests of each kind are answered."""
        target = self.answers + answers, self.changes + changes
        with self.progress:
            done = self.progress.wait_for(
                lambda: self.problems or (self.answers >= target[0] and self.changes >= target[1]), 240
            )
        assert done, "no progress in 240 s"
        assert not self.problems

    def write(self) -> None:
        number = 0
        while not self.ended.is_set() and not self.problems:
            number += 1
            self.in_flight = name = f"new-{number}"
            text = {"id": name, "text": f"text {number} abc"}
            code, answer = self.call("PUT", "/texts", {"texts": [text]})
            if code != 200:
                self.problem(f"PUT: {code} {answer}")
                return
            self.acknowledged[name] = f"text {number} abc"
            if number % 3 == 0:
                self.removed.add(name)
                code, answer = self.call("DELETE", "/texts", {"ids": [name]})
                if code != 200:
                    self.problem(f"DELETE: {code} {answer}")
                    return
                self.acknowledged[name] = None
            self.in_flight = ""
            self.count("changes")

    def read(self) -> None:
        while not self.ended.is_set() and not self.problems:
            # One look: the writer may remove the text meanwhile.
            there = [(one, text) for one, text in list(self.acknowledged.items()) if text is not None]
            newest, queries = (there[-1][0], [*QUERIES, there[-1][1]]) if there else (None, [*QUERIES])
            code, answer = self.call("POST", "/match", {"texts": queries})
            if code != 200 or answer["model"] not in self.scores:
                self.problem(f"POST: {code} {answer}")
                return
            self.check(answer, newest)
            self.count("answers")

    def call(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        try:
            return self.server.call(method, path, body)
        except (OSError, http.client.HTTPException) as error:
            # Nothing answers any more.
            return 0, repr(error)

    def check(self, answer: dict[str, Any], newest: str | None) -> None:
        """All base texts have the scores of the model that the answer names; a text that was put is found."""
        self.models.append(answer["model"])
        for query, results in zip(QUERIES, answer["results"], strict=False):
            expected = self.scores[answer["model"]][query]
            found = {one["id"]: one["score"] for one in results if one["id"] in self.base}
            if found != pytest.approx(expected, abs=1e-5):
                self.problem(f"{query}: {found} and not {expected}")
        # A removal may have been made before the match, and not be acknowledged yet.
        if newest is not None and newest not in self.removed:
            best = {one["id"] for one in answer["results"][-1] if one["score"] > 1 - 1e-5}
            if newest not in best:
                self.problem(f"{newest} was acknowledged, and is not found: {answer['results'][-1][:3]}")

    def problem(self, text: str) -> None:
        with self.progress:
            # After the end everything is killed.
            if not self.ended.is_set():
                self.problems.append(text)
            self.progress.notify_all()

    def count(self, name: str) -> None:
        with self.progress:
            setattr(self, name, getattr(self, name) + 1)
            self.progress.notify_all()


def known_scores(model_path: Path, options: ServeOptions, base: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """The digest of a model's answers, and its scores of all base texts by loops."""
    model = al_ray.load_model(model_path)
    scores = {
        query: dict(zip(base, model.cosines([query] * len(base), list(base.values())).tolist(), strict=True))
        for query in QUERIES
    }
    return Matcher(options, open_model(model_path)).digest, scores


def write_known(task: Task, path: Path) -> None:
    """Write the left texts of a task as a table."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("key", "words"), *((f"k{row}", one) for row, one in enumerate(task.left.texts))])


@pytest.fixture(scope="module")
def here(make_task, tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("serve")
    task = make_task(True, clusters=10, members=4)
    run = run_folder(root / "may", task)
    other_model(run, root / "june")
    write_known(task, root / "k.csv")
    return root


def test_nothing_acknowledged_is_lost_and_no_answer_is_wrong_when_processes_are_killed(here, tmp_path):
    link, store = tmp_path / "current", tmp_path / "store"
    link.symlink_to(here / "may/run")
    line = ["--model", link, "--known", here / "k.csv", "--text-columns", "words", "--id-column", "key"]
    options = [*map(str, line), "--store", str(store), "--limit", "10000"]
    server = ServingProcess(options, TOKEN)
    try:
        base = {one: known.text for one, known in read_store(store).texts.items()}
        own = ServeOptions(model=link, known=here / "k.csv", store=store)
        scores = dict(known_scores(path, own, base) for path in (here / "may/run", here / "june"))
        may, june = scores
        assert may != june
        with Load(server, base, scores) as load:
            load.wait_for(3, 3)
            for name in ("Matcher", "Writer", "Matcher"):
                killed = server.replica(name)
                killed.send_signal(signal.SIGKILL)
                load.wait_for(5, 5)
                assert server.replica(name).pid != killed.pid
            assert set(load.models) == {may}
            # A new model: the link leads to another folder.
            (tmp_path / "next").symlink_to(here / "june")
            (tmp_path / "next").rename(link)
            server.process.send_signal(signal.SIGHUP)
            while june not in load.models:
                load.wait_for(1, 0)
            load.wait_for(3, 3)
            assert load.models == sorted(load.models, key=(may, june).index)
            # Everything at once, under load: what is in flight may fail, and what was acknowledged must be there.
            load.ended.set()
            server.kill_everything()
        acknowledged = {one: text for one, text in load.acknowledged.items() if text is not None}
        there = {one: known.text for one, known in read_store(store).texts.items() if one != load.in_flight}
        acknowledged.pop(load.in_flight, None)
        assert there == {**base, **acknowledged}
        server = ServingProcess(options, TOKEN)
        after = server.match(*QUERIES)
        assert after["model"] == june
        present = {one: known.text for one, known in read_store(store).texts.items()}
        expected = known_scores(here / "june", own, present)[1]
        for query, results in zip(QUERIES, after["results"], strict=True):
            assert {one["id"]: one["score"] for one in results} == pytest.approx(expected[query], abs=1e-5)
        assert server.call("POST", "/match", {"texts": "a"}, token="another-token-here")[0] == 401
        assert server.stop() == 0
        assert server.lines[-1] == f"stopped; the known texts are in {store}"
        # The lock is free, and all changes are in one table.
        StoreWriter(store).close()
        assert read_store(store).changes == []
    finally:
        if server.process.poll() is None:
            server.kill_everything()
