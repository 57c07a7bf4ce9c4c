"""Simulate active learning with a linear adapter of frozen vectors in place of a trained encoder.

The loop, its strategies and its labels are those of a run; services are in memory, and a round takes seconds. Each
round of each run is a line of a CSV file, and runs whose lines exist are not computed again.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, cast

import numpy as np
import torch

from al_ray.active_learning import loop
from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.core.config.bounds import Between, Seed, check_bounds
from al_ray.core.config.encoder import EncoderConfig, MaxLength
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.errors import BadOption
from al_ray.core.labels import Labelled, State
from al_ray.core.text_table import format_columns
from al_ray.datasets.task_folder import read_task
from al_ray.encoders.pretrained import MINILM
from al_ray.metrics.evaluation import Evaluation
from al_ray.metrics.round_comparison import prequential_average_precision
from benchmarks.row_file import Row, append_rows, read_rows
from studies.adapter import AdapterOptions
from studies.adapter_noise import Noise
from studies.adapter_services import (
    UNTRAINED,
    AdapterModels,
    AdapterTrainer,
    ExactEvaluator,
    MemoryJournal,
    SimulatedServices,
)
from studies.adapter_splits import Measured, Shares, frozen_vectors, make_splits
from studies.adapter_stopping import SIGNS, StopSigns
from studies.adapter_strategies import TRIALS, on_trial
from studies.vector_cache import origin_of

logger = logging.getLogger(__name__)

SETTINGS = (
    *("vectors", "measured", "left", "distractors", "first_batch", "growth", "neighbourhood"),
    *("maps", "epochs", "batch", "rate", "decay", "head", "head_rate", "errors", "hard", "correct", "confirm"),
    *("seed", "strategy"),
)
"""Columns that identify a run. vectors: digest of the task and of the encoder's options."""
STAGES = ("search", "label", "train", "evaluate")
FIGURES = ("round", "labels", "found", "positives", "ap", "p_at_20", *(f"{stage}_seconds" for stage in STAGES))
FIRST_AP = "first_ap"
COLUMNS = (*SETTINGS, *FIGURES, FIRST_AP, *SIGNS)
"""Columns of a round. labels: of all rounds so far; found: positives among them; positives: of the whole pool.
first_ap: AP of the untrained encoder's cosines among the labels of round 1; empty if all of these are equal."""


