"""Work that is divided among Python threads, each of which computes with one thread of torch."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier, Lock
from typing import TypeVar

import torch

T = TypeVar("T")
_making = Lock()
faiss_threads = list[int]()  # The threads that Faiss shall use in this process, if they are set (faiss_index.py).


def threads_set() -> int | None:
    """Return the threads that Faiss shall use; None if nobody has set them."""
    return faiss_threads[-1] if faiss_threads else None


def in_threads(work: Callable[[], T], most: int) -> list[T]:
    """Call `work` in as many threads as torch has here, `most` at most, and return what each call returned.

    For work that calls many functions of torch and NumPy of which some have one thread. Alone it keeps all of torch's.
    """
    count = min(torch.get_num_threads(), most)
    if count <= 1:
        return [work()]
    with _making:
        workers = _workers(torch.get_num_threads())
    return [future.result() for future in [workers.submit(work) for _ in range(count)]]


@cache
def _workers(count: int) -> ThreadPoolExecutor:
    """Threads with one thread of torch each. torch has one number for threads to come and one of each that is there."""
    ready = Barrier(count + 1)

    def begin() -> None:
        # At its first use a thread takes the common number.
        torch.get_num_threads()
        torch.set_num_threads(1)
        ready.wait()

    workers = ThreadPoolExecutor(count, thread_name_prefix="count")
    for _ in range(count):
        workers.submit(begin)
    ready.wait()
    torch.set_num_threads(count)
    return workers
