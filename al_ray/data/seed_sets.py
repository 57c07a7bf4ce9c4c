"""The pairs that searches under the untrained encoder start from, kept by all that decides them.

seeds/KEY/pairs.parquet   keys and cosines, the least cost first
seeds/KEY/set.json        what they were made from, how many were asked for, and the index's recall; written last
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.core.pairs import Keys, is_in
from al_ray.core.strategy import Candidates
from al_ray.data.files import read_json, read_parquet, write_json, write_parquet
from al_ray.storage.places import Place

SCHEMA = pa.schema([("key", pa.int64()), ("cosine", pa.float64())])


@dataclass(frozen=True)
class SeedSet:
    """The `count` pairs of highest cosine with nothing labelled; fewer when there are no more. recall: the index's."""

    found: Candidates
    count: int
    recall: float | None

    def least(self, count: int, labelled: Keys) -> Candidates | None:
        """The first `count` without the sorted `labelled`, as a search gives them; None when these are too few."""
        fresh = ~is_in(self.found.keys, labelled)
        if fresh.sum() < count and len(self.found) == self.count:
            return None
        return Candidates(self.found.keys[fresh][:count], self.found.cosines[fresh][:count])


class SeedSets:
    """A folder of them."""

    def __init__(self, folder: Place) -> None:
        """Where they are kept, or are to be."""
        self.folder = folder / "seeds"

    def read(self, made_from: Mapping[str, Any]) -> SeedSet | None:
        """The one made from this; None when there is none. BadFile for one that is damaged."""
        place = self._place(made_from)
        if not (place / "set.json").exists():
            return None
        about = read_json(place / "set.json", ["made_from", "count", "recall"])
        table = read_parquet(place / "pairs.parquet", SCHEMA)
        if about["made_from"] != dict(made_from):
            raise BadFile(f"{place / 'set.json'} was made from something else; remove {place}")
        found = Candidates(np.asarray(table["key"].to_numpy()), np.asarray(table["cosine"].to_numpy()))
        return SeedSet(found, about["count"], about["recall"])

    def write(self, seeds: SeedSet, made_from: Mapping[str, Any]) -> None:
        """Keep one."""
        place, columns = self._place(made_from), (seeds.found.keys, seeds.found.cosines)
        write_parquet(place / "pairs.parquet", pa.table([pa.array(column) for column in columns], schema=SCHEMA))
        about = {"made_from": dict(made_from), "count": seeds.count, "recall": seeds.recall}
        write_json(place / "set.json", about)

    def _place(self, made_from: Mapping[str, Any]) -> Place:
        digest = hashlib.sha256(json.dumps(dict(made_from), sort_keys=True).encode()).hexdigest()
        return self.folder / digest[:16]
