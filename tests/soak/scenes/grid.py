"""jobs.grid of four small runs on a small cluster, two at a time: what can strike it."""

import shlex
import shutil
import sys
from pathlib import Path

import psutil

from al_ray.datasets.task_folder import write_task
from tests.cluster.processes import workers
from tests.conftest import small_task
from tests.soak import checks
from tests.soak.leftovers import leftovers, temporary_files
from tests.soak.plan import Fault, Plan, base
from tests.soak.scenes import counting
from tests.soak.scenes.run import DRIVER, stored_answers
from tests.soak.small_cluster import SmallCluster
from tests.soak.strikes import ACTORS, Later, strike

COMMAND = (
    "grid --task {place}/task --out {place}/grid --strategies static,random --seeds 0,1 --rounds 1 --first-batch 16 "
    "--concurrent 2 --failures 6 --oracle tests.soak.scenes.counting:label --pairs-per-call 4 --encoder random-bert "
    "--encoder-layers 1 --max-length 24 --encoder-batch 8 --threads 1 --search.neighbours 5 --search.block 8 "
    "--training.epochs 2 --training.batch 4 --training.worst-loss 100 --shards 1 --checkpoint-seconds 0 --timeout 180 "
    "--shared-storage"
)


class GridScene:
    """A task, a cluster and the grid."""

    def __init__(self, plan: Plan, place: Path, quiet: Path, cluster: SmallCluster, later: Later) -> None:
        """place: an empty folder; quiet: has the grid that nobody disturbs, or gets it from a trial without faults."""
        self.plan, self.place, self.cluster, self.later = plan, place, cluster, later
        self.quiet, self.temporary = quiet / base(plan.scenario), set(temporary_files())
        self.runs = place / "grid" / "runs"
        place.mkdir()
        write_task(small_task(True), place / "task", {})
        counting.counted().unlink(missing_ok=True)

    def command(self) -> list[str]:
        return [sys.executable, DRIVER, *shlex.split(COMMAND.format(place=self.place))]

    def begin(self, start: int) -> None:
        """Nothing has to be prepared."""

    def attend(self, driver: psutil.Process) -> None:
        """The command ends by itself."""

    def advance(self) -> bool:
        """Go on to another command; there is none."""
        return False

    def reached(self, moment: str) -> bool:
        """Whether a moment has come."""
        kind, _, number = moment.partition(" ")
        if kind in ACTORS:
            return bool(workers(ACTORS[kind]))
        if kind == "call":
            return sum(map(len, counting.calls().values())) >= int(number)
        return kind == "start" or len(list(self.runs.glob("*/metrics.jsonl"))) >= int(number)

    def strike(self, fault: Fault, driver: psutil.Process) -> bool:
        """Do what a fault says; return whether there was anything that it could hit."""
        return strike(fault, driver, self.cluster, self.later)

    def mend(self) -> None:
        """What a user does before the command is started again."""
        self.cluster.mend()

    def complaints(self, losing: set[int], killed: bool) -> tuple[list[str], int]:
        """Return what is wrong with each run, and how many answers were paid for twice.

        A fault may end the process of any run, which then may lose the answers of its last call.
        """
        complaints, again, calls = list[str](), 0, counting.calls()
        complaints += [f"no calls of {name}" for name in {path.name for path in self.runs.iterdir()} ^ calls.keys()]
        if not self.plan.faults and not complaints:
            shutil.copytree(self.runs, self.quiet)
        for name, own in calls.items():
            found, twice = checks.bought_once(own, {call.start for call in own})
            found += checks.kept(own, list(stored_answers(self.place / "task", self.runs / name)))
            found += checks.same_folder(checks.files_of(self.quiet / name), checks.files_of(self.runs / name))
            complaints += [f"{name}: {one}" for one in found]
            again += twice
        return complaints + leftovers(self.place / "grid", self.temporary, killed, self.cluster), again

    def close(self) -> None:
        """Nothing is open."""
