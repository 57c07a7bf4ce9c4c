"""Evaluation sets on disk: sampled once for a task, a split and options, and shared by runs with the same options.

evaluation/SPLIT-KEY/STRATUM.parquet   key: sorted keys of the sampled negatives of a stratum
evaluation/SPLIT-KEY/set.json          what it was made from, and its strata (see storage/result_cache.py)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.core.pairs import Keys
from al_ray.core.task import Split
from al_ray.metrics.strata import EvaluationSet, Stratum
from al_ray.storage.files import check_fields, file_in, make_table, read_parquet
from al_ray.storage.result_cache import ABOUT, key_of, read_about, write_tables
from al_ray.storage.uri import StoragePath

KEYS = pa.schema([("key", pa.int64())])
FIX = "remove its folder: the set is then drawn again, as it was"


@dataclass(frozen=True)
class StoredSet:
    """An evaluation set on disk.

    place: its folder. strata: what its set.json has of each stratum; at least one.
    """

    place: StoragePath
    strata: tuple[Any, ...]

    def read(self, split: str, positives: Keys, total: int) -> EvaluationSet:
        """Read the set of a split with these sorted positives (p,) and `total` pairs; BadFile for a damaged one."""
        strata = [_stratum(self.place, one) for one in self.strata]
        try:
            return EvaluationSet(split, tuple(strata), positives, total)
        except BadFile as error:
            raise BadFile(f"{self.place}: {error} ({FIX})") from error

    def read_for(self, split: Split) -> EvaluationSet:
        """Read the set of a split."""
        return self.read(split.name, split.positive_keys, split.space.total)


class EvaluationSets:
    """Folders that may hold evaluation sets; new ones go into the last."""

    def __init__(self, folders: Sequence[StoragePath]) -> None:
        """Look into these folders in order: that of a task first, then that of a run."""
        self.folders = [folder / "evaluation" for folder in folders]

    def find(self, made_from: Mapping[str, Any]) -> StoredSet | None:
        """Return the set made from these values, without its pairs; None when there is none."""
        for folder in self.folders:
            place = folder / _name(made_from)
            about = read_about(place, made_from, {"strata": list})
            if about is not None:
                if not about["strata"]:
                    raise BadFile(f"{place / ABOUT} has no stratum; {FIX}")
                return StoredSet(place, tuple(about["strata"]))
        return None

    def read(self, split: Split, made_from: Mapping[str, Any]) -> EvaluationSet | None:
        """Return the set made from these values; None when there is none. BadFile for one that is damaged."""
        stored = self.find(made_from)
        return None if stored is None else stored.read_for(split)

    def new_place(self, made_from: Mapping[str, Any]) -> StoragePath:
        """Return the folder of a new set that is made from these values."""
        return self.folders[-1] / _name(made_from)

    def write(self, evalset: EvaluationSet, made_from: Mapping[str, Any]) -> StoragePath:
        """Write a set and return its folder."""
        place = self.new_place(made_from)
        write_set(place, evalset, made_from)
        return place


def write_set(place: StoragePath, evalset: EvaluationSet, made_from: Mapping[str, Any]) -> None:
    """Write a set into its folder (EvaluationSets.new_place)."""
    strata, tables = [], dict[str, pa.Table]()
    for number, stratum in enumerate(evalset.strata):
        file = f"{number}-{stratum.name.replace(' ', '-')}.parquet"
        tables[file] = make_table(KEYS, (np.asarray(stratum.keys),))
        strata.append({"name": stratum.name, "file": file, "population": stratum.population, "size": stratum.size})
    write_tables(place, made_from, tables, {"strata": strata})


def _stratum(place: StoragePath, about: Any) -> Stratum:
    check_fields(f"a stratum of {place / ABOUT}", about, {"name": str, "file": str, "population": int}, FIX)
    path = file_in(place, about["file"], place / ABOUT, FIX)
    return Stratum(about["name"], read_parquet(path, KEYS)["key"].to_numpy(), about["population"])


def _name(made_from: Mapping[str, Any]) -> str:
    return f"{made_from['split']}-{key_of(made_from)}"
