"""Scores of any scorer in Parquet files: columns `score` and `stratum`, or `score`, `query` and `label`."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import types

from al_ray.core.errors import BadFile
from al_ray.core.scorer import Floats
from al_ray.metrics.labelled_pairs import LabelledScores
from al_ray.storage.files import read_parquet

STRATA = ("positive", "near", "random")


def read_scores(path: Path) -> dict[str, Floats]:
    """Read stratum -> scores (n,) float64; BadFile for other columns, other strata, or a score that is not finite."""
    table = _read(path, ("score", "stratum"))
    scores = _scores(path, table)
    strata = np.asarray([str(name) for name in table["stratum"].to_pylist()], dtype=object)
    strange = sorted(set(strata.tolist()) - set(STRATA))
    if strange:
        raise BadFile(f"{path}: stratum {', '.join(strange)} is none of {', '.join(STRATA)}; fix the file")
    return {name: scores[strata == name] for name in STRATA}


def read_labelled_scores(path: Path) -> LabelledScores:
    """Read labelled pairs with logits of any scorer: `query` is any value, `label` 0 or 1; else BadFile."""
    table = _read(path, ("score", "query", "label"))
    if not len(table):
        raise BadFile(f"{path} holds no pair; give a row for each stated pair")
    scores = _scores(path, table)
    labels = table["label"].to_pylist()
    # True and 1.0 equal 1; the text "1" does not.
    strange = next((row for row, label in enumerate(labels) if label not in (0, 1)), None)
    if strange is not None:
        raise BadFile(f"{path}: row {strange} has the label {labels[strange]!r}; give 0 or 1")
    queries = table["query"].to_pylist()
    if None in queries:
        raise BadFile(f"{path}: row {queries.index(None)} has no query; give every pair its query")
    numbers: dict[str, int] = {}
    rows = np.array([numbers.setdefault(repr(query), len(numbers)) for query in queries], dtype=np.int64)
    return LabelledScores(scores, np.array(labels, dtype=np.uint8), rows)


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
        raise BadFile(f"{path}: column 'score' holds {kind}, not numbers; fix the file")
    scores = np.asarray(table["score"].to_pylist(), dtype=np.float64)
    if not np.isfinite(scores).all():
        row = int(np.argmin(np.isfinite(scores)))
        what = "no score" if np.isnan(scores[row]) else f"the score {scores[row]}"
        raise BadFile(f"{path}: row {row} has {what}; give every pair a finite number")
    return scores
