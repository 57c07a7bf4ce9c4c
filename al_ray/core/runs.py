"""Runs as a report takes them: their figures by round, and which of them are alike but for strategy and seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

from al_ray.core.calibration import Bin
from al_ray.core.config import ONCE, STRATIFIED, RunConfig
from al_ray.core.metrics import Estimate
from al_ray.core.plain import as_dict
from al_ray.core.task import SPLITS

# What makes a method of a run: runs that differ in nothing else are compared.
OF_METHOD = ("strategy", "matched", "seed", "seeding", "train_every_budget")
# The order of the paper's tables, and the strategies that are told what nobody knows before (5.4).
STRATEGIES = ("random", "stated", "static", "stratified-match", "stratified-all", "adaptive", "uncertainty")
REFERENCE = "static"
STAGES = ("embed", "search", "label", "train", "evaluate", "examples")


@dataclass(frozen=True)
class Measured:
    """What a round's model is worth on a split; a figure that the run did not keep is None or empty.

    near: how many near negatives there are, where a sample of negatives was weighted.
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
class Shown:
    """A pair to look at, see core/examples.py; left and right are its rows in the task."""

    kind: str
    left: int
    right: int
    label: int
    cosine: float
    p: float
    left_text: str
    right_text: str

    @property
    def key(self) -> tuple[str, int, int]:
        """What makes it the same example in another round."""
        return self.kind, self.left, self.right


@dataclass(frozen=True)
class Round:
    """Figures of a complete round: labels and positives are all so far, batch and batch_positives those it bought.

    batch_p: the mean p of its batch under the model that chose it; None where no trained model did.
    """

    number: int
    labels: int
    positives: int
    batch: int
    batch_positives: int
    seconds: Mapping[str, float]
    splits: Mapping[str, Measured]
    batch_p: float | None = None
    boundary: float | None = None
    index_recall: float | None = None
    examples: tuple[Shown, ...] = ()
    examples_of: str = ""


@dataclass(frozen=True)
class Facts:
    """A task: its digest, its name, and the counts of its splits where its folder could be read."""

    digest: str
    name: str
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])


@dataclass(frozen=True)
class Run:
    """A run, or a cell of a grid that came to nothing. trouble: why it is no complete run; "" where it is."""

    name: str
    config: RunConfig
    task: Facts
    rounds: tuple[Round, ...] = ()
    trouble: str = ""

    @property
    def method(self) -> "Method":
        """How it chose its pairs."""
        once = self.config.strategy in ONCE and len(self.config.batches) == 1 < self.config.rounds
        return Method(self.config.strategy, self.config.seeding, once)

    @property
    def last(self) -> Round | None:
        """Its last complete round."""
        return self.rounds[-1] if self.rounds else None

    def at(self, labels: int) -> Round | None:
        """The round that ended with so many labels."""
        return next((one for one in self.rounds if one.labels == labels), None)


@dataclass(frozen=True)
class Method:
    """How pairs are chosen. once: the whole budget before the only training."""

    strategy: str
    seeding: str = "retrieval"
    once: bool = False

    @property
    def rank(self) -> tuple[int, str, str, bool]:
        """Its place in tables and legends."""
        known = STRATEGIES.index(self.strategy) if self.strategy in STRATEGIES else len(STRATEGIES)
        return known, self.strategy, self.seeding, self.once

    def words(self, others: Sequence["Method"] = ()) -> str:
        """Its name, with how often it trains where `others` have it both ways, and whether it knew every positive."""
        both = any((one.strategy, one.seeding) == (self.strategy, self.seeding) and one != self for one in others)
        seeded = " (stated seed)" if self.seeding == "stated" else ""
        oracle = " (oracle)" if self.strategy in STRATIFIED else ""
        return self.strategy + oracle + seeded + (" (trained once)" if self.once and both else "")


