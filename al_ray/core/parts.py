"""The parts of a run's options (core/config.py): how pairs are searched, models trained, and how they are measured."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from al_ray.core.losses import LossConfig, LossName


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
    least_recall: float = 0.9
    """Warn when the index finds a smaller share of the truly nearest; it is measured and recorded every round."""
    block: int = 1024
    """Left texts searched at a time."""
    ordered_pairs: bool = False
    """Buy (a,b) and (b,a) of a symmetric task as two labels, as the authors' program did (README, departure 1)."""


@dataclass(frozen=True)
class TrainingConfig:
    """The recipe of CosineBERT (paper, A.1 and Table 7; the last five from the authors' program)."""

    epochs: int = 2
    """Passes over all labelled pairs, every round (Table 7)."""
    start: Literal["pretrained", "previous"] = "pretrained"
    """The weights a round's training starts from: the pre-trained ones (A.1), or those of the round before."""
    batch: int = 16
    """Pairs of a worker in a step; a last partial batch is dropped (Table 7)."""
    workers: int = 1
    """Processes that train together, each with --cpus-per-shard and --gpus-per-shard. A step takes workers * batch
    pairs, and is that of one worker with so large a batch."""
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
    loss: LossName = "bce"
    """What a step makes smaller (docs/losses.md): bce: cross-entropy; focal, ghm, ohem: of hard pairs above all;
    in-batch, in-batch-softmax, momentum: other right texts of the batch, or of earlier ones, are negatives too."""
    losses: LossConfig = field(default_factory=LossConfig)

    @property
    def limits(self) -> tuple[tuple[float, str, float, float], ...]:
        """What a run may ask for, as `refuse_beyond` takes it."""
        return (
            (self.epochs, "--training.epochs", 1, 100_000),
            (self.batch, "--training.batch", 2, 1_000_000),
            (self.workers, "--training.workers", 1, 1_024),
            (self.learning_rate, "--training.learning-rate", 0, 1e6),
            (self.epsilon, "--training.epsilon", 1e-30, 1),
            (self.weight_decay, "--training.weight-decay", 0, 1e6),
            (self.warmup, "--training.warmup", 0, 1),
            (self.head_rate, "--training.head-rate", 0, 1e12),
            (self.initial_weight, "--training.initial-weight", 0, 1e6),
            (self.initial_bias, "--training.initial-bias", -1e6, 1e6),
            (self.clip_norm, "--training.clip-norm", 1e-12, 1e30),
            (self.worst_loss, "--training.worst-loss", 0, 1e6),
            (self.tries, "--training.tries", 1, 100),
            *self.losses.limits,
        )

    def digested(self) -> dict[str, Any]:
        """What decides the weights, as a model's digest takes it: with bce, that of models from before other losses."""
        content = asdict(self)
        late = ("loss", "losses") if self.loss == "bce" else ()
        return {name: value for name, value in content.items() if name not in late}


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
    near_pairs: int | None = None
    """At most so many near negatives of each band, drawn at random; all when not given, as in the paper."""
    bands: tuple[float, ...] = ()
    """Part the near negatives at these untrained cosines, highest first: each band is a stratum of its own."""
    random_pairs: int = 10_000_000
    """Size of the random stratum (A.2), less where the pool is smaller."""
    seed: int = 0
    """Names the draw of the sampled pairs: the same for runs that are to be compared."""
    examples: int = 20
    """Pairs of each kind to keep for people to look at: highest negatives, lowest positives, nearest the boundary."""
