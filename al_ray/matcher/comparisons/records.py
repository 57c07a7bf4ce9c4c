"""Records: texts and the values of their fields, as columns; and the normal form of a value."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from al_ray.core.pairs import Rows
from al_ray.core.task import Corpus, FieldType
from al_ray.datasets.field_types import field_pairs


@dataclass(frozen=True)
class Field:
    """A field that two sides share: its name and type."""

    name: str
    type: FieldType


@dataclass(frozen=True)
class Records:
    """Records (n,) of one side: whole texts (n,), and the values (n,) of each field; "" is a missing value."""

    texts: Sequence[str]
    columns: tuple[Sequence[str], ...] = ()

    def __len__(self) -> int:
        return len(self.texts)


def records_of(corpus: Corpus, places: Sequence[int], rows: Rows | None = None) -> Records:
    """Return the records of (n,) rows of a corpus, or of all. places: of the fields to compare, in their order."""
    rows = np.arange(len(corpus)) if rows is None else rows
    cells = corpus.cells(rows)
    if corpus.fields is None:
        return Records([text for (text,) in cells])
    texts = [" ".join(cell for cell in row if cell) for row in cells]
    return Records(texts, tuple([row[place] for row in cells] for place in places))


def shared_records(left: Corpus, right: Corpus) -> tuple[tuple[Field, ...], Records, Records]:
    """Return the fields that two corpora share, and their records; one object twice for one corpus."""
    pairs = field_pairs(left, right)
    made = records_of(left, [one.left for one in pairs])
    other = made if right is left else records_of(right, [one.right for one in pairs])
    return tuple(Field(one.name, one.type) for one in pairs), made, other


def normal_form(value: str) -> str:
    """Return the value as comparisons see it: Unicode form NFKC, without case, white space as single spaces."""
    if not value.isascii():
        value = unicodedata.normalize("NFKC", value)
    return " ".join(value.casefold().split())
