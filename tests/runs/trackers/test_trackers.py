"""The port of trackers: a tracker is added by its function and its option; W&B gets each round once."""

import sys
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from types import SimpleNamespace
from typing import Any

import pytest

from al_ray.core.config.trackers import TrackerOptions
from al_ray.runs.run_folder import RunFolder
from al_ray.runs.trackers.registry import TRACKERS, tracking
from tests.runs.test_run_folder import RUN, played


@dataclass(frozen=True)
class MoreOptions(TrackerOptions):
    """With the option of another tracker."""

    notebook: str | None = None


def with_rounds(folder: RunFolder, rounds: int) -> RunFolder:
    folder.bind(RUN)
    played(folder, rounds)
    return folder


def test_a_tracker_is_added_by_its_function_and_its_option(monkeypatch, tmp_path, task):
    assert [*TRACKERS] == [one.name for one in fields(TrackerOptions)]
    written = list[tuple[str, str, int]]()
    monkeypatch.setitem(
        TRACKERS, "notebook", lambda name: lambda run, group: written.append((name, group, len(run.complete_rounds())))
    )
    track = tracking(MoreOptions(notebook="mine"), lambda run, group: tmp_path / "events" / group)
    track(with_rounds(RunFolder(tmp_path / "run", task), 2), "static")
    tracking(MoreOptions(), lambda run, group: tmp_path / "others")(RunFolder(tmp_path / "run", task), "")
    assert written == [("mine", "static", 2)]
    assert len(list((tmp_path / "events" / "static").iterdir())) == len(list((tmp_path / "others").iterdir())) == 2


class Failed(Exception):
    """The Error of the package below."""


@dataclass
class Service:
    """Weights & Biases in memory, with those functions of its package that we call."""

    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    down: bool = False
    Error = Failed

    @contextmanager
    def init(self, *, project: str, id: str | None, name: str, group: str | None, config: Any, **_: Any):
        if self.down:
            raise Failed("the network is\ndown")
        own = id or f"id{len(self.runs)}"
        one = self.runs.setdefault(own, {"name": f"{project}/{name}", "group": group, "config": config, "log": []})
        yield SimpleNamespace(id=own, log=lambda figures, step: one["log"].append((step, figures)))


@pytest.fixture
def service(monkeypatch) -> Service:
    one = Service()
    monkeypatch.setitem(sys.modules, "wandb", one)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    return one


def test_wandb_gets_each_round_once_and_a_resumed_run_continues(service, tmp_path, task, caplog):
    folder = RunFolder(tmp_path / "first", task)

    def track(rounds: int) -> None:
        options = TrackerOptions(wandb="project")
        tracking(options, lambda run, _: run.path / "events")(with_rounds(folder, rounds), "static")

    service.down = True
    track(1)
    assert "`wandb`: the network is down; the next round, or the same command, writes what is missing" in caplog.text
    service.down = False
    # Another session, and the command once more after the end.
    for rounds in (1, 2, 2):
        track(rounds)
    (run,) = service.runs.values()
    assert (run["name"], run["group"]) == ("project/first", "static")
    assert run["config"]["training"]["epochs"] == RUN.training.epochs
    # Five labels after the first round, ten after the second.
    assert [step for step, figures in run["log"] if "average_precision" in figures and figures["round"]] == [5, 10]
    assert run["log"][-1][1]["average_precision"] == folder.metrics()[-1]["average_precision"]
