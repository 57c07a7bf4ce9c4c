"""End an actor's process when it hangs, so that Ray restarts it and repeats its calls.

A process can hang in two ways. Its threads do nothing at all, because it is stopped, or a call never returns and keeps
Python's lock: a guard, which is a process of its own (this module, run as a program), kills it. Or a call hangs in one
thread, in CUDA for example, and others go on: a step of the call takes far longer than those before it, and the process
ends itself.
"""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import TypeVar

# Seconds of no progress after which a process hangs, and a step; the values in the driver hold for its actors.
PATIENCE, PATIENCE_OF_STEPS = 60.0, 600.0
FACTOR = 10  # A step hangs if it takes FACTOR times the median of earlier steps, and longer than its patience.
QUICK = 0.001  # Seconds; see `watched`.
BUSY = 0.1  # The share of a core from which on a process is doing something.
LEAST = 3  # Steps before one that can hang: the first ones load and compile.
_running = set["Steps"]()

Item = TypeVar("Item")


class Steps:
    """Steps of a call that take similar times, each in a context of this object; none may wait for another process."""

    def __init__(self) -> None:
        """Begin without any step."""
        self.started, self.seconds = 0.0, deque[float](maxlen=1000)

    def __enter__(self) -> None:
        """Begin a step."""
        self.started = time.monotonic()
        _running.add(self)

    def __exit__(self, *_: object) -> None:
        """End the step."""
        _running.discard(self)
        self.seconds.append(time.monotonic() - self.started)

    def hangs(self, patience: float) -> bool:
        """Whether the step that runs hangs."""
        silent = time.monotonic() - self.started
        return silent > patience and len(self.seconds) >= LEAST and silent > FACTOR * median(list(self.seconds))


def watched(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items, and watch the making of each as a step.

    Items made within QUICK seconds do not count in the median of the steps: they were read, or there already.
    """
    coming, steps = iter(items), Steps()
    while True:
        with steps:
            try:
                item = next(coming)
            except StopIteration:
                return
        if steps.seconds[-1] < QUICK:
            steps.seconds.pop()
        yield item


def watch(name: str, patience: float, patience_of_steps: float) -> None:
    """Watch this process from now on, which messages call `name`; only where there is /proc."""
    if not Path("/proc/self/stat").exists():
        return
    interval = min(1.0, patience / 4)
    guard = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, name, str(patience), str(interval)], stdin=subprocess.PIPE
    )
    threading.Thread(target=_beat, args=(name, guard, patience_of_steps, interval), daemon=True).start()


def _beat(name: str, guard: subprocess.Popen[bytes], patience: float, interval: float) -> None:
    """Tell the guard that threads run, and end the process if a step hangs."""
    assert guard.stdin is not None
    # The guard ends when the pipe is closed, so that none outlives this thread.
    with guard.stdin as pipe:
        while True:
            time.sleep(interval)
            if any(steps.hangs(patience) for steps in list(_running)):
                _warn(name, os.getpid(), f"a step takes more than {patience:.0f} s, and {FACTOR} times those before it")
                os._exit(1)
            # Steps are watched even if the guard was killed.
            with suppress(OSError):
                os.write(pipe.fileno(), b".")


def _warn(name: str, process: int, reason: str) -> None:
    """Write a line to the log of the actor, which Ray shows in the driver."""
    sys.stderr.write(f"{name} (process {process}) hangs: {reason}. It is ended, and Ray restarts it\n")
    sys.stderr.flush()


def _guard(name: str, patience: float, interval: float) -> None:
    """Kill the parent process when it sends nothing and uses no CPU for `patience` seconds; end when it ends.

    Silence alone is not enough: a thread that reads a large file may hold Python's lock for a minute.
    Intervals are counted, not seconds, because a machine that was suspended has not waited.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent, intervals, before = os.getppid(), 0, None
    while os.getppid() == parent:
        if select.select([0], [], [], interval)[0]:
            if not os.read(0, 4096):
                return
            intervals, before = 0, None
            continue
        now = _activity(parent)
        idle = before is not None and now is not None and _is_idle(before, now, interval)
        intervals, before = intervals + 1 if idle else 0, now
        if intervals * interval > patience:
            _warn(name, parent, f"it has done nothing for {patience:.0f} s")
            os.kill(parent, signal.SIGKILL)
            return


def _activity(process: int) -> tuple[str, int, float] | None:
    """Return the state of a process, its page faults and its seconds of CPU time so far (proc_pid_stat(5)).

    None if it is gone.
    """
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    faults, ticks = (sum(int(fields[place]) for place in places) for places in ((7, 9), (11, 12)))
    return fields[0], faults, ticks / os.sysconf("SC_CLK_TCK")


def _is_idle(before: tuple[str, int, float], now: tuple[str, int, float], seconds: float) -> bool:
    """Return whether a process did nothing for some seconds, and does not wait for a disk or a file server (state D).

    Threads that wait for Python's lock look for it 200 times a second, which takes CPU time: half a percent each.
    """
    return now[0] != "D" and now[1] == before[1] and now[2] - before[2] <= BUSY * seconds


if __name__ == "__main__":
    _guard(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
