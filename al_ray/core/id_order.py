"""One order of ids of any type: results that are ordered by it do not depend on the order of rows."""

from collections.abc import Sequence

import numpy as np

from al_ray.core.pairs import Rows

DIGITS = 18
"""A whole number of more digits than these is a text."""


def id_key(name: str) -> tuple[bool, int, str]:
    """Return the key by which ids are sorted: whole numbers by their value, then all other ids by their characters.

    7, 007 and -7 are whole numbers. Two that have one value, such as 7 and 007, follow their characters.
    """
    digits = name.removeprefix("-")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= DIGITS
    return (not is_number, int(name) if is_number else 0, name)


def rows_by_id(ids: Sequence[str]) -> Rows:
    """Return the rows (n,) of n distinct ids in the order of the ids."""
    keys = [id_key(name) for name in ids]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)
