"""Waits for what is to pass, and the processes that belong to a trial."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

MARK = "AL_RAY_SOAK"
"""A variable that each process of a trial has from it."""


def wait_until(complaints: Callable[[], list[str]], seconds: float) -> list[str]:
    """Return what is complained of after so many seconds; nothing as soon as nothing is."""
    deadline = time.monotonic() + seconds
    while (left := complaints()) and time.monotonic() < deadline:
        threading.Event().wait(0.2)
    return left


def marked(mark: str) -> list[psutil.Process]:
    """Return the processes of a trial, this one aside, wherever they hang."""
    found = list[psutil.Process]()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                found.append(process)
    return found


def titles(processes: list[psutil.Process]) -> list[str]:
    """Return what processes are called."""
    found = list[str]()
    for process in processes:
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {' '.join(process.cmdline())[:200]}")
    return found
