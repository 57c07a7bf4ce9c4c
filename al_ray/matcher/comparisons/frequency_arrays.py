"""Frequencies as arrays by name, so that they can be written without pickle, and back."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from al_ray.core.errors import BadFile
from al_ray.matcher.comparisons.frequencies import ColumnCounts, Counts, Frequencies

Arrays = Mapping[str, npt.NDArray[np.int64]]
PARTS = ("keys", "counts", "total")


def frequency_arrays(frequencies: Frequencies) -> dict[str, npt.NDArray[np.int64]]:
    """Return the arrays of frequencies; the columns are numbered, and the last one is the whole text."""
    arrays = dict[str, npt.NDArray[np.int64]]()
    for number, column in enumerate((*frequencies.columns, frequencies.texts)):
        for kind, counts in (("values", column.values), ("words", column.words)):
            for part, array in zip(PARTS, (counts.keys, counts.counts, np.array([counts.total])), strict=True):
                arrays[f"{number}.{kind}.{part}"] = array
    return arrays


def frequencies_from(arrays: Arrays, fields: int, place: object, fix: str) -> Frequencies:
    """Return the frequencies of a number of fields and of the whole text.

    BadFile, which names the place that the arrays were read from and what to do (fix), if they are no frequencies.
    """
    names = {
        f"{number}.{kind}.{part}" for number in range(fields + 1) for kind in ("values", "words") for part in PARTS
    }
    if set(arrays) != names:
        raise BadFile(f"{place} does not hold the frequencies of {fields} fields; {fix}")
    columns = [
        ColumnCounts(*(_counts(arrays, f"{number}.{kind}", place, fix) for kind in ("values", "words")))
        for number in range(fields + 1)
    ]
    return Frequencies(tuple(columns[:-1]), columns[-1])


def _counts(arrays: Arrays, name: str, place: object, fix: str) -> Counts:
    keys, counts, total = (arrays[f"{name}.{part}"] for part in PARTS)
    sound = (
        all(array.dtype == np.int64 and array.ndim == 1 for array in (keys, counts, total))
        and len(keys) == len(counts)
        and len(total) == 1
        and bool((keys[1:] > keys[:-1]).all() and (keys[:1] >= 0).all())
        and bool((counts > 0).all() and (counts <= total[0]).all() and total[0] >= 0)
    )
    if not sound:
        raise BadFile(f"{place}: {name} holds no counts; {fix}")
    return Counts(keys, counts, int(total[0]))
