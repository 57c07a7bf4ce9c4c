"""Evaluation sets on disk: made once for a task, split and seed, and read by every run that asks for the very same.

evaluation/SPLIT-KEY/STRATUM.parquet   key: sorted keys of the sampled negatives of a stratum
evaluation/SPLIT-KEY/set.json          what it was made from, and its strata; written last
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.core.evalset import EvaluationSet, Stratum
from al_ray.core.task import Split
from al_ray.data.files import read_json, read_parquet, write_json, write_parquet
from al_ray.storage.places import Place

KEYS = pa.schema([("key", pa.int64())])


class EvaluationSets:
    """Folders that may hold evaluation sets; new ones go into the last."""

    def __init__(self, folders: Sequence[Place]) -> None:
        """Of a task first, and then of a run."""
        self.folders = [folder / "evaluation" for folder in folders]

    def read(self, split: Split, made_from: Mapping[str, Any]) -> EvaluationSet | None:
        """The set made from this; None when there is none. BadFile for one that is damaged."""
        for folder in self.folders:
            place = folder / _name(made_from)
            if not (place / "set.json").exists():
                continue
            about = read_json(place / "set.json", ["made_from", "strata"])
            if about["made_from"] != dict(made_from):
                raise BadFile(f"{place / 'set.json'} was not written for this split and these options; remove {place}")
            strata = [
                Stratum(one["name"], read_parquet(place / one["file"], KEYS)["key"].to_numpy(), one["population"])
                for one in about["strata"]
            ]
            return EvaluationSet(split.name, tuple(strata), split.positive_keys, split.space.total)
        return None

    def write(self, evalset: EvaluationSet, made_from: Mapping[str, Any]) -> Place:
        """Keep a set; where it is."""
        place, strata = self.folders[-1] / _name(made_from), []
        for number, stratum in enumerate(evalset.strata):
            file = f"{number}-{stratum.name.replace(' ', '-')}.parquet"
            write_parquet(place / file, pa.table([pa.array(np.asarray(stratum.keys))], schema=KEYS))
            strata.append({"name": stratum.name, "file": file, "population": stratum.population, "size": stratum.size})
        write_json(place / "set.json", {"made_from": dict(made_from), "strata": strata})
        return place


def _name(made_from: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(dict(made_from), sort_keys=True).encode()).hexdigest()
    return f"{made_from['split']}-{digest[:16]}"
