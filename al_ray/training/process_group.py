"""Data-parallel training by torch.distributed: a group of processes and what they exchange.

In each step they exchange cosines of pairs or vectors of texts, and the encoder's gradients. Rank 0 alone reads the
checkpoint and refits the scorer, and sends the results to the others. All other values are equal on every rank.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import distributed
from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage] - it is in torch's documentation
from torch.nn.parallel import DistributedDataParallel

# Longer than a refit or a checkpoint, for which all wait for rank 0. A process that dies is noticed much earlier.
WAIT = timedelta(hours=2)

T = TypeVar("T")
Meeting = tuple[str, int]
"""Host and port where the processes of a group connect."""


@dataclass(frozen=True)
class Group:
    """The group of this process and its rank in it; a group of one exchanges nothing."""

    rank: int = 0
    size: int = 1

    def once(self, compute: Callable[[], T]) -> T:
        """Compute a value on rank 0 and return it on every rank; the others wait for it."""
        if self.size == 1:
            return compute()
        values: list[Any] = [compute() if self.rank == 0 else None]
        distributed.broadcast_object_list(values, src=0, device=torch.device("cpu"))
        return values[0]

    def gathered(self, own: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
        """(b, ...) rows of this rank -> the rows of all ranks, in order; gradients flow into this rank's rows only.

        They are multiplied by the number of ranks, because `together` takes the mean over ranks instead of the sum.
        sizes: number of rows of each rank.
        """
        if self.size == 1:
            return own
        padded = own.new_zeros((max(sizes), *own.shape[1:]))
        padded[: len(own)] = own.detach()
        parts = [torch.empty_like(padded) for _ in sizes]
        distributed.all_gather(parts, padded)
        parts = [part[:size] for part, size in zip(parts, sizes, strict=True)]
        if own.requires_grad:
            own.register_hook(lambda gradient: gradient * self.size)
        parts[self.rank] = own
        return torch.cat(parts)

    def together(self, module: torch.nn.Module) -> torch.nn.Module:
        """Wrap a module: it starts with rank 0's weights, and its backward pass averages gradients over all ranks."""
        if self.size == 1:
            return module
        # A pooler does not affect vectors and gets no gradients.
        return DistributedDataParallel(module, find_unused_parameters=True)


ALONE = Group()


def open_store(host: str) -> TCPStore:
    """Open the store of a group on a free port of this machine, which the other ranks reach as `host`; for rank 0."""
    return TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=WAIT)


@contextmanager
def join_group(store: TCPStore | Meeting, rank: int, size: int, device: str) -> Iterator[Group]:
    """Context of a group: wait until all ranks have connected to the store, and leave the group at the end.

    The backend is gloo on CPUs, and nccl on GPUs, one GPU per rank. If a machine's name resolves to an address that the
    others cannot reach, GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME choose the network.
    """
    if not isinstance(store, TCPStore):
        store = TCPStore(*store, is_master=False, timeout=WAIT)
    backend = "gloo" if device == "cpu" else "cpu:gloo,cuda:nccl"
    distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=WAIT)
    try:
        yield Group(rank, size)
    finally:
        distributed.destroy_process_group()
