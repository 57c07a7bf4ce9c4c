"""A damaged, edited or foreign ledger is refused by name; a write that fails leaves what was there."""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from al_ray.core.errors import BadFile
from al_ray.core.labels import NO, UNSURE, YES, Batch, make_answers
from al_ray.core.task import Task
from al_ray.runs.ledger import Ledger
from al_ray.storage import files


def batch_of(task: Task, number: int = 1) -> Batch:
    """Four pairs of train."""
    space = task.split("train").space
    return Batch(space.pairs(space.at(np.arange(4) + 4 * number)), np.zeros(4), "near")


def say(book: Ledger, number: int, **said: int) -> None:
    """keep(r0=YES) answers the row 0."""
    rows = np.array([int(row[1:]) for row in said], dtype=np.int64)
    book.add_answers(number, make_answers(rows, np.array(list(said.values()), dtype=np.uint8), "me"))


def bought(book: Ledger, number: int) -> None:
    book.add_batch(number, batch_of(book.task, number))
    say(book, number, r0=YES, r1=NO, r2=UNSURE, r3=YES)
    book.seal(number)


@pytest.fixture
def book(tmp_path: Path, task: Task) -> Ledger:
    return Ledger(tmp_path / "run", task)


def rewritten(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], object]:
    return lambda path: pq.write_table(change(pq.read_table(path)), path)


def with_column(name: str, value: Any) -> Callable[[Path], object]:
    def change(table: pa.Table) -> pa.Table:
        column = pa.array([value] * len(table), table.schema.field(name).type)
        return table.set_column(table.schema.get_field_index(name), name, column)

    return rewritten(change)


def flipped(path: Path) -> None:
    """One bit of the first column's values."""
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    content = bytearray(path.read_bytes())
    # Magic number (4 bytes), then this column: its last byte is a value's.
    content[4 + column.total_compressed_size - 1] ^= 1
    path.write_bytes(content)


ANY = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("left,right\n1,2\n"),
    "a bit": flipped,
    "foreign": lambda path: pq.write_table(pa.table({"left": [1], "right": [2]}), path),
    "wider": rewritten(lambda table: table.append_column("note", pa.array([""] * len(table)))),
}
DAMAGES: dict[str, dict[str, Callable[[Path], object]]] = {
    "round-001/batch.parquet": {
        "row": with_column("left", 10_000),
        "negative": with_column("right", -1),
        "id": with_column("left_id", "t00"),
        "lost": with_column("right_id", None),
        "longer": rewritten(lambda table: pa.concat_tables([table, table])),
    },
    "round-001/answers-00001.parquet": {
        "word": with_column("answer", "perhaps"),
        "lost": with_column("answer", None),
        "row": with_column("row", 4),
        "negative": with_column("row", -1),
    },
    "round-002/labels.parquet": {
        "label": with_column("label", 2),
        "round": with_column("round", 1),
        "pair": with_column("left", 1),
        "shorter": rewritten(lambda table: table.slice(1)),
    },
    "corrections-00001.parquet": {"label": with_column("label", 3), "row": with_column("left", -2)},
}


@pytest.mark.parametrize(
    ("name", "damage"), [(name, damage) for name, damages in DAMAGES.items() for damage in (*ANY, *damages)]
)
def test_a_damaged_file_is_refused_by_name(book: Ledger, name: str, damage: str):
    pairs = batch_of(book.task).pairs
    book.add_batch(1, batch_of(book.task))
    say(book, 1, r0=NO, r1=YES)
    book.correct(pairs[1:2], np.array([NO], dtype=np.uint8))
    bought(book, 2)
    ({**ANY, **DAMAGES[name]})[damage](book.path / name)
    with pytest.raises(BadFile, match=rf"{book.path / name}.*; restore it"):
        book.labels_of(pairs)


def test_another_tasks_batch_is_refused(tmp_path: Path, make_task: Callable[..., Task]):
    bought(Ledger(tmp_path, make_task(True)), 1)
    with pytest.raises(BadFile, match=r"batch\.parquet has pairs of another task than .* is now"):
        Ledger(tmp_path, make_task(False)).labels(1)
    # Earlier versions wrote no digest of the task.
    path = tmp_path / "round-001" / "batch.parquet"
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    with pytest.raises(BadFile, match=r"batch\.parquet holds other (ids|pairs) than the task has; restore"):
        Ledger(tmp_path, make_task(False)).labels(1)


def test_a_piece_that_is_gone_is_missed_and_never_written_over(book: Ledger):
    book.add_batch(1, batch_of(book.task))
    for label in (YES, NO, UNSURE):
        say(book, 1, r0=label)
    (book.round(1) / "answers-00002.parquet").unlink()
    for act in (lambda: book.labels(1), lambda: say(book, 1, r1=NO)):
        with pytest.raises(BadFile, match=r"has answers-00003\.parquet and no answers-00002\.parquet; restore"):
            act()


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow beyond 200 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_what_was_there_and_no_rest(book: Ledger, tmp_path: Path):
    book.add_batch(1, batch_of(book.task))
    say(book, 1, r0=YES)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with (
        full_disk(),
        pytest.raises(BadFile, match=r"answers-00002\.parquet cannot be written \(.*File too large\); make"),
    ):
        say(book, 1, r1=NO)
    with full_disk(), pytest.raises(BadFile, match=r"batch\.parquet cannot be written"):
        files.write_text(book.round(1) / "batch.parquet", "x" * 1000)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    say(book, 1, r1=NO)
    assert book.labels(1)[:2].tolist() == [YES, NO]


def test_an_interrupted_write_leaves_what_was_there_and_no_rest(tmp_path: Path):
    path = tmp_path / "labels.parquet"
    path.write_text("old")

    def half(aside: Path) -> None:
        aside.write_text("ne")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.in_one_step(path, half)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
