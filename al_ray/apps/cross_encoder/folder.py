"""The folder of a cross-encoder (jobs.train --model concat). A folder is bound to its options and labels.

config.json                       resolved options, and the digests of the task and of the labels
labels.parquet                    training labels: sentence1, sentence2, label, ids (label_tables.py)
model/                            weights and scorer.json (written by al_ray/training)
scores/DIGEST.parquet             key, score: the scored pairs of one finished slice
evaluation/                       evaluation sets that the task does not have
evaluation-SPLIT.json             average precision over all pairs
rerank-SPLIT.json                 average precision of retrieval and re-ranking
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from al_ray.apps.cross_encoder.options import TrainConfig
from al_ray.core.config.serialization import as_dict, differences, from_dict
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.core.labels import Labelled
from al_ray.core.pairs import Keys
from al_ray.core.scorer import Floats
from al_ray.core.task import Task
from al_ray.datasets.tables.label_tables import labels_table
from al_ray.storage.files import read_json, read_parquet, write_parquet, write_root
from al_ray.storage.uri import StoragePath
from al_ray.training.saved_model import bytes_digest, input_digest

SCORES = pa.schema([("key", pa.int64()), ("score", pa.float64())])
# Options that may change without training again: the source of the labels, and what is evaluated.
FREE = ("labels", "like", "evaluation", "search")


class CrossEncoderFolder:
    """Reads and writes the folder of a cross-encoder."""

    def __init__(self, path: StoragePath) -> None:
        """path: the folder, which need not exist."""
        self.path = path

    def bind(self, config: TrainConfig, task: Task, labelled: Labelled) -> None:
        """Write config.json and the labels; WrongFolder if the folder has other options or labels."""
        labels_digest = input_digest([len(labelled)], labelled.pairs, labelled.labels)
        content = {**as_dict(config), "task_digest": task.digest, "labels_digest": labels_digest}
        path = self.path / "config.json"
        if path.exists():
            if not is_cross_encoder(self.path):
                raise WrongFolder(f"{self.path} holds no cross-encoder; give another `out`")
            # Options that are newer than the folder have their defaults there.
            stored = {**as_dict(self.config), **read_json(path, ["labels_digest"])}
            same = stored.get("task_digest") == task.digest
            check_same_options(self.path, stored, content, (*FREE, "task") if same else FREE)
        write_parquet(self.path / "labels.parquet", labels_table(labelled, task, every=True))
        write_root(path, content)

    @property
    def config(self) -> TrainConfig:
        """Read the options of the folder; BadFile if they cannot be read."""
        content = read_json(self.path / "config.json", ["labels_digest"])
        try:
            options = {name: value for name, value in content.items() if not name.endswith("_digest")}
            return from_dict(TrainConfig, options)
        except BadOption as error:
            raise BadFile(f"{self.path / 'config.json'}: {error} (restore it)") from error

    @property
    def model(self) -> StoragePath:
        """Path of the model, resolved because an actor may run in another working directory."""
        return (self.path / "model").resolve()

    def scores(self, digest: str, keys: Keys) -> Floats | None:
        """Read the (n,) scores of a slice of keys by the model with this digest; None if the slice was not scored."""
        path = self._slice(digest, keys)
        if not path.exists():
            return None
        table = read_parquet(path, SCORES)
        if not np.array_equal(table["key"].to_numpy(), keys):
            raise BadFile(f"{path} holds other pairs than its name says; remove it and rerun")
        return table["score"].to_numpy()

    def write_scores(self, digest: str, keys: Keys, scores: Floats) -> None:
        """Store the scores of a slice, so that it is not scored again."""
        write_parquet(self._slice(digest, keys), pa.table([keys, scores], schema=SCORES))

    def _slice(self, digest: str, keys: Keys) -> StoragePath:
        return self.path / "scores" / f"{bytes_digest(digest.encode(), keys)[:32]}.parquet"


def is_cross_encoder(path: StoragePath) -> bool:
    """Return whether the folder is that of a cross-encoder, and not of a run or anything else."""
    if not (path / "config.json").is_file():
        return False
    content = read_json(path / "config.json")
    return isinstance(content, dict) and "labels_digest" in content


def check_same_options(
    path: StoragePath, stored: Mapping[str, Any], content: Mapping[str, Any], free: Sequence[str] = ()
) -> None:
    """Raise WrongFolder if the stored options of a folder are not those of `content`. free: options that may differ."""
    there, here = ({name: options[name] for name in options if name not in free} for options in (stored, content))
    other = sorted(differences(there, here))
    if other:
        raise WrongFolder(f"{path} was made with other options ({'; '.join(other)}); give another `out`")
