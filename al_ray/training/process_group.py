"""Processes that train together, by torch.distributed: who they are, and all that travels between them.

Of a step these are the cosines of its pairs, or the vectors of their texts, and the encoder's gradients; of a training
besides, what rank 0 alone reads and makes: a checkpoint, the refitted scorer. Everything else is the same on every rank
by itself.
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

# Longer than a refit or a checkpoint, for which all wait for rank 0. The death of a process is noticed long before.
WAIT = timedelta(hours=2)

T = TypeVar("T")
Meeting = tuple[str, int]
"""Host and port where the processes of a group find each other."""


@dataclass(frozen=True)
class Group:
    """The group of this process, which is the one of that rank; one process alone exchanges nothing."""

    rank: int = 0
    size: int = 1

    def once(self, make: Callable[[], T]) -> T:
        """What rank 0 makes, on every rank; the others wait for it."""
        if self.size == 1:
            return make()
        made: list[Any] = [make() if self.rank == 0 else None]
        distributed.broadcast_object_list(made, src=0, device=torch.device("cpu"))
        return made[0]

    def gathered(self, own: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
        """(b, ...) of this rank, of the `sizes` of all -> all in the order of ranks; gradients flow into the own part.

        They flow times the number of ranks: `together` takes the mean over the ranks, and what is wanted is the sum.
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
        """A module whose backward pass leaves the mean gradients of all ranks on each, and that begins as rank 0's."""
        if self.size == 1:
            return module
        # A pooler takes no part in a vector, and gets no gradients.
        return DistributedDataParallel(module, find_unused_parameters=True)


ALONE = Group()


def opened(host: str) -> TCPStore:
    """Where a group meets, on a free port of this machine, which the others know as `host`; rank 0 holds it open."""
    return TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=WAIT)


@contextmanager
def joined(store: TCPStore | Meeting, rank: int, size: int, device: str) -> Iterator[Group]:
    """The group that meets at a place, once all are there; left with the context.

    gloo on CPUs; nccl on GPUs, which wants one GPU for each. Which network they take: GLOO_SOCKET_IFNAME and
    NCCL_SOCKET_IFNAME say it where a machine's name does not lead to the address that the others know.
    """
    if not isinstance(store, TCPStore):
        store = TCPStore(*store, is_master=False, timeout=WAIT)
    backend = "gloo" if device == "cpu" else "cpu:gloo,cuda:nccl"
    distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=WAIT)
    try:
        yield Group(rank, size)
    finally:
        distributed.destroy_process_group()
