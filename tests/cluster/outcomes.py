"""What a run came to: the same of runs that are to have come to the same."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def results(folder: Path) -> tuple[list[Any], list[dict[str, Any]]]:
    """The labels of a run by round, and its figures."""
    files = sorted(folder.glob("round-*/labels.parquet"))
    return [pq.ParquetFile(file).read().to_pylist() for file in files], figures(folder)


def figures(folder: Path) -> list[dict[str, Any]]:
    """The figures of a run by round, times aside."""
    return timeless((folder / "metrics.jsonl").read_text())


def timeless(metrics: str) -> list[dict[str, Any]]:
    """Lines of metrics.jsonl without their times.

    The calibration error without its last bits: it is a sum of p in float64, and each shard sums its own pairs first.
    """
    lines = [json.loads(line) for line in metrics.splitlines()]
    for line in lines:
        if line.get("calibration_error") is not None:
            line["calibration_error"] = round(line["calibration_error"], 12)
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]
