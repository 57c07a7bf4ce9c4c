"""The folder of jobs.match: matches, clusters, and how they were made.

matches.parquet, matches.csv         left_id, right_id, score, cosine, probability (null if not calibrated), rank,
                                     decided_by (model, label, rule or oracle), the two texts, and with --why what each
                                     comparison adds to p (why/column.py); the best match first
clusters.parquet, clusters.csv       id, cluster (a number), canonical (the id that stands for it); of two tables also
                                     table and canonical_table (left or right), as their ids may coincide
oracle/                              answers of an oracle to uncertain pairs (cascade/oracle.py)
new_matches.parquet, new_matches.csv after new texts: the matches of new and changed ones, as in matches.csv
changes.csv                          after new texts: clusters that are new, gone, split or merged
bridges.csv                          with --split-bridges: left_id, right_id and score of the matches that were left out
undecided.csv                        pairs that the encoder cannot tell apart, which are no matches: ids and texts
golden.parquet, golden.csv           with --golden: a golden record of each cluster: cluster, records (how many),
                                     and of each field its value, FIELD_from (the id of the record that has it) and
                                     FIELD_by (the rule, or who gave it and when); of two tables also FIELD_from_table
golden_overrides.csv                 with --golden: the values that people gave, and what each does
golden.overrides.log                 the lines of these (golden/overrides.py)
deduplicated.csv                     id and text of the canonical text of every cluster; of two tables also table
matches.html                         a page for a browser: scores, examples, clusters
match.json                           the model, the cutoff, counts; written last
state.json, state-NNNN/              what is needed to match new texts (incremental/state.py)
vectors/                             vectors of the texts, by digest
task-DIGEST/, pool/                  the texts as a task, and their token ids
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from al_ray.apps.matching.clusters.edges import Edges
from al_ray.apps.matching.clusters.ids import ClusterIds
from al_ray.apps.matching.clusters.nodes import Nodes
from al_ray.apps.matching.why.column import WHY, in_words, why_column
from al_ray.apps.matching.why.reasons import Reasons
from al_ray.core.errors import WrongFolder
from al_ray.core.pairs import NO_PAIRS, Mask, Pairs, Rows
from al_ray.core.scored_pairs import ScoredPairs
from al_ray.core.scorer import Floats
from al_ray.core.task import Task
from al_ray.storage.files import in_one_step, make_table, read_json, read_parquet, write_root, write_text
from al_ray.storage.formulas import FormulaCells
from al_ray.storage.uri import StoragePath

# Arrow creates these functions at import, where type checkers cannot see them.
compute: Any = pyarrow.compute
RECORD, PAGE = "match.json", "matches.html"
MATCHES = pa.schema(
    [
        *(("left_id", pa.string()), ("right_id", pa.string()), ("score", pa.float64()), ("cosine", pa.float64())),
        *(("probability", pa.float64()), ("rank", pa.int64()), ("decided_by", pa.string())),
    ]
)
TEXTS = (("left_text", pa.string()), ("right_text", pa.string()))
CLUSTERS = pa.schema([("id", pa.string()), ("cluster", pa.int64()), ("canonical", pa.string())])
DEDUPLICATED = pa.schema([("id", pa.string()), ("text", pa.string())])
UNDECIDED = pa.schema([("left_id", pa.string()), ("right_id", pa.string()), *TEXTS])
BRIDGES = pa.schema([("left_id", pa.string()), ("right_id", pa.string()), ("score", pa.float64())])
GOLDEN = "golden"
OVERRIDES = pa.schema([(name, pa.string()) for name in ("field", "value", "by", "at", "state", "clusters", "records")])
TABLE, CANONICAL_TABLE = pa.field("table", pa.string()), pa.field("canonical_table", pa.string())
CHANGES = ("change", "cluster", "clusters")
CHUNK = 250_000  # Rows of a table that are in memory at a time,
CHUNK_OF_WHY = 20_000  # and of one with a row of their own for each comparison.


@dataclass(frozen=True)
class Matches:
    """Matches, the best first: pairs of rows with scores, and of each pair (n,) its probability and who decided.

    probabilities: None if the model is not calibrated. by_label: whether the pair was labelled yes. by_rule: whether
    it matches by --always. by_oracle: whether an oracle said yes to it, None without one. undecided: (k, 2) pairs that
    would match, but that the encoder cannot tell apart. reasons: why each has its p, None without --why.
    """

    scored: ScoredPairs
    probabilities: Floats | None
    by_label: np.ndarray
    by_rule: np.ndarray
    undecided: Pairs = field(default_factory=lambda: NO_PAIRS)
    reasons: Reasons | None = None
    by_oracle: Mask | None = None

    def __len__(self) -> int:
        return len(self.scored)

    @property
    def pairs(self) -> Pairs:
        """Return the (n, 2) rows."""
        return self.scored.pairs

    @property
    def scores(self) -> Floats:
        """Return the scores (n,)."""
        return self.scored.scores

    @property
    def cosines(self) -> Floats:
        """Return the cosines (n,)."""
        return self.scored.cosines

    @property
    def others(self) -> Mapping[str, Mask]:
        """Return who else than the model decided, each with (n,) whether it did, by the word of decided_by."""
        found = {"label": self.by_label, "rule": self.by_rule}
        return found if self.by_oracle is None else found | {"oracle": self.by_oracle}

    @property
    def by_model(self) -> Mask:
        """Return (n,) whether the model decided: no label, no rule, and no oracle."""
        return ~np.logical_or.reduce(list(self.others.values()))


def check_made_from(folder: StoragePath, made_from: str) -> None:
    """WrongFolder if a folder holds matches that were made from something else, or something else."""
    if not (folder / RECORD).exists():
        if (folder / "config.json").exists() or (folder / "task.json").exists():
            raise WrongFolder(f"{folder} is a run or a task; give `out` a folder of its own")
        return
    if read_json(folder / RECORD, ["made_from"])["made_from"] != made_from:
        raise WrongFolder(f"{folder} holds matches of another model or of other texts; choose another `out`")


def remove_changes(folder: StoragePath) -> None:
    """Remove what `match_into` wrote about its texts alone."""
    for name in ("new_matches.parquet", "new_matches.csv", "changes.csv"):
        (folder / name).unlink(missing_ok=True)


def in_new_matches(folder: StoragePath, matches: Matches, task: Task) -> Mask | None:
    """Return (n,) whether new_matches.parquet has each match; None if there is no such file."""
    path = folder / "new_matches.parquet"
    if not path.exists():
        return None
    table = read_parquet(path, columns=["left_id", "right_id"], fix="delete it, and rerun the command")
    new = set(zip(table["left_id"].to_pylist(), table["right_id"].to_pylist(), strict=True))
    ids = zip(*task.ids_of(matches.pairs), strict=True)
    return np.fromiter((pair in new for pair in ids), dtype=np.bool_, count=len(matches))


def write_matches(
    path: StoragePath, matches: Matches, task: Task, texts: bool, cells: FormulaCells, which: Mask | None = None
) -> None:
    """Write matches as PATH.parquet and PATH.csv. which: (n,) whether to write each of them; None for all."""
    reasons = matches.reasons
    schema = pa.schema([*MATCHES, *(TEXTS if texts else ()), *(() if reasons is None else (WHY,))])
    written = np.arange(len(matches)) if which is None else np.flatnonzero(which)

    def columns(part: slice) -> list[Any]:
        here = written[part]
        pairs, given = matches.pairs[here], matches.probabilities
        probabilities = pa.nulls(len(pairs), pa.float64()) if given is None else given[here]
        by = np.full(len(here), "model", dtype=object)
        for word, decided in matches.others.items():
            by[decided[here]] = word
        decided = pa.array(by.tolist(), pa.string())
        own = [*task.ids_of(pairs), matches.scores[here], matches.cosines[here], probabilities, here + 1, decided]
        own += task.texts_of(pairs) if texts else ()
        return own if reasons is None else [*own, why_column(reasons, here)]

    chunk = CHUNK if reasons is None else CHUNK_OF_WHY
    _write_both(path, schema, _tables(schema, len(written), columns, chunk), cells)


def write_clusters(
    folder: StoragePath, nodes: Nodes, own: Rows, clusters: Rows, canonical: Rows, cells: FormulaCells
) -> None:
    """Write the clusters of texts: nodes (n,), their clusters (n,), and the node (n,) of each one's canonical text."""
    two = not nodes.task.symmetric
    schema = pa.schema([TABLE, *CLUSTERS, CANONICAL_TABLE]) if two else CLUSTERS

    def of_clusters(here: slice) -> list[Any]:
        columns = [nodes.ids(own[here]), clusters[here], nodes.ids(canonical[here])]
        return [nodes.tables(own[here]), *columns, nodes.tables(canonical[here])] if two else columns

    _write_both(folder / "clusters", schema, _tables(schema, len(own), of_clusters), cells)
    kept = own[own == canonical]
    kept_schema = pa.schema([TABLE, *DEDUPLICATED]) if two else DEDUPLICATED

    def of_texts(here: slice) -> list[Any]:
        columns = [nodes.ids(kept[here]), nodes.texts(kept[here])]
        return [nodes.tables(kept[here]), *columns] if two else columns

    tables = _tables(kept_schema, len(kept), of_texts)
    in_one_step(folder / "deduplicated.csv", lambda aside: _write_tables(tables, kept_schema, cells, aside))


