"""The lines on what the runs of a grid are doing."""

import logging
from contextlib import suppress
from types import SimpleNamespace

import pytest
from ray.exceptions import RayActorError

from al_ray.apps.grid import progress
from al_ray.apps.grid.progress import ProgressBoard, ProgressLog, logged_progress, poll_progress, reporter


def wait_for_death(actor) -> None:
    """`ray.kill` does not wait: until it is done, the actor still answers."""
    with suppress(RayActorError):
        while True:
            progress.ray.get(actor.take.remote(), timeout=600)


def said(caplog) -> list[str]:
    """The lines on progress: threads of other modules may log, too."""
    return [record.getMessage() for record in caplog.records if record.name == progress.__name__]


class Method:
    """A method of an actor, called at once."""

    def __init__(self, call) -> None:
        self.remote = call


class Handle:
    """A board whose calls need no Ray."""

    def __init__(self) -> None:
        board = ProgressBoard()
        self.report, self.take = Method(board.report), Method(board.take)


def test_a_trial_reports_at_once_and_then_after_some_seconds(monkeypatch):
    now, handle = 100.0, Handle()
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now))
    on_progress = reporter(handle, "static-s0")
    on_progress("train", 0, 10)
    now += progress.REPORT_SECONDS - 1
    on_progress("train", 5, 10)
    assert handle.take.remote() == {"static-s0": ("train", 0, 10)}
    now += 1
    on_progress("train", 6, 10)
    assert handle.take.remote() == {"static-s0": ("train", 6, 10)}
    assert handle.take.remote() == {}


def test_a_line_each_half_minute_says_cell_stage_and_share(monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    now, handle = 100.0, Handle()
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(progress, "ray", SimpleNamespace(get=lambda reports, timeout: reports))
    log = ProgressLog(handle, [])
    handle.report.remote("static-s0", "train", 1200, 3000)
    handle.report.remote("uncertainty-s0", "embed", 0, 0)
    log.poll([])
    now += 29
    log.poll([])
    assert not said(caplog)
    now += 1
    log.poll([])
    assert said(caplog) == ["static-s0: train, 1,200 of 3,000 (40%)", "uncertainty-s0: embed, 0 of 0 (0%)"]
    now += 30
    log.poll([])
    assert len(said(caplog)) == 2


@pytest.mark.usefixtures("local_ray")
def test_a_grid_without_places_says_what_the_cluster_has(monkeypatch, caplog):
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    # A busy machine takes long to start the board.
    monkeypatch.setattr(progress, "ANSWER_SECONDS", 600.0)
    with logged_progress([{"CPU": 1.0}] * 2):
        trials = [SimpleNamespace(status=status) for status in ("TERMINATED", "PENDING", "PENDING")]
        poll_progress(trials)
        poll_progress([*trials, SimpleNamespace(status="RUNNING")])
        poll_progress(trials[:1])
    (line,) = said(caplog)
    assert line.startswith(
        "2 runs wait for places or start, and none runs yet; the cluster has 1 nodes (6 CPUs, 0 GPUs), of which"
    )


@pytest.mark.usefixtures("local_ray")
def test_a_board_that_died_costs_only_its_lines(monkeypatch, caplog):
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    # A busy machine takes long to start the board.
    monkeypatch.setattr(progress, "ANSWER_SECONDS", 600.0)
    caplog.set_level(logging.INFO)
    with logged_progress([]) as board:
        reporter(board, "static-s0")("train", 1, 4)
        poll_progress([])
        assert said(caplog) == ["static-s0: train, 1 of 4 (25%)"]
        progress.ray.kill(board)
        wait_for_death(board)
        poll_progress([])
        assert said(caplog)[1].startswith("the progress of the runs is unknown")
    poll_progress([])
    assert len(said(caplog)) == 2
