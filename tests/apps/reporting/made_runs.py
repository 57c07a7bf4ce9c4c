"""Run and grid folders as jobs.run and jobs.grid leave them, made in no time from made-up scores."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.labels import Batch, Labelled, Model, State, make_answers
from al_ray.core.scorer import Floats, Scorer
from al_ray.core.task import Task
from al_ray.metrics.average_precision import StratumSummary, count_scores
from al_ray.metrics.calibration import reliability
from al_ray.metrics.error_examples import KINDS, Examples
from al_ray.metrics.evaluation import Evaluation, evaluate_counts
from al_ray.runs.run_folder import RunFolder, opened
from al_ray.storage.uri import storage_path

# 8, 12 and 18 labels.
CONFIG = RunConfig(task="task", rounds=3, first_batch=8, evaluation=EvaluationConfig(splits=("dev",)))


def evaluated(split: str, above: Sequence[int], strata: Sequence[StratumSummary]) -> Evaluation:
    """One positive at each of so many scores, with so many sampled negatives above each, so that AP is plain to see."""
    positives = -np.arange(len(above), dtype=np.float64)
    fewer = np.diff([0, *above])
    negatives: Floats = np.repeat(positives + 0.5, fewer)
    counts = count_scores(positives, [negatives])
    labels = np.repeat(np.array([1, 0], dtype=np.uint8), [len(positives), len(negatives)])
    summed = reliability(np.concatenate([positives, negatives]), labels, 1.0)
    return evaluate_counts(split, counts, strata, summed, np.random.default_rng(0))


def made_run(
    path: Path, task: Task, config: RunConfig = CONFIG, above: Sequence[Sequence[int]] = ((3, 9), (1, 4), (0, 1)), **how
) -> Path:
    """A run of len(above) rounds. above: of each round, see `evaluated`. how: what else is made up."""
    positives: int = how.get("positives", 2)
    strata = how.get("strata", [StratumSummary("all", 1000, 1000)])
    with opened(path, task) as folder:
        folder.bind(config)
        labelled = Labelled()
        for number, (size, negatives) in enumerate(zip(config.batches, above, strict=False), start=1):
            pairs = task.split("train").space.pairs(task.split("train").space.at(np.arange(size) + len(labelled)))
            labels = (np.arange(size) < positives).astype(np.uint8)
            batch = Batch(pairs, np.full(size, 0.5), config.strategy)
            folder.ledger.add_batch(number, batch)
            folder.ledger.add_answers(number, make_answers(np.arange(size), labels, "test"))
            folder.ledger.seal(number)
            labelled = labelled.extended(pairs, labels, number, batch.source)
            model = Model(str(folder.round(number) / "model"), "d", Scorer(10.0, -5.0, 0.1, "fitted"))
            if "index_recall" in how:
                folder.keep_recall(how["index_recall"])
            folder.seconds.update({"train": 60.0 * number, "evaluate": 6.0})
            splits = how.get("splits", ("dev",))
            made = {split: evaluated(split, negatives, strata) for split in splits}
            examples = examples_of(task, number) if splits and how.get("examples", True) else None
            folder.record_round(State(number, labelled, model), made, examples)
    return path


def examples_of(task: Task, number: int) -> Examples:
    """Two pairs of each kind; each round, one of them is another."""
    space = task.split("dev").space
    pairs = space.pairs(space.at(np.tile(np.array([number, number + 1]), 3)))
    kinds = tuple(kind for kind in KINDS for _ in range(2))
    p = np.array([0.9, 0.2, 0.1, 0.6, 0.5, 0.5])
    return Examples("dev", kinds, pairs, np.array([0, 0, 1, 1, 0, 1], dtype=np.uint8), p - 0.1, p)


def made_grid(
    path: Path, task: Task, cells: Mapping[str, Sequence[Sequence[int]] | None], config: RunConfig = CONFIG
) -> Path:
    """A grid of cells STRATEGY-sSEED -> the rounds of its run; None: the trial failed before it had a folder."""
    listed = []
    for name, above in cells.items():
        strategy, _, seed = name.rpartition("-s")
        changed = replace(config, strategy=strategy, seed=int(seed))
        listed.append({"name": name, "strategy": strategy, "seed": int(seed), "encoder": config.encoder, "budget": 38})
        if above is not None:
            made_run(path / "runs" / name, task, changed, above)
    path.mkdir(parents=True, exist_ok=True)
    content = {"axes": {}, "options": json.loads(json.dumps({"task": config.task, "rounds": 3})), "cells": listed}
    (path / "grid.json").write_text(json.dumps(content), encoding="utf-8")
    return path


def folder_of(path: Path, task: Task) -> RunFolder:
    """The folder of a made run."""
    return RunFolder(storage_path(str(path)), task)
