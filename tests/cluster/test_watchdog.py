"""Processes that hang, and those that only wait."""

import os
import signal
import subprocess
import sys

import pytest

from al_ray.cluster import watchdog
from al_ray.cluster.watchdog import LEAST, Steps

# Three seconds: no machine is so busy that a thread which runs sends nothing for so long.
BEGIN = "import sys, threading; from al_ray.cluster import watchdog; watchdog.watch('PoolShard 1', 3, 1)"
READY = "print('ready', flush=True)"
# More steps than it takes, and one that does not end.
STUCK = f"""
steps = watchdog.Steps()
for number in range({LEAST} + 1):
    with steps:
        if number == {LEAST}:
            threading.Event().wait()
"""
STUCK_ITEM = f"""
for _ in watchdog.watched(threading.Event().wait(None if number == {LEAST} else 0.01) for number in range({LEAST} + 1)):
    pass
"""
# Calls of this kind keep Python's lock.
LOCKING = "import ctypes; ctypes.PyDLL(None).pause()"


def started(*lines: str) -> subprocess.Popen[str]:
    """A process that is watched and prints a line when it is."""
    program = "\n".join([BEGIN, READY, *lines])
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_process_that_is_stopped_is_killed():
    process = started("sys.stdin.read()")
    os.kill(process.pid, signal.SIGSTOP)
    _, said = process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert (
        said
        == f"PoolShard 1 (process {process.pid}) hangs: it has done nothing for 3 s. It is ended, and Ray restarts it\n"
    )


def test_a_process_whose_threads_wait_for_one_that_keeps_the_lock_is_killed():
    process = started(LOCKING)
    _, said = process.communicate()
    assert (process.returncode, "it has done nothing" in said) == (-signal.SIGKILL, True)


@pytest.mark.parametrize("lines", [STUCK, STUCK_ITEM], ids=["a step", "an item"])
def test_a_process_with_a_stuck_step_ends_itself(lines):
    process = started(lines)
    _, said = process.communicate()
    assert (process.returncode, "a step takes more than 1 s, and 10 times those before it" in said) == (1, True)


def test_a_process_that_waits_is_left_alone_until_it_ends():
    process = started("sys.stdin.read(); print('done')")
    # Its guard has missed as many beats as it takes, if it counts any: by then another one is killed.
    other = started(LOCKING)
    other.communicate()
    assert other.returncode == -signal.SIGKILL
    assert process.communicate("") == ("done\n", "")
    assert process.returncode == 0


def test_watched_items_are_all_there_and_no_step_runs_between_them():
    items = []
    for item in watchdog.watched(iter(range(5))):
        assert not watchdog._running
        items.append(item)
    assert items == list(range(5))
    assert not watchdog._running


def test_items_that_are_there_already_do_not_say_how_long_others_may_take(monkeypatch):
    now, steps = [0.0], Steps()
    monkeypatch.setattr(watchdog, "Steps", lambda: steps)
    monkeypatch.setattr(watchdog.time, "monotonic", lambda: now[0])

    def made():
        for seconds in (1.0, 2.0**-12, 2.0, 0.0):
            now[0] += seconds
            yield seconds

    assert list(watchdog.watched(made())) == [1.0, 2.0**-12, 2.0, 0.0]
    # And what it takes to find that there is no more.
    assert list(steps.seconds) == [1.0, 2.0, 0.0]


@pytest.mark.parametrize(
    ("before", "silent", "hangs"),
    [
        ([1.0] * (LEAST - 1), 1e9, False),
        ([1.0] * LEAST, 60.0, False),
        ([1.0] * LEAST, 60.1, True),
        # Ten times the median of 5, 7 and 90.
        ([5.0, 90.0, 7.0], 70.0, False),
        ([5.0, 90.0, 7.0], 70.1, True),
    ],
)
def test_a_step_hangs_after_a_minute_and_ten_times_the_median_of_those_before(monkeypatch, before, silent, hangs):
    steps = Steps()
    steps.seconds.extend(before)
    monkeypatch.setattr(watchdog.time, "monotonic", lambda: 100.0)
    with steps:
        monkeypatch.setattr(watchdog.time, "monotonic", lambda: 100.0 + silent)
        assert steps.hangs(watchdog.PATIENCE) is hangs
