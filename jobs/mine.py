"""Mined negatives of a task, and how many of them are positives in truth: python -m jobs.mine --task TASK

Half of the training positives (--known) are told to the miners; all of them are the truth. With --out, the known
positives and each miner's negatives are a table of labels: python -m jobs.train --labels OUT/bm25.parquet. Every
option: --help.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cached_property

import numpy as np
import torch

from al_ray.core.config import EncoderConfig, RunConfig, generator
from al_ray.core.errors import BadOption
from al_ray.core.limits import refuse_beyond
from al_ray.core.mining import Random, once
from al_ray.core.negatives import NegativesConfig, Truth, chosen, floors, truths
from al_ray.core.plain import as_dict
from al_ray.core.task import SPLITS, Task
from al_ray.data.files import write_json
from al_ray.data.mined import Mine, mine_of, write_negatives
from al_ray.data.run_folder import refuse_inside, trained
from al_ray.data.tables import read_task
from al_ray.model.cnn import is_cnn
from al_ray.model.encoder import Encoder
from al_ray.model.encoders import saved
from al_ray.model.miners import MINERS, Embedded, miner_of
from al_ray.storage.places import place
from jobs.entry import PathOrUri, aligned, job, options
from jobs.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Options(NegativesConfig):
    """Mine negatives, and say how many are none."""

    task: str
    """A task folder made by jobs.prepare."""
    out: PathOrUri | None = None
    """Folder for a table of labels of each miner, and the figures; nothing is written when not given."""
    miners: tuple[str, ...] = MINERS
    """Which: random, bm25, tfidf, neighbours (of --encoder, untrained), model (hardest of a sample, by --run's)."""
    split: str = "train"
    """The split that is mined."""
    known: float = 0.5
    """This share of the positives, drawn, is what the miners are told of."""
    queries: int | None = None
    """Mine for so many texts, drawn; for all that have a known positive when not given."""
    run: PathOrUri | None = None
    """The run whose last model is the miner `model`'s; --encoder untrained when not given."""
    sample: int = 1000
    """Candidates of each text that `model` scores."""
    encoder: str = "all-MiniLM-L6-v2"
    """The encoder of `neighbours`: any of jobs.run but cnn, which is nothing untrained."""
    encoder_layers: int | None = None
    """Keep only the encoder's first so many layers; all when not given."""
    max_length: int = 128
    """At most so many word pieces of a text."""
    encoder_batch: int = 64
    """Texts encoded at a time."""
    threads: int = 2
    """Threads of the encoder."""
    seed: int = 0
    """Names every draw."""

    def __post_init__(self) -> None:
        """Refuse what cannot be, before any work."""
        super().__post_init__()
        refuse_beyond((
            (self.known, "--known", 1e-9, 1),
            (self.queries, "--queries", 1, 10**9),
            (self.sample, "--sample", 1, 10**9),
        ))  # fmt: skip
        wrong = [name for name in self.miners if name not in MINERS]
        if wrong or not self.miners or len(set(self.miners)) < len(self.miners):
            raise BadOption(f"--miners is {' '.join(self.miners)!r}; give some of {', '.join(MINERS)}, each once")
        if self.split not in SPLITS:
            raise BadOption(f"--split is {self.split!r}; give {', '.join(SPLITS)}")
        if is_cnn(self.encoder):
            raise BadOption("--encoder cnn knows nothing before it is trained; give --run, or another encoder")
        assert self.encoding

    @property
    def encoding(self) -> EncoderConfig:
        """The options that decide a vector; a run has limits for them."""
        return RunConfig(
            task=self.task, seed=self.seed, encoder=self.encoder, encoder_layers=self.encoder_layers,
            max_length=self.max_length, encoder_batch=self.encoder_batch, threads=self.threads,
        ).encoding  # fmt: skip

    @property
    def negatives(self) -> NegativesConfig:
        """How many, and what guards them."""
        return NegativesConfig(**{f.name: getattr(self, f.name) for f in fields(NegativesConfig)})


@dataclass(frozen=True)
class Vectors:
    """The vectors of a pool by the untrained encoder, and by the current model, each made when a miner needs it."""

    asked: Options
    mine: Mine

    @cached_property
    def untrained(self) -> Embedded:
        """By --encoder."""
        return Embedded.by(Encoder.base(self.asked.encoding), self.mine.pool)

    @cached_property
    def current(self) -> Embedded:
        """By the last model of --run."""
        if self.asked.run is None:
            return self.untrained
        config, folder = trained(self.asked.run, self.mine.task, "--run")
        encoder = saved(folder.model(folder.last).path, config.encoding)
        return Embedded.by(encoder, self.mine.pool)

    def of(self, miner: str) -> Embedded | None:
        """What a miner goes by."""
        if miner == "neighbours":
            return self.untrained
        return self.current if miner == "model" else None


def main() -> None:
    """Read the options, mine, and print what came of it."""
    asked: Options = options(Options, "mine", "Negatives of a task by several miners, and how many are positives.")
    mine(asked)


def mine(asked: Options) -> None:
    """Mine by every miner, print the table, and write."""
    task: Task = read_task(place(asked.task))
    if asked.out is not None:
        refuse_inside(asked.out, place(asked.task))
    if asked.run is not None:
        trained(asked.run, task, "--run")
    torch.set_num_threads(asked.threads)
    found = mine_of(task, asked.split, asked.known, asked.queries, asked.seed)
    pool = found.pool
    print(f"{len(found.known.positives):,} of {len(found.positives):,} positives known, {len(pool.queries):,} texts "
          f"mined for among {len(pool.candidates):,}", flush=True)  # fmt: skip
    vectors, watch, told = Vectors(asked, found), Progress(), dict[str, dict[str, Truth]]()
    for number, name in enumerate(asked.miners):
        watch("mine", number, len(asked.miners))
        told[name] = of_miner(asked, found, name, vectors)
    watch.close()
    print(table(told))
    if asked.out is not None:
        truth = {name: {guard: asdict(one) for guard, one in lines.items()} for name, lines in told.items()}
        about = {**as_dict(asked.negatives), "task": asked.task, "known": asked.known, "seed": asked.seed}
        write_json(asked.out / "mined.json", {**about, "task_digest": task.digest, "miners": truth})
        print(f"results: {asked.out}")


def of_miner(asked: Options, found: Mine, name: str, vectors: Vectors) -> dict[str, Truth]:
    """The truth of a miner's negatives, guard by guard; they are written if that is asked."""
    pool, config = found.pool, asked.negatives
    miner = miner_of(name, pool, vectors.of(name), asked.sample, generator(asked.seed, "mined"))
    chance = Random(pool, generator(asked.seed, "chance"))
    offered = miner.mined(config.depth)
    floor = floors(miner, pool, found.known) if config.margin is not None else np.empty(0)
    best = once(chosen(offered, chance, pool, found.known, config, floor), pool)
    if asked.out is not None:
        write_negatives(found, best, asked.out / f"{name}.parquet")
    return truths(offered, best, pool, found.known, config.per_text, (found.positives, found.stated))


def table(told: dict[str, dict[str, Truth]]) -> str:
    """A row for each miner and guard."""
    return aligned([("miner", "guards", "pairs", "positives", "%", "stated negatives"), *_rows(told)])


def _rows(told: dict[str, dict[str, Truth]]) -> Iterator[tuple[str, ...]]:
    for name, lines in told.items():
        for guard, one in lines.items():
            share = f"{100 * one.positives / one.pairs:.2f}" if one.pairs else "-"
            yield name, guard, f"{one.pairs:,}", f"{one.positives:,}", share, f"{one.stated:,}"


if __name__ == "__main__":
    job(main)
