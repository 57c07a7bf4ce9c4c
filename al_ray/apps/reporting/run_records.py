"""Runs as values: figures by round, and groups of runs that differ only in strategy, seed set and seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.method import Method
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.apps.reporting.dev_estimates import DevEstimate
from al_ray.core.config.serialization import as_dict
from al_ray.core.task import SPLITS
from al_ray.metrics.average_precision import Estimate
from al_ray.metrics.calibration import Bin
from al_ray.runs.candidate_figures import CandidateFigures
from al_ray.runs.importance import Importance

# Options that may differ between runs of one setting: they make the method and the seed.
OF_METHOD = ("strategy", "matched", "seed", "seeding", "train_every_budget")
REFERENCE = "static"
LABELLED = "its labelled pairs"
STAGES = ("embed", "search", "label", "train", "evaluate", "examples")

Status = Literal["complete", "failed", "incomplete"]


@dataclass(frozen=True)
class SplitEvaluation:
    """Evaluation of a round's model on a split; a figure that the run did not write is None or empty.

    near: number of near negatives in the split, if AP was estimated from a weighted sample. reliability: the rows of
    the calibration table. recall, precision: the precision-recall curve, both in [0, 1].
    """

    average_precision: Estimate
    precision_at_recall_20: Estimate
    positives: int
    total_pairs: int
    exact: bool
    near: int | None = None
    calibration_error: float | None = None
    reliability: tuple[Bin, ...] = ()
    recall: tuple[float, ...] = ()
    precision: tuple[float, ...] = ()


@dataclass(frozen=True)
class ExamplePair:
    """A pair that the model gets wrong or is unsure of (metrics/error_examples.py), or that was labelled.

    left, right: rows of the task. cosine: None of a candidate that a matcher scored. p: None if no trained model did.
    """

    kind: str
    left: int
    right: int
    label: int
    cosine: float | None
    p: float | None
    left_text: str
    right_text: str

    @property
    def key(self) -> tuple[str, int, int]:
        """Return the key of the example, the same in every round."""
        return self.kind, self.left, self.right


@dataclass(frozen=True)
class Round:
    """Figures of a complete round.

    labels, positives: of all rounds so far; batch, batch_positives: of this round. seconds: by stage. batch_p: mean p
    of the pairs of the batch that are labelled yes or no, under the model that chose it; None if no trained model did.
    batch_share: share of matches among the same pairs. agreement, prequential: see
    metrics/round_comparison.py. examples_of: the split of the examples, or LABELLED. dev: estimates from dev labels.
    candidates: of each split, of a run with a matcher; importance: of its comparisons.
    """

    number: int
    labels: int
    positives: int
    batch: int
    batch_positives: int
    seconds: Mapping[str, float]
    splits: Mapping[str, SplitEvaluation]
    batch_p: float | None = None
    batch_share: float | None = None
    boundary: float | None = None
    index_recall: float | None = None
    agreement: float | None = None
    prequential: float | None = None
    examples: tuple[ExamplePair, ...] = ()
    examples_of: str = ""
    dev: DevEstimate | None = None
    candidates: Mapping[str, CandidateFigures] = field(default_factory=dict[str, CandidateFigures])
    importance: Importance | None = None


@dataclass(frozen=True)
class TaskSummary:
    """A task: its digest, its name, and the counts of its splits if its folder could be read."""

    digest: str
    name: str
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])


@dataclass(frozen=True)
class Run:
    """A run, or a cell of a grid without a run folder.

    trouble: why the run is not complete; "" if it is. error: first line of the error that ended its trial in a grid.
    untrained: split -> AP of the encoder without labels, where it was measured.
    """

    name: str
    config: RunConfig
    task: TaskSummary
    rounds: tuple[Round, ...] = ()
    trouble: str = ""
    error: str = ""
    untrained: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def status(self) -> Status:
        """Return whether the run has all its rounds, and if not, whether its trial failed."""
        return "complete" if not self.trouble else "failed" if self.error else "incomplete"

    @property
    def method(self) -> "Method":
        """Return how the run chose its pairs."""
        once = not STRATEGIES[self.config.strategy].uses_model and len(self.config.batches) == 1 < self.config.rounds
        return Method(self.config.strategy, self.config.seeding, once)

    @property
    def last(self) -> Round | None:
        """Return the last complete round, or None."""
        return self.rounds[-1] if self.rounds else None

    def at(self, labels: int) -> Round | None:
        """Return the round that ended with this number of labels, or None."""
        return next((one for one in self.rounds if one.labels == labels), None)


@dataclass(frozen=True)
class Setting:
    """Runs of one task with the same options but for those of the method and the seed. words: its heading."""

    words: str
    task: TaskSummary
    options: RunConfig
    runs: tuple[Run, ...]

    @property
    def methods(self) -> tuple[Method, ...]:
        """Return the methods of the runs, in the paper's order."""
        return tuple(sorted({run.method for run in self.runs}, key=lambda method: method.rank))

    def name(self, method: Method) -> str:
        """Return a name of the method that is unique in this setting."""
        return method.words(self.methods)

    def of(self, method: Method, complete: bool | None = True) -> tuple[Run, ...]:
        """Return the runs of a method by seed: the complete ones, the incomplete ones, or all (None)."""
        runs = [run for run in self.runs if run.method == method and complete in (None, not run.trouble)]
        return tuple(sorted(runs, key=lambda run: (run.config.seed, run.name)))

    def evaluations(self, method: Method, split: str) -> list[SplitEvaluation]:
        """Return the last evaluation on the split of each complete run of a method that has one."""
        return last_evaluations(self.of(method), split)

    @property
    def splits(self) -> tuple[str, ...]:
        """Return the splits that any run was evaluated on: dev first, then test."""
        evaluated = {split for run in self.runs for one in run.rounds for split in one.splits}
        return tuple(sorted(evaluated, key=("dev", "test", "train").index))

    @property
    def has_dev(self) -> bool:
        """Return whether any run has estimates from dev labels."""
        return any(one.dev is not None for run in self.runs for one in run.rounds)

    @property
    def name_of_p(self) -> str:
        """Return "p" if an evaluated split shows how often pairs of a p match; before that it is a "score"."""
        return "p" if self.splits else "score"

    @property
    def reference(self) -> Method | None:
        """Return the method that others are compared with: `static`, at best trained at every budget; or None."""
        static = [method for method in self.methods if method.strategy == REFERENCE]
        return min(static, key=lambda method: method.once) if static else None


