"""Progress of the trials of a grid: they report to an actor, and the driver logs what each of them does."""

import logging
import time
from typing import Any

import ray
from ray.exceptions import RayError

from al_ray.core.progress import OnProgress

LOG_SECONDS = 30.0  # Between two log lines of a trial.
REPORT_SECONDS = 5.0  # Between two reports of a trial.
ANSWER_SECONDS = 10.0  # The longest wait for the actor, which may be on a node that just died.
logger = logging.getLogger(__name__)


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


def start_board() -> Any:
    """Start the actor and return its handle."""
    return ray.remote(num_cpus=0)(ProgressBoard).remote()


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

    def __init__(self, board: Any) -> None:
        """board: handle of the actor."""
        self.board, self.logged = board, time.monotonic()

    def poll(self) -> None:
        """Log a line for each trial with a new report, if it is time to."""
        if time.monotonic() - self.logged < LOG_SECONDS:
            return
        self.logged = time.monotonic()
        try:
            reports = ray.get(self.board.take.remote(), timeout=ANSWER_SECONDS)
        except RayError as error:
            # Without the actor only these lines are missing.
            logger.warning("the progress of the runs is unknown: %s", " ".join(str(error).split())[:100])
            return
        for cell, (stage, done, total) in sorted(reports.items()):
            share = 100 * done / total if total else 0.0
            logger.info("%s: %s, %s of %s (%.0f%%)", cell, stage, f"{done:,}", f"{total:,}", share)
