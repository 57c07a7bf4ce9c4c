"""Slow, obvious readers: what a file means, by the standard library and pyarrow alone, where that is cheap to say.

Each takes the path of what was read and what al_ray has read, and fails if they differ.
"""

import csv
import io
import json
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow.parquet as pq

from al_ray.core.task import Task
from al_ray.datasets.tables.columns import TableRows
from al_ray.oracles.page_log import PageAnswers


def _trimmed(cell: str | None) -> str | None:
    return (cell or "").strip() or None


def _same(columns: dict[str, list[str | None]], read: TableRows) -> None:
    for name, cells in columns.items():
        assert [_trimmed(cell) for cell in read.cells[name].to_pylist()] == [_trimmed(cell) for cell in cells], name


def same_delimited(path: Path, read: TableRows) -> None:
    """Compare a CSV or TSV file."""
    text = io.StringIO(path.read_bytes().decode("utf-8-sig", "surrogateescape"), newline="")
    header, *rows = (row for row in csv.reader(text, delimiter="\t" if path.suffix == ".tsv" else ",") if row)
    names = [name.strip().removeprefix("\ufeff").strip() for name in header]
    _same({name: [row[names.index(name)] for row in rows] for name in read.cells}, read)


def same_json_lines(path: Path, read: TableRows) -> None:
    """Compare a file of JSON lines."""
    rows = [
        json.loads(line)
        for line in path.read_bytes().decode("utf-8-sig", "surrogateescape").split("\n")
        if line.strip()
    ]

    def cell(value: Any) -> str | None:
        return value if value is None or isinstance(value, str) else "" if value != value else json.dumps(value)

    columns = {name: [cell(row.get(name)) for row in rows] for name in read.cells}
    _same({name: cells for name, cells in columns.items() if not any(map(_is_number, cells))}, read)


def _is_number(cell: str | None) -> bool:
    """Whether a cell may be a number, which Python and JSON write in several ways."""
    return bool(cell) and any(letter.isdigit() for letter in str(cell))


def same_parquet(path: Path, read: TableRows) -> None:
    """Compare the columns of a Parquet file that hold texts or whole numbers."""
    table = pq.ParquetFile(path).read(list(read.cells))
    for name in read.cells:
        values = table[name].to_pylist()
        if all(value is None or type(value) in (str, int) for value in values):
            _same({name: [None if value is None else str(value) for value in values]}, read)


def same_task(folder: Path, read: Task) -> None:
    """Compare the texts and the labelled pairs of a task folder."""
    about = json.loads((folder / "task.json").read_text())
    assert read.digest == about["digest"]
    for side, corpus in (("left", read.left), *(() if read.symmetric else (("right", read.right),))):
        table = pq.ParquetFile(folder / f"{side}.parquet").read()
        assert table["id"].to_pylist() == list(corpus.ids)
        assert table["text"].to_pylist() == list(corpus.texts)
    for name, split in read.splits.items():
        for kind in ("positives", "stated_negatives"):
            table = pq.ParquetFile(folder / name / f"{kind}.parquet").read()
            pairs = list(zip(table["left"].to_pylist(), table["right"].to_pylist(), strict=True))
            assert pairs == [tuple(pair) for pair in getattr(split, kind).tolist()]


def same_answers(path: Path, read: PageAnswers) -> None:
    """Compare the last answer of each person to each pair with what the lines of a log say."""
    answers: dict[tuple[str, str], str] = {}
    for line in path.read_bytes().split(b"\n")[:-1]:
        checksum, _, content = line.partition(b" ")
        assert int(checksum, 16) == crc32(content)
        change = json.loads(content)
        if change["kind"] == "answer":
            answers[change["pair"], change["by"]] = change["label"]
        elif change["kind"] == "undo":
            answers.pop((change["pair"], change["by"]), None)
        elif change["kind"] == "retract":
            answers = {key: word for key, word in answers.items() if key[1] != change["person"]}
    words = {0: "no", 1: "yes", 2: "unsure"}
    given = {(code, by): words[one.label] for code, people in read.answers.items() for by, one in people.items()}
    assert given == answers
