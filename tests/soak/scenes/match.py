"""jobs.match on a small cluster, of some texts and then of all of them into the same folder: what can strike it."""

import csv
import json
import shlex
import shutil
import sys
from pathlib import Path

import psutil

from al_ray.datasets.task_folder import write_task
from tests.cluster.processes import workers
from tests.conftest import small_task
from tests.soak.leftovers import leftovers, temporary_files
from tests.soak.plan import Fault, Plan
from tests.soak.small_cluster import SmallCluster
from tests.soak.strikes import Later, strike

DRIVER = str(Path(__file__).resolve().parents[1] / "driver.py")
FIRST = (
    "match --model {place}/model --left {place}/known.csv --text-columns words --id-column key --at-score 0.5 "
    "--out {place}/matches --shards 2 --timeout 180 --shared-storage"
)
INTO = "match --into {place}/matches --left {place}/all.csv --complete --shards 2 --timeout 180 --shared-storage"
FILES = ("matches.csv", "clusters.csv", "deduplicated.csv", "matches.html", "match.json", "state.json")


def place_model(place: Path, quiet: Path) -> list[tuple[str, str]]:
    """Make a place with the quiet run as `model` and its task; return the ids and texts of the task."""
    task = small_task(True)
    place.mkdir()
    write_task(task, place / "task", {})
    shutil.copytree(quiet / "run", place / "model")
    config = json.loads((place / "model/config.json").read_text())
    (place / "model/config.json").write_text(json.dumps({**config, "task": str(place / "task")}))
    return list(zip(task.left.ids, task.left.texts, strict=True))


def write_table(path: Path, rows: list[tuple[str, str]]) -> None:
    """Write ids and texts as a table."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("key", "words"), *rows])


class MatchScene:
    """A model, two tables and a cluster, and the two commands one after the other."""

    def __init__(self, plan: Plan, place: Path, quiet: Path, cluster: SmallCluster, later: Later) -> None:
        """place: an empty folder; quiet: has a run, whose model matches."""
        self.plan, self.place, self.quiet, self.cluster, self.later = plan, place, quiet, cluster, later
        self.temporary, self.second = set(temporary_files()), False
        rows = place_model(place, quiet)
        write_table(place / "known.csv", rows[: 3 * len(rows) // 4])
        write_table(place / "all.csv", rows[3:])

    def command(self) -> list[str]:
        line = (INTO if self.second else FIRST).format(place=self.place)
        return [sys.executable, DRIVER, *shlex.split(line)]

    def begin(self, start: int) -> None:
        """Nothing has to be prepared."""

    def attend(self, driver: psutil.Process) -> None:
        """The commands end by themselves."""

    def advance(self) -> bool:
        """Go on to the second command; return whether there is one."""
        more, self.second = not self.second, True
        return more

    def reached(self, moment: str) -> bool:
        """Whether a moment has come."""
        return self.second == moment.startswith("into") and (not moment.endswith("shard") or bool(workers("PoolShard")))

    def strike(self, fault: Fault, driver: psutil.Process) -> bool:
        """Do what a fault says; return whether there was anything that it could hit."""
        return strike(fault, driver, self.cluster, self.later)

    def mend(self) -> None:
        """What a user does before the command is started again."""
        self.cluster.mend()

    def complaints(self, losing: set[int], killed: bool) -> tuple[list[str], int]:
        """Return what is wrong after the commands have ended well; no labels are bought."""
        found, quiet = self.files(), self.quiet / "match"
        complaints = [f"missing: {name}" for name in FILES if name not in found]
        if not self.plan.faults and not complaints:
            quiet.mkdir()
            for name, content in found.items():
                (quiet / name).write_bytes(content)
        wanted = {path.name: path.read_bytes() for path in quiet.iterdir()}
        complaints += [f"missing: {name}" for name in wanted.keys() - found.keys()]
        complaints += [f"left behind: {name}" for name in found.keys() - wanted.keys()]
        complaints += [f"not as in the quiet run: {name}" for name in wanted if wanted[name] != found.get(name)]
        return complaints + leftovers(self.place / "matches", self.temporary, killed, self.cluster), 0

    def files(self) -> dict[str, bytes]:
        """Return the files of the result by their names, with PLACE for this place."""
        files = [path for path in (self.place / "matches").iterdir() if path.is_file() and path.name != ".lock"]
        return {path.name: path.read_bytes().replace(str(self.place).encode(), b"PLACE") for path in files}

    def close(self) -> None:
        """Nothing is open."""
