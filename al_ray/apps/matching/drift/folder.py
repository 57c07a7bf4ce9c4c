"""The files of suggested pairs in the folder of jobs.match.

suggested.csv        for people, as the batch of a run: pair, label (to fill), the texts by column, left_id, right_id
suggested.parquet    for programs: pair, left_id, right_id, score, and the distance of each text to the nearest training
                     text; people do not see these, because they would bias the answers
"""

import pyarrow as pa

from al_ray.core.pairs import Pairs
from al_ray.core.scorer import Floats
from al_ray.core.task import Task
from al_ray.oracles.people import write_sheet
from al_ray.storage.files import write_parquet
from al_ray.storage.uri import StoragePath

SHEET, TABLE = "suggested.csv", "suggested.parquet"
COLUMNS = pa.schema(
    [
        *(("pair", pa.string()), ("left_id", pa.string()), ("right_id", pa.string()), ("score", pa.float64())),
        *(("left_distance", pa.float64()), ("right_distance", pa.float64())),
    ]
)


def write_suggested(folder: StoragePath, task: Task, pairs: Pairs, scores: Floats, distances: Floats) -> None:
    """Write (n, 2) pairs with their scores (n,) and the distances (n, 2) of their texts; the sheet is written last."""
    codes = [f"s{row:05d}" for row in range(1, len(pairs) + 1)]
    columns = [codes, *task.ids_of(pairs), scores, distances[:, 0], distances[:, 1]]
    write_parquet(folder / TABLE, pa.table(dict(zip(COLUMNS.names, columns, strict=True)), schema=COLUMNS))
    write_sheet(folder / SHEET, codes, pairs, task)
