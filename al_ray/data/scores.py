"""Scores made by any scorer, as Parquet files: `score` and `stratum`, or `score`, `query` and `label`."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import types

from al_ray.core.errors import BadFile
from al_ray.core.heuristics import Stated
from al_ray.core.scoring import Floats
from al_ray.data.files import read_parquet

STRATA = ("positive", "near", "random")


def read_scores(path: Path) -> dict[str, Floats]:
    """Stratum -> its scores (n,) in float64; BadFile for other columns, other strata, or a score that is no number."""
    table = _read(path, ("score", "stratum"))
    scores = _scores(path, table)
    strata = np.asarray([str(name) for name in table["stratum"].to_pylist()], dtype=object)
    strange = sorted(set(strata.tolist()) - set(STRATA))
    if strange:
        raise BadFile(f"{path}: stratum {', '.join(strange)} is none of {', '.join(STRATA)}; mend the file")
    _refuse_infinite(path, scores)
    return {name: scores[strata == name] for name in STRATA}


def read_stated(path: Path) -> Stated:
    """Pairs with the logits of any scorer: `query` is whatever names one, `label` 0 or 1; BadFile for anything else."""
    table = _read(path, ("score", "query", "label"))
    if not len(table):
        raise BadFile(f"{path} holds no pair; give a row for each stated pair")
    scores = _scores(path, table)
    _refuse_infinite(path, scores)
    labels = table["label"].to_pylist()
    # By ==, True is 1 and 1.0 too; "1" is not.
    strange = next((row for row, label in enumerate(labels) if label not in (0, 1)), None)
    if strange is not None:
        raise BadFile(f"{path}: row {strange} has the label {labels[strange]!r}; give 0 or 1")
    queries = table["query"].to_pylist()
    if None in queries:
        raise BadFile(f"{path}: row {queries.index(None)} has no query; say whose candidate each pair is")
    numbers: dict[str, int] = {}
    rows = np.array([numbers.setdefault(repr(query), len(numbers)) for query in queries], dtype=np.int64)
    return Stated(scores, np.array(labels, dtype=np.uint8), rows)


def _read(path: Path, names: tuple[str, ...]) -> pa.Table:
    table = read_parquet(path)
    for name in names:
        if table.column_names.count(name) != 1:
            many = "two columns" if name in table.column_names else "no column"
            raise BadFile(f"{path} has {many} {name!r} (it has: {', '.join(table.column_names)}); give one of each")
    return table


def _scores(path: Path, table: pa.Table) -> Floats:
    kind = table.schema.field("score").type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
        raise BadFile(f"{path}: column 'score' holds {kind}, no numbers; mend the file")
    return np.asarray(table["score"].to_pylist(), dtype=np.float64)


def _refuse_infinite(path: Path, scores: Floats) -> None:
    if not np.isfinite(scores).all():
        row = int(np.argmin(np.isfinite(scores)))
        what = "no score" if np.isnan(scores[row]) else f"the score {scores[row]}"
        raise BadFile(f"{path}: row {row} has {what}; give every pair a finite number")
