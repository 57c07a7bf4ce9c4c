"""summary.parquet of a report and of a grid: one schema, one writer."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from al_ray.apps.reporting.run_records import Round, Run, settings
from al_ray.storage.files import write_parquet
from al_ray.storage.uri import StoragePath

SUMMARY = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "setting", "task", "task_digest", "encoder", "strategy", "seeding")),
        *((name, pa.int64()) for name in ("section", "seed", "budget")),
        *((name, pa.string()) for name in ("status", "trouble", "error")),
        *((name, pa.int64()) for name in ("rounds", "round", "labels", "positives", "batch", "batch_positives")),
        *((name, pa.float64()) for name in ("batch_p", "boundary", "index_recall", "seconds")),
        ("split", pa.string()),
        *((name, pa.float64()) for name in ("average_precision", "average_precision_low", "average_precision_high")),
        *((name, pa.float64()) for name in ("precision_at_recall_20", "calibration_error")),
        ("exact", pa.bool_()),
    ]
)


def write_summary(path: StoragePath, runs: Sequence[Run]) -> None:
    """Write a row for each run, round and evaluated split; columns that do not apply are null.

    A round without an evaluation has one row, and so has a run without a complete round. `rounds` counts a run's
    complete rounds; `seconds` and all columns from `round` on are of one round.
    """
    rows = [
        {**_run_columns(run, number, part.words), **columns}
        for number, part in enumerate(settings(runs), start=1)
        for run in part.runs
        for columns in [row for one in run.rounds for row in _round_columns(one)] or [{}]
    ]
    write_parquet(path, pa.Table.from_pylist(rows, schema=SUMMARY))


def _run_columns(run: Run, section: int, setting: str) -> dict[str, Any]:
    names = {"run": run.name, "setting": setting, "task": run.task.name, "task_digest": run.task.digest}
    options = {name: getattr(run.config, name) for name in ("encoder", "strategy", "seeding", "seed")}
    state = {"status": run.status, "trouble": run.trouble or None, "error": run.error or None}
    size = {"budget": sum(run.config.batches), "rounds": len(run.rounds)}
    return {"section": section, **names, **options, **state, **size}


def _round_columns(one: Round) -> list[Mapping[str, Any]]:
    names = ("labels", "positives", "batch", "batch_positives", "batch_p", "boundary", "index_recall")
    common = {"round": one.number, **{name: getattr(one, name) for name in names}, "seconds": sum(one.seconds.values())}
    return [
        {
            **common,
            "split": split,
            "average_precision": evaluation.average_precision.value,
            "average_precision_low": evaluation.average_precision.low,
            "average_precision_high": evaluation.average_precision.high,
            "precision_at_recall_20": evaluation.precision_at_recall_20.value,
            "calibration_error": evaluation.calibration_error,
            "exact": evaluation.exact,
        }
        for split, evaluation in one.splits.items()
    ] or [common]
