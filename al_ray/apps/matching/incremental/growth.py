"""The texts of a match folder after new ones came: known, new and changed ones, in the order of their ids."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np

from al_ray.apps.matching.incremental.order import corpus_at, task_of
from al_ray.core.id_order import rows_by_id
from al_ray.core.pairs import Mask, Pairs, Rows
from al_ray.core.task import Corpus, Fields, Task, strings_at
from al_ray.datasets.strings import Strings, add_strings, as_array
from al_ray.datasets.tables.texts import spell_as

Side = Literal["left", "right"]
NEW = -1


@dataclass(frozen=True)
class TextCounts:
    """Numbers of texts: of an unknown id, of a known id with another text, no longer there, and the same as before."""

    new: int = 0
    changed: int = 0
    removed: int = 0
    same: int = 0

    def __add__(self, other: "TextCounts") -> "TextCounts":
        """Add the counts of two sides."""
        return TextCounts(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))


@dataclass(frozen=True)
class GrownTask:
    """A task of the texts that are there now.

    before: for each side the (n,) rows that its texts had, NEW for a text that is new or was changed. After a removal
    and where a text was changed, the row of before is in none of them. by_id: the (n,) rows that its ids had, NEW for
    a new id alone. counts: over both sides. arrived: digest of what arrived.
    """

    task: Task
    before: Mapping[Side, Rows]
    by_id: Mapping[Side, Rows]
    counts: TextCounts
    arrived: str

    def has_new(self, pairs: Pairs) -> Mask:
        """(n, 2) rows -> (n,) whether one of the two texts is new or was changed."""
        return (self.before["left"][pairs[:, 0]] == NEW) | (self.before["right"][pairs[:, 1]] == NEW)

    def now(self, side: Side, texts: int) -> Rows:
        """Return the (texts,) rows that known texts have now, NEW for one that is gone. texts: before, on this side."""
        rows, before = np.full(texts, NEW), self.before[side]
        known = np.flatnonzero(before != NEW)
        rows[before[known]] = known
        return rows


def grow(known: Task, arrived: Mapping[Side, Corpus], complete: bool) -> GrownTask:
    """Return the task of known texts and of those that arrived.

    12 and 12.0 are one id (`spell_as`). A text that arrived with a known id replaces the known one if it is another.
    complete: on a side on which texts arrived, known texts whose ids did not arrive are removed; else they stay. The
    texts of a side that changes are put in the order of their ids.
    """
    arrived = {side: corpus_at(corpus, rows_by_id(corpus.ids)) for side, corpus in arrived.items()}
    sides: tuple[Side, ...] = ("left",) if known.symmetric else ("left", "right")
    grown, before, by_id, counts = dict[Side, Corpus](), dict[Side, Rows](), dict[Side, Rows](), TextCounts()
    for side in sides:
        corpus = known.left if side == "left" else known.right
        grown[side], before[side], more = _grow_side(corpus, arrived.get(side), complete)
        by_id[side] = _rows_of_ids(corpus, grown[side])
        counts += more
    if known.symmetric:
        grown["right"], before["right"], by_id["right"] = grown["left"], before["left"], by_id["left"]
    task = task_of(known.name, grown["left"], grown["right"], known.symmetric)
    return GrownTask(task, before, by_id, counts, _arrived_digest(arrived, complete))


def _arrived_digest(arrived: Mapping[Side, Corpus], complete: bool) -> str:
    """Return the sha256 of the ids, texts and columns that arrived on each side, and of `complete`."""
    digest = hashlib.sha256(b"complete" if complete else b"more")
    for side in sorted(arrived):
        digest.update(f"{side} {len(arrived[side])}".encode())
        add_strings(digest, arrived[side].ids)
        add_strings(digest, arrived[side].texts)
        for name, cells in sorted(arrived[side].columns.items()):
            digest.update(name.encode())
            add_strings(digest, cells)
    return digest.hexdigest()


def _rows_of_ids(known: Corpus, corpus: Corpus) -> Rows:
    """Return the known rows (n,) of the ids of a corpus, NEW for an unknown id."""
    rows = {name: row for row, name in enumerate(known.ids)}
    return np.array([rows.get(name, NEW) for name in corpus.ids], dtype=np.int64)


def _grow_side(known: Corpus, arrived: Corpus | None, complete: bool) -> tuple[Corpus, Rows, TextCounts]:
    every = np.arange(len(known))
    if arrived is None:
        return known, every, TextCounts(same=len(known))
    spelled = Strings.of([spell_as(as_array(arrived.ids), as_array(known.ids))])
    arrived = replace(arrived, ids=spelled)
    texts = dict(zip(arrived.ids, arrived.texts, strict=True))
    same, changed = _compare(known, arrived)
    gone = ~(same | changed)
    stays = np.flatnonzero(same if complete else same | gone)
    known_ids = set(strings_at(known.ids, np.flatnonzero(same)))
    fresh = [name for name in arrived.ids if name not in known_ids]
    corpus = Corpus(
        (*strings_at(known.ids, stays), *fresh),
        (*strings_at(known.texts, stays), *(texts[name] for name in fresh)),
        _joined(known, stays, arrived, fresh),
    )
    columns = _columns(known, corpus, arrived)
    corpus = replace(corpus, columns=columns)
    counts = TextCounts(
        new=len(fresh) - int(changed.sum()), changed=int(changed.sum()),
        removed=int(gone.sum()) if complete else 0, same=int(same.sum()) if complete else int((same | gone).sum()),
    )  # fmt: skip
    before = np.concatenate([stays, np.full(len(fresh), NEW)])
    if np.array_equal(before, every):
        # Texts of an earlier version may lie in the order of their table.
        return replace(known, columns=columns), every, counts
    order = rows_by_id(corpus.ids)
    return corpus_at(corpus, order), before[order], counts


def _columns(known: Corpus, corpus: Corpus, arrived: Corpus) -> dict[str, list[str]]:
    """Return the columns of a corpus: cells that arrived, and of other texts the known ones."""
    columns = dict[str, list[str]]()
    for name, cells in arrived.columns.items():
        values = dict(zip(known.ids, known.columns[name], strict=True)) | dict(zip(arrived.ids, cells, strict=True))
        columns[name] = [values[one] for one in corpus.ids]
    return columns


def _joined(known: Corpus, stays: Rows, arrived: Corpus, fresh: list[str]) -> Fields | None:
    """Return the fields of the known texts that stay and of the fresh ones; None if their columns differ."""
    one, other = known.fields, arrived.fields
    if one is None or other is None or one.names != other.names:
        return None
    places = {name: row for row, name in enumerate(arrived.ids)}
    rows = np.array([places[name] for name in fresh], dtype=np.int64)
    return replace(one, lengths=np.concatenate([one.lengths[stays], other.lengths[rows]]))


def _compare(known: Corpus, arrived: Corpus) -> tuple[Mask, Mask]:
    """Return (n,) whether each known text arrived as it is, and (n,) whether its id arrived with another text.

    A text whose cells are divided in another way is another one: a matcher compares cells.
    """
    same, places = np.zeros(len(known), dtype=np.bool_), np.full(len(known), NEW)
    texts = {name: (place, text) for place, (name, text) in enumerate(zip(arrived.ids, arrived.texts, strict=True))}
    for row, (name, text) in enumerate(zip(known.ids, known.texts, strict=True)):
        if name in texts:
            places[row], new = texts[name]
            same[row] = new == text
    one, other = known.fields, arrived.fields
    if one is not None and other is not None and one.names == other.names:
        rows = np.flatnonzero(same)
        same[rows] = (one.lengths[rows] == other.lengths[places[rows]]).all(axis=1)
    return same, (places != NEW) & ~same