def write_golden(
    folder: StoragePath, batches: Iterable[Sequence[Any]], names: Sequence[str], whole: int, cells: FormulaCells
) -> None:
    """Write golden records that come in batches of columns with these names, of which the first `whole` are numbers."""
    kinds = [pa.int64()] * whole + [pa.string()] * (len(names) - whole)
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    _write_both(folder / GOLDEN, schema, (make_table(schema, columns) for columns in batches), cells)


def write_golden_overrides(folder: StoragePath, rows: Sequence[Sequence[str]], cells: FormulaCells) -> None:
    """Write what the values that people gave do: rows with the cells of OVERRIDES; no rows: remove the file."""
    path = folder / "golden_overrides.csv"
    if not rows:
        path.unlink(missing_ok=True)
        return
    table = make_table(OVERRIDES, [pa.array(column, pa.string()) for column in zip(*rows, strict=True)])
    in_one_step(path, lambda aside: _write_tables([table], OVERRIDES, cells, aside))


def canonical_records(folder: StoragePath, two: bool) -> Mask:
    """Return (n,) whether each record of clusters.parquet is the canonical one of its cluster. two: of two tables."""
    table = read_parquet(folder / "clusters.parquet", fix="match the texts again (`al_ray.match`)")
    own = compute.equal(table["id"], table["canonical"])
    if two:
        own = compute.and_(own, compute.equal(table[TABLE.name], table[CANONICAL_TABLE.name]))
    return own.to_numpy()


