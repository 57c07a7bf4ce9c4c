"""Texts with their ids, as the sides of a task: what a row of them must hold, and what is told of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.core.pairs import Rows
from al_ray.core.task import Corpus
from al_ray.data.clusters import Numbers
from al_ray.data.lengths import duplicates, lengths
from al_ray.data.sheet import Cells, Faults, Sheet, compute, shown, whether
from al_ray.data.stated import Stated

# Longer is no text: a quote that was closed far away, or a whole book.
LONGEST = 1_000_000
# A whole number that a table kept as a float.
WHOLE = r"^(-?\d+)\.0$"


@dataclass(frozen=True)
class Side:
    """Texts of one side and the ids (n,) of each, and what a person calls them: by their table."""

    name: str
    ids: Cells
    texts: Cells

    def __len__(self) -> int:
        return len(self.ids)

    def corpus(self) -> Corpus:
        """The same, as a task holds it."""
        return Corpus(tuple(self.ids.to_pylist()), tuple(self.texts.to_pylist()))

    def rows(self, ids: Cells) -> Rows:
        """(n,) ids -> (n,) their rows, -1 for one that is not known; 12.0 is 12 where there is no 12.0."""
        found = compute.index_in(ids, value_set=self.ids)
        if found.null_count:
            whole = compute.replace_substring_regex(ids, WHOLE, r"\1")
            found = compute.coalesce(found, compute.index_in(whole, value_set=self.ids))
        return found.fill_null(-1).to_numpy().astype(np.int64)


@dataclass(frozen=True)
class Taken:
    """What a user's tables hold; one and the same side twice when symmetric.

    homes: (left,) numbers of SPLITS where a column names them. read: lines for a person.
    """

    left: Side
    right: Side
    known: Stated
    homes: Numbers | None
    read: tuple[str, ...]


def as_ids(cells: Cells) -> Cells:
    """Ids, without the .0 of whole numbers where all of the column were kept as floats."""
    floats = compute.all(compute.match_substring_regex(cells, WHOLE)).as_py()
    return compute.replace_substring_regex(cells, WHOLE, r"\1") if floats else cells


def with_texts(sheet: Sheet, cell: str, columns: Sequence[str], faults: Faults) -> Sheet:
    """The rows whose text, of these columns, is neither empty nor endless."""
    where = " + ".join(map(repr, columns))
    empty = whether(compute.is_null(sheet.cells[cell]))
    if empty.all():
        raise BadFile(f"{sheet.path}: every text (column {where}) is empty; name other columns")
    sheet = sheet.sifted(empty, lambda _: f"its text (column {where}) is empty", faults)
    letters = compute.utf8_length(sheet.cells[cell]).to_numpy()
    return sheet.sifted(
        letters > LONGEST,
        lambda row: (
            f"its text (column {where}) has {letters[row]:,} characters, more than {LONGEST:,}: is a quote not closed?"
        ),
        faults,
    )


def with_ids(sheet: Sheet, column: str | None, faults: Faults) -> Sheet:
    """The rows whose id is there, and for the first time."""
    empty = whether(compute.is_null(sheet.cells["id"]))
    sheet = sheet.sifted(empty, lambda _: f"its id (column {column!r}) is empty", faults)
    codes = sheet.cells["id"].dictionary_encode().indices.to_numpy()
    _, first = np.unique(codes, return_index=True)
    return sheet.sifted(
        first[codes] != np.arange(len(codes)),
        lambda row: f"its id is {shown(sheet.cells['id'], row)}, as that of {sheet.place(int(first[codes[row]]))}",
        faults,
    )


def distinct(*columns: Cells) -> tuple[Rows, Cells]:
    """Columns (n,), k of them -> (n, k) the number of each text in order of first sight, and the distinct texts."""
    order = np.arange(len(columns) * len(columns[0])).reshape(len(columns), -1).T.ravel()
    texts = pa.concat_arrays(columns).take(pa.array(order)).dictionary_encode()
    return texts.indices.to_numpy().astype(np.int64).reshape(-1, len(columns)), texts.dictionary


def told(side: Side, max_length: int) -> Iterator[str]:
    """What a person wants to know of texts that were just read."""
    yield f"{side.name}: {len(side):,} texts"
    yield from (f"  {line}" for line in lengths(side.texts, max_length))
    if broken := compute.sum(compute.match_substring(side.texts, "\n")).as_py():
        yield f"  texts with line breaks inside (a quote left open makes such): {broken:,}"
    if again := duplicates(side.texts):
        yield f"  texts that stand under an earlier id too (kept apart): {again:,}"
