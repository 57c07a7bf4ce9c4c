"""Figures of a benchmark, each with the values of all repeats; timing."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Figure:
    """A measured quantity: the values of all repeats, and the target of their median in words."""

    name: str
    values: tuple[float, ...]
    target: str = "-"

    @property
    def median(self) -> float:
        """Return the median, which is compared with the target."""
        return statistics.median(self.values)


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Return the wall-clock seconds of a call, and its result."""
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def seconds(work: Callable[[], object]) -> float:
    """Return the wall-clock seconds of a call."""
    return timed(work)[0]
