"""The canonical text of each cluster by a rule: the least id, the most complete text, or a value of a column."""

from dataclasses import dataclass
from math import isfinite
from typing import Literal

import numpy as np

from al_ray.apps.matching.clusters.nodes import Nodes
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.pairs import Rows
from al_ray.core.task import Corpus

FORMS = "score, least-id, complete, highest:COLUMN, lowest:COLUMN, or first:COLUMN=VALUE,VALUE,..."
Kind = Literal["score", "least-id", "complete", "highest", "lowest", "first"]


@dataclass(frozen=True)
class CanonicalRule:
    """A rule of `canonical`. column: whose values decide, "" for none. order: values of `first`, the best first."""

    kind: Kind
    column: str = ""
    order: tuple[str, ...] = ()

    @classmethod
    def parse(cls, words: str) -> "CanonicalRule":
        """Read a rule as `canonical` has it; BadOption for other words."""
        kind, _, rest = words.partition(":")
        if words in ("score", "least-id", "complete"):
            return cls(words)
        if kind in ("highest", "lowest") and rest:
            return cls(kind, rest)
        if kind == "first":
            column, _, values = rest.rpartition("=")
            order = tuple(value.strip() for value in values.split(","))
            if column and all(order):
                return cls(kind, column, order)
        raise BadOption(f"{option('canonical', words)}: give {FORMS}")

    def check_one_type(self, nodes: Nodes) -> None:
        """Raise BadOption if a column whose highest or lowest value decides has both numbers and other values."""
        if self.kind not in ("highest", "lowest"):
            return
        values = nodes.column(self.column)
        others = [node for node, value in enumerate(values) if value and _number(value) is None]
        numbers = sum(value != "" for value in values) - len(others)
        if others and numbers:
            one, where = values[others[0]][:100], nodes.ids(np.array(others[:1]))[0]
            raise BadOption(
                f"{option('canonical', f'{self.kind}:{self.column}')}: {numbers:,} values are numbers, and "
                f"{len(others):,} are none, such as {one!r} of id {where!r}; correct these cells or empty them"
            )

    def choose(self, nodes: Nodes, labels: Rows, clusters: Rows) -> Rows:
        """Return the canonical node of each of (k,) clusters; ties: the lowest node. labels: (nodes,) of clusters.

        Not for `score`, which needs scores (clusters/figures.py).
        """
        members = np.flatnonzero(np.isin(labels, clusters))
        order = members[np.lexsort((members, -self._ranks(nodes)[members], labels[members]))]
        return order[np.diff(labels[order], prepend=-1) != 0]

    def _ranks(self, nodes: Nodes) -> Rows:
        """Return a number for each node, the highest for the best."""
        if self.kind == "complete":
            sides = (nodes.task.left,) if nodes.task.symmetric else (nodes.task.left, nodes.task.right)
            return np.unique(np.concatenate([_fullness(side) for side in sides]), axis=0, return_inverse=True)[1]
        if not self.column:
            return np.zeros(len(nodes), dtype=np.int64)
        return self._ranks_of(nodes.column(self.column))

    def _ranks_of(self, values: list[str]) -> Rows:
        """Return the rank of each value; an empty one has the lowest."""
        if self.kind == "first":
            place = {value: len(self.order) - at for at, value in reversed(list(enumerate(self.order)))}
            return np.array([place.get(value, 0) for value in values], dtype=np.int64)
        given = {value for value in values if value}
        numbers = {value: number for value in given if (number := _number(value)) is not None}
        keys = numbers if len(numbers) == len(given) else {value: value for value in given}
        ordered = sorted(set(keys.values()), reverse=self.kind == "lowest")
        place = {key: at for at, key in enumerate(ordered, start=1)}
        return np.array([place[keys[value]] if value else 0 for value in values], dtype=np.int64)


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _fullness(corpus: Corpus) -> Rows:
    """Return (n, 2): how many text columns of each text are not empty, and how many characters it has."""
    fields = corpus.fields
    if fields is None:
        lengths = np.array([len(text) for text in corpus.texts], dtype=np.int64)
        return np.stack([np.minimum(lengths, 1), lengths], axis=1)
    return np.stack([np.count_nonzero(fields.lengths, axis=1), fields.text_lengths], axis=1)
