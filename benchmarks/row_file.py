"""CSV files to which a benchmark adds rows, and which it reads to resume."""

import csv
from collections.abc import Sequence
from pathlib import Path

from al_ray.core.errors import BadFile

Row = dict[str, str]


def read_rows(path: Path | None, columns: Sequence[str]) -> list[Row]:
    """Read the rows of a file; none if it does not exist, or without a path. BadFile for a file of other columns."""
    if path is None or not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != tuple(columns):
            raise BadFile(f"{path} has other columns than this version of the benchmark writes; give another --out")
        return list(reader)


def append_rows(path: Path | None, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Add rows to a file, which is created with a header; do nothing without a path."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        if not file.tell():
            writer.writeheader()
        writer.writerows(rows)
