"""The column `why` of matches: of matches.parquet all comparisons, of matches.csv the strongest in plain words.

matches.parquet   list of {comparison, value, adds}, the one that adds or takes most first. value: null if a value of
                  the field is missing. p of the match is the base (match.json, `why`) and the sum of `adds`. Null for a
                  match that is no candidate, such as one by its label alone.
matches.csv       "price: relative difference 0.02 (+0.120); ...": the SHOWN strongest
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from al_ray.apps.matching.why.reasons import Reasons
from al_ray.core.pairs import Rows
from al_ray.matcher.comparisons.comparison import MISSING
from al_ray.matcher.wording import is_missing, name_in_words, value_in_words

# Its functions are made as it is imported, so type checkers do not know them.
compute: Any = pyarrow.compute
PART = pa.struct([("comparison", pa.string()), ("value", pa.float32()), ("adds", pa.float64())])
WHY = pa.field("why", pa.list_(PART))
SHOWN = 3
"""Comparisons of a match in the CSV file."""


def why_column(reasons: Reasons, places: Rows) -> pa.ListArray:
    """(k,) places of matches -> the column of the Parquet file."""
    known, names = reasons.known[places], np.array(reasons.model.names, dtype=object)
    features = reasons.features[places[known]]
    added = reasons.model.contributions(features).values
    order = np.argsort(-np.abs(added), axis=1, kind="stable")
    values, adds = (np.take_along_axis(one, order, axis=1).ravel() for one in (features, added))
    can_miss = np.array([is_missing(name, MISSING) for name in names])
    missing = can_miss[order].ravel() & (values == MISSING)
    columns = [
        pa.array(names, pa.string()).take(pa.array(order.ravel())),
        pa.array(values, pa.float32(), mask=missing),
        pa.array(adds, pa.float64()),
    ]
    parts = pa.StructArray.from_arrays(columns, fields=list(PART))
    ends = np.cumsum(known) * len(names)
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    return pa.ListArray.from_arrays(offsets, parts, type=WHY.type, mask=pa.array(~known))


def in_words(column: pa.ChunkedArray) -> pa.Array:
    """Return the column of the CSV file: of each match the strongest comparisons in plain words."""
    strongest = compute.list_slice(column, 0, SHOWN).to_pylist()
    lines = [None if parts is None else "; ".join(map(_part_in_words, parts)) for parts in strongest]
    return pa.array(lines, pa.string())


def _part_in_words(part: dict[str, Any]) -> str:
    name, value = part["comparison"], MISSING if part["value"] is None else part["value"]
    return f"{name_in_words(name)} {value_in_words(name, value)} ({part['adds']:+.3f})"
