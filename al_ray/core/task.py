"""A task: texts on two sides, split into train, dev and test, with their known pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol, cast, runtime_checkable

import numpy as np

from al_ray.core.errors import MissingSplit
from al_ray.core.pair_rule import PairRule
from al_ray.core.pairs import Keys, Pairs, PairSpace, Rows

SPLITS = ("train", "dev", "test")
# complete: every match is a positive, so a pair without a label is a negative. partial: it is unknown.
LabelsAre = Literal["complete", "partial"]
# name: a short string. code: an identifier. category: one of few values. datasets/field_types.py guesses them.
FieldType = Literal["text", "name", "number", "date", "code", "category"]
UNMEASURED = "run without a measurement (`RunConfig.evaluation.splits` without a name)"


@runtime_checkable
class StoredStrings(Protocol):
    """Strings that do not lie in memory as Python objects: many are looked up in one call."""

    def take(self, rows: Rows) -> list[str]:
        """Return the strings (n,) of (n,) rows, in their order."""
        ...


def strings_at(strings: Sequence[str], rows: Rows) -> list[str]:
    """Return the strings (n,) of (n,) rows, in their order."""
    if isinstance(strings, StoredStrings):
        return strings.take(rows)
    return [strings[row] for row in cast(list[int], rows.tolist())]


@dataclass(frozen=True, eq=False)
class Fields:
    """The columns of a table that were joined to the texts of a corpus, for people who label and for comparisons.

    names: of the k columns. lengths: (n, k) characters of the cells of each text. A text is its cells, joined by a
    space, without the empty ones. types: what the k columns hold; () if it is not known, as in older task folders.
    """

    names: tuple[str, ...]
    lengths: Rows
    types: tuple[FieldType, ...] = ()

    @property
    def text_lengths(self) -> Rows:
        """Return the characters (n,) of each text."""
        return self.lengths.sum(axis=1) + np.maximum(np.count_nonzero(self.lengths, axis=1) - 1, 0)


@dataclass(frozen=True)
class Corpus:
    """Texts with their ids from the source data; the row of a text is its index here.

    ids, texts: tuples, or the Strings of a task folder (datasets/strings.py), which are read where they lie. To look up
    those of many rows use `strings_at`: one by one, each may be read from the file again.
    fields: None if each text is one column. The encoder, the digest and all scores depend on the texts alone.
    columns: cells (n,) of further columns of the table by their names, "" for an empty one; a task folder has none.
    """

    ids: Sequence[str]
    texts: Sequence[str]
    fields: Fields | None = field(default=None, compare=False)
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]], compare=False)

    def __len__(self) -> int:
        return len(self.texts)

    def cells(self, rows: Rows) -> list[list[str]]:
        """Return the cells of the texts (n,) of (n,) rows by field, "" for an empty one; a text alone has no fields."""
        texts = strings_at(self.texts, rows)
        if self.fields is None:
            return [[text] for text in texts]
        return [_split(text, lengths) for text, lengths in zip(texts, self.fields.lengths[rows].tolist(), strict=True)]


def _split(text: str, lengths: list[int]) -> list[str]:
    """Split a text into cells of these lengths; a space follows each one that is not empty."""
    cells, start = list[str](), 0
    for length in lengths:
        cells.append(text[start : start + length])
        start += length + bool(length)
    return cells


@dataclass(frozen=True)
class Split:
    """The pool of one split and its known pairs.

    positives: (n, 2) the pairs known to match. If the labels of the task are complete these are all matching pairs, and
    every other pair of the pool counts as a negative (paper, 3.1.2).
    stated_negatives: (n, 2) pairs labelled as no match in the source data, without the positives.
    Pairs are rows of the task's texts, in order of key, left < right when symmetric.
    """

    name: str
    space: PairSpace
    positives: Pairs
    stated_negatives: Pairs

    @cached_property
    def positive_keys(self) -> Keys:
        """Sorted keys of the positives."""
        return np.sort(self.space.keys(self.positives))


@dataclass(frozen=True)
class Task:
    """Texts on two sides (the same Corpus twice when symmetric) and their splits.

    digest: hash of the contents of all tables. A run refuses a task of another digest.
    labels_are: complete if the positives are all matching pairs; partial if pairs without a label are unknown. It is
    stated by the person who prepared the task, and not part of the digest.
    rule: which pairs can match; None if all can. The spaces of the splits have it too.
    """

    name: str
    symmetric: bool
    left: Corpus
    right: Corpus
    splits: Mapping[str, Split]
    digest: str
    labels_are: LabelsAre = "complete"
    rule: PairRule | None = None

    def split(self, name: str) -> Split:
        """Return a split; MissingSplit if it has no pairs."""
        split = self.splits.get(name)
        if split is None or not split.space.total:
            there = ", ".join(other.name for other in self.splits.values() if other.space.total)
            raise MissingSplit(
                f"task {self.name!r} has no {name} pairs (it has: {there or 'none'}); name another split, prepare the "
                f"task with a share for {name} (`OwnTexts.split`), or {UNMEASURED}"
            )
        return split

    def stating(self, name: str) -> Split:
        """Return a split; MissingSplit if it has neither positives nor stated negatives."""
        split = self.split(name)
        if not len(split.positives) + len(split.stated_negatives):
            raise MissingSplit(f"no pair is stated in the {name} split of task {self.name!r}; name another split")
        return split

    def measurable(self, name: str) -> Split:
        """Return a split whose pairs are all matches or negatives, by which average precision can be computed.

        MissingSplit if it has no positives, or if pairs without a label are unknown.
        """
        split = self.with_positives(name)
        if self.labels_are == "partial":
            other = "let people or a program label (`RunConfig.oracle='file'`, or `oracle='module:function'`)"
            if name != "train":
                other = _sample(name)
            raise MissingSplit(
                f"the labels of task {self.name!r} are partial: a pair of {name} without a label is unknown and cannot "
                f"count as a negative; {other}; if every match is labelled, prepare the task again with "
                "`OwnTexts.labels_are='complete'`"
            )
        return split

    def with_positives(self, name: str) -> Split:
        """Return a split; MissingSplit if it has no positives."""
        split = self.split(name)
        if not len(split.positives):
            fix = (
                "; prepare the task with labels, or let people or a program label (`RunConfig.oracle='file'`, or "
                "`oracle='module:function'`)"
                if name == "train"
                else f" to measure by; name another split, or {_sample(name)}"
            )
            raise MissingSplit(f"the {name} split of task {self.name!r} has no positive pair{fix}")
        return split

    def with_known_pairs(self, name: str) -> Split:
        """Return a split with positives, for a job that cannot do without; MissingSplit names jobs.prepare alone."""
        split = self.splits.get(name)
        if split is None or not len(split.positives):
            raise MissingSplit(
                f"the {name} split of task {self.name!r} has no positive pair; prepare a task whose {name} split has "
                "pairs labelled as matches (`al_ray.prepare`)"
            )
        return split

    def ids_of(self, pairs: Pairs) -> tuple[list[str], list[str]]:
        """Return the ids (n,) of the left and of the right texts of (n, 2) pairs."""
        return self._at(self.left.ids, self.right.ids, pairs)

    def texts_of(self, pairs: Pairs) -> tuple[list[str], list[str]]:
        """Return the left and the right texts (n,) of (n, 2) pairs."""
        return self._at(self.left.texts, self.right.texts, pairs)

    def _at(self, left: Sequence[str], right: Sequence[str], pairs: Pairs) -> tuple[list[str], list[str]]:
        if not self.symmetric:
            return strings_at(left, pairs[:, 0]), strings_at(right, pairs[:, 1])
        # Both sides in one call, so that a part of the file that both need is read once.
        both = strings_at(left, pairs.T.ravel())
        return both[: len(pairs)], both[len(pairs) :]

    def space(self, left: Rows, right: Rows) -> PairSpace:
        """Return the space of all pairs of sorted left rows (l,) with sorted right rows (r,) of this task."""
        return PairSpace(left, right, len(self.right), self.symmetric, self.rule)


def _sample(name: str) -> str:
    """Return what to do where the labels of dev or test measure nothing."""
    in_the_run = "`RunConfig.evaluation.splits=[]` `dev_labels=N`, " * (name == "dev")
    return f"label a sample ({in_the_run}`AuditConfig.by_score=True`), or {UNMEASURED}"
