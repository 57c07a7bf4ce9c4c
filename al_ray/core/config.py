"""Every option of a run: frozen, with its default and a sentence that is also its --help. Nothing else has defaults."""

from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from math import log
from typing import Any, Literal

import numpy as np

from al_ray.core.errors import BadOption
from al_ray.core.limits import names_oracle, refuse_beyond
from al_ray.core.parts import EvaluationConfig, SearchConfig, TrainingConfig
from al_ray.core.task import SPLITS

Strategy = Literal["uncertainty", "adaptive", "static", "random", "stated", "stratified-match", "stratified-all"]
Precision = Literal["fp32", "fp16"]
Arithmetic = Literal["auto", "fp32", "bf16"]
STRATIFIED = ("stratified-match", "stratified-all")
ONCE = ("static", "random", "stated", *STRATIFIED)
# Labels of a round: beyond any purse, and within what an array of pairs can be asked for.
MOST_LABELS = 1_000_000_000


def generator(seed: int, purpose: str, number: int = 0) -> np.random.Generator:
    """The one source of chance: a stream for each purpose and round of a seed, whatever else was drawn before."""
    return np.random.default_rng([seed, *purpose.encode(), number])


@dataclass(frozen=True)
class EncoderConfig:
    """What turns a text into a vector; its defaults are RunConfig's."""

    name: str
    layers: int | None
    max_length: int
    batch: int
    threads: int
    # Not in its repr, which enters a model's digest: weights are the same either way.
    vectors: Precision = field(repr=False)
    # Nor, by itself, in its repr: a model from before there was a choice is the same one with auto.
    arithmetic: Arithmetic = field(default="auto", repr=False)

    @property
    def told(self) -> str:
        """What enters a model's digest."""
        return str(self) if self.arithmetic == "auto" else f"{self} {self.arithmetic}"

    def digested(self) -> dict[str, Any]:
        """What decides a training's weights, as its digest takes it: with auto, that of models from before."""
        return {name: value for name, value in asdict(self).items() if (name, value) != ("arithmetic", "auto")}


