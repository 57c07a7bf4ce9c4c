"""jobs.run on a small cluster, on a disk, a small disk or S3, with labels from a server: what can strike it."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import psutil
import pyarrow.parquet as pq

from al_ray.datasets.task_folder import read_task, write_task
from al_ray.storage.uri import storage_path
from tests.cluster.processes import workers
from tests.cluster.test_full_disk import fill
from tests.conftest import small_task
from tests.soak import checks
from tests.soak.leftovers import leftovers, temporary_files
from tests.soak.plan import Fault, Plan, base
from tests.soak.scenes.labeller import Labeller
from tests.soak.scenes.seller import CLIENT, Seller
from tests.soak.small_cluster import SmallCluster
from tests.soak.strikes import Later, strike
from tests.storage.proxy import Proxy, proxied
from tests.storage.s3 import Server, served

DRIVER = str(Path(__file__).resolve().parents[1] / "driver.py")
CALLS = ("--pairs-per-call", "4", "--retry-seconds", "0.3", "--call-timeout", "20")
OPTIONS = (
    *(
        "--rounds",
        "2",
        "--first-batch",
        "16",
        "--encoder",
        "random-bert",
        "--encoder-layers",
        "1",
        "--max-length",
        "24",
    ),
    *("--encoder-batch", "8", "--threads", "1", "--search.neighbours", "5", "--search.block", "8"),
    *("--training.epochs", "2", "--training.batch", "4", "--training.worst-loss", "100", "--shards", "2"),
    *("--checkpoint-seconds", "0", "--timeout", "180"),
)
MORE = {"run with trainers": ("--training.workers", "2")}
"""Options of a scenario beside those of all."""
DISK = 12 << 20
# Kinds of faults after which the answers of the call under way may be lost.
LOSING = {"kill driver", "kill GCS", "fill disk", "cut S3 off", "spoil upload"}
FILES = {"batch": "batch.parquet", "labels": "labels.parquet", "model": "model/scorer.json", "round": "record.json"}


def stored_answers(task_folder: Path, run: Path) -> Iterator[tuple[checks.Texts, str]]:
    """Yield the answers in a run folder that were read."""
    task = read_task(task_folder)
    for part in sorted(run.glob("round-*")):
        batch = pq.ParquetFile(part / "batch.parquet").read()
        rows = list(zip(batch["left"].to_pylist(), batch["right"].to_pylist(), strict=True))
        for piece in sorted(part.glob("answers-*.parquet")):
            for line in pq.ParquetFile(piece).read().to_pylist():
                if line["answer"] in ("yes", "no", "unsure"):
                    left, right = rows[line["row"]]
                    yield (str(task.left.texts[left]), str(task.right.texts[right])), line["answer"]


class RunScene:
    """A place with a task and a server of labels, a cluster, and the run."""

    def __init__(self, plan: Plan, place: Path, quiet: Path, cluster: SmallCluster, later: Later) -> None:
        """place: of the files; quiet: has the run that nobody disturbs, or gets it from a trial without faults."""
        self.plan, self.place, self.cluster, self.later, self.quiet = (
            plan,
            place,
            cluster,
            later,
            quiet / base(plan.scenario),
        )
        self.stack, self.temporary = ExitStack(), set(temporary_files())
        (place / "disk").mkdir(parents=True)
        self.task = small_task(True)
        write_task(self.task, place / "task", {})
        self.seller, self.oracle = self.labelled_by()
        self.uri, self.server, self.proxy = str(place / "disk" / "run"), cast(Server, None), cast(Proxy, None)
        if plan.scenario == "run on S3":
            self.server = self.stack.enter_context(served())
            self.proxy = self.stack.enter_context(proxied(self.server.address, {}))
            write_task(self.task, storage_path(self.server.uri("task")), {})
            self.uri = replace(self.server, address=self.proxy.address).uri("run")
        elif plan.scenario == "run on a small disk":
            disk = str(place / "disk")
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", disk], check=True)
            self.stack.callback(subprocess.run, ["umount", "--lazy", disk], check=False)

    def labelled_by(self) -> tuple[Seller | Labeller, tuple[str, ...]]:
        """Return whoever labels, and the options by which the run asks them."""
        if self.plan.scenario == "run with people":
            person = Labeller(self.task, self.place / "disk" / "run")
            return person, ("--oracle", "page", "--page.port", str(person.port))
        seller = Seller()
        (self.place / "judge.py").write_text(CLIENT.format(port=seller.port))
        return seller, ("--oracle", "judge:label", *CALLS)

    def command(self) -> list[str]:
        task = self.uri.replace("/run?", "/task?") if self.server else str(self.place / "task")
        shared = () if self.server else ("--shared-storage",)
        return [
            sys.executable,
            DRIVER,
            "run",
            "--task",
            task,
            "--out",
            self.uri,
            *self.oracle,
            *OPTIONS,
            *MORE.get(self.plan.scenario, ()),
            *shared,
        ]

    def begin(self, start: int) -> None:
        """Prepare for start number `start` of the command."""
        self.seller.start = start

    def attend(self, driver: psutil.Process) -> None:
        """The command ends by itself."""

    def advance(self) -> bool:
        """Go on to another command; there is none."""
        return False

    def reached(self, moment: str) -> bool:
        """Whether a moment has come."""
        kind, _, number = moment.partition(" ")
        if kind in ("shard", "trainer"):
            return bool(workers("PoolShard" if kind == "shard" else "Trainer.train"))
        if kind == "call":
            return len(self.seller.calls) >= int(number)
        return kind == "start" or self.has(f"round-00{number}/{FILES[kind]}")

    def has(self, name: str) -> bool:
        """Whether the run has a file by now."""
        if self.server:
            return any(line.startswith(f"PUT /bucket/run/{name}") for line in self.server.requests)
        return (Path(self.uri) / name).exists()

    def strike(self, fault: Fault, driver: psutil.Process) -> bool:
        """Do what a fault says; return whether there was anything that it could hit."""
        match fault.kind:
            case "kill oracle server":
                assert isinstance(self.seller, Seller)
                self.seller.close()
                self.later(fault.seconds, self.seller.reopen)
            case "spoil answers":
                self.seller.plan.extend(fault.target.split())
            case "fill disk":
                fill(self.place / "disk")
                self.later(fault.seconds, self.make_room)
            case "cut S3 off":
                self.proxy.cut_off()
                self.later(fault.seconds, self.proxy.restore)
            case "spoil upload":
                name, how = fault.target.split()
                self.proxy.faults[name] = cast(Any, how)
            case _:
                return strike(fault, driver, self.cluster, self.later)
        return True

    def make_room(self) -> None:
        (self.place / "disk" / "filler").unlink(missing_ok=True)

    def mend(self) -> None:
        """What a user does before the command is started again."""
        self.seller.reopen()
        self.make_room()
        if self.proxy:
            self.proxy.restore()
        self.cluster.mend()

    def complaints(self, losing: set[int], killed: bool) -> tuple[list[str], int]:
        """Return what is wrong after the command has ended well, and how many answers were paid for twice."""
        folder = self.place / "disk" / "run"
        if self.server:
            self._fetch(folder)
        complaints, again = checks.bought_once(self.seller.calls, losing)
        complaints += checks.kept(self.seller.calls, list(stored_answers(self.place / "task", folder)))
        if not self.plan.faults and not complaints:
            shutil.copytree(folder, self.quiet)
        complaints += checks.same_folder(checks.files_of(self.quiet), checks.files_of(folder))
        return complaints + leftovers(folder, self.temporary, killed, self.cluster), again

    def _fetch(self, folder: Path) -> None:
        """Bring the run from S3 to the disk; its lock is an object that must be gone."""
        for name in self.server.names("run"):
            assert name != ".lock", "the lease of the run is there still"
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(self.server.content(f"run/{name}"))

    def close(self) -> None:
        """End everything."""
        if self.seller.thread.is_alive():
            self.seller.close()
        self.stack.close()
