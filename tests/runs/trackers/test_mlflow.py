"""A run on an MLflow server: all options, each round once, the last model, and a run that continues after a stop."""

import importlib.util
import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from al_ray.cli import run as run_job
from al_ray.cli._shared.entry import job
from al_ray.core.errors import BadOption
from al_ray.runs.candidate_figures import CandidateFigures, CandidateRecall
from al_ray.runs.run_folder import RunFolder
from al_ray.runs.trackers import mlflow as mlflow_tracking
from al_ray.runs.trackers.mlflow import parameters, tracking
from al_ray.storage.files import write_text
from tests.runs.test_run_folder import RUN, played
from tests.tracking_server import ask, by_name, runs_of
from tests.tracking_server import server as server


class Failed(Exception):
    """MlflowException of the client below."""


@dataclass
class Tracked:
    """A run of the server below, which counts what is written."""

    id: str
    name: str
    tags: dict[str, str]
    params: dict[str, str] = field(default_factory=dict)
    metrics: list[tuple[str, float, int]] = field(default_factory=list)
    artifacts: list[str] = field(default_factory=list)
    ended: int = 0

    @property
    def entity(self) -> Any:
        data = SimpleNamespace(params=self.params, tags=self.tags, metrics={n: value for n, value, _ in self.metrics})
        return SimpleNamespace(info=SimpleNamespace(run_id=self.id), data=data)

    def steps(self, name: str) -> list[int]:
        return [step for one, _, step in self.metrics if one == name]


class Server:
    """An MLflow server in memory, with those methods of its client that we call; `down` makes all of them fail."""

    def __init__(self) -> None:
        self.runs, self.down = list[Tracked](), False

    def search_experiments(self, max_results: int) -> list[Any]:
        if self.down:
            raise Failed("API request failed:\nconnection refused")
        return []

    def get_experiment_by_name(self, name: str) -> Any:
        self.search_experiments(1)
        return SimpleNamespace(experiment_id="7") if self.runs else None

    def create_experiment(self, name: str) -> str:
        assert name == "al_ray"
        return "7"

    def search_runs(self, experiments: list[str], filter_string: str) -> list[Any]:
        return [one.entity for one in self.runs if filter_string == f"attributes.run_id = '{one.id}'"]

    def create_run(self, experiment: str, run_name: str, tags: dict[str, str]) -> Any:
        self.runs.append(Tracked(f"id{len(self.runs)}", run_name, dict(tags)))
        return self.runs[-1].entity

    def of(self, number: str) -> Tracked:
        return next(one for one in self.runs if one.id == number)

    def log_batch(self, number: str, metrics: tuple[Any, ...] = (), params: tuple[Any, ...] = ()) -> None:
        assert len(params) <= 100
        self.of(number).params |= {one.key: one.value for one in params}
        self.of(number).metrics += [(one.key, one.value, one.step) for one in metrics]

    def set_tag(self, number: str, name: str, value: str) -> None:
        self.of(number).tags[name] = value

    def log_artifacts(self, number: str, folder: str, path: str) -> None:
        self.of(number).artifacts += [f"{path}/{one.name}: {one.read_text()}" for one in Path(folder).iterdir()]

    def set_terminated(self, number: str) -> None:
        self.of(number).ended += 1


@pytest.fixture
def memory(monkeypatch) -> Server:
    """A server in memory at http://mlflow, with a client that is installed."""
    one = Server()
    entities = SimpleNamespace(
        Param=lambda key, value: SimpleNamespace(key=key, value=value),
        Metric=lambda key, value, timestamp, step: SimpleNamespace(key=key, value=value, step=step),
    )
    client = SimpleNamespace(
        MlflowClient=lambda uri: one, exceptions=SimpleNamespace(MlflowException=Failed), entities=entities
    )
    monkeypatch.setitem(sys.modules, "mlflow", client)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    for name in mlflow_tracking.CLIENT:
        monkeypatch.setenv(name, mlflow_tracking.CLIENT[name])
    return one


def with_rounds(folder: RunFolder, rounds: int) -> RunFolder:
    """The folder with so many complete rounds, each with a model."""
    folder.bind(RUN)
    played(folder, rounds)
    for number in range(1, rounds + 1):
        write_text(folder.round(number) / "model" / "scorer.json", f"model {number}")
    return folder


def test_a_run_is_written_once_and_continued_after_a_stop(memory, tmp_path, task):
    track, folder = tracking("http://mlflow"), RunFolder(tmp_path / "first", task)
    track(folder, "")
    assert memory.runs == []
    track(with_rounds(folder, 1), "")
    (tracked,) = memory.runs
    assert tracked.name == "first"
    assert tracked.tags == {"strategy": "uncertainty", "seed": "0", "encoder": "all-MiniLM-L6-v2", "budget": "12"}
    assert {"training.epochs", "search.kind", "training.losses.queue", "task_digest"} <= set(tracked.params)
    assert (tracked.params["rounds"], tracked.params["task_digest"]) == ("2", task.digest)
    # Five labels after the first round, ten after the second.
    assert tracked.steps("average_precision") == tracked.steps("seconds/train") == [5]
    assert tracked.artifacts == []
    # Another session, and the command once more after the end.
    for _ in range(2):
        tracking("http://mlflow")(with_rounds(RunFolder(tmp_path / "first", task), 2), "")
        assert memory.runs == [tracked]
        assert tracked.steps("average_precision") == tracked.steps("round") == [5, 10]
        assert tracked.artifacts == ["model/scorer.json: model 2"]
        assert tracked.ended == 1
    values = {name: value for name, value, step in tracked.metrics if step == 10}
    line = folder.metrics()[-1]
    assert values["average_precision"] == line["average_precision"]
    assert values["labels"] == 10


