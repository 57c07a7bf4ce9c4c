"""Seed sets on disk: the pairs of highest cosine under the untrained encoder, shared by the runs of a grid.

seeds/KEY/pairs.parquet   keys and cosines, highest cosine first
seeds/KEY/set.json        what they were made from, how many were searched for, and the index's recall
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from al_ray.core.candidates import Candidates
from al_ray.core.pairs import Keys, is_in
from al_ray.storage.files import make_table, read_parquet
from al_ray.storage.result_cache import key_of, read_about, write_tables
from al_ray.storage.uri import StoragePath

SCHEMA = pa.schema([("key", pa.int64()), ("cosine", pa.float64())])


@dataclass(frozen=True)
class SeedSet:
    """The `count` pairs of highest cosine before any is labelled; fewer if the pool is smaller.

    recall: the share of the true nearest neighbours that the index found; None for a search without an index.
    """

    candidates: Candidates
    count: int
    recall: float | None

    def least(self, count: int, labelled: Keys) -> Candidates | None:
        """Return the first `count` without the sorted `labelled`, as a search would; None when these are too few."""
        fresh = ~is_in(self.candidates.keys, labelled)
        # A set with fewer pairs than it was searched for holds all that there are; with more, its writer was killed.
        if fresh.sum() < count and len(self.candidates) >= self.count:
            return None
        return Candidates(self.candidates.keys[fresh][:count], self.candidates.cosines[fresh][:count])


class SeedSets:
    """A folder of seed sets."""

    def __init__(self, folder: StoragePath) -> None:
        """Use the folder `seeds` of a run or a grid."""
        self.folder = folder / "seeds"

    def read(self, made_from: Mapping[str, Any]) -> SeedSet | None:
        """Return the set made from these values; None when there is none. BadFile for one that is damaged."""
        place = self.folder / key_of(made_from)
        about = read_about(place, made_from, {"count": int, "recall": float | None})
        if about is None:
            return None
        table = read_parquet(place / "pairs.parquet", SCHEMA)
        candidates = Candidates(np.asarray(table["key"].to_numpy()), np.asarray(table["cosine"].to_numpy()))
        return SeedSet(candidates, about["count"], about["recall"])

    def write(self, seeds: SeedSet, made_from: Mapping[str, Any]) -> None:
        """Write a set."""
        table = make_table(SCHEMA, (seeds.candidates.keys, seeds.candidates.cosines))
        about = {"count": seeds.count, "recall": seeds.recall}
        write_tables(self.folder / key_of(made_from), made_from, {"pairs.parquet": table}, about)
