"""round-NNN/examples.parquet: the error examples of a round with their texts (metrics/error_examples.py).

Columns: split, kind (high-negative, low-positive, near-boundary; the most extreme of each first), left, right (rows of
the task), label, cosine (null of a candidate that a matcher scored), p, left_text, right_text.
"""

from typing import Any

import pyarrow as pa

from al_ray.core.scorer import CANDIDATE
from al_ray.core.task import Task
from al_ray.metrics.error_examples import Examples
from al_ray.storage.files import make_table, read_parquet, write_parquet
from al_ray.storage.uri import StoragePath

FILE = "examples.parquet"
EXAMPLES = pa.schema(
    [
        *(("split", pa.string()), ("kind", pa.string()), ("left", pa.int64()), ("right", pa.int64())),
        *(("label", pa.uint8()), ("cosine", pa.float64()), ("p", pa.float64())),
        *(("left_text", pa.string()), ("right_text", pa.string())),
    ]
)


def write_examples(folder: StoragePath, examples: Examples, task: Task) -> None:
    """Write error examples with their texts into a round's folder."""
    cosines = pa.array(examples.cosines, mask=examples.cosines >= CANDIDATE)
    splits, scores = [examples.split] * len(examples), (cosines, examples.p)
    columns = splits, examples.kinds, *examples.pairs.T, examples.labels, *scores, *task.texts_of(examples.pairs)
    write_parquet(folder / FILE, make_table(EXAMPLES, columns))


def read_examples(folder: StoragePath) -> list[dict[str, Any]]:
    """Return the rows of a round's error examples; an empty list if the round has no file."""
    path = folder / FILE
    return read_parquet(path, EXAMPLES, lacking=["p", "cosine"]).to_pylist() if path.exists() else []
