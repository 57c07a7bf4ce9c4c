"""A record as the text of a store: a JSON object of its cells by field; of a side without fields its one text."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from al_ray.apps.serving.records.known_records import Cells
from al_ray.core.errors import BadFile
from al_ray.core.task import Corpus
from al_ray.datasets.canonical_cells import canonical_cell, json_cell
from al_ray.datasets.tables.columns import trim_text


def encoded(names: Sequence[str], cells: Cells) -> str:
    """Return the text of a store. names: of the fields of its side, () if it has none."""
    return json.dumps(dict(zip(names, cells, strict=True)), ensure_ascii=False) if names else cells[0]


def decoded(names: Sequence[str], text: str, fix: str) -> Cells:
    """Return the cells of a record; BadFile for a text that `encoded` did not make with these fields."""
    if not names:
        return (text,)
    try:
        content = json.loads(text)
        return tuple(content[name] for name in names)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadFile(f"a known text is no record of {', '.join(names)} ({error!r}); {fix}") from error


def cells_of(names: Sequence[str], record: Mapping[str, Any] | str) -> Cells:
    """Return the cells of a record that was sent, spelled as those of tables (JSON lines); a lacking field is empty.

    ValueError, which says what is wrong, for other fields, values that are no texts, and records without any text.
    """
    if not names:
        if not isinstance(record, str):
            raise ValueError("is a record, and the model matches texts of one column; send texts")
        return (record,)
    if isinstance(record, str):
        raise ValueError(f"is a text, and the model compares fields; send records with {', '.join(names)}")
    if any("\ud800" <= letter <= "\udfff" for letter in json.dumps(record, ensure_ascii=False)):
        raise ValueError("has half of a character (a lone surrogate); send UTF-8")
    unknown = sorted(set(record) - set(names))
    if unknown:
        raise ValueError(f"has the field {unknown[0]!r}; the model compares {', '.join(names)}")
    cells = tuple(canonical_cell(trim_text(json_cell(name, record.get(name)) or "")) for name in names)
    if not any(cells):
        raise ValueError(f"is empty; give a text in one of {', '.join(names)}")
    return cells


def corpus_texts(names: Sequence[str], corpus: Corpus) -> list[str]:
    """Return the texts of a store for all texts of a corpus, whose fields are these."""
    return [encoded(names, tuple(cells)) for cells in corpus.cells(np.arange(len(corpus)))]
