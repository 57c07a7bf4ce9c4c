"""Peak memory of the driver and of a shard, in a round's search for a large batch and the count of its dev split."""

import logging
import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from al_ray.cluster.actors import gathered
from al_ray.cluster.prepare import pool_folder
from al_ray.cluster.session import session
from al_ray.cluster.world import RunWorld, deployed_world
from al_ray.core import loop
from al_ray.core.config import ClusterConfig, RunConfig, SearchConfig, generator
from al_ray.core.limits import refuse_beyond
from al_ray.core.loop import ImputedOracle
from al_ray.core.pairs import NO_KEYS
from al_ray.core.records import Labelled, Model, State
from al_ray.core.task import Split
from al_ray.data.run_folder import opened
from al_ray.data.synthetic import LEAST, MOST, synthetic_task
from al_ray.data.tables import read_task, write_task
from al_ray.model.encoder import MINILM, Encoder
from al_ray.model.neighbours import sample_size
from jobs.bench_figures import Figure, unwatched
from jobs.bench_vectors import SCORER

logger = logging.getLogger(__name__)

Kind = Literal["knn", "exact"]
STATUS = Path("/proc/self/status")
MB = 2**20


@dataclass(frozen=True)
class Memory:
    """Peak memory of the driver and of a shard, in a round's search for a large batch and the count of its dev split.

    In MB of 2^20 bytes. Linux alone says what a process took at most.
    """

    texts: int = 100_000
    """Of a synthetic task as jobs.prepare makes it: half of them are the pool that is searched, a quarter is dev."""
    count: int = 78_732
    """n: pairs asked for (the last round of the paper's on QQP); twice as many are labelled before."""
    kinds: tuple[Kind, ...] = ("knn", "exact")
    """Searches that are made, each on actors of its own; the greatest peak counts."""
    index: str = "Flat"
    """As in jobs.run; so the next three."""
    encoder: str = MINILM
    encoder_layers: int | None = None
    max_length: int = 32
    threads: int = 2
    """Threads of a shard."""
    out: Path | None = None
    """JSON file with the figures."""

    def figures(self) -> list[Figure]:
        """driver_mb = peak of a fresh driver above its imports; shard_mb_over = peak of a shard above what it holds.

        What it holds: its vectors and all token ids. Shared memory of Ray's that a process has looked at is counted.
        """
        refuse_beyond((
            (self.texts, "--texts", LEAST, MOST),
            (self.count, "--count", 1, 1_000_000_000),
            (self.threads, "--threads", 1, 1_024),
        ))  # fmt: skip
        # Before any work, what else cannot be.
        Encoder.base(self.run("-", "exact").encoding)
        sample_size(self.index, 384)
        with tempfile.TemporaryDirectory() as folder:
            write_task(synthetic_task(self.texts, 0), Path(folder) / "task", {})
            # This process made the task: a driver reads one.
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as fresh:
                driver, shards = fresh.submit(peaks, self, Path(folder)).result()
        return [
            Figure("driver_mb", (driver,), "at most 600"),
            Figure("shard_mb_over", (max(shards),), "at most 1,024"),
        ]

    def run(self, task: str, kind: Kind) -> RunConfig:
        """The run whose last round this is."""
        return RunConfig(
            task, rounds=1, first_batch=self.count, encoder=self.encoder, encoder_layers=self.encoder_layers,
            max_length=self.max_length, threads=self.threads, search=SearchConfig(kind=kind, index=self.index),
        )  # fmt: skip


def peaks(asked: Memory, folder: Path) -> tuple[float, list[float]]:
    """The peak of this process above what it has now, and those of shards above what they hold, of each kind."""
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.INFO)
    imports, shards = resident("VmRSS"), list[float]()
    cluster = ClusterConfig()
    with session(cluster):
        for kind in asked.kinds:
            shards.append(shard_peak(asked, folder, kind, cluster))
            logger.info("%s: driver %.0f MB so far, shard %.0f MB", kind, resident("VmHWM") - imports, shards[-1])
    return resident("VmHWM") - imports, shards


def shard_peak(asked: Memory, folder: Path, kind: Kind, cluster: ClusterConfig) -> float:
    """Choose a batch as a round does, keep it, count dev; the shard's peak above its vectors and token ids."""
    config = asked.run(str(folder / "task"), kind)
    task = read_task(folder / "task")
    split, oracle = task.split("train"), ImputedOracle(task.split("train"))
    with (
        opened(folder / kind, task) as journal,
        deployed_world(config, cluster, journal, oracle, unwatched) as world,
    ):
        model = Model("", world.trainer.untrained().digest, SCORER)
        state = State(0, labelled(split, 2 * asked.count), model)
        journal.ledger.choose(1, loop.choose(config, split, world, state, 1))
        world.embed(model, ["dev"])
        world.evaluator.evaluate(model, "dev")
        (shard,) = world.pool.shards
        return gathered(shard.__ray_call__.remote(lambda _: resident("VmHWM"))) - held(config, world, model)


def labelled(split: Split, count: int) -> Labelled:
    """So many pairs of a split with their true labels, but no more than half of all."""
    keys = split.space.draw(min(count, split.space.total // 2), NO_KEYS, generator(0, "bench-labelled"))
    labels = np.isin(keys, split.positive_keys).astype(np.uint8)
    return Labelled().extended(split.space.pairs(keys), labels, 0, "random")


def held(config: RunConfig, world: RunWorld, model: Model) -> float:
    """MB of the vectors of the shard's texts and of token ids."""
    parts = {world.pool.parts[split, side] for split in ("train", "dev") for side in ("left", "right")}
    vectors = sum(len(rows) for part in parts for rows in world.pool.rows(part))
    first = gathered(world.pool.shards[0].block.remote(model, min(parts), 0, 1)).vectors
    tokens = Path(str(pool_folder(world.journal.task, config.encoding, world.journal.path))).glob("*/*.npy")
    return (vectors * first[0].nbytes + sum(path.stat().st_size for path in tokens)) / MB


def resident(field: Literal["VmRSS", "VmHWM"]) -> float:
    """MB of this process that are in memory: now, or at most so far."""
    lines = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))
