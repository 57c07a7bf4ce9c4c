"""Options of training a cross-encoder or a bi-encoder on existing labels (paper, sections 3 and 5.5)."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from al_ray.active_learning.config import RunConfig
from al_ray.core.config.bounds import RARE, Between, Seed, check_bounds
from al_ray.core.config.encoder import EncoderOptions, MaxLength
from al_ray.core.config.sections import LATE, EvaluationConfig, SearchConfig, TrainingConfig
from al_ray.core.config.serialization import part
from al_ray.core.errors import BadOption
from al_ray.core.labels import STATED
from al_ray.core.naming import option

NEAR_PAIRS, RANDOM_PAIRS = 300_000, 300_000
MEASURED = EvaluationConfig(near_pairs=NEAR_PAIRS, random_pairs=RANDOM_PAIRS)


@dataclass(frozen=True, kw_only=True)
class TrainConfig(EncoderOptions):
    """Train a model on existing labels."""

    task: str
    """A task folder made by jobs.prepare."""
    labels: str
    """Where the labels come from: a run folder (all of its complete rounds), a table (Parquet, CSV, TSV or JSON lines;
    see --columns), or stated: all positives and stated negatives of the training split (paper, 3.1.2)."""
    model: Literal["concat", "cosine"] = "concat"
    """concat: a cross-encoder, which reads both texts together, "x1 [SEP] x2" (paper, 3); cosine: the bi-encoder of
    jobs.run."""
    seed: Seed = 0
    """Random seed of the order of the pairs, and of the cross-encoder's initial head and dropout."""
    encoder: str = EncoderOptions.encoder
    """Pre-trained encoder: a hub name, a local folder, 'all-MiniLM-L6-v2' (from the package of extra `demo`), or
    'random-bert' (tests). Concat: any encoder with a classifier in transformers: BERT, XLNet, RoBERTa, ALBERT.
    The untrained encoder also finds the near negatives of evaluation sets, unless --like names a run."""
    max_length: MaxLength = 128
    """Maximum number of tokens per text, or with concat per pair; the longer text of a pair is truncated."""
    concat_batch: Annotated[int, Between(1, 1_000_000)] = 32
    """Concat: pairs per training step; cosine has --training.batch."""
    slice_pairs: Annotated[int, Between(1, 10_000_000), RARE] = 4096
    """Concat: pairs scored and stored at a time. A rerun of an evaluation resumes after the last stored slice."""
    like: str | None = None
    """Concat: a run folder whose untrained encoder finds the near negatives instead of --encoder's, so that its models
    and this one are evaluated on the same pairs."""
    search: SearchConfig = field(default_factory=SearchConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """Concat uses epochs (the paper: 2 on QQP, 3 on WikiQA), rates and decay; batch, head-rate, initial-weight,
    initial-bias, worst-loss, tries, workers, frozen-layers, head, head-start, interpolation, l2-sp, presumed and
    losses other than bce are for cosine only."""
    evaluation: EvaluationConfig = MEASURED
    """Concat is always estimated from near and random negatives; cosine is counted exactly where jobs.run would."""

    def __post_init__(self) -> None:
        """Validate options."""
        check_bounds(self)
        if not self.labels.strip() or "\0" in self.labels:
            raise BadOption(f"`labels` is {self.labels!r}; give a run folder, a table, or {STATED}")
        if self.model == "concat" and self.training.workers > 1:
            raise BadOption("`training.workers` is for `model='cosine'`; leave it out")
        if self.model == "concat" and self.training.loss != "bce":
            raise BadOption(f"{option('training.loss', self.training.loss)} is for `model='cosine'`; leave it out")
        cosine_only = [name for name in LATE if name in self.training.content]
        if self.model == "concat" and cosine_only:
            raise BadOption(f"`training.{cosine_only[0]}` is for `model='cosine'`; leave it out")
        if self.model == "concat" and self.evaluation.mode == "exact":
            raise BadOption(
                "`evaluation.mode='exact'` counts cosines, and a cross-encoder scores pairs one by one: instead set "
                "`evaluation.near_pairs` and `evaluation.random_pairs` to the number of all pairs"
            )
        # RunConfig validates the other options.
        assert self.run(1)

    def run(self, labels: int) -> RunConfig:
        """Return the config of a bi-encoder's run with one round and a seed set of `labels` labels."""
        return RunConfig(
            task=self.task, rounds=1, first_batch=labels, seed=self.seed, search=self.search, training=self.training,
            evaluation=self.evaluation, **vars(part(self, EncoderOptions)),
        )  # fmt: skip

    @property
    def concat_training(self) -> TrainingConfig:
        """Return the training config of the cross-encoder."""
        return replace(self.training, batch=self.concat_batch)

    def steps(self, labels: int) -> int:
        """Return the number of training steps on `labels` labels; a last partial batch is dropped."""
        batch = self.concat_batch if self.model == "concat" else self.training.batch * self.training.workers
        pairs = self.training.pairs(labels)
        return self.training.epochs * (pairs // min(batch, max(1, pairs)))
