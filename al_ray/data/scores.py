"""Scores made by any scorer, as a Parquet file: columns `score` and `stratum`."""

from pathlib import Path

import numpy as np

from al_ray.core.errors import BadFile
from al_ray.core.scoring import Floats
from al_ray.data.files import read_parquet

STRATA = ("positive", "near", "random")


def read_scores(path: Path) -> dict[str, Floats]:
    """Stratum -> its scores (n,) in float64; BadFile for other columns, other strata, or a score that is no number."""
    table = read_parquet(path)
    for name in ("score", "stratum"):
        if name not in table.column_names:
            raise BadFile(f"{path} has no column {name!r} (it has: {', '.join(table.column_names)})")
    try:
        scores = np.asarray(table["score"].to_pylist(), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadFile(f"{path}: column 'score' holds something that is no number ({error}); mend the file") from error
    strata = np.asarray(table["stratum"].to_pylist(), dtype=object)
    strange = sorted({str(name) for name in set(strata.tolist()) - set(STRATA)})
    if strange:
        raise BadFile(f"{path}: stratum {', '.join(strange)} is none of {', '.join(STRATA)}; mend the file")
    if np.isnan(scores).any():
        raise BadFile(f"{path}: row {int(np.isnan(scores).argmax())} has no score; score every pair")
    return {name: scores[strata == name] for name in STRATA}
