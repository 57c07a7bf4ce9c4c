"""Every option of a run: frozen, with its default and a sentence that is also its --help. Nothing else has defaults."""

from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, cast

import numpy as np

from al_ray.core.errors import BadOption

Strategy = Literal["uncertainty", "adaptive", "static", "random", "stated"]
ONCE = ("static", "random", "stated")


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


@dataclass(frozen=True)
class SearchConfig:
    """How the pairs of least cost are found."""

    kind: Literal["knn", "exact", "auto"] = "knn"
    """knn: among the m nearest right texts of every left text, by Faiss (paper, 4.2.2); exact: among all pairs; auto:
    exact up to `exact_pairs` pairs. Which one it was is in config.json."""
    exact_pairs: int = 20_000_000_000
    """The largest pool of which auto looks at every pair."""
    neighbours: int = 100
    """m: candidates of each left text (the paper: 1000 on QQP, 100 on WikiQA)."""
    index: str = "Flat"
    """A Faiss index-factory string: Flat is exact; IVF1000,Flat is the authors' kind."""
    nprobe: int = 10
    """Cells that an IVF index looks into for each query (the authors' program: 10)."""
    block: int = 1024
    """Left texts searched at a time."""
    ordered_pairs: bool = False
    """Buy (a,b) and (b,a) of a symmetric task as two labels, as the authors' program did (README, departure 1)."""


@dataclass(frozen=True)
class TrainingConfig:
    """The recipe of CosineBERT (paper, A.1 and Table 7; the last five from the authors' program)."""

    epochs: int = 2
    """Passes over the labelled pairs, every round from the pre-trained weights (Table 7)."""
    batch: int = 16
    """Pairs in a step; a last partial batch is dropped (Table 7)."""
    learning_rate: float = 2e-5
    """Peak rate of the encoder (Table 7)."""
    epsilon: float = 1e-6
    """AdamW's epsilon (Table 7)."""
    weight_decay: float = 0.0
    """AdamW's weight decay (Table 7)."""
    warmup: float = 0.1
    """Share of the steps in which the rate climbs linearly, before it falls linearly to 0."""
    head_rate: float = 1e4
    """w and b learn so many times faster than the encoder (A.1)."""
    initial_weight: float = 10.0
    """w at the start of a training, on the batch-normalised cosine."""
    initial_bias: float = -50.0
    """b at the start of a training."""
    bias_correction: bool = False
    """Adam's correction of its first steps; the authors' optimiser has none."""
    clip_norm: float = 1.0
    """Largest norm of the gradient over all parameters."""
    worst_loss: float = 0.6
    """A training whose refitted loss stays above this is tried again with another order of the pairs."""
    tries: int = 3
    """Trainings before giving up with an error."""


@dataclass(frozen=True)
class EvaluationConfig:
    """How average precision over all pairs is measured."""

    splits: tuple[str, ...] = ("dev",)
    """Splits measured after every training. Choose by dev; look at test at the end."""
    mode: Literal["auto", "exact", "estimate"] = "auto"
    """exact counts every pair; estimate weights a sample (paper, A.2); auto: exact up to `exact_pairs` pairs."""
    exact_pairs: int = 2_000_000_000
    """The largest pool that auto counts."""
    near_neighbours: int = 100
    """Near negatives are the pairs of a left text with so many neighbours under the untrained encoder (A.2)."""
    random_pairs: int = 10_000_000
    """Size of the random stratum (A.2), less where the pool is smaller."""


