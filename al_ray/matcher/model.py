"""What every learner of the matcher takes and makes: checked comparisons, and a model that gives p and explains it.

A comparison is a column of features, such as "price: relative difference"; a row of features is a candidate pair.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from al_ray.core.errors import BadOption
from al_ray.core.scorer import Floats

Features = npt.NDArray[np.float32]
Arrays = Mapping[str, npt.NDArray[Any]]
T = TypeVar("T")

BLOCK = 4096
"""Rows that are computed at a time. No result depends on it."""


@dataclass(frozen=True)
class Contributions:
    """What each comparison adds to p: p = base + the sum of a row of `values`, but for the rounding of float64.

    base: p of a pair of which no comparison is known; values: (n, F), positive where a comparison speaks for a match.
    """

    base: float
    values: Floats


class Model(Protocol):
    """A trained matcher. Its answers are the same bits for any number of threads, and for any rows at once."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the comparisons, in the order of the columns of features."""
        ...

    def probability(self, features: Features, threads: int = 1) -> Floats:
        """Return p of each row of (n, F) features: (n,) float64 in [0, 1]. BadOption for NaN or infinity."""
        ...

    def contributions(self, features: Features, threads: int = 1) -> Contributions:
        """Return what each comparison adds to p of each row of (n, F) features."""
        ...

    def arrays(self) -> Arrays:
        """Return all that the model consists of but its names, by name."""
        ...


@dataclass(frozen=True)
class Learner:
    """A way to learn a model from labelled comparisons.

    fit: (features (n, F), labels (n,) of 0 and 1, weights (n,), names of the F comparisons, seed) -> model.
    read: (names, arrays as `Model.arrays` returns them) -> model; ValueError if they are not such a model.
    """

    fit: Callable[[Features, npt.ArrayLike, npt.ArrayLike, Sequence[str], int], Model]
    read: Callable[[tuple[str, ...], Arrays], Model]


def check_features(features: Features, names: Sequence[str]) -> Features:
    """Return (n, F) float32 features; BadOption for a value that is NaN or infinite, ValueError for another shape."""
    if features.dtype != np.float32 or features.ndim != 2 or features.shape[1] != len(names):
        shape = f"{features.dtype} of shape {features.shape}"
        raise ValueError(f"the features are {shape}; the matcher takes float32 of shape (n, {len(names)})")
    if not np.isfinite(features).all():
        row, column = np.argwhere(~np.isfinite(features))[0]
        raise BadOption(
            f"comparison {names[column]!r} is {features[row, column]} for row {row}; give finite numbers, "
            "and -1 where a value is missing (an encoder whose training failed gives NaN: train it again)"
        )
    return features


def check_examples(
    features: Features, labels: npt.ArrayLike, weights: npt.ArrayLike, names: Sequence[str]
) -> tuple[Features, npt.NDArray[np.int64], Floats]:
    """Return the labelled rows of weight above 0: features, labels and weights. ValueError if they do not fit."""
    features = check_features(features, names)
    y, w = np.asarray(labels), np.asarray(weights, dtype=np.float64)
    if y.shape != (len(features),) or w.shape != y.shape:
        raise ValueError(f"{len(features)} rows of features, labels of shape {y.shape}, weights of shape {w.shape}")
    if not np.isin(y, (0, 1)).all():
        raise ValueError("labels are 0 or 1; leave out pairs that are unsure")
    if not (np.isfinite(w).all() and (w >= 0).all()):
        raise ValueError("weights are finite, and at least 0")
    rows = w > 0
    return features[rows], y[rows].astype(np.int64), w[rows]


def in_blocks(compute: Callable[[Features], T], features: Features, threads: int) -> Iterator[T]:
    """Yield what `compute` returns for each block of rows, in order, computed in `threads` threads."""
    blocks = [features[start : start + BLOCK] for start in range(0, len(features), BLOCK)]
    if threads <= 1 or len(blocks) <= 1:
        yield from map(compute, blocks)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="matcher") as workers:
        yield from workers.map(compute, blocks)


def array_of(arrays: Arrays, name: str, dtype: type[np.generic], shape: tuple[int | None, ...]) -> npt.NDArray[Any]:
    """Return an array; ValueError if it is missing, or of another type or shape (None: any length)."""
    array = arrays.get(name)
    if array is None:
        raise ValueError(f"{name} is missing")
    fits = array.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    if array.dtype != dtype or not fits:
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}, not {np.dtype(dtype)} of shape {shape}")
    return array
