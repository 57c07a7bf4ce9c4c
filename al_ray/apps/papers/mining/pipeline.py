"""Mine the negatives of a task by several miners, and count the positives among them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property

import torch

from al_ray.apps.papers.mining.dense import PoolVectors, build_miner
from al_ray.apps.papers.mining.miners import Random, deduplicate
from al_ray.apps.papers.mining.negatives import FalseNegatives, choose_negatives, count_false_negatives
from al_ray.apps.papers.mining.options import MiningConfig
from al_ray.apps.papers.mining.task_pool import MiningTask, mining_task, write_negatives
from al_ray.core.config.encoder import family_of
from al_ray.core.config.serialization import as_dict
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.progress import OnProgress
from al_ray.core.rng import generator
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_task
from al_ray.encoders.encoder import saved
from al_ray.encoders.transformer import Encoder
from al_ray.runs.other_runs import trained
from al_ray.runs.place import check_outside_task
from al_ray.storage.files import write_root
from al_ray.storage.uri import storage_path

Truths = Mapping[str, Mapping[str, FalseNegatives]]
"""Name of a miner -> name of a filter -> the false negatives that pass it."""


@dataclass(frozen=True)
class MiningJob:
    """The pool of a task that is mined, and its vectors, each computed when the first miner needs it."""

    config: MiningConfig
    task: Task
    mine: MiningTask

    @cached_property
    def untrained(self) -> PoolVectors:
        """Return the pool's vectors by the untrained encoder."""
        return PoolVectors.encode(Encoder.base(self.config.encoding), self.mine.pool, self.task.symmetric)

    @cached_property
    def current(self) -> PoolVectors:
        """Return the pool's vectors by the last model of the run; without a run, by the untrained encoder."""
        if self.config.run is None:
            return self.untrained
        config, folder = trained(self.config.run, self.task, "run")
        encoder = saved(folder.model(folder.last).path, config.encoding)
        return PoolVectors.encode(encoder, self.mine.pool, self.task.symmetric)


def open_job(config: MiningConfig) -> MiningJob:
    """Read the task and draw the known positives; nothing is mined yet.

    BadOption or WrongFolder for folders of another task or another kind.
    """
    if not family_of(config.encoder).pretrained:
        raise BadOption(
            f"{option('encoder', config.encoder)} is not pre-trained and cannot find neighbours; give another one, "
            "such as that of `run`"
        )
    task = read_task(storage_path(config.task))
    if config.out is not None:
        check_outside_task(config.out, storage_path(config.task))
    if config.run is not None and trained(config.run, task, "run")[0].matcher == "on":
        raise BadOption(
            f"{option('run', config.run)} has a matcher, which ranks only the candidates of its run; the miner model "
            "ranks any pair, by the cosine of a trained encoder (docs/augment.md): give a run without a matcher, or "
            "leave out `run` for the cosine of `encoder`, untrained"
        )
    torch.set_num_threads(config.threads)
    return MiningJob(config, task, mining_task(task, config.split, config.known, config.queries, config.seed))


def mine_all(job: MiningJob, watch: OnProgress) -> Truths:
    """Mine by every miner; with `out`, write a table of labels of each and mined.json."""
    config, results = job.config, dict[str, dict[str, FalseNegatives]]()
    for number, name in enumerate(config.miners):
        watch("mine", number, len(config.miners))
        results[name] = mine_by(job, name)
    if config.out is not None:
        content = {name: {filters: asdict(one) for filters, one in truth.items()} for name, truth in results.items()}
        about = {**as_dict(config.negatives), "task": config.task, "known": config.known, "seed": config.seed}
        about |= {"split": config.split, "queries": config.queries, "sample": config.sample}
        about |= {"run": None if config.run is None else str(config.run), "encoder": as_dict(config.encoding)}
        write_root(config.out / "mined.json", {**about, "task_digest": job.task.digest, "miners": content})
    return results


def mine_by(job: MiningJob, name: str) -> dict[str, FalseNegatives]:
    """Mine by one miner, and count the positives filter by filter; with `out`, write its table of labels."""
    config, mine, negatives = job.config, job.mine, job.config.negatives
    pool = mine.pool
    vectors = job.untrained if name == "neighbours" else job.current if name == "model" else None
    miner = build_miner(name, pool, vectors, config.sample, generator(config.seed, "mined"))
    chance = Random(pool, generator(config.seed, "chance"))
    candidates = mine.that_can_match(miner.mine(negatives.depth))
    chosen = mine.that_can_match(choose_negatives(miner, candidates, chance, pool, mine.known, negatives))
    best = deduplicate(chosen, pool)
    if config.out is not None:
        write_negatives(mine, best, config.out / f"{name}.parquet")
    return count_false_negatives(candidates, best, pool, mine.known, negatives.per_text, (mine.positives, mine.stated))
