"""jobs.serve on a small cluster under requests: what can strike it."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import psutil

from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.store import StoreWriter, read_store
from tests.cluster.processes import workers
from tests.ray_ports import free_port
from tests.soak.checks import same_texts
from tests.soak.leftovers import leftovers, temporary_files
from tests.soak.plan import Fault, Plan
from tests.soak.scenes.match import DRIVER, place_model, write_table
from tests.soak.scenes.searcher import Searcher
from tests.soak.small_cluster import SmallCluster
from tests.soak.strikes import ACTORS, Later, strike

COMMAND = (
    "serve --model {place}/model --known {place}/known.csv --text-columns words --id-column key "
    "--store {place}/store --port {port} --limit 10000 --replicas 2 --exact-texts 0 --index Flat "
    "--shared-storage"
)
# As the command `serve shutdown`, which needs a dashboard: this cluster has none.
SHUTDOWN = "import ray; from ray import serve; ray.init(); serve.shutdown()"
PROGRESS = 5
"""Answers and changes after the last fault, and after the last start, before the service is stopped."""


class ServeScene:
    """A model, known texts, a cluster, the service and its client."""

    def __init__(self, plan: Plan, place: Path, quiet: Path, cluster: SmallCluster, later: Later) -> None:
        """place: an empty folder; quiet: has a run, whose model matches."""
        self.plan, self.place, self.cluster, self.later = plan, place, cluster, later
        self.temporary, self.port, self.store = set(temporary_files()), free_port(), place / "store"
        rows = place_model(place, quiet)
        write_table(place / "known.csv", rows)
        options = ServeOptions(model=place / "model", known=place / "known.csv", store=self.store)
        self.searcher = Searcher(self.port, options, dict(rows))
        self.struck, self.mark, self.ready, self.stopped = 0, (0, 0), False, False

    def command(self) -> list[str]:
        return [sys.executable, DRIVER, *shlex.split(COMMAND.format(place=self.place, port=self.port))]

    def begin(self, start: int) -> None:
        """Send requests from the first start on; they wait for the service."""
        self.log, self.ready = self.place / f"start-{start}.log", False
        if start == 1:
            self.searcher.__enter__()

    def attend(self, driver: psutil.Process) -> None:
        """Stop the service when all faults have struck, and it has answered since, and answers are compared."""
        if not self.ready and "\nready: " in self.log.read_text(errors="replace"):
            self.ready = True
            self.note()
        since = (self.searcher.answers - self.mark[0], self.searcher.changes - self.mark[1])
        if self.ready and self.struck == len(self.plan.faults) and min(since) >= PROGRESS:
            self.searcher.finish()
        if not self.stopped and (self.searcher.finished.is_set() or self.searcher.problems):
            self.stopped = True
            driver.terminate()

    def note(self) -> None:
        """From now on progress counts."""
        self.mark = self.searcher.answers, self.searcher.changes

    def advance(self) -> bool:
        """Go on to another command; there is none."""
        return False

    def reached(self, moment: str) -> bool:
        """Whether a moment has come."""
        kind, _, number = moment.partition(" ")
        if kind == "replica":
            return bool(workers(ACTORS[kind]))
        if kind == "change":
            return self.searcher.changes >= int(number)
        return kind == "start" or self.ready

    def strike(self, fault: Fault, driver: psutil.Process) -> bool:
        """Do what a fault says; return whether there was anything that it could hit."""
        struck = strike(fault, driver, self.cluster, self.later)
        if struck:
            self.struck += 1
            self.note()
        return struck

    def mend(self) -> None:
        """What a user does before the command is started again: Ray Serve outlives a command that was killed."""
        self.cluster.mend()
        ended = subprocess.run(
            [sys.executable, "-c", SHUTDOWN], env={**os.environ, "RAY_ADDRESS": self.cluster.address},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=300,
        )  # fmt: skip
        if ended.returncode:
            self.searcher.problem(f"serve shutdown: {ended.stdout[-2000:]}")

    def complaints(self, losing: set[int], killed: bool) -> tuple[list[str], int]:
        """Return what is wrong after the service has been stopped; no labels are bought."""
        found = {one: known.text for one, known in read_store(self.store).texts.items()}
        complaints = [*self.searcher.problems, *same_texts(self.searcher.texts, found)]
        complaints += leftovers(self.store, self.temporary, killed, self.cluster)
        # The lock is free.
        StoreWriter(self.store).close()
        return complaints, 0

    def close(self) -> None:
        """Send no more requests."""
        self.searcher.close()
