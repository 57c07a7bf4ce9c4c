"""Evaluation sets on disk: sampled once for a task, a split and options, and shared by runs with the same options.

evaluation/SPLIT-KEY/STRATUM.parquet   key: sorted keys of the sampled negatives of a stratum
evaluation/SPLIT-KEY/set.json          what it was made from, and its strata (see storage/result_cache.py)
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.core.task import Split
from al_ray.metrics.strata import EvaluationSet, Stratum
from al_ray.storage.files import check_fields, file_in, make_table, read_parquet
from al_ray.storage.result_cache import ABOUT, key_of, read_about, write_tables
from al_ray.storage.uri import StoragePath

KEYS = pa.schema([("key", pa.int64())])
CURE = "remove its folder: the set is then drawn again, as it was"


class EvaluationSets:
    """Folders that may hold evaluation sets; new ones go into the last."""

    def __init__(self, folders: Sequence[StoragePath]) -> None:
        """Look into these folders in order: that of a task first, then that of a run."""
        self.folders = [folder / "evaluation" for folder in folders]

    def read(self, split: Split, made_from: Mapping[str, Any]) -> EvaluationSet | None:
        """Return the set made from these values; None when there is none. BadFile for one that is damaged."""
        for folder in self.folders:
            place = folder / _name(made_from)
            about = read_about(place, made_from, {"strata": list})
            if about is not None:
                strata = [_stratum(place, one) for one in about["strata"]]
                try:
                    return EvaluationSet(split.name, tuple(strata), split.positive_keys, split.space.total)
                except BadFile as error:
                    raise BadFile(f"{place}: {error} ({CURE})") from error
        return None

    def write(self, evalset: EvaluationSet, made_from: Mapping[str, Any]) -> StoragePath:
        """Write a set and return its folder."""
        place, strata, tables = self.folders[-1] / _name(made_from), [], dict[str, pa.Table]()
        for number, stratum in enumerate(evalset.strata):
            file = f"{number}-{stratum.name.replace(' ', '-')}.parquet"
            tables[file] = make_table(KEYS, (np.asarray(stratum.keys),))
            strata.append({"name": stratum.name, "file": file, "population": stratum.population, "size": stratum.size})
        write_tables(place, made_from, tables, {"strata": strata})
        return place


def _stratum(place: StoragePath, about: Any) -> Stratum:
    check_fields(f"a stratum of {place / ABOUT}", about, {"name": str, "file": str, "population": int}, CURE)
    path = file_in(place, about["file"], place / ABOUT, CURE)
    return Stratum(about["name"], read_parquet(path, KEYS)["key"].to_numpy(), about["population"])


def _name(made_from: Mapping[str, Any]) -> str:
    return f"{made_from['split']}-{key_of(made_from)}"