def test_a_run_with_a_matcher_has_the_cosine_alone_and_the_recall_of_its_candidates(memory, tmp_path, task):
    folder = with_rounds(RunFolder(tmp_path, task), 1)
    recall = CandidateRecall(90, 4, {"cosine": 0.5, "3-grams": None, "both": 0.75})
    line = {**folder.metrics()[0], "candidates": {"dev": CandidateFigures(recall, 0.25).as_dict()}}
    write_text(folder.path / "metrics.jsonl", json.dumps(line) + "\n")
    tracking("http://mlflow")(folder, "")
    values = {name: value for name, value, _ in memory.runs[0].metrics if name.startswith("candidates")}
    assert values == {
        "candidates/dev/number": 90, "candidates/dev/recall/cosine": 0.5, "candidates/dev/recall/both": 0.75,
        "candidates/dev/cosine_average_precision": 0.25,
    }  # fmt: skip


def test_a_parameter_that_changed_is_a_tag_and_a_run_that_the_server_lacks_is_new(memory, tmp_path, task):
    track, folder = tracking("http://mlflow"), with_rounds(RunFolder(tmp_path, task), 2)
    track(folder, "")
    folder.bind(replace(RUN, rounds=3))
    track(folder, "")
    assert memory.runs[0].params["rounds"] == "2"
    # 5, 7 and 11 labels.
    assert (memory.runs[0].tags["rounds"], memory.runs[0].tags["budget"]) == ("3", "23")
    memory.runs[0].id = "deleted"
    track(folder, "")
    assert memory.runs[1].steps("round") == [5, 10]
    assert json.loads((tmp_path / "mlflow.json").read_text()) == {"run_id": "id1"}


def test_a_server_that_fails_is_a_warning_and_gets_what_is_missing_later(memory, tmp_path, task, caplog):
    track, folder = tracking("http://mlflow"), with_rounds(RunFolder(tmp_path, task), 1)
    memory.down = True
    track(folder, "")
    assert "`mlflow`: API request failed: connection refused; the next round" in caplog.text
    memory.down = False
    track(with_rounds(folder, 2), "")
    assert memory.runs[0].steps("round") == [5, 10]


def test_a_server_that_does_not_answer_is_refused(memory):
    memory.down = True
    with pytest.raises(BadOption, match=r"`mlflow='http://mlflow'`: no tracking server answers there .*refused"):
        tracking("http://mlflow")


@pytest.mark.parametrize("uri", ["http://me:hunter2@mlflow", "postgresql://me:hunter2@db/x", "http://m?token=hunter2"])
def test_a_password_in_the_uri_is_refused_and_not_said(uri):
    with pytest.raises(BadOption, match=r"`mlflow` .* holds a .* MLFLOW_TRACKING_PASSWORD") as refused:
        tracking(uri)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "uri",
    ["http://[::1]:5000", "https://mlflow.example/base", "sqlite:///runs.db", "databricks", "databricks://scope:key"],
)
def test_a_uri_without_a_password_is_taken(memory, uri):
    tracking(uri)


def test_the_command_refuses_a_missing_package_before_it_reads_the_task(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    # No such task: the package is looked for first.
    arguments = ["--task", str(tmp_path / "none"), "--out", str(tmp_path / "out"), "--mlflow", "http://127.0.0.1:1"]
    monkeypatch.setattr(sys, "argv", ["al-ray run", *arguments])
    with pytest.raises(SystemExit) as stop:
        job(run_job.main)
    assert stop.value.code == 2
    assert "--mlflow needs the package mlflow, which is not installed: pip install" in (text := capsys.readouterr().err)
    assert ".[mlflow]" in text
    assert not (tmp_path / "out").exists()


def test_parameters_have_dotted_names():
    assert parameters({"a": 1, "b": {"c": None, "d": {"e": [1, 2]}}}) == {"a": "1", "b.c": "None", "b.d.e": "[1, 2]"}


@pytest.mark.slow
def test_a_real_server_gets_all_of_it_once(server, tmp_path, task):
    for rounds in (1, 2, 2):
        tracking(server)(with_rounds(RunFolder(tmp_path / "real", task), rounds), "")
    own = json.loads((tmp_path / "real" / mlflow_tracking.FILE).read_text())["run_id"]
    runs = runs_of(server, mlflow_tracking.EXPERIMENT)
    # The server is the test's other task's, too.
    (run,) = [one for one in runs if one["info"]["run_id"] == own]
    assert len(runs) <= 2
    number, data = run["info"]["run_id"], run["data"]
    assert run["info"]["status"] == "FINISHED"
    assert by_name(data["params"])["training.losses.queue"] == "1024"
    history = ask(server, f"metrics/get-history?run_id={number}&metric_key=average_precision")["metrics"]
    assert [int(one["step"]) for one in history] == [5, 10]
    (artifact,) = ask(server, f"artifacts/list?run_id={number}&path=model")["files"]
    assert artifact["path"] == "model/scorer.json"
