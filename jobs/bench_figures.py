"""What a benchmark says: figures, each the values of some repeats; and the stopwatch."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A name, the values of all repeats, and what is asked of their median, in words."""

    name: str
    values: tuple[float, ...]
    asked: str = "-"

    @property
    def median(self) -> float:
        """The one that counts."""
        return statistics.median(self.values)


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def unwatched(stage: str, done: int, total: int) -> None:
    """Nobody is told of progress: a stopwatch runs."""
