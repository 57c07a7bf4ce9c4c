"""Measure what labels buy: a run with a matcher for each seed, and figures over all pairs after so many labels."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.stopping import NEVER
from al_ray.cluster import run as cluster_run
from al_ray.cluster.session import session
from al_ray.cluster.trial import Trial
from al_ray.core.config.bounds import Between, Seed, check_bounds
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import MaxLength, Threads
from al_ray.core.config.sections import CandidatesConfig, EvaluationConfig
from al_ray.core.config.serialization import as_dict
from al_ray.core.errors import BadOption
from al_ray.core.pairs import Mask
from al_ray.core.progress import no_progress
from al_ray.core.scorer import Floats
from al_ray.core.task import Task
from al_ray.core.two_stage_score import MATCHED
from al_ray.datasets.task_folder import read_task
from al_ray.encoders.pretrained import MINILM
from al_ray.running.run import RunSpec
from al_ray.runs.run_folder import RunFolder, last_round
from al_ray.storage.files import read_json, write_json
from al_ray.storage.uri import storage_path
from studies.records.pair_figures import StatedPairs
from studies.records.run_scores import AllPairs, read_all_pairs
from studies.records.stated_files import read_stated
from studies.records.table import format_markdown

logger = logging.getLogger(__name__)
Figures = dict[str, Any]
WITHOUT = "cosine", "cosine less half the hubness"
"""Rankings without labels."""


@dataclass(frozen=True)
class Records:
    """What labels buy with --matcher on: AP and F1 over all pairs after so many labels, mean and deviation of seeds."""

    task: Path
    """Task folder whose labels are complete."""
    out: Path
    """Folder of the runs, of results.json and of results.md. Rerun the same command to resume."""
    seeds: tuple[Seed, ...] = (0, 1, 2, 3, 4)
    """Seeds of the runs. They share vectors and candidates, which are made once."""
    labels: tuple[int, ...] = (60, 100, 300, 500, 1_000)
    """After so many labels a run is measured; --first-batch and so many times --batch must give each number."""
    first_batch: Annotated[int, Between(1, 1_000_000)] = 60
    """Labels of the first round."""
    batch: Annotated[int, Between(1, 1_000_000)] = 20
    """Labels of every other round."""
    split: str = "train"
    """The split that is measured. Labels are bought of train."""
    test_pairs: Path | None = None
    """CSV file of the benchmark's own test pairs; F1 is also measured on these alone."""
    valid_pairs: Path | None = None
    """CSV file of pairs on which the threshold for --test-pairs is chosen; without it only p = 1/2 is measured."""
    pair_columns: str = "ltable_id,rtable_id,label"
    """Columns of these files: left id, right id, and label, 1 for a match."""
    encoder: str = MINILM
    """As in jobs.run."""
    encoder_layers: Annotated[int | None, Between(1, 1_000)] = None
    """As in jobs.run."""
    max_length: MaxLength = 64
    """As in jobs.run."""
    threads: Threads = 2
    """As in jobs.run."""
    candidates: CandidatesConfig = field(default_factory=CandidatesConfig)

    def results(self) -> Figures:
        """Run and measure what is not there yet; return the options and a row for each seed and number of labels."""
        check_bounds(self)
        rounds, task = self.rounds_of(), read_task(self.task)
        rows = list[Figures]()
        with session(self._cluster):
            for seed in self.seeds:
                path = self.out / f"seed-{seed}.json"
                made_from = self._made_from(task, seed)
                found = read_json(path, ["made_from", "rows"]) if path.exists() else {}
                if found.get("made_from") != made_from:
                    wall = self._run(seed, max(rounds.values()))
                    measured = [asdict(row) for row in Trials(self, task).rows(seed, rounds)]
                    found = {"made_from": made_from, "wall_seconds": wall, "rows": measured}
                    write_json(path, found)
                rows += found["rows"]
                content = {"options": made_from, "rows": rows}
                write_json(self.out / "results.json", content)
                (self.out / "results.md").write_text(format_markdown(rows) + "\n", encoding="utf-8")
                logger.info("seed %d is measured", seed)
        return {"rows": rows}

    def rounds_of(self) -> dict[int, int]:
        """Number of labels -> the round after which they are bought; BadOption if a number falls within a round."""
        rounds = dict[int, int]()
        for labels in self.labels:
            later, left = divmod(labels - self.first_batch, self.batch)
            if left or later < 0:
                raise BadOption(
                    f"--labels {labels} is not --first-batch {self.first_batch} and a multiple of --batch {self.batch}"
                )
            rounds[labels] = 1 + later
        return rounds

    def config(self, seed: int, rounds: int) -> RunConfig:
        """Return the options of a run; its first round has another batch size (see `_run`)."""
        return RunConfig(
            task=str(self.task),
            seed=seed,
            rounds=rounds,
            first_batch=self.batch,
            growth=1.0,
            encoder=self.encoder,
            encoder_layers=self.encoder_layers,
            max_length=self.max_length,
            threads=self.threads,
            matcher="on",
            candidates=self.candidates,
            evaluation=EvaluationConfig(splits=(self.split,)),
        )

    def folder(self, seed: int) -> Path:
        """Return the folder of a run."""
        return self.out / f"seed-{seed}"

    @property
    def shared(self) -> Path:
        """The folder of what all runs share."""
        return self.out / "shared"

    @property
    def _cluster(self) -> ClusterConfig:
        return ClusterConfig(keep_vectors=True)

    def _run(self, seed: int, rounds: int) -> float:
        """Run, or go on with, the run of a seed; return the seconds that it took now."""
        out, started = storage_path(str(self.folder(seed))), perf_counter()
        trial = Trial(f"seed-{seed}", storage_path(str(self.shared.absolute())))
        config = self.config(seed, rounds)
        # A run goes on with other batch sizes, and so the first round can have its own.
        first = replace(config, first_batch=self.first_batch, rounds=1)
        for part in (first, config) if last_round(out) < 1 else (config,):
            spec = RunSpec(part, self._cluster, stop=NEVER)
            cluster_run.run(spec, out, no_progress, lambda line: logger.info("%d labels", line["labels"]), trial)
        return perf_counter() - started

    def _made_from(self, task: Task, seed: int) -> Figures:
        """Return all that decides the rows of a seed."""
        files = {"test_pairs": str(self.test_pairs), "valid_pairs": str(self.valid_pairs)}
        config = {**as_dict(self.config(seed, 1)), "task": task.digest}
        return {**config, **files, "labels": list(self.labels), "first": self.first_batch, "split": self.split}