@dataclass(frozen=True)
class RunConfig:
    """One active-learning run."""

    task: str
    """A task folder made by jobs.prepare."""
    strategy: Strategy = "uncertainty"
    """How pairs are chosen (paper, 4 and 5; static, random, stated and stratified-* buy the whole budget at once).
    stratified-* draw from all positives, which nobody knows before labelling: oracle information (5.4)."""
    matched: tuple[int, int] | None = None
    """Of stratified-match: how many positives and negatives it draws; --match RUN says it, too."""
    train_every_budget: bool = False
    """static, random and stated, too, buy and train round by round, so that they can be compared at equal labels. The
    pairs are those they buy at once; the order of static stays the untrained encoder's. Others do so anyway."""
    seed: int = 0
    """Names every draw of the run."""
    rounds: int = 4
    """k: rounds of choosing, labelling and training (the paper: 10 on QQP, 4 on WikiQA)."""
    first_batch: int = 2048
    """n_1: labels of the first round."""
    growth: float = 1.5
    """Round i buys n_1 * growth^(i-1) labels."""
    seeding: Literal["retrieval", "stated"] = "retrieval"
    """Where the first batch comes from: the most similar pairs (4.2.3), or a draw of the stated pairs (5.7)."""
    oracle: str = "simulated"
    """Who labels: simulated (the task's own positives), file (people), module:function (docs/labels.md), or model:PATH
    (a cross-encoder of jobs.train --model concat or jobs.augment)."""
    encoder: str = "all-MiniLM-L6-v2"
    """A hub name, a local folder, 'all-MiniLM-L6-v2' (from the package of extra `demo`), 'cnn' (random weights over the
    words of the train split; 'cnn-600' for another number of filters than 300), or 'random-bert' (tests)."""
    encoder_layers: int | None = None
    """Keep only the encoder's first so many layers; all when not given."""
    max_length: int = 128
    """At most so many word pieces of a text, special ones included (paper, A.1)."""
    encoder_batch: int = 64
    """Texts encoded at a time. Part of a vector's last bits, so fixed for a run."""
    threads: int = 2
    """Threads of an encoder. Part of a vector's last bits, so fixed for a run, whatever the machine has."""
    arithmetic: Arithmetic = "auto"
    """What an encoder computes in, and is trained in: fp32; bf16 (mixed: weights, sums and losses stay fp32), faster on
    CPUs with AVX512-BF16 or AMX; or auto: bf16 on a GPU, fp32 on a CPU. Part of a vector's last bits."""
    vectors: Precision = "fp32"
    """How shards hold vectors. fp16 halves them: each is rounded once, when it is made, and every cosine of search and
    evaluation is of the rounded ones, up to 0.001 from fp32's. Training and its refit do not round."""
    search: SearchConfig = field(default_factory=SearchConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        """Refuse what cannot be, before any work."""
        refuse_beyond((
            (self.rounds, "--rounds", 1, 10_000),
            (self.first_batch, "--first-batch", 1, MOST_LABELS),
            (self.growth, "--growth", 1, 1_000),
            (self.seed, "--seed", 0, 2**63 - 1),
            (self.encoder_layers, "--encoder-layers", 1, 1_000),
            (self.max_length, "--max-length", 3, 1_000_000),
            (self.encoder_batch, "--encoder-batch", 1, 1_000_000),
            (self.threads, "--threads", 1, 1_024),
            (self.search.neighbours, "--search.neighbours", 1, 1_000_000),
            (self.search.exact_pairs, "--search.exact-pairs", 0, 2**62),
            (self.search.nprobe, "--search.nprobe", 1, 1_000_000),
            (self.search.least_recall, "--search.least-recall", 0, 1),
            (self.search.block, "--search.block", 1, 1_000_000),
            *self.training.limits,
            (self.evaluation.exact_pairs, "--evaluation.exact-pairs", 0, 2**62),
            (self.evaluation.near_neighbours, "--evaluation.near-neighbours", 1, 1_000_000),
            (self.evaluation.near_pairs, "--evaluation.near-pairs", 1, 2**40),
            (self.evaluation.random_pairs, "--evaluation.random-pairs", 1, 2**40),
            (self.evaluation.seed, "--evaluation.seed", 0, 2**63 - 1),
            (self.evaluation.examples, "--evaluation.examples", 0, 10_000),
        ))  # fmt: skip
        self.training.losses.refuse_unused(self.training.loss)
        # In logarithms: the sum itself may be no float any more.
        if log(self.first_batch) + (self.rounds - 1) * log(self.growth) > log(MOST_LABELS):
            raise BadOption(
                f"--first-batch {self.first_batch}, --growth {self.growth} and --rounds {self.rounds} ask for more "
                f"than {MOST_LABELS:,} labels in a round; lower one of them"
            )
        splits = self.evaluation.splits
        if not set(splits) <= set(SPLITS) or len(set(splits)) < len(splits):
            raise BadOption(f"--evaluation.splits is {' '.join(splits)!r}; give {', '.join(SPLITS)}, each once at most")
        bands = self.evaluation.bands
        if any(higher <= lower for higher, lower in pairwise((2.0, *bands, -2.0))):
            raise BadOption(f"--evaluation.bands is {' '.join(map(str, bands))}; give cosines, the highest first")
        for value, name in ((self.task, "--task"), (self.encoder, "--encoder"), (self.search.index, "--search.index")):
            if not value.strip() or "\0" in value:
                raise BadOption(f"{name} is {value!r}; say which, or leave it out where it has a default")
        if not names_oracle(self.oracle):
            raise BadOption(
                f"--oracle is {self.oracle!r}; give simulated, file, model:PATH, or module:function such as judge:label"
            )
        if self.strategy in STRATIFIED and self.oracle != "simulated":
            raise BadOption(f"--strategy {self.strategy} knows all positives, as --oracle simulated does; give that")
        if self.matched is not None and (min(self.matched) < 0 or not sum(self.matched)):
            raise BadOption(f"--matched is {' '.join(map(str, self.matched))}; give how many positives and negatives")
        if self.seeding == "stated" and self.strategy in ONCE:
            raise BadOption(f"--seeding stated starts a model, and --strategy {self.strategy} asks none; leave it out")

    def settled(self, pairs: int) -> "RunConfig":
        """What `auto` comes to on a training pool of so many pairs. By size alone: speed differs between machines."""
        if self.search.kind != "auto":
            return self
        kind: Literal["knn", "exact"] = "exact" if pairs <= self.search.exact_pairs else "knn"
        return replace(self, search=replace(self.search, kind=kind))

    @property
    def encoding(self) -> EncoderConfig:
        """The options that decide a vector."""
        return EncoderConfig(
            self.encoder, self.encoder_layers, self.max_length, self.encoder_batch, self.threads, self.vectors,
            self.arithmetic,
        )  # fmt: skip

    @property
    def batches(self) -> tuple[int, ...]:
        """Labels of each round: n_1 * growth^(i-1) (5.1), or the same budget at once."""
        # Rounded before it is cut: 1000 * 1.7^2 is 2889.9999... in floats.
        sizes = tuple(int(round(self.first_batch * self.growth**number, 6)) for number in range(self.rounds))
        if self.strategy == "stratified-match" and self.matched is not None:
            return (sum(self.matched),)
        return (sum(sizes),) if self.once else sizes

    @property
    def once(self) -> bool:
        """Whether the whole budget is bought before the first training, which is the only one."""
        return self.strategy in STRATIFIED or (self.strategy in ONCE and not self.train_every_budget)


@dataclass(frozen=True)
class ClusterConfig:
    """Where a run works. No result depends on it."""

    shards: int = 1
    """Actors that hold the pool: each embeds and searches its part of the texts."""
    cpus_per_shard: float = 1.0
    """Logical CPUs that an actor asks of Ray."""
    gpus_per_shard: float = 0.0
    """GPUs that a shard asks of Ray; a training worker asks for the same."""
    timeout: float = 1800.0
    """Seconds to wait for actors to be placed before saying what the cluster lacks."""
    checkpoint_seconds: float = 120.0
    """A training is kept so often on its way; a trainer that dies goes on from there, to the same weights."""
    mapped_above: float = 16.0
    """GiB of vectors that a shard holds in memory; what would go beyond is in a file of its node's folder for temporary
    files (TMPDIR), mapped. An index (knn) is in memory all the same."""
    keep_vectors: bool = False
    """Keep vectors in the run folder, mapped: a shard that dies, a run that goes on and jobs.evaluate read them back
    and encode nothing again. Those of the untrained encoder and of the latest model stay; older ones are deleted."""
    shared_storage: bool = False
    """The local paths given are on storage that all nodes mount; without it a cluster of several nodes takes URIs."""

    def __post_init__(self) -> None:
        """Refuse what cannot be, before any work."""
        refuse_beyond((
            (self.shards, "--shards", 1, 1_000),
            (self.cpus_per_shard, "--cpus-per-shard", 0.01, 1_000),
            (self.gpus_per_shard, "--gpus-per-shard", 0, 100),
            (self.timeout, "--timeout", 1, 1e6),
            (self.mapped_above, "--mapped-above", 0, 1e9),
        ))  # fmt: skip
        for value, name in ((self.cpus_per_shard, "--cpus-per-shard"), (self.gpus_per_shard, "--gpus-per-shard")):
            # Ray shares out parts of one, and beyond that only whole ones.
            if (value > 1 and value % 1) or 0 < value < 0.01:
                raise BadOption(f"{name} is {value}; give a part of one from 0.01, or a whole number")

    @property
    def device(self) -> str:
        """Where an actor computes: Ray shows it its own GPUs alone, the first of them as 0."""
        return "cuda:0" if self.gpus_per_shard else "cpu"
