"""Scores made by any scorer, as a Parquet file: columns `score` and `stratum`."""

from pathlib import Path

import numpy as np
from pyarrow import types

from al_ray.core.errors import BadFile
from al_ray.core.scoring import Floats
from al_ray.data.files import read_parquet

STRATA = ("positive", "near", "random")


def read_scores(path: Path) -> dict[str, Floats]:
    """Stratum -> its scores (n,) in float64; BadFile for other columns, other strata, or a score that is no number."""
    table = read_parquet(path)
    for name in ("score", "stratum"):
        if table.column_names.count(name) != 1:
            many = "two columns" if name in table.column_names else "no column"
            raise BadFile(f"{path} has {many} {name!r} (it has: {', '.join(table.column_names)}); give one of each")
    kind = table.schema.field("score").type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
        raise BadFile(f"{path}: column 'score' holds {kind}, no numbers; mend the file")
    scores = np.asarray(table["score"].to_pylist(), dtype=np.float64)
    strata = np.asarray([str(name) for name in table["stratum"].to_pylist()], dtype=object)
    strange = sorted(set(strata.tolist()) - set(STRATA))
    if strange:
        raise BadFile(f"{path}: stratum {', '.join(strange)} is none of {', '.join(STRATA)}; mend the file")
    if not np.isfinite(scores).all():
        row = int(np.argmin(np.isfinite(scores)))
        what = "no score" if np.isnan(scores[row]) else f"the score {scores[row]}"
        raise BadFile(f"{path}: row {row} has {what}; give every pair a finite number")
    return {name: scores[strata == name] for name in STRATA}