def remove_golden(folder: StoragePath) -> None:
    """Remove the golden records of earlier matches; what people gave stays."""
    for name in (f"{GOLDEN}.parquet", f"{GOLDEN}.csv", "golden_overrides.csv"):
        (folder / name).unlink(missing_ok=True)


def write_undecided(folder: StoragePath, matches: Matches, task: Task, texts: bool, cells: FormulaCells) -> None:
    """Write the pairs that the encoder cannot tell apart, by their ids; remove the file if there is none."""
    path, pairs = folder / "undecided.csv", matches.undecided
    if not len(pairs):
        path.unlink(missing_ok=True)
        return
    columns = [*task.ids_of(pairs), *(task.texts_of(pairs) if texts else ())]
    schema = UNDECIDED if texts else pa.schema(list(UNDECIDED)[:2])
    table = make_table(schema, columns)
    in_one_step(path, lambda aside: _write_tables([table], schema, cells, aside))


def write_bridges(folder: StoragePath, nodes: Nodes, split: Edges | None, cells: FormulaCells) -> None:
    """Write the matches that --split-bridges left out of clusters, the lowest score first; None: remove the file."""
    path = folder / "bridges.csv"
    if split is None:
        path.unlink(missing_ok=True)
        return
    order = np.lexsort((split.pairs[:, 1], split.pairs[:, 0], split.scores))
    ids = [nodes.ids(side) for side in split.pairs[order].T]
    table = make_table(BRIDGES, [*ids, split.scores[order]])
    in_one_step(path, lambda aside: _write_tables([table], BRIDGES, cells, aside))


