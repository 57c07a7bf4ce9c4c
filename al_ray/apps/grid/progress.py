"""Progress of the trials of a grid: they report to an actor, and the driver logs what each of them does."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import RayError

from al_ray.cluster.capacity import describe_capacity
from al_ray.core.progress import OnProgress

LOG_SECONDS = 30.0  # Between two log lines of a trial.
REPORT_SECONDS = 5.0  # Between two reports of a trial.
ANSWER_SECONDS = 10.0  # The longest wait for the actor, which may be on a node that just died.
logger = logging.getLogger(__name__)
# A module variable, because Tune pickles its callbacks and restores copies of them.
_logs: list["ProgressLog"] = []


class ProgressBoard:
    """The last report of each trial since it was last taken. Runs as an actor."""

    def __init__(self) -> None:
        """Start without a report."""
        self.reports: dict[str, tuple[str, int, int]] = {}

    def report(self, cell: str, stage: str, done: int, total: int) -> None:
        """Store what a trial does: its stage, the amount done, and the total."""
        self.reports[cell] = stage, done, total

    def take(self) -> dict[str, tuple[str, int, int]]:
        """Return and forget the reports, by cell."""
        reports, self.reports = self.reports, {}
        return reports


def reporter(board: Any, cell: str) -> OnProgress:
    """Return the progress callback of a trial, which reports to the actor `board` every REPORT_SECONDS at most."""
    reported = -REPORT_SECONDS

    def on_progress(stage: str, done: int, total: int) -> None:
        nonlocal reported
        if time.monotonic() - reported >= REPORT_SECONDS:
            reported = time.monotonic()
            board.report.remote(cell, stage, done, total)

    return on_progress


class ProgressLog:
    """Logs the reports of an actor, a line for each trial, every LOG_SECONDS at most."""

    def __init__(self, board: Any, bundles: Sequence[Mapping[str, float]]) -> None:
        """board: handle of the actor; bundles: what a trial needs."""
        self.board, self.bundles, self.logged = board, bundles, time.monotonic()

    def poll(self, trials: Sequence[Any]) -> None:
        """Log a line for each trial with a new report, or that no trial of Tune has places, if it is time to."""
        if time.monotonic() - self.logged < LOG_SECONDS:
            return
        self.logged = time.monotonic()
        states = [trial.status for trial in trials]
        if "PENDING" in states and "RUNNING" not in states:
            waiting = f"{states.count('PENDING')} runs wait for places or start, and none runs yet"
            logger.warning("%s; the cluster has %s", waiting, describe_capacity(self.bundles))
        try:
            [reports] = ray.get([self.board.take.remote()], timeout=ANSWER_SECONDS)
        except RayError as error:
            # Without the actor only these lines are missing.
            logger.warning("the progress of the runs is unknown: %s", " ".join(str(error).split())[:100])
            return
        for cell, (stage, done, total) in sorted(reports.items()):
            share = 100 * done / total if total else 0.0
            logger.info("%s: %s, %s of %s (%.0f%%)", cell, stage, f"{done:,}", f"{total:,}", share)


@contextmanager
def logged_progress(bundles: Sequence[Mapping[str, float]]) -> Iterator[Any]:
    """Start the actor, provide its handle to pass to `reporter`, and let `poll_progress` log what it has.

    bundles: what a trial needs.
    """
    board: Any = ray.remote(num_cpus=0)(ProgressBoard).remote()
    log = ProgressLog(board, bundles)
    _logs.append(log)
    try:
        yield board
    finally:
        _logs.remove(log)
        ray.kill(board)


def poll_progress(trials: Sequence[Any]) -> None:
    """Log what the trials report or wait for, if it is time to. trials: all that Tune has."""
    for log in _logs:
        log.poll(trials)