@dataclass(frozen=True)
class Setting:
    """Runs of one task whose options are the same but for those of the method and the seed."""

    words: str
    task: Facts
    options: RunConfig
    runs: tuple[Run, ...]

    @property
    def methods(self) -> tuple[Method, ...]:
        """In the paper's order."""
        return tuple(sorted({run.method for run in self.runs}, key=lambda method: method.rank))

    def name(self, method: Method) -> str:
        """A method's name among these."""
        return method.words(self.methods)

    def of(self, method: Method, complete: bool | None = True) -> tuple[Run, ...]:
        """The runs of a method by seed: the complete ones, those that are not, or (None) all."""
        runs = [run for run in self.runs if run.method == method and complete in (None, not run.trouble)]
        return tuple(sorted(runs, key=lambda run: (run.config.seed, run.name)))

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that any run measured: dev first, then test."""
        measured = {split for run in self.runs for one in run.rounds for split in one.splits}
        return tuple(sorted(measured, key=("dev", "test", "train").index))

    @property
    def reference(self) -> Method | None:
        """What others are compared with: `static`, trained at every budget where that is there."""
        static = [method for method in self.methods if method.strategy == REFERENCE]
        return min(static, key=lambda method: method.once) if static else None


def settings(runs: Sequence[Run]) -> tuple[Setting, ...]:
    """Runs parted by task and options, in the order in which they come, each with words that tell it from the others.

    Splits that are measured, examples that are kept and the recall to be warned at decide no figure.
    """
    parts: dict[RunConfig, list[Run]] = {}
    for run in runs:
        parts.setdefault(_options(run), []).append(run)
    plain = [_flat(as_dict(options)) for options in parts]
    varied = [name for name in plain[0] if len({repr(one[name]) for one in plain}) > 1] if plain else []
    made: list[Setting] = []
    for (options, own), values in zip(parts.items(), plain, strict=True):
        # What the title says anyway is not said again.
        told = [name for name in varied if name not in ("task", "encoder", "encoder_layers", "rounds", "first_batch")]
        task = max((run.task for run in own), key=lambda task: len(task.counts))
        words = [_title(task, options), *(f"{name} {values[name]}" for name in told)]
        made.append(Setting(", ".join(words), task, options, tuple(own)))
    return tuple(made)


def _options(run: Run) -> RunConfig:
    """The options of a run that its setting is made of."""
    default = {f.name: f.default for f in fields(RunConfig) if f.name in OF_METHOD}
    evaluation = replace(run.config.evaluation, examples=0, splits=())
    search = replace(run.config.search, least_recall=0.0)
    return replace(run.config, **default, task=run.task.digest, evaluation=evaluation, search=search)


def _title(task: Facts, options: RunConfig) -> str:
    layers = "" if options.encoder_layers is None else f" ({options.encoder_layers} layers)"
    return f"{task.name}, {options.encoder}{layers}, {sum(options.batches):,} labels in {options.rounds} rounds"


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in content.items():
        inner = _flat(cast(dict[str, Any], value), f"{prefix}{name}.") if isinstance(value, dict) else None
        found |= {f"{prefix}{name}": value} if inner is None else inner
    return found


def sizes(run: Run) -> Mapping[str, Mapping[str, int]]:
    """Counts of a task's splits: the task's own, and what the evaluations say of those that were measured."""
    seen = {name: one for part in run.rounds for name, one in part.splits.items()}
    found: dict[str, dict[str, int]] = {}
    for name in SPLITS:
        one = seen.get(name)
        if one is not None:
            near = {} if one.near is None else {"near_negatives": one.near}
            found[name] = {"pairs": one.total_pairs, "positives": one.positives, **near}
        if name in run.task.counts:
            found[name] = {**found.get(name, {}), **run.task.counts[name]}
    return found


def measured(run: Run, split: str) -> Measured | None:
    """What a run's last round is worth on a split."""
    return run.last.splits.get(split) if run.last else None


def stage_seconds(runs: Sequence[Run]) -> dict[str, float]:
    """Mean seconds of runs by stage, all rounds together."""
    sums: dict[str, float] = {}
    for stage, seconds in (found for run in runs for one in run.rounds for found in one.seconds.items()):
        sums[stage] = sums.get(stage, 0.0) + seconds / len(runs)
    return sums


def stages_of(parts: Sequence[Mapping[str, float]]) -> list[str]:
    """The stages that took any time, in the order of a round."""
    told = [stage for seconds in parts for stage, time in seconds.items() if time]
    return [stage for stage in STAGES if stage in told] + sorted(set(told) - set(STAGES))
