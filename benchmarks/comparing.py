"""Pairs per second of a core of the comparisons of records, all together and each alone."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from al_ray.core.config.bounds import Between, check_bounds
from al_ray.core.rng import generator
from al_ray.datasets.task_folder import read_task
from al_ray.matcher.comparisons.record_comparer import RecordComparer
from al_ray.matcher.comparisons.records import shared_records
from benchmarks.timing import Figure


@dataclass(frozen=True)
class Compare:
    """Pairs per second of a core that the comparisons of records take, and texts per second that are prepared."""

    task: Path
    """Task folder; its types of fields choose the comparisons."""
    pairs: Annotated[int, Between(1, 10_000_000)] = 100_000
    """Number of pairs, drawn at random."""
    repeats: Annotated[int, Between(1, 10_000)] = 3
    """Runs; medians are printed."""
    out: Path | None = None
    """JSON file for the figures."""

    def figures(self) -> list[Figure]:
        """Return texts and pairs per second of processor time, and the number of comparisons."""
        check_bounds(self)
        task = read_task(self.task)
        fields, left, right = shared_records(task.left, task.right)
        draws = generator(0, "benchmark of comparisons")
        pairs = np.stack([draws.integers(len(side), size=self.pairs) for side in (left, right)], axis=1)
        prepared, compared, count = list[float](), list[float](), 0
        for _ in range(self.repeats):
            start = time.process_time()
            comparer = RecordComparer(fields, left, right)
            made = time.process_time()
            comparer.compare(pairs)
            prepared.append((len(left) + (right is not left) * len(right)) / (made - start))
            compared.append(self.pairs / (time.process_time() - made))
            count = len(comparer.names)
        return [
            Figure("comparisons", (float(count),)),
            Figure("texts_prepared_per_core_second", tuple(prepared)),
            Figure("pairs_compared_per_core_second", tuple(compared)),
        ]