def write_changes(folder: StoragePath, ids: ClusterIds) -> None:
    """Write which clusters changed: kind, cluster, and the other clusters that it was split into or merged from."""
    lines = [("new", one, "") for one in ids.new.tolist()] + [("gone", one, "") for one in ids.gone.tolist()]
    lines += [("split", one.old_id, _listed(one.new_ids)) for one in ids.splits]
    lines += [("merged", one.new_id, _listed(one.old_ids)) for one in ids.merges]
    kinds, clusters, others = zip(*lines, strict=True) if lines else ((), (), ())
    columns = pa.array(kinds, pa.string()), pa.array(clusters, pa.int64()), pa.array(others, pa.string())
    table = pa.table(dict(zip(CHANGES, columns, strict=True)))
    # Its cells are ours.
    cells = FormulaCells(escape=False)
    in_one_step(folder / "changes.csv", lambda aside: _write_tables([table], table.schema, cells, aside))


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
    write_root(folder / RECORD, content)


def _tables(
    schema: pa.Schema, count: int, columns: Callable[[slice], list[Any]], chunk: int = CHUNK
) -> Iterator[pa.Table]:
    """Yield a table of `count` rows in parts of `chunk`. columns: the rows of a part -> its columns."""
    for start in range(0, count, chunk):
        yield make_table(schema, columns(slice(start, min(start + chunk, count))))


def _write_both(path: StoragePath, schema: pa.Schema, tables: Iterable[pa.Table], cells: FormulaCells) -> None:
    """Write a table that comes in parts as PATH.parquet and PATH.csv: both are complete before either is replaced."""
    parquet, csv = (path.parent / f"{path.name}.{kind}" for kind in ("parquet", "csv"))

    def write(aside: Path) -> None:
        in_one_step(csv, lambda csv_aside: _write_tables(tables, schema, cells, csv_aside, aside))

    in_one_step(parquet, write)


def _write_tables(
    tables: Iterable[pa.Table], schema: pa.Schema, cells: FormulaCells, csv: Path, parquet: Path | None = None
) -> None:
    """Write a table that comes in parts as CSV, and as Parquet if a path is given; one part is in memory at a time.

    cells: of the CSV file alone, which people open.
    """
    with ExitStack() as stack:
        sheet = stack.enter_context(pa_csv.CSVWriter(stack.enter_context(csv.open("wb")), _of_sheet(schema)))
        writer = None
        if parquet is not None:
            # An open file, because pyarrow rejects names that are not UTF-8.
            file = stack.enter_context(parquet.open("wb"))
            writer = stack.enter_context(pq.ParquetWriter(file, schema, write_page_checksum=True))
        for table in tables:
            sheet.write_table(cells.checked(as_sheet(table)))
            if writer is not None:
                writer.write_table(table)


def _of_sheet(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a CSV file, which has no lists: the column `why` is text there."""
    at = schema.get_field_index(WHY.name)
    return schema if at < 0 else schema.set(at, pa.field(WHY.name, pa.string()))


def as_sheet(table: pa.Table) -> pa.Table:
    """Return a table with the column `why` in words."""
    at = table.schema.get_field_index(WHY.name)
    return table if at < 0 else table.set_column(at, WHY.name, in_words(table.column(at)))


def cluster_sizes(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield each size of a cluster with the number of clusters of that size, the smallest first."""
    values, counts = np.unique(np.asarray(sizes, dtype=np.int64), return_counts=True)
    yield from zip(values.tolist(), counts.tolist(), strict=True)
