"""A cross-encoder as the oracle (--oracle model:PATH), as paper 003 labels silver pairs."""

from collections.abc import Iterator

import numpy as np
import torch

from al_ray.core.config.oracle import MODEL
from al_ray.core.errors import BadOption
from al_ray.core.labels import NO, YES, Answers, Batch
from al_ray.core.naming import option
from al_ray.core.pairs import Rows
from al_ray.core.progress import OnProgress
from al_ray.core.scorer import sigmoid
from al_ray.core.task import Task
from al_ray.encoders.cross_encoder import CrossEncoder
from al_ray.storage.uri import storage_path

PAIRS_AT_ONCE = 1024  # Pairs labelled between two writes of answers.


class CrossEncoderOracle:
    """Labels a pair as a match where p >= 1/2, at no cost; the confidence is p or 1 - p, a score."""

    def __init__(self, oracle: str, task: Task, threads: int, watch: OnProgress) -> None:
        """oracle: model:PATH, the model/ folder of jobs.train --model concat or jobs.augment, or the folder around it.

        The model is loaded here and runs in this process on the CPU. BadOption or BadFile if there is none.
        """
        self.oracle, self.task, self.threads, self.watch = oracle, task, threads, watch
        path = storage_path(oracle.removeprefix(MODEL))
        folders = [
            folder for folder in (path, path / "model", path / "cross" / "model") if (folder / "scorer.json").is_file()
        ]
        if not folders:
            raise BadOption(
                f"{option('oracle', oracle)}: {path} holds no cross-encoder; make one: `al_ray.train_cross_encoder`"
            )
        self.model = CrossEncoder.saved(str(folders[0]))
        self.by = f"{oracle} {self.model.digest()[:12]}"

    def label(self, number: int, batch: Batch, missing: Rows) -> Iterator[Answers]:
        """Yield answers for the rows `missing`, PAIRS_AT_ONCE at a time."""
        torch.set_num_threads(self.threads)
        for start in range(0, len(missing), PAIRS_AT_ONCE):
            rows = missing[start : start + PAIRS_AT_ONCE]
            pairs = list(zip(*self.task.texts_of(batch.pairs[rows]), strict=True))
            scores = sigmoid(self.model.scores(pairs, 64))
            labels = np.where(scores >= 0.5, YES, NO).astype(np.uint8)
            yield Answers(rows, labels, self.by, np.maximum(scores, 1 - scores))
            self.watch("label", start + len(rows), len(missing))
