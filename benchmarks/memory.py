"""Peak memory of the driver and of a shard, in a round's search for a large batch and the count of its dev split."""

import logging
import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from al_ray.active_learning import loop
from al_ray.active_learning.config import RunConfig
from al_ray.cluster.services import RayRunServices, deploy_services
from al_ray.cluster.session import session
from al_ray.cluster.token_store import pool_folder
from al_ray.cluster.workers import get_results
from al_ray.core.config.bounds import Between, check_bounds
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import EncoderOptions, MaxLength, Threads
from al_ray.core.config.sections import SearchConfig
from al_ray.core.config.serialization import part
from al_ray.core.labels import Labelled, Model, State
from al_ray.core.pairs import NO_KEYS
from al_ray.core.progress import no_progress
from al_ray.core.rng import generator
from al_ray.core.task import Split
from al_ray.datasets.synthetic import LEAST, MOST, synthetic_task
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.encoders.pretrained import MINILM
from al_ray.encoders.transformer import Encoder
from al_ray.oracles.simulated import SimulatedOracle
from al_ray.runs.run_folder import opened
from al_ray.search.faiss_index import sample_size
from benchmarks.synthetic_vectors import SCORER
from benchmarks.timing import Figure

logger = logging.getLogger(__name__)

Kind = Literal["knn", "exact"]
STATUS = Path("/proc/self/status")
MB = 2**20


@dataclass(frozen=True)
class Memory(EncoderOptions):
    """Peak memory of the driver and of a shard, in a round's search for a large batch and the count of its dev split.

    In MB of 2^20 bytes. Linux only: other systems do not report the peak of a process.
    """

    texts: Annotated[int, Between(LEAST, MOST)] = 100_000
    """Texts of a synthetic task (jobs.prepare synthetic): half are the pool that is searched, a quarter is dev."""
    count: Annotated[int, Between(1, 1_000_000_000)] = 78_732
    """n: pairs to retrieve (the last round of the paper on QQP); twice as many are labelled before."""
    kinds: tuple[Kind, ...] = ("knn", "exact")
    """Kinds of search, each on new actors; the greatest peak counts."""
    index: str = "Flat"
    """As in jobs.run, like the next three."""
    encoder: str = MINILM
    max_length: MaxLength = 32
    threads: Threads = 2
    """Threads per shard."""
    out: Path | None = None
    """JSON file for the figures."""

    def figures(self) -> list[Figure]:
        """driver_mb = peak of a new driver minus its imports; shard_mb_over = peak of a shard minus its data.

        A shard's data: its vectors and all token ids. Ray's shared memory counts once a process has read it.
        """
        check_bounds(self)
        # Fail early if the encoder or the index is not available.
        Encoder.base(self.run("-", "exact").encoding)
        sample_size(self.index, 384)
        with tempfile.TemporaryDirectory() as folder:
            write_task(synthetic_task(self.texts, 0), Path(folder) / "task", {})
            # A new process, because this one used memory to make the task.
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as fresh:
                driver, shards = fresh.submit(peaks, self, Path(folder)).result()
        return [Figure("driver_mb", (driver,), "at most 600"), Figure("shard_mb_over", (max(shards),), "at most 1,024")]

    def run(self, task: str, kind: Kind) -> RunConfig:
        """Return the config of a run whose last round is measured."""
        search = SearchConfig(kind=kind, index=self.index)
        return RunConfig(task=task, rounds=1, first_batch=self.count, search=search, **vars(part(self, EncoderOptions)))


def peaks(options: Memory, folder: Path) -> tuple[float, list[float]]:
    """Return the peak of this process minus its memory now, and for each kind that of a shard minus its data."""
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.INFO)
    imports, shards = resident("VmRSS"), list[float]()
    cluster = ClusterConfig()
    with session(cluster):
        for kind in options.kinds:
            shards.append(shard_peak(options, folder, kind, cluster))
            logger.info("%s: driver %.0f MB so far, shard %.0f MB", kind, resident("VmHWM") - imports, shards[-1])
    return resident("VmHWM") - imports, shards


def shard_peak(options: Memory, folder: Path, kind: Kind, cluster: ClusterConfig) -> float:
    """Choose and store a batch as a round does, and count dev; return the shard's peak minus its data."""
    config = options.run(str(folder / "task"), kind)
    task = read_task(folder / "task")
    split, oracle = task.split("train"), SimulatedOracle(task.split("train"))
    with (
        opened(folder / kind, task) as journal,
        deploy_services(config, cluster, journal, oracle, no_progress) as services,
    ):
        model = Model("", services.trainer.untrained().digest, SCORER)
        state = State(0, labelled(split, 2 * options.count), model)
        journal.ledger.add_batch(1, loop.choose_batch(config, split, services, state, 1))
        services.evaluator.evaluate(model, "dev")
        (shard,) = services.pool.shards
        return get_results(shard.__ray_call__.remote(lambda _: resident("VmHWM"))) - data_size(config, services, model)


def labelled(split: Split, count: int) -> Labelled:
    """Label `count` random pairs of a split with their true labels, at most half of all pairs."""
    keys = split.space.draw(min(count, split.space.total // 2), NO_KEYS, generator(0, "bench-labelled"))
    labels = np.isin(keys, split.positive_keys).astype(np.uint8)
    return Labelled().extended(split.space.pairs(keys), labels, 0, "random")


def data_size(config: RunConfig, services: RayRunServices, model: Model) -> float:
    """Return the MB of the vectors and token ids of a shard."""
    parts = {services.pool.parts[split, side] for split in ("train", "dev") for side in ("left", "right")}
    vectors = sum(sum(services.pool.sizes(part)) for part in parts)
    first = get_results(services.pool.shards[0].block.remote(model, min(parts), 0, 1)).vectors
    tokens = Path(str(pool_folder(services.journal.task, config.encoding, services.journal.path))).glob("*/*.npy")
    return (vectors * first[0].nbytes + sum(path.stat().st_size for path in tokens)) / MB


def resident(field: Literal["VmRSS", "VmHWM"]) -> float:
    """Return the MB of this process in memory: now (VmRSS), or at its peak (VmHWM)."""
    lines = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))
