"""An array of rows that grows without a copy of all of them each time."""

from typing import Any

import numpy as np
import numpy.typing as npt

LEAST = 1_024  # Rows that an array has room for once it has grown.


class GrowingArray:
    """Rows (n, ...) of one type. Not copied at first: a row that is changed is changed in what was given."""

    def __init__(self, first: npt.NDArray[Any]) -> None:
        """Begin with these rows."""
        self._room, self._count = first, len(first)

    @property
    def rows(self) -> npt.NDArray[Any]:
        """Return all rows, which can be written until the array grows."""
        return self._room[: self._count]

    def grow(self, count: int, value: Any = 0) -> None:
        """Have `count` rows, if there are fewer; the new ones have this value everywhere."""
        if count <= self._count:
            return
        if count > len(self._room):
            shape = max(count, 2 * len(self._room), LEAST), *self._room.shape[1:]
            room = np.empty(shape, dtype=self._room.dtype)
            room[: self._count] = self.rows
            self._room = room
        self._room[self._count : count] = value
        self._count = count
