"""A cluster and trials on it, one after the other, as a process: trial.py QUIET PLACE.

Reads plans from stdin, a line of JSON each, and answers each with a line; at their end with one of what is left.
QUIET: folder of what scenarios come to that nobody disturbs; trials without faults fill it.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
# Workers are not started before they are needed: three nodes would start a dozen at once.
os.environ.update({"RAY_prestart_worker_first_driver": "0"})

# First: Ray reads the environment of tests as it is imported.
import tests.conftest  # noqa: F401, I001
import psutil

from tests.soak import checks
from tests.soak.scenes.grid import GridScene
from tests.soak.scenes.llm import LlmScene
from tests.soak.scenes.match import MatchScene
from tests.soak.plan import Fault, Plan
from tests.soak.scenes.run import LOSING, RunScene
from tests.soak.scenes.serve import ServeScene
from tests.soak.small_cluster import SmallCluster
from tests.soak.waiting import MARK, marked, titles, wait_until

SCENES = {"match": MatchScene, "grid": GridScene, "run with an LLM": LlmScene, "serve": ServeScene}
"""Scenes by their scenarios; all others are runs."""
INCOMPLETE = {"grid": 1}
"""Exit code of a command that ended well, but is to be given again."""
KILLING = {"kill driver", "kill GCS"}
# Seconds for which a driver looks for a head that was killed, by default 60.
RECONNECT = "RAY_gcs_rpc_server_reconnect_timeout_s"
RESTARTS = 12
"""Starts of the command after which it counts as one that does not end."""
POLL = 0.2
"""Seconds between two looks at the processes of the machine, which take time themselves."""
SECONDS = 1200.0
"""After which a trial hangs."""


class Trial:
    """A plan that is played: the command is started until it ends well, while faults strike."""

    def __init__(self, plan: Plan, place: Path, quiet: Path, cluster: SmallCluster) -> None:
        self.plan, self.place, self.cluster, self.began = plan, place, cluster, time.monotonic()
        self.agenda, self.waiting = list[tuple[float, Callable[[], object]]](), deque(plan.faults)
        self.due: float | None = None
        self.struck, self.endings, self.complaints = list[dict[str, Any]](), list[str](), list[str]()
        self.losing, self.again, self.killed = set[int](), 0, False
        self.scene = SCENES.get(plan.scenario, RunScene)(plan, place, quiet, cluster, self.later)

    @property
    def now(self) -> float:
        return time.monotonic() - self.began

    def later(self, seconds: float, act: Callable[[], object]) -> None:
        self.agenda.append((self.now + seconds, act))

    def play(self) -> None:
        """Start the command until it ends well, or too often, or hangs."""
        while self.start(len(self.endings) + 1) or (not self.complaints and self.scene.advance()):
            if len(self.endings) > RESTARTS:
                self.complaints.append(f"it did not end in {RESTARTS} starts: {self.endings}")
                return

    def start(self, number: int) -> bool:
        """Start the command once; return whether it is to be started again."""
        log = self.place / f"start-{number}.log"
        self.scene.begin(number)
        before = len(self.struck)
        with log.open("w") as output:
            driver = subprocess.Popen(
                self.scene.command(), cwd=self.place, stdout=output, stderr=subprocess.STDOUT,
                env={**os.environ, "RAY_ADDRESS": self.cluster.address, RECONNECT: "10"},
            )  # fmt: skip
        process = psutil.Process(driver.pid)
        while driver.poll() is None:
            if self.now > SECONDS:
                self.complaints.append(f"it hangs at start {number}")
                driver.send_signal(signal.SIGUSR1)
                threading.Event().wait(3.0)
                driver.kill()
                driver.wait()
                return False
            self.attend(process, number)
            threading.Event().wait(POLL)
        code, kinds = driver.returncode, {one["kind"] for one in self.struck[before:]}
        self.killed = self.killed or bool(kinds & KILLING)
        self.endings.append(str(code))
        if code != INCOMPLETE.get(self.plan.scenario):
            self.complaints += checks.ended_well(code, log.read_text(errors="replace"), bool(kinds & KILLING))
        if code:
            self.scene.mend()
        return bool(code) and not self.complaints

    def attend(self, driver: psutil.Process, number: int) -> None:
        """Do what is due."""
        for item in [one for one in self.agenda if one[0] <= self.now]:
            self.agenda.remove(item)
            item[1]()
        self.scene.attend(driver)
        if not self.waiting:
            return
        fault = self.waiting[0]
        # A moment that was too short to be seen is over when the next one comes.
        if self.due is None and any(self.scene.reached(one.moment) for one in self.waiting):
            self.due = self.now + fault.delay
        # Where nobody is there yet whom it could hit, it waits.
        if self.due is not None and self.now >= self.due and self.scene.strike(fault, driver):
            self.waiting.popleft()
            self.due = None
            if fault.kind in LOSING:
                self.losing.add(number)
            self.struck.append({"kind": fault.kind, "seconds": round(self.now, 1), "start": number})

    def check(self) -> None:
        """Look at what is there after the end."""
        found, self.again = self.scene.complaints(self.losing, self.killed)
        self.complaints += found

    def result(self) -> dict[str, Any]:
        """Return the line of the trial."""
        return {
            **self.plan.as_dict(), "struck": self.struck, "endings": self.endings, "again": self.again,
            "seconds": round(self.now, 1), "complaints": self.complaints,
        }  # fmt: skip


def play(plan: Plan, quiet: Path, place: Path, cluster: SmallCluster) -> dict[str, Any]:
    """Play a trial and check what it has left, and return its line."""
    trial = Trial(plan, place, quiet, cluster)
    try:
        trial.play()
        for _, act in trial.agenda:
            # What was to pass, passes: processes of a node whose raylet stands still end only when it goes on.
            act()
        if not trial.complaints:
            trial.check()
    finally:
        trial.scene.close()
    cluster.mend()
    return trial.result()


def main() -> None:
    """Play what comes, and see that no process is left."""
    quiet, place = Path(sys.argv[1]), Path(sys.argv[2])
    (place / "tmp/ray").mkdir(parents=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(place / "tmp")
    # Whatever a worker takes of a page or more it takes of the system, so that a limit to it is met at once.
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "4096"
    cluster = SmallCluster(place / "ray")
    for line in sys.stdin:
        given = json.loads(line)
        plan = Plan(**{**given, "faults": tuple(Fault(**one) for one in given["faults"])})
        print(json.dumps(play(plan, quiet, place / plan.name, cluster)), flush=True)
    cluster.stop()
    print(json.dumps(wait_until(lambda: titles(marked(os.environ[MARK])), 30.0)), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
