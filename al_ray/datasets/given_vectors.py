"""Vectors of a user's own beside the texts of a task: a column of a table, checked, and a file of a task folder."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from al_ray.core.errors import BadFile
from al_ray.core.pairs import Mask, Rows
from al_ray.core.vectors import Vectors, dots
from al_ray.datasets.corpus_file import fix_for
from al_ray.datasets.tables.columns import TableRows, compute
from al_ray.datasets.tsv import BadRowLog
from al_ray.storage.download import local_file
from al_ray.storage.uri import StoragePath

VECTOR = "vector"
"""The name of the cells of a column of vectors."""
LISTS = pa.large_list(pa.float32())
UNIT = 1e-6
"""How far the length of a vector may be from 1, so that its numbers stay as they are."""


def is_list(kind: pa.DataType) -> bool:
    """Return whether a type of Arrow is one of lists of numbers."""
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return lists and (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type))


def parse_lists(cells: pa.Array) -> pa.LargeListArray:
    """(n,) cells of a table -> lists (n,) of float32; null for an empty cell, or one that is no list of numbers.

    A cell is a list already, or text: numbers in brackets or without, separated by commas or spaces.
    """
    if is_list(cells.type):
        return cells.cast(LISTS, safe=False)
    return pa.array([None if text is None else _numbers(text) for text in cells.to_pylist()], LISTS)


def _numbers(text: str) -> npt.NDArray[np.float32] | None:
    try:
        return np.array(text.strip().removeprefix("[").removesuffix("]").replace(",", " ").split(), dtype=np.float32)
    except ValueError:
        return None


def require_vectors(sheet: TableRows, column: str, faults: BadRowLog) -> TableRows:
    """Return the rows that have a vector: finite numbers, not all zero, and as many as most rows have.

    Its cells `VECTOR` are lists (n,). BadFile if no row has one.
    """
    lengths = compute.list_value_length(sheet.cells[VECTOR]).fill_null(0).to_numpy()
    dimension = int(np.bincount(lengths).argmax()) if lengths.any() else 0
    if not dimension and lengths.any():
        # More than half of the rows are empty: the rows that are not say how many numbers there are.
        dimension = int(np.bincount(lengths[lengths > 0]).argmax())
    if not dimension:
        raise BadFile(f"{sheet.name}: no cell of the column {column!r} is a list of numbers; name the one of vectors")

    def wrong_length(row: int) -> str:
        count = int(lengths[row])
        if not count:
            return f"its vector (column {column!r}) is empty, or no list of numbers"
        return f"its vector (column {column!r}) has {count:,} numbers, and most rows have {dimension:,}"

    sheet = sheet.reject(lengths != dimension, wrong_length, faults)
    vectors = vectors_of(sheet, unit=False)
    finite: Mask = np.asarray(np.isfinite(vectors).all(axis=1))
    empty: Mask = finite & np.asarray((vectors == 0).all(axis=1))

    def no_direction(row: int) -> str:
        return f"its vector (column {column!r}) is {'all zeros' if empty[row] else 'not of finite numbers'}"

    return sheet.reject(~finite | empty, no_direction, faults)


def vectors_of(sheet: TableRows, unit: bool = True) -> Vectors:
    """Return the vectors (n, d) of rows whose lists are of one length, in float32; unit: normalised."""
    lists = sheet.cells[VECTOR]
    numbers = compute.list_flatten(lists).to_numpy(zero_copy_only=False).astype(np.float32)
    vectors = numbers.reshape(len(lists), -1)
    return unit_vectors(vectors) if unit else vectors


def unit_vectors(vectors: Vectors) -> Vectors:
    """Return vectors (n, d) of length 1 in float32. Those within UNIT of it keep their bits."""
    lengths = np.sqrt(dots(vectors, vectors))
    lengths[np.abs(lengths - 1) <= UNIT] = 1.0
    return (vectors / lengths[:, None]).astype(np.float32)


def vectors_path(folder: StoragePath, side: str) -> StoragePath:
    """Return the file of the vectors of a side; it need not exist."""
    return folder / f"{side}-vectors.npy"


def write_vectors(vectors: Vectors | None, path: Path) -> None:
    """Write the vectors (n, d) of a side, if there are any, as little-endian float32."""
    if vectors is not None:
        with path.open("wb") as file:
            np.save(file, vectors.astype("<f4", copy=False))


def read_vectors(path: StoragePath, texts: int) -> Vectors | None:
    """Open the vectors (texts, d) of a side, memory-mapped if they lie on a disk; None if there are none."""
    if not path.is_file():
        return None
    try:
        if isinstance(path, Path):
            vectors = np.load(path, mmap_mode="r")
        else:
            with local_file(path) as local:
                vectors = np.load(local)
    except (OSError, ValueError, EOFError) as error:
        raise BadFile(f"{path} cannot be read ({error}); {fix_for(path)}") from error
    if vectors.dtype != np.dtype("<f4") or vectors.ndim != 2 or len(vectors) != texts:
        raise BadFile(f"{path} does not hold vectors of {texts:,} texts; {fix_for(path)}")
    return vectors


def vectors_at(vectors: Vectors | None, rows: Rows) -> Vectors | None:
    """Return the vectors (r, d) of (r,) rows; None if there are none."""
    return None if vectors is None else vectors[rows]
