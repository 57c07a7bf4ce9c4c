"""Float32 inner products of many pairs of vectors, on a CPU without a copy of any vector, or on a GPU."""

import warnings
import weakref
from collections.abc import Callable
from functools import cache
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from al_ray.core.pairs import Rows
from al_ray.core.vectors import Vectors
from al_ray.encoders.hardware import free_memory
from al_ray.search.vector_files import single

T = TypeVar("T")
Singles = npt.NDArray[np.float32]

COPIED = 2**15  # Pairs whose vectors are copied at a time, where they must be.
GATHERED = 2**26  # Numbers of a side that are gathered at a time on a GPU: 256 MiB.
RESIDENT = 0.125  # Share of a GPU's free memory up to which the vectors of a shard stay there.


class Kept(Generic[T]):
    """Cached result of one array, dropped when another is given or it is deleted. Arrays must not change."""

    def __init__(self, make: Callable[..., T]) -> None:
        """Make nothing yet."""
        self._make = make
        self._kept: tuple[weakref.ref[np.ndarray], tuple[object, ...], T] | None = None

    def of(self, array: np.ndarray, *options: object) -> T:
        """Return what is made from this very array with these options."""
        kept = self._kept
        if kept is None or kept[0]() is not array or kept[1] != options:
            self._kept = None
            self._kept = kept = weakref.ref(array, self._drop), options, self._make(array, *options)
        return kept[2]

    @property
    def empty(self) -> bool:
        """Whether nothing is kept."""
        return self._kept is None

    def release(self) -> None:
        """Free the memory."""
        self._kept = None

    def _drop(self, gone: "weakref.ref[np.ndarray]") -> None:
        if self._kept is not None and self._kept[0] is gone:
            self._kept = None


def paired_products(ones: Vectors, left: Rows, others: Vectors, right: Rows, device: str = "cpu") -> Singles:
    """(a, d) and (c, d) vectors, (n,) places of each pair's in them -> (n,) inner products in float32."""
    if device != "cpu":
        return _gathered(ones, left, others, right, device)
    if others.dtype == np.float32 and others.flags.writeable:
        return _sampled(ones, left, others, right)
    # torch takes neither 16 bits here nor what is read-only: those that are in pairs are copied.
    found = np.empty(len(left), dtype=np.float32)
    for start in range(0, len(left), COPIED):
        here = slice(start, start + COPIED)
        found[here] = _sampled(*_copied(ones, left[here]), *_copied(others, right[here]))
    return found


def on_device(vectors: Vectors, device: str) -> torch.Tensor | None:
    """Vectors on a device, from call to call if they are the same array; None if they take too much of its memory."""
    return _resident.of(vectors, device)


def release() -> None:
    """Free the memory of the device: the encoder needs it, and perhaps a trainer on the same GPU."""
    _resident.release()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _moved(vectors: Vectors, device: str) -> torch.Tensor | None:
    where = torch.device(device)
    if where.type == "cuda" and vectors.nbytes > RESIDENT * free_memory(where):
        return None
    return torch.tensor(vectors, device=where)


_resident = Kept(_moved)


def _sampled(ones: Vectors, left: Rows, others: Vectors, right: Rows) -> Singles:
    """Compute the cells (left, right) of the product of two matrices, which torch does in place, in several threads."""
    if len(others) <= len(left):
        # Then most vectors of the other side are in pairs: they are read once, in their order.
        ones, left, others, right = others, right, ones, left
    order = np.argsort(left)
    ends = np.concatenate([[0], np.cumsum(np.bincount(left, minlength=len(ones)))])
    indices = torch.from_numpy(ends), torch.from_numpy(right[order])
    _silence()
    cells = torch.sparse_csr_tensor(*indices, torch.zeros(len(left)), (len(ones), len(others)), check_invariants=False)
    torch.sparse.sampled_addmm(cells, single(ones), single(others).T, beta=0.0, out=cells)
    found = np.empty(len(left), dtype=np.float32)
    found[order] = cells.values().numpy()
    return found


@cache
def _silence() -> None:
    """Make an empty sparse matrix: at the first one of a process torch warns that they are in beta."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        torch.sparse_csr_tensor(torch.zeros(1, dtype=torch.int64), torch.zeros(0), torch.zeros(0), (0, 0))


def _copied(vectors: Vectors, places: Rows) -> tuple[Vectors, Rows]:
    """(n,) places -> the float32 vectors that are at any of them, and the places in those."""
    used, places = np.unique(places, return_inverse=True)
    return vectors[used].astype(np.float32), places


def _gathered(ones: Vectors, left: Rows, others: Vectors, right: Rows, device: str) -> Singles:
    """Multiply the vectors of pairs on a device. Those of the right side stay there if there is room."""
    held, found = on_device(others, device), np.empty(len(left), dtype=np.float32)
    step = max(1, GATHERED // ones.shape[1])

    def gathered(vectors: torch.Tensor, places: Rows) -> torch.Tensor:
        return vectors[torch.from_numpy(places).to(device)].float()

    for start in range(0, len(left), step):
        here = slice(start, start + step)
        ours, up = _copied(ones, left[here])
        there, across = held, right[here]
        if there is None:
            theirs, across = _copied(others, across)
            there = torch.from_numpy(theirs).to(device)
        products = gathered(torch.from_numpy(ours).to(device), up).mul_(gathered(there, across))
        found[here] = products.sum(dim=1).cpu().numpy()
    return found
