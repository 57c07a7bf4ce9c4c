"""The simulated oracle of experiments, which answers from the known positives of a split."""

from collections.abc import Iterator

import numpy as np

from al_ray.core.labels import Answers, Batch, make_answers
from al_ray.core.pairs import Rows
from al_ray.core.task import Split


class SimulatedOracle:
    """Label the known positives of a split 1, every other pair 0 (paper, 3.1.2); `labels_given` counts labels."""

    def __init__(self, split: Split) -> None:
        """Use the positives of this split."""
        self.split = split
        self.labels_given = 0

    def label(self, number: int, batch: Batch, missing: Rows) -> Iterator[Answers]:
        """Answer all missing rows in one piece."""
        self.labels_given += len(missing)
        keys = self.split.space.keys(batch.pairs[missing])
        yield make_answers(missing, np.isin(keys, self.split.positive_keys).astype(np.uint8), "simulated")
