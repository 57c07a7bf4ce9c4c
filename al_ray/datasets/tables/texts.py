"""Texts with their ids, as the sides of a task: checks of their rows, and lines for the report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.core.pair_rule import PairRule
from al_ray.core.pairs import Rows
from al_ray.core.task import Corpus, Fields
from al_ray.core.vectors import Vectors
from al_ray.datasets.splitting import Numbers
from al_ray.datasets.strings import Strings
from al_ray.datasets.tables.columns import Cells, TableRows, as_mask, compute, quote_cell
from al_ray.datasets.tables.pair_labels import PairLabels
from al_ray.datasets.tables.text_statistics import count_duplicates, describe_lengths
from al_ray.datasets.tsv import BadRowLog

# Maximum characters of a text; longer cells come from a quote that is closed far away.
LONGEST = 1_000_000
# A whole number that a table stored as a float.
WHOLE = r"^(-?\d+)\.0$"


@dataclass(frozen=True)
class SideTexts:
    """Texts (n,) of one side of a task with their ids (n,); name: of the table, for messages.

    fields: the columns that were joined to the texts, None for a single one. columns: cells (n,) of further ones.
    vectors: (n, d) unit vectors, if the table has some.
    """

    name: str
    ids: Cells
    texts: Cells
    fields: Fields | None = None
    columns: Mapping[str, Cells] = field(default_factory=dict)
    vectors: Vectors | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def corpus(self) -> Corpus:
        """Return the texts as a corpus of a task."""
        columns = {name: Strings.of([cells.fill_null("")]) for name, cells in self.columns.items()}
        return Corpus(Strings.of([self.ids]), Strings.of([self.texts]), self.fields, columns, self.vectors)

    def rows(self, ids: Cells) -> Rows:
        """Return the row (n,) of each of (n,) ids, -1 for an unknown one.

        12.0 stands for 12 if no id is 12.0, and the other way round.
        """
        rows = compute.index_in(ids, value_set=self.ids)
        if rows.null_count:
            rows = compute.coalesce(rows, compute.index_in(_whole(ids), value_set=_whole(self.ids)))
        return rows.fill_null(-1).to_numpy().astype(np.int64)


@dataclass(frozen=True)
class ParsedTables:
    """Texts and labels of a user's tables; both sides are the same object if the task is symmetric.

    split_of: (left,) numbers of SPLITS if a column names them. read: lines of the report. rule: which pairs can match.
    """

    left: SideTexts
    right: SideTexts
    known: PairLabels
    split_of: Numbers | None
    read: tuple[str, ...]
    rule: PairRule | None = None


def as_ids(cells: Cells) -> Cells:
    """Return ids without the .0 of whole numbers, if all ids of the column are such floats."""
    floats = compute.all(compute.match_substring_regex(cells, WHOLE)).as_py()
    return _whole(cells) if floats else cells


def spell_as(ids: Cells, known: Cells) -> Cells:
    """Return ids (n,) of a table, each once, as another table spells them: 12 and 12.0 are one id.

    Whether a file has 12 or 12.0 depends on its other rows. An id stays as it is if one of the tables has both.
    """
    spelled = known.take(compute.index_in(_whole(ids), value_set=_whole(known)))
    both = compute.or_(compute.is_in(ids, value_set=known), compute.is_in(spelled, value_set=ids))
    return compute.if_else(compute.or_(both, compute.is_null(spelled)), ids, spelled)


def spell_alike(sheet: TableRows) -> TableRows:
    """Return the rows of several files, where an id that an earlier file spells as 12 or 12.0 is spelled as there."""
    if sheet.file_of is None:
        return sheet
    codes = _whole(sheet.cells["id"]).dictionary_encode().indices.fill_null(-1).to_numpy()
    _, first, number = np.unique(codes, return_index=True, return_inverse=True)
    elsewhere = (codes >= 0) & (sheet.file_of != sheet.file_of[first[number]])
    rows = np.where(elsewhere, first[number], np.arange(len(codes)))
    return sheet.with_cells(**{**sheet.cells, "id": sheet.cells["id"].take(pa.array(rows))})


def _whole(ids: Cells) -> Cells:
    return compute.replace_substring_regex(ids, WHOLE, r"\1")


def require_texts(sheet: TableRows, cell: str, columns: Sequence[str], faults: BadRowLog) -> TableRows:
    """Return the rows whose text is neither empty nor longer than LONGEST; columns: those of the text."""
    where = " + ".join(map(repr, columns))
    empty = as_mask(compute.is_null(sheet.cells[cell]))
    if empty.all():
        raise BadFile(f"{sheet.name}: every text (column {where}) is empty; name other columns")
    sheet = sheet.reject(empty, lambda _: f"its text (column {where}) is empty", faults)
    letters = compute.utf8_length(sheet.cells[cell]).to_numpy()
    return sheet.reject(
        letters > LONGEST,
        lambda row: (
            f"its text (column {where}) has {letters[row]:,} characters, more than {LONGEST:,}: is a quote not closed?"
        ),
        faults,
    )


def require_ids(sheet: TableRows, column: str | None, faults: BadRowLog) -> TableRows:
    """Return the rows that have an id, each id once."""
    empty = as_mask(compute.is_null(sheet.cells["id"]))
    sheet = sheet.reject(empty, lambda _: f"its id (column {column!r}) is empty", faults)
    codes = sheet.cells["id"].dictionary_encode().indices.to_numpy()
    _, first = np.unique(codes, return_index=True)
    return sheet.reject(
        first[codes] != np.arange(len(codes)),
        lambda row: f"its id is {quote_cell(sheet.cells['id'], row)}, as that of {sheet.place(int(first[codes[row]]))}",
        faults,
    )


def measure_cells(sheet: TableRows, columns: Sequence[str]) -> dict[str, Any]:
    """Return the characters (n,) of the cells of text columns, 0 for an empty one, under names that no cells have."""
    return {length_cell(name): compute.utf8_length(sheet.cells[name]).fill_null(0) for name in columns}


def length_cell(name: str) -> str:
    """Return the name under which `measure_cells` returns the characters of a column."""
    return f"length of {name}"


def field_lengths(sheet: TableRows, columns: Sequence[str]) -> Rows:
    """Return the characters (n, k) of k columns that `measure_cells` measured."""
    return np.stack([sheet.cells[length_cell(name)].to_numpy() for name in columns], axis=1)


def fields(columns: Sequence[str], lengths: Rows) -> Fields | None:
    """Return columns as the fields of texts; None for a single column."""
    return Fields(tuple(columns), lengths) if len(columns) > 1 else None


def number_distinct_texts(*columns: Cells) -> tuple[Rows, Cells]:
    """Return the number (n, k) of each text in k columns (n,), by first occurrence, and the distinct texts."""
    order = np.arange(len(columns) * len(columns[0])).reshape(len(columns), -1).T.ravel()
    texts = pa.concat_arrays(columns).take(pa.array(order)).dictionary_encode()
    return texts.indices.to_numpy().astype(np.int64).reshape(-1, len(columns)), texts.dictionary


def describe_texts(side: SideTexts, max_length: int) -> Iterator[str]:
    """Yield the lines of the report on one side's texts."""
    yield f"{side.name}: {len(side):,} texts"
    yield from (f"  {line}" for line in describe_lengths(side.texts, max_length))
    if broken := compute.sum(compute.match_substring(side.texts, "\n")).as_py():
        yield f"  texts with line breaks inside (a quote left open makes such): {broken:,}"
    if again := count_duplicates(side.texts):
        yield f"  texts that stand under an earlier id too (kept apart): {again:,}"
