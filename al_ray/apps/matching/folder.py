"""The folder of jobs.match: matches, clusters, and how they were made.

matches.parquet, matches.csv         left_id, right_id, score, cosine, probability (null if not calibrated), rank,
                                     decided_by (model or label), and the two texts; the best match first
clusters.parquet, clusters.csv       of one collection: id, cluster (a number), canonical (the id that stands for it)
changes.csv                          of one collection, after new texts: clusters that are new, gone, split or merged
deduplicated.csv                     of one collection: id and text of the canonical text of every cluster
matches.html                         a page for a browser: scores, examples, clusters
match.json                           the model, the cutoff, counts; written last
state.json, state-NNNN/              what is needed to match new texts (incremental/state.py)
vectors/                             vectors of the texts, by digest
task-DIGEST/, pool/                  the texts as a task, and their token ids
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from al_ray.apps.matching.clusters.ids import ClusterIds
from al_ray.core.errors import WrongFolder
from al_ray.core.pairs import Pairs, Rows
from al_ray.core.scorer import Floats
from al_ray.core.task import Task, strings_at
from al_ray.storage.files import in_one_step, read_json, write_json, write_parquet, write_text
from al_ray.storage.uri import StoragePath

RECORD, PAGE = "match.json", "matches.html"
MATCHES = pa.schema(
    [
        *(("left_id", pa.string()), ("right_id", pa.string()), ("score", pa.float64()), ("cosine", pa.float64())),
        *(("probability", pa.float64()), ("rank", pa.int64()), ("decided_by", pa.string())),
    ]
)
TEXTS = (("left_text", pa.string()), ("right_text", pa.string()))
CLUSTERS = pa.schema([("id", pa.string()), ("cluster", pa.int64()), ("canonical", pa.string())])
CHANGES = ("change", "cluster", "clusters")


@dataclass(frozen=True)
class Matches:
    """Matches, the best first: pairs (n, 2) of rows, scores, cosines and probabilities (n,), and who decided (n,).

    probabilities: None if the model is not calibrated. by_label: whether the pair was labelled yes.
    """

    pairs: Pairs
    scores: Floats
    cosines: Floats
    probabilities: Floats | None
    by_label: np.ndarray

    def __len__(self) -> int:
        return len(self.pairs)


def refuse_other(folder: StoragePath, made_from: str) -> None:
    """WrongFolder if a folder holds matches that were made from something else, or something else."""
    if not (folder / RECORD).exists():
        if (folder / "config.json").exists() or (folder / "task.json").exists():
            raise WrongFolder(f"{folder} is a run or a task; give --out a folder of its own")
        return
    if read_json(folder / RECORD, ["made_from"])["made_from"] != made_from:
        raise WrongFolder(f"{folder} holds matches of another model or of other texts; choose another --out")


def write_matches(folder: StoragePath, matches: Matches, task: Task, texts: bool) -> None:
    """Write matches.parquet and matches.csv."""
    count = len(matches)
    probabilities = pa.nulls(count, pa.float64()) if matches.probabilities is None else matches.probabilities
    decided = np.where(matches.by_label, "label", "model")
    columns = [*task.ids_of(matches.pairs), matches.scores, matches.cosines, probabilities, np.arange(1, count + 1)]
    schema = MATCHES
    columns.append(pa.array(decided.tolist(), pa.string()))
    if texts:
        schema, columns = pa.schema([*MATCHES, *TEXTS]), [*columns, *task.texts_of(matches.pairs)]
    _write_both(folder / "matches", pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema))


def write_clusters(folder: StoragePath, task: Task, rows: Rows, clusters: Rows, canonical: Rows) -> None:
    """Write the clusters of texts: rows (n,), their clusters (n,), and the row (n,) of each one's canonical text."""
    columns = strings_at(task.left.ids, rows), clusters, strings_at(task.left.ids, canonical)
    _write_both(folder / "clusters", pa.table(dict(zip(CLUSTERS.names, columns, strict=True)), schema=CLUSTERS))
    own = rows[rows == canonical]
    columns = strings_at(task.left.ids, own), strings_at(task.left.texts, own)
    _write_csv(folder / "deduplicated.csv", pa.table({"id": columns[0], "text": columns[1]}))


def write_changes(folder: StoragePath, ids: ClusterIds) -> None:
    """Write which clusters changed: kind, cluster, and the other clusters that it was split into or merged from."""
    lines = [("new", one, "") for one in ids.new.tolist()] + [("gone", one, "") for one in ids.gone.tolist()]
    lines += [("split", one.old_id, _listed(one.new_ids)) for one in ids.splits]
    lines += [("merged", one.new_id, _listed(one.old_ids)) for one in ids.merges]
    kinds, clusters, others = zip(*lines, strict=True) if lines else ((), (), ())
    columns = pa.array(kinds, pa.string()), pa.array(clusters, pa.int64()), pa.array(others, pa.string())
    _write_csv(folder / "changes.csv", pa.table(dict(zip(CHANGES, columns, strict=True))))


def _listed(ids: Sequence[int]) -> str:
    return " ".join(map(str, ids))


def write_page(folder: StoragePath, page: str) -> None:
    """Write matches.html."""
    write_text(folder / PAGE, page)


def remove_record(folder: StoragePath) -> None:
    """Remove match.json, which an earlier command wrote about the files that are replaced now."""
    (folder / RECORD).unlink(missing_ok=True)


def write_record(folder: StoragePath, content: dict[str, Any]) -> None:
    """Write match.json, which says that the folder is complete."""
    write_json(folder / RECORD, content)


def _write_both(path: StoragePath, table: pa.Table) -> None:
    write_parquet(path.parent / f"{path.name}.parquet", table)
    _write_csv(path.parent / f"{path.name}.csv", table)


def _write_csv(path: StoragePath, table: pa.Table) -> None:
    in_one_step(path, lambda aside: pa_csv.write_csv(table, aside))


def cluster_sizes(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield each size of a cluster with the number of clusters of that size, the smallest first."""
    values, counts = np.unique(np.asarray(sizes, dtype=np.int64), return_counts=True)
    yield from zip(values.tolist(), counts.tolist(), strict=True)
