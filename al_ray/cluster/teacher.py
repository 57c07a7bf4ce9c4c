"""A cross-encoder as the oracle: --oracle model:PATH (paper 003 labels silver pairs so)."""

from collections.abc import Iterator

import numpy as np
import torch

from al_ray.cluster.pool import Watch
from al_ray.core.errors import BadOption
from al_ray.core.limits import MODEL
from al_ray.core.pairs import Rows
from al_ray.core.records import NO, YES, Answers, Batch
from al_ray.core.scoring import sigmoid
from al_ray.core.task import Task
from al_ray.model.crossencoder import CrossEncoder
from al_ray.storage.places import place

KEPT = 1024  # Pairs whose answers are kept before the next are asked for.


class ModelOracle:
    """Says yes where the model's p is at least 1/2, at no cost; its confidence is the p of what it says."""

    def __init__(self, oracle: str, task: Task, threads: int, watch: Watch) -> None:
        """oracle: model:PATH, the model/ folder of jobs.train --model concat or jobs.augment, or the folder around it.

        Loaded here; BadOption or BadFile where it is not there. It computes in this process, on its CPU.
        """
        self.oracle, self.task, self.threads, self.watch = oracle, task, threads, watch
        path = place(oracle.removeprefix(MODEL))
        found = [one for one in (path, path / "model", path / "cross" / "model") if (one / "scorer.json").is_file()]
        if not found:
            raise BadOption(f"--oracle {oracle}: {path} holds no cross-encoder; make one: jobs.train --model concat")
        self.model = CrossEncoder.saved(str(found[0]))
        self.by = f"{oracle} {self.model.digest()[:12]}"

    def sell(self, number: int, batch: Batch, missing: Rows) -> Iterator[Answers]:
        """Answers for the rows `missing`, KEPT at a time."""
        torch.set_num_threads(self.threads)
        for start in range(0, len(missing), KEPT):
            rows = missing[start : start + KEPT]
            pairs = [
                (self.task.left.texts[left], self.task.right.texts[right]) for left, right in batch.pairs[rows].tolist()
            ]
            chances = sigmoid(self.model.scores(pairs, 64))
            labels = np.where(chances >= 0.5, YES, NO).astype(np.uint8)
            yield Answers(rows, labels, self.by, np.maximum(chances, 1 - chances))
            self.watch("label", start + len(rows), len(missing))
