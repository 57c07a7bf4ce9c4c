"""The texts that are clustered, numbered over both tables: the right texts follow the left ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from al_ray.core.pairs import Mask, Pairs, PairSpace, Rows
from al_ray.core.task import Task, strings_at

TABLES = ("left", "right")


@dataclass(frozen=True)
class Nodes:
    """The texts of a task as nodes of one graph; of one table a node is a row."""

    task: Task

    def __len__(self) -> int:
        return len(self.task.left) + (0 if self.task.symmetric else len(self.task.right))

    @property
    def first_right(self) -> int:
        """Return the node of the first right text; of one table 0, for its right texts are its left ones."""
        return 0 if self.task.symmetric else len(self.task.left)

    def of(self, pairs: Pairs) -> Pairs:
        """(n, 2) pairs of rows -> (n, 2) nodes."""
        return pairs + np.array([0, self.first_right])

    def rows(self, pairs: Pairs) -> Pairs:
        """(n, 2) nodes, the left one first -> (n, 2) pairs of rows."""
        return pairs - np.array([0, self.first_right])

    def inside(self, space: PairSpace) -> Rows:
        """Return the sorted nodes of the texts of a space."""
        return space.left if self.task.symmetric else np.concatenate([space.left, self.first_right + space.right])

    def tables(self, nodes: Rows) -> list[str]:
        """Return the table (n,) of each node: left or right."""
        return [TABLES[right] for right in (self._is_right(nodes)).astype(np.int64).tolist()]

    def ids(self, nodes: Rows) -> list[str]:
        """Return the id (n,) of each node."""
        return self._strings(nodes, self.task.left.ids, self.task.right.ids)

    def texts(self, nodes: Rows) -> list[str]:
        """Return the text (n,) of each node."""
        return self._strings(nodes, self.task.left.texts, self.task.right.texts)

    def column(self, name: str) -> list[str]:
        """Return the cell (nodes,) of each node in a column of its table."""
        return list(self.cells(name))

    def cells(self, name: str) -> Iterator[str]:
        """Yield the cell of each node in a column of its table."""
        for side in (self.task.left,) if self.task.symmetric else (self.task.left, self.task.right):
            yield from side.columns[name]

    def column_at(self, name: str, nodes: Rows) -> list[str]:
        """Return the cell (n,) of each of (n,) nodes in a column of its table."""
        return self._strings(nodes, self.task.left.columns[name], self.task.right.columns[name])

    def text_cells(self, nodes: Rows) -> list[list[str]]:
        """Return the cells of the text (n,) of each node by text column of its own table, "" for an empty one."""
        is_right = self._is_right(nodes)
        left = iter(self.task.left.cells(nodes[~is_right]))
        right = iter(self.task.right.cells(nodes[is_right] - self.first_right) if is_right.any() else ())
        return [next(right if of_right else left) for of_right in is_right.tolist()]

    def are_left(self, nodes: Rows) -> Mask:
        """Return (n,) whether each node is of the left table."""
        return ~self._is_right(nodes)

    def _is_right(self, nodes: Rows) -> np.ndarray:
        return (nodes >= self.first_right) & (not self.task.symmetric)

    def _strings(self, nodes: Rows, left: Sequence[str], right: Sequence[str]) -> list[str]:
        found = np.empty(len(nodes), dtype=object)
        is_right = self._is_right(nodes)
        found[~is_right] = strings_at(left, nodes[~is_right])
        if is_right.any():
            found[is_right] = strings_at(right, nodes[is_right] - self.first_right)
        return found.tolist()
