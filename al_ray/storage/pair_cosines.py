"""Cosines of pairs under one model, and their scores.

round-NNN/fit.parquet has the cosines of the labelled pairs under the model of the round, or under the encoder of its
matcher; and round-NNN/scores.parquet the scores to which its scorer was fitted, or those of the matcher, if they are
not the cosines. Earlier versions wrote no cosines for a matcher.
"""

import numpy as np
import pyarrow as pa

from al_ray.core.pairs import Pairs, as_pairs
from al_ray.core.scorer import Floats
from al_ray.storage.files import make_table, read_parquet, write_parquet
from al_ray.storage.uri import StoragePath

FIT, SCORES = "fit.parquet", "scores.parquet"
SCHEMA = pa.schema([("left", pa.int64()), ("right", pa.int64()), ("cosine", pa.float64())])


def write_cosines(path: StoragePath, pairs: Pairs, cosines: Floats) -> None:
    """Write (n, 2) pairs of rows with their (n,) cosines."""
    write_parquet(path, make_table(SCHEMA, (*pairs.T, np.asarray(cosines, dtype=np.float64))))


def read_cosines(path: StoragePath) -> tuple[Pairs, Floats]:
    """Read (n, 2) pairs of rows and (n,) cosines; none if there is no such file, BadFile if it is damaged."""
    if not path.exists():
        return np.empty((0, 2), dtype=np.int64), np.empty(0)
    table = read_parquet(path, SCHEMA)
    return as_pairs(table["left"].to_numpy(), table["right"].to_numpy()), np.asarray(table["cosine"].to_numpy())


def read_fitted(folder: StoragePath) -> tuple[Pairs, Floats]:
    """Read (n, 2) labelled pairs of a round, and the (n,) scores to which its scorer was fitted; none without files."""
    return read_cosines(folder / SCORES if (folder / SCORES).exists() else folder / FIT)