@dataclass(frozen=True)
class Simulate:
    """Simulate active learning with a linear adapter of frozen vectors: labels, positives and AP of every round."""

    task: Path
    """Task folder of two sets of texts, whose labels are complete."""
    cache: Path
    """File of the untrained encoder's vectors (.npz); written if it does not exist. One per task and encoder, and not
    one of `recipes`."""
    encoder: str = MINILM
    """As in jobs.run."""
    encoder_layers: Annotated[int | None, Between(1, 1_000)] = None
    """As in jobs.run."""
    max_length: MaxLength = 64
    """As in jobs.run."""
    strategies: tuple[str, ...] = ("uncertainty", "adaptive", "static", "random")
    """Strategies of jobs.run, all with --train-every-budget, or of TRIALS in studies/adapter_strategies.py."""
    seeds: tuple[Seed, ...] = (0, 1, 2)
    """Random seeds: of the texts that --shares draws, of random strategies and of the order of training."""
    measured: tuple[Measured, ...] = ("fold-0",)
    """Pairs on which AP is computed. fold-N: a third of the left texts of train; the pool has the other two thirds.
    dev: the pool is all of train. Screen strategies on folds, so that dev is left for the confirmation."""
    first_batch: Annotated[int, Between(1, 1_000_000_000)] = 2048
    """As in jobs.run."""
    growth: Annotated[float, Between(1, 1_000)] = 1.5
    """As in jobs.run."""
    rounds: Annotated[int, Between(1, 10_000)] = 4
    """As in jobs.run."""
    neighbourhood: tuple[float, ...] = (0.0,)
    """As --scoring.neighbourhood of jobs.run, from 0 to 1; every run is repeated with each."""
    shares: Shares = field(default_factory=Shares)
    adapter: AdapterOptions = field(default_factory=AdapterOptions)
    noise: Noise = field(default_factory=Noise)
    out: Path | None = None
    """CSV file to which a line is added for each round. Rerun the same command to resume."""

    def results(self) -> list[Row]:
        """Run what the file does not have yet, and return the rows of all runs of these options."""
        self._check()
        # More threads would change the last bits of vectors, and with them the pairs that are chosen.
        torch.set_num_threads(1)
        known, rows = read_rows(self.out, COLUMNS), list[Row]()
        for settings in self._settings():
            own = [row for row in known if settings.items() <= row.items() and int(row["round"]) <= self.rounds]
            if len(own) <= self.rounds:
                there = {row["round"] for row in own}
                own = self._run(settings)
                append_rows(self.out, COLUMNS, [row for row in own if row["round"] not in there])
            rows += own
        return rows

    def _check(self) -> None:
        """Raise BadOption for unknown strategies and numbers out of bounds."""
        check_bounds(self)
        if not all(0 <= weight <= 1 for weight in self.neighbourhood):
            raise BadOption(f"--neighbourhood is {' '.join(map(str, self.neighbourhood))}; give numbers from 0 to 1")
        names = {**STRATEGIES, **TRIALS}
        if not set(self.strategies) <= set(names):
            raise BadOption(f"--strategies is {' '.join(self.strategies)}; give some of {', '.join(names)}")

    @property
    def _encoding(self) -> EncoderConfig:
        """The options of the untrained encoder."""
        return EncoderConfig(self.encoder, self.encoder_layers, self.max_length, threads=1)

    def _settings(self) -> Iterator[Row]:
        """Yield the columns SETTINGS of each run."""
        origin = origin_of(read_task(self.task), self._encoding)
        common = {"vectors": origin, "first_batch": self.first_batch, "growth": float(self.growth)}
        common |= asdict(self.shares) | asdict(self.adapter) | asdict(self.noise)
        for own in product(self.measured, map(float, self.neighbourhood), self.seeds, self.strategies):
            every = {**common, **dict(zip(("measured", "neighbourhood", "seed", "strategy"), own, strict=True))}
            yield {name: str(every[name]) for name in SETTINGS}

    def _run(self, settings: Row) -> list[Row]:
        """Run the loop; return a row of the untrained encoder, as round 0, and one of each round."""
        seed, neighbourhood = int(settings["seed"]), float(settings["neighbourhood"])
        task = read_task(self.task)
        models = AdapterModels(frozen_vectors(task, self.cache, self._encoding))
        pool, measured = make_splits(task, cast(Measured, settings["measured"]), self.shares, seed)
        rows, signs = list[Row](), StopSigns(models, measured)

        def record(state: State, evaluations: Mapping[str, Evaluation]) -> None:
            found = result(state, evaluations["dev"], len(pool.positives), services.seconds)
            found[FIRST_AP] = first_average_precision(models, state.labelled)
            rows.append({**settings, **found, **signs.of(state, evaluations["dev"])})
            logger.info("%s", " ".join(rows[-1].values()))
            services.seconds.clear()

        trainer = AdapterTrainer(models, pool, self.adapter, neighbourhood, seed, self.noise)
        services = SimulatedServices(pool, measured, trainer, MemoryJournal(record))
        record(State(), {"dev": ExactEvaluator(models, measured).evaluate_scores(UNTRAINED, neighbourhood)})
        with on_trial():
            for _ in loop.run(self._config(settings["strategy"], seed), pool, services, State()):
                pass
        return rows

    def _config(self, strategy: str, seed: int) -> RunConfig:
        """Return the config of a run of the loop."""
        return RunConfig(
            task=str(self.task),
            strategy=strategy,
            seed=seed,
            first_batch=self.first_batch,
            growth=self.growth,
            rounds=self.rounds,
            train_every_budget=True,
            evaluation=EvaluationConfig(splits=("dev",), examples=0),
        )


def result(state: State, evaluation: Evaluation, positives: int, seconds: Mapping[str, float]) -> Row:
    """Return the columns FIGURES of a round; seconds: by stage."""
    values = (
        *(state.round, len(state.labelled), state.labelled.positives, positives),
        *(f"{metric.value:.6f}" for metric in (evaluation.average_precision, evaluation.precision_at_recall_20)),
        *(f"{seconds.get(stage, 0.0):.2f}" for stage in STAGES),
    )
    return dict(zip(FIGURES, map(str, values), strict=True))


def first_average_precision(models: AdapterModels, labelled: Labelled) -> str:
    """Return the column FIRST_AP."""
    first = labelled.rounds == 1
    cosines = models.vectors(UNTRAINED).cosines(labelled.pairs[first])
    value = prequential_average_precision(cosines, labelled.labels[first])
    return "" if value is None else f"{value:.6f}"


def format_runs(rows: Sequence[Row]) -> str:
    """Format means over seeds and measured splits: a line for each neighbourhood, strategy and round; AP in percent."""
    table: list[tuple[str, ...]] = [
        ("a", "strategy", "round", "labels", "runs", "positives found", "AP", "least", "most")
    ]
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["neighbourhood"], row["strategy"], row["round"]), []).append(row)
    for key, group in groups.items():
        labels, found, ap = (np.array([float(row[name]) for row in group]) for name in ("labels", "found", "ap"))
        numbers = (f"{100 * value:.1f}" for value in (ap.mean(), ap.min(), ap.max()))
        table.append((*key, f"{labels.mean():,.0f}", str(len(group)), f"{found.mean():,.1f}", *numbers))
    return format_columns(table)