@dataclass(frozen=True)
class RunConfig:
    """One active-learning run."""

    task: str
    """A task folder made by jobs.prepare."""
    strategy: Strategy = "uncertainty"
    """How pairs are chosen (paper, 4 and 5; static, random and stated buy the whole budget at once)."""
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
    """Who labels: simulated (the task's own positives), file (people), or module:function (docs/labels.md)."""
    encoder: str = "all-MiniLM-L6-v2"
    """A hub name, a local folder, 'all-MiniLM-L6-v2' (from the package of extra `demo`), or 'random-bert' (tests)."""
    encoder_layers: int | None = None
    """Keep only the encoder's first so many layers; all when not given."""
    max_length: int = 128
    """At most so many word pieces of a text, special ones included (paper, A.1)."""
    encoder_batch: int = 64
    """Texts encoded at a time. Part of a vector's last bits, so fixed for a run."""
    threads: int = 2
    """Threads of an encoder. Part of a vector's last bits, so fixed for a run, whatever the machine has."""
    search: SearchConfig = field(default_factory=SearchConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        """Refuse what cannot be, before any work."""
        for value, name, least in (
            (self.rounds, "--rounds", 1),
            (self.first_batch, "--first-batch", 1),
            (self.growth, "--growth", 1.0),
            (self.seed, "--seed", 0),
            (self.max_length, "--max-length", 3),
            (self.encoder_batch, "--encoder-batch", 1),
            (self.threads, "--threads", 1),
            (self.search.neighbours, "--search.neighbours", 1),
            (self.search.exact_pairs, "--search.exact-pairs", 0),
            (self.search.nprobe, "--search.nprobe", 1),
            (self.search.block, "--search.block", 1),
            (self.training.batch, "--training.batch", 2),
            (self.training.epochs, "--training.epochs", 1),
            (self.training.tries, "--training.tries", 1),
            (self.evaluation.near_neighbours, "--evaluation.near-neighbours", 1),
            (self.evaluation.random_pairs, "--evaluation.random-pairs", 1),
        ):
            if not least <= value < float("inf"):
                raise BadOption(f"{name} is {value}; give at least {least}")
        module, _, function = self.oracle.partition(":")
        if self.oracle not in ("simulated", "file") and not (function.isidentifier() and dotted(module)):
            raise BadOption(
                f"--oracle is {self.oracle!r}; give simulated, file, or module:function such as judge:label"
            )
        if self.seeding == "stated" and self.strategy in ONCE:
            raise BadOption(f"--seeding stated seeds rounds, and --strategy {self.strategy} has one; leave it out")

    def settled(self, pairs: int) -> "RunConfig":
        """What `auto` comes to on a training pool of so many pairs. By size alone: speed differs between machines."""
        if self.search.kind != "auto":
            return self
        kind: Literal["knn", "exact"] = "exact" if pairs <= self.search.exact_pairs else "knn"
        return replace(self, search=replace(self.search, kind=kind))

    @property
    def encoding(self) -> EncoderConfig:
        """The options that decide a vector."""
        return EncoderConfig(self.encoder, self.encoder_layers, self.max_length, self.encoder_batch, self.threads)

    @property
    def batches(self) -> tuple[int, ...]:
        """Labels of each round: n_1 * growth^(i-1) (5.1), or the same budget at once."""
        # Rounded before it is cut: 1000 * 1.7^2 is 2889.9999... in floats.
        sizes = tuple(int(round(self.first_batch * self.growth**number, 6)) for number in range(self.rounds))
        return (sum(sizes),) if self.strategy in ONCE else sizes


@dataclass(frozen=True)
class ClusterConfig:
    """Where a run works. No result depends on it."""

    shards: int = 1
    """Actors that hold the pool: each embeds and searches its part of the texts."""
    cpus_per_shard: float = 1.0
    """Logical CPUs that an actor asks of Ray."""
    gpus_per_shard: float = 0.0
    """GPUs that a shard asks of Ray; the trainer asks for the same."""
    timeout: float = 1800.0
    """Seconds to wait for actors to be placed before saying what the cluster lacks."""

    @property
    def device(self) -> str:
        """Where an actor computes: Ray shows it its own GPUs alone, the first of them as 0."""
        return "cuda:0" if self.gpus_per_shard else "cpu"


def dotted(name: str) -> bool:
    """Whether a word is a module's name."""
    return all(part.isidentifier() for part in name.split("."))


def as_dict(config: Any) -> dict[str, Any]:
    """A config -> nested plain values, as config.json holds them."""
    return {
        f.name: as_dict(value)
        if is_dataclass(value)
        else list(cast(tuple[Any, ...], value))
        if isinstance(value, tuple)
        else value
        for f in fields(config)
        for value in [getattr(config, f.name)]
    }


def from_dict(kind: type[Any], content: dict[str, Any]) -> Any:
    """Nested plain values -> a config; BadOption for a name it does not know."""
    known = {f.name: f for f in fields(kind)}
    unknown = sorted(set(content) - set(known))
    if unknown:
        raise BadOption(f"{kind.__name__} has no option {', '.join(unknown)}; was the file made by another version?")
    values: dict[str, Any] = {}
    for name, value in content.items():
        made = known[name].default_factory
        if made is not MISSING:
            values[name] = from_dict(cast(type[Any], made), value)
        else:
            values[name] = tuple(cast(list[Any], value)) if isinstance(value, list) else value
    return kind(**values)
