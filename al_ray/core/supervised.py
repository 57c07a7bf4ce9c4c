"""Options of a training on labels that are there already, of either kind of model (paper, sections 3 and 5.5)."""

from dataclasses import dataclass, field, replace
from typing import Literal

from al_ray.core.config import Arithmetic, EvaluationConfig, RunConfig, SearchConfig, TrainingConfig
from al_ray.core.errors import BadOption
from al_ray.core.limits import refuse_beyond

STATED = "stated"
MEASURED = EvaluationConfig(near_pairs=300_000, random_pairs=300_000)


@dataclass(frozen=True)
class TrainConfig:
    """One training on labels that are there already."""

    task: str
    """A task folder made by jobs.prepare."""
    labels: str
    """Where the labels come from: a run folder (all of its complete rounds), a table (Parquet, CSV, TSV or JSON lines;
    see --columns), or stated: all positives and stated negatives of the training split (paper, 3.1.2)."""
    model: Literal["concat", "cosine"] = "concat"
    """concat: a classifier of both texts at once, "x1 [SEP] x2" (paper, 3); cosine: the bi-encoder of jobs.run."""
    seed: int = 0
    """Names every draw: the order of the pairs, and a concat model's first head and dropout."""
    encoder: str = "all-MiniLM-L6-v2"
    """What either model starts from: a hub name, a local folder, 'all-MiniLM-L6-v2' (from the package of extra `demo`),
    or 'random-bert' (tests). Concat: any encoder of which transformers has a classifier: BERT, XLNet, RoBERTa, ALBERT.
    Untrained it also finds the near negatives, unless --like names a run."""
    encoder_layers: int | None = None
    """Keep only the encoder's first so many layers; all when not given."""
    max_length: int = 128
    """At most so many word pieces of a text, or with concat of a pair; the longer text of a pair is cut."""
    encoder_batch: int = 64
    """Texts encoded, or pairs scored, at a time. Part of a score's last bits, so fixed for a folder."""
    threads: int = 2
    """Threads of a model. Part of a score's last bits, so fixed for a folder."""
    arithmetic: Arithmetic = "auto"
    """As in jobs.run: fp32, bf16, or auto, which is bf16 on a GPU and fp32 on a CPU."""
    concat_batch: int = 32
    """Concat: pairs in a step. --training.batch is that of cosine."""
    slice_pairs: int = 4096
    """Concat: pairs scored and kept at a time; an evaluation that was stopped goes on after the last one kept."""
    like: str | None = None
    """Concat: a run folder whose untrained encoder finds the near negatives, instead of --encoder's, so that its models
    and this one are measured on the same pairs."""
    search: SearchConfig = field(default_factory=SearchConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """Concat takes epochs (the paper: 2 on QQP, 3 on WikiQA), rates and decay; head-rate, initial-weight, initial-bias,
    worst-loss, tries, workers and losses other than bce are cosine's."""
    evaluation: EvaluationConfig = MEASURED
    """Concat is always estimated, from near and random negatives; cosine is counted where jobs.run would count."""

    def __post_init__(self) -> None:
        """Refuse what cannot be, before any work."""
        refuse_beyond((
            (self.concat_batch, "--concat-batch", 1, 1_000_000),
            (self.slice_pairs, "--slice-pairs", 1, 10_000_000),
        ))  # fmt: skip
        if not self.labels.strip() or "\0" in self.labels:
            raise BadOption(f"--labels is {self.labels!r}; give a run folder, a table, or {STATED}")
        if self.model == "concat" and self.training.workers > 1:
            raise BadOption("--training.workers is for --model cosine; leave it out")
        if self.model == "concat" and self.training.loss != "bce":
            raise BadOption(f"--training.loss {self.training.loss} is for --model cosine; leave it out")
        if self.model == "concat" and self.evaluation.mode == "exact":
            raise BadOption(
                "--evaluation.mode exact counts cosines; a concat model looks at pairs one by one: give instead as "
                "many --evaluation.random-pairs as there are pairs, and no --evaluation.near-pairs"
            )
        # A run has limits for all the rest.
        assert self.run(1)

    def run(self, labels: int) -> RunConfig:
        """The run of a bi-encoder whose seed set are so many labels and whose first round is its last."""
        return RunConfig(
            task=self.task, rounds=1, first_batch=labels, seed=self.seed, encoder=self.encoder,
            encoder_layers=self.encoder_layers, max_length=self.max_length, encoder_batch=self.encoder_batch,
            threads=self.threads, arithmetic=self.arithmetic, search=self.search,
            training=self.training, evaluation=self.evaluation,
        )  # fmt: skip

    @property
    def recipe(self) -> TrainingConfig:
        """A concat model's."""
        return replace(self.training, batch=self.concat_batch)

    def steps(self, labels: int) -> int:
        """How many steps a training on so many labels takes; a last partial batch is dropped."""
        batch = self.concat_batch if self.model == "concat" else self.training.batch * self.training.workers
        return self.training.epochs * (labels // min(batch, max(1, labels)))
