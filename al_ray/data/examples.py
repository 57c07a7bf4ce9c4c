"""round-NNN/examples.parquet: the pairs of a round that people want to look at, with their texts (core/examples.py).

split, kind (high-negative, low-positive, near-boundary; the most telling of each first), left, right (rows of the
task), label, cosine, p, left_text, right_text
"""

from typing import Any

import pyarrow as pa

from al_ray.core.examples import Examples
from al_ray.core.task import Task
from al_ray.data.files import read_parquet, write_parquet
from al_ray.storage.places import Place

FILE = "examples.parquet"
EXAMPLES = pa.schema(
    [
        *(("split", pa.string()), ("kind", pa.string()), ("left", pa.int64()), ("right", pa.int64())),
        *(("label", pa.uint8()), ("cosine", pa.float64()), ("p", pa.float64())),
        *(("left_text", pa.string()), ("right_text", pa.string())),
    ]
)


def write_examples(folder: Place, examples: Examples, task: Task) -> None:
    """Put them into a round's folder."""
    left, right = examples.pairs[:, 0], examples.pairs[:, 1]
    columns = {
        "split": [examples.split] * len(examples),
        "kind": examples.kinds,
        "left": left,
        "right": right,
        "label": examples.labels,
        "cosine": examples.cosines,
        "p": examples.p,
        "left_text": [task.left.texts[row] for row in left],
        "right_text": [task.right.texts[row] for row in right],
    }
    write_parquet(folder / FILE, pa.table(columns, schema=EXAMPLES))


def read_examples(folder: Place) -> list[dict[str, Any]]:
    """Those of a round's folder, a row each as written; none where none were kept."""
    path = folder / FILE
    return read_parquet(path, EXAMPLES).to_pylist() if path.exists() else []