def settings(runs: Sequence[Run]) -> tuple[Setting, ...]:
    """Group runs by task and options, in the order given; a heading names the options in which the groups differ.

    The splits, the number of examples and the recall below which a search warns change no figure, and are ignored.
    """
    parts: dict[RunConfig, list[Run]] = {}
    for run in runs:
        parts.setdefault(_options(run), []).append(run)
    plain = [_flat(as_dict(options)) for options in parts]
    varied = [name for name in plain[0] if len({repr(one[name]) for one in plain}) > 1] if plain else []
    groups: list[Setting] = []
    for (options, own), values in zip(parts.items(), plain, strict=True):
        # The title names these already.
        named = [name for name in varied if name not in ("task", "encoder", "encoder_layers", "rounds", "first_batch")]
        task = max((run.task for run in own), key=lambda task: len(task.counts))
        layers = "" if options.encoder_layers is None else f" ({options.encoder_layers} layers)"
        others = (f"{name} {values[name]}" for name in named)
        words = [task.name, f"{options.encoder}{layers}", _budget_words(own), *others]
        groups.append(Setting(", ".join(words), task, options, tuple(own)))
    return tuple(groups)


def _budget_words(runs: Sequence[Run]) -> str:
    """Return the largest number of labels and of rounds that a run has, and those planned if they are others."""
    batches = max((run.config.batches for run in runs), key=len)
    labels, rounds = max(run.last.labels if run.last else 0 for run in runs), max(len(run.rounds) for run in runs)
    planned = f"{sum(batches):,} labels in {_rounds(len(batches))}"
    if not rounds:
        return f"{planned} planned"
    words = f"{labels:,} labels in {_rounds(rounds)}"
    return words if words == planned else f"{words} ({sum(batches):,} in {_rounds(len(batches))} planned)"


def _rounds(count: int) -> str:
    return f"{count} round{'s' if count != 1 else ''}"


def _options(run: Run) -> RunConfig:
    """Return the options of a run without those that do not decide its setting."""
    default = {f.name: f.default for f in fields(RunConfig) if f.name in OF_METHOD}
    evaluation = replace(run.config.evaluation, examples=0, splits=())
    search = replace(run.config.search, least_recall=0.0)
    return replace(run.config, **default, task=run.task.digest, evaluation=evaluation, search=search)


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in content.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def sizes(run: Run) -> Mapping[str, Mapping[str, int]]:
    """Return split -> counts: those of the task folder, and those of the run's evaluations."""
    evaluations = {name: one for part in run.rounds for name, one in part.splits.items()}
    counts: dict[str, dict[str, int]] = {}
    for name in SPLITS:
        one = evaluations.get(name)
        if one is not None:
            near = {} if one.near is None else {"near_negatives": one.near}
            counts[name] = {"pairs": one.total_pairs, "positives": one.positives, **near}
        if name in run.task.counts:
            counts[name] = {**counts.get(name, {}), **run.task.counts[name]}
    return counts


def last_evaluation(run: Run, split: str) -> SplitEvaluation | None:
    """Return the evaluation of a run's last round on a split, or None."""
    return run.last.splits.get(split) if run.last else None


def last_evaluations(runs: Sequence[Run], split: str) -> list[SplitEvaluation]:
    """Return the last evaluation on the split of each run that has one."""
    return [one for run in runs if (one := last_evaluation(run, split)) is not None]


def stage_seconds(runs: Sequence[Run]) -> dict[str, float]:
    """Return stage -> seconds of a run, summed over rounds and averaged over runs."""
    sums: dict[str, float] = {}
    for stage, seconds in (item for run in runs for one in run.rounds for item in one.seconds.items()):
        sums[stage] = sums.get(stage, 0.0) + seconds / len(runs)
    return sums


def stages_of(parts: Sequence[Mapping[str, float]]) -> list[str]:
    """Return the stages that took any time, in the order of a round, and unknown ones after them."""
    timed = {stage for seconds in parts for stage, time in seconds.items() if time}
    return [stage for stage in STAGES if stage in timed] + sorted(timed - set(STAGES))