@dataclass(frozen=True)
class RankingFigures:
    """The figures of one ranking after so many labels, as shares; None for what is not measured.

    half: at p = 1/2, a threshold that nobody chose. test: among the benchmark's own test pairs; valid: at the threshold
    that is best on its valid pairs; unlabelled: without the pairs that the run labelled.
    """

    seed: int
    labels: int
    ranking: str
    positives: int
    average_precision: float
    average_precision_unlabelled: float
    f1: float
    f1_one_to_one: float
    f1_half: float | None = None
    f1_half_one_to_one: float | None = None
    test_f1_valid: float | None = None
    test_f1_valid_unlabelled: float | None = None
    test_f1_half: float | None = None
    test_labelled: int | None = None
    recall: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Trials:
    """Measures runs from their files."""

    options: Records
    task: Task

    def rows(self, seed: int, rounds: dict[int, int]) -> Iterator[RankingFigures]:
        """Yield the figures of a run: rankings without labels, then the matcher after each number of labels."""
        pairs = self._pairs
        nothing = np.zeros(pairs.cosines.shape, dtype=np.bool_)
        for name, scores in zip(WITHOUT, (pairs.cosines, pairs.cosines - pairs.hubness), strict=True):
            yield RankingFigures(seed, 0, name, 0, **self._figures(scores, nothing), **self._test(scores, nothing))
        journal = RunFolder(storage_path(str(self.options.folder(seed))), self.task)
        lines, labelled, before = journal.complete_rounds(), journal.ledger.labelled(), 0
        for count, number in rounds.items():
            own = labelled.pairs[labelled.rounds <= number]
            bought = pairs.mask(own) if self.options.split == "train" else nothing
            scores = pairs.scores(Path(str(journal.round(number))) / "model", self.options.threads)
            half = {
                "f1_half": pairs.truth.f1_at(scores, MATCHED.boundary),
                "f1_half_one_to_one": pairs.truth.f1_at(scores, MATCHED.boundary, one_to_one=True),
                "recall": lines[number - 1]["candidates"][self.options.split]["recall"]["both"],
                "seconds": float(np.mean([_seconds(line) for line in lines[before:number]])),
            }
            figures = self._figures(scores, bought) | self._test(scores, bought, MATCHED.boundary) | half
            yield RankingFigures(seed, count, "matcher", lines[number - 1]["positives"], **figures)
            before = number

    @cached_property
    def _pairs(self) -> AllPairs:
        return read_all_pairs(self.task, self.options.split, self.options.config(0, 1), self.options.shared)

    def _figures(self, scores: Floats, labelled: Mask) -> Figures:
        truth = self._pairs.truth
        return {
            "average_precision": truth.average_precision(scores),
            "average_precision_unlabelled": truth.without(labelled).average_precision(scores),
            "f1": truth.best_f1(scores).f1,
            "f1_one_to_one": truth.best_f1(scores, one_to_one=True).f1,
        }

    def _test(self, scores: Floats, labelled: Mask, half: float | None = None) -> Figures:
        """Return figures of the benchmark's own test pairs, if they are given."""
        if self.options.test_pairs is None:
            return {}
        test = self._stated(self.options.test_pairs)
        figures: Figures = {"test_labelled": int(labelled[test.rows, test.columns].sum())}
        if half is not None:
            figures["test_f1_half"] = test.f1(scores, half)
        if self.options.valid_pairs is not None:
            threshold = self._stated(self.options.valid_pairs).best(scores).threshold
            figures["test_f1_valid"] = test.f1(scores, threshold)
            figures["test_f1_valid_unlabelled"] = test.f1(scores, threshold, labelled)
        return figures

    def _stated(self, path: Path) -> StatedPairs:
        pairs, right = read_stated(path, self.options.pair_columns, self.task)
        return StatedPairs(*self._pairs.places(pairs), right)


def _seconds(line: Figures) -> float:
    """Return the seconds of a round beside the labelling."""
    return sum(seconds for stage, seconds in line["seconds"].items() if stage != "label")


def format_records(results: Figures) -> str:
    """Format the table that results.md has."""
    rows: Sequence[Figures] = results["rows"]
    return format_markdown(rows)
