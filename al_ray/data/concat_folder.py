"""The folder of a concatenation model: what jobs.train --model concat makes. A folder is bound to options and labels.

config.json                       every option, resolved, and the digests of the task and of the labels
labels.parquet                    the labels it learnt from: sentence1, sentence2, label, ids (data/labels.py)
model/                            weights and scorer.json (al_ray/model writes it)
scores/DIGEST.parquet             key, score: pairs of a slice, scored by the model; a slice that is there is done
evaluation/                       evaluation sets, where the task has not the ones wanted
evaluation-SPLIT.json             average precision over all pairs
rerank-SPLIT.json                 the same of two stages
"""

import hashlib
import json

import numpy as np
import pyarrow as pa

from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.core.pairs import Keys
from al_ray.core.plain import as_dict, from_dict
from al_ray.core.records import Labelled
from al_ray.core.scoring import Floats
from al_ray.core.supervised import TrainConfig
from al_ray.core.task import Task
from al_ray.data.files import read_json, read_parquet, write_json, write_parquet
from al_ray.data.labels import labels_table
from al_ray.storage.places import Place

SCORES = pa.schema([("key", pa.int64()), ("score", pa.float64())])
# What may change without another model: where labels were read, and what is measured.
FREE = ("labels", "like", "evaluation", "search")


class ConcatFolder:
    """Where a concatenation model and what is known of it are kept."""

    def __init__(self, path: Place) -> None:
        """A folder, new or begun."""
        self.path = path

    def bind(self, config: TrainConfig, task: Task, labelled: Labelled) -> None:
        """Write config.json and the labels, or hold these against those that stand there."""
        wanted = {**as_dict(config), "task_digest": task.digest, "labels_digest": _digest(labelled)}
        path = self.path / "config.json"
        if path.exists():
            if not is_concat(self.path):
                raise WrongFolder(f"{self.path} holds a run, or something else; give --model concat another --out")
            # An option that came after the folder was made has its default there.
            stands = {**as_dict(self.config), **read_json(path, ["labels_digest"])}
            other = [
                f"{name}: {stands.get(name)!r} there, {wanted[name]!r} here"
                for name in wanted
                if name not in FREE and stands.get(name) != wanted[name]
            ]
            if other:
                raise WrongFolder(f"{self.path} was made otherwise ({'; '.join(other)}); give another --out")
        write_parquet(self.path / "labels.parquet", labels_table(labelled, task, every=True))
        write_json(path, wanted)

    @property
    def config(self) -> TrainConfig:
        """What it was made by; BadFile where that cannot be read."""
        content = read_json(self.path / "config.json", ["labels_digest"])
        try:
            kept = {name: value for name, value in content.items() if not name.endswith("_digest")}
            return from_dict(TrainConfig, kept)
        except BadOption as error:
            raise BadFile(f"{self.path / 'config.json'}: {error} (restore it)") from error

    @property
    def model(self) -> Place:
        """Where the model is; resolved, for an actor may work in another folder."""
        return (self.path / "model").resolve()

    def scores(self, digest: str, keys: Keys) -> Floats | None:
        """The (n,) scores by the model of that digest of a slice of keys, if it is done."""
        path = self._slice(digest, keys)
        if not path.exists():
            return None
        table = read_parquet(path, SCORES)
        if not np.array_equal(table["key"].to_numpy(), keys):
            raise BadFile(f"{path} holds other pairs than its name says; remove it, and go on")
        return table["score"].to_numpy()

    def keep_scores(self, digest: str, keys: Keys, scores: Floats) -> None:
        """Keep a slice; from here on it is not scored again."""
        write_parquet(self._slice(digest, keys), pa.table([keys, scores], schema=SCORES))

    def _slice(self, digest: str, keys: Keys) -> Place:
        name = hashlib.sha256(digest.encode() + np.ascontiguousarray(keys).tobytes()).hexdigest()
        return self.path / "scores" / f"{name[:32]}.parquet"


def is_concat(path: Place) -> bool:
    """Whether a folder is that of a concatenation model; a run's is not, nor one that holds something else."""
    if not (path / "config.json").is_file():
        return False
    content = read_json(path / "config.json")
    return isinstance(content, dict) and "labels_digest" in content


def _digest(labelled: Labelled) -> str:
    content = hashlib.sha256(json.dumps(len(labelled)).encode())
    for array in (labelled.pairs, labelled.labels):
        content.update(np.ascontiguousarray(array).data)
    return content.hexdigest()
