"""summary.parquet of a report: a row a run, round and split (reports/summary.py); null where there is nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from al_ray.data.files import write_parquet
from al_ray.storage.places import Place

SUMMARY = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "setting", "task", "task_digest", "encoder", "strategy", "seeding")),
        *(("section", pa.int64()), ("seed", pa.int64()), ("complete", pa.bool_()), ("trouble", pa.string())),
        *((name, pa.int64()) for name in ("round", "labels", "positives", "batch", "batch_positives")),
        *((name, pa.float64()) for name in ("batch_p", "boundary", "index_recall", "seconds")),
        ("split", pa.string()),
        *((name, pa.float64()) for name in ("average_precision", "average_precision_low", "average_precision_high")),
        *((name, pa.float64()) for name in ("precision_at_recall_20", "calibration_error")),
        ("exact", pa.bool_()),
    ]
)


def write_summary(path: Place, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the rows; a name that they lack is null."""
    write_parquet(path, pa.Table.from_pylist([dict(row) for row in rows], schema=SUMMARY))
