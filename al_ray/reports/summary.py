"""summary.parquet: a row a run, round and split, for whoever wants to draw other figures."""

from collections.abc import Mapping, Sequence
from typing import Any

from al_ray.core.runs import Round, Run, settings


def rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A row a run, round and measured split, one a round where none was, one a run without a complete round."""
    return [
        {**_of_run(run, number, part.words), **figures}
        for number, part in enumerate(settings(runs), start=1)
        for run in part.runs
        for figures in _of_rounds(run)
    ]


def _of_run(run: Run, number: int, words: str) -> dict[str, Any]:
    return {
        "run": run.name,
        "section": number,
        "setting": words,
        "task": run.task.name,
        "task_digest": run.task.digest,
        "encoder": run.config.encoder,
        "strategy": run.config.strategy,
        "seeding": run.config.seeding,
        "seed": run.config.seed,
        "complete": not run.trouble,
        "trouble": run.trouble or None,
    }


def _of_rounds(run: Run) -> list[Mapping[str, Any]]:
    return [figures for one in run.rounds for figures in _of_round(one)] or [{}]


def _of_round(one: Round) -> list[Mapping[str, Any]]:
    common = {
        "round": one.number,
        "labels": one.labels,
        "positives": one.positives,
        "batch": one.batch,
        "batch_positives": one.batch_positives,
        "batch_p": one.batch_p,
        "boundary": one.boundary,
        "index_recall": one.index_recall,
        "seconds": sum(one.seconds.values()),
    }
    return [
        {
            **common,
            "split": split,
            "average_precision": found.average_precision.value,
            "average_precision_low": found.average_precision.low,
            "average_precision_high": found.average_precision.high,
            "precision_at_recall_20": found.precision_at_recall_20.value,
            "calibration_error": found.calibration_error,
            "exact": found.exact,
        }
        for split, found in one.splits.items()
    ] or [common]
