"""Copy the matches and the clusters of a folder into tables of a database."""

from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.parquet as pq

from al_ray.apps.matching.folder import CLUSTERS, MATCHES, as_sheet
from al_ray.apps.matching.options import MatchOptions
from al_ray.storage.databases.address import TableAddress
from al_ray.storage.databases.port import ROWS_AT_ONCE
from al_ray.storage.databases.writing import NewTable, check_writable, owner_of, write_tables, written_schema
from al_ray.storage.download import local_file
from al_ray.storage.lock import locked
from al_ray.storage.uri import StoragePath

FILES = {"matches_table": ("matches.parquet", MATCHES), "clusters_table": ("clusters.parquet", CLUSTERS)}
"""The file of the folder that each option copies, and its columns at least."""


def check_tables(options: MatchOptions, folder: StoragePath) -> None:
    """Raise BadOption or BadFile, before any work, for tables that cannot be written."""
    tables = [(address, written_schema(FILES[name][1])) for name, address in _given(options)]
    if tables:
        check_writable(tables, owner_of("matches", folder))


def write_match_tables(options: MatchOptions, folder: StoragePath) -> list[str]:
    """Write the tables that the options name, from the files of a folder of matches, and return a line about each.

    All of them are written in one transaction. The column `why` is in words, as in matches.csv.
    """
    given, tables, counts = _given(options), list[NewTable](), list[int]()
    if not given:
        return []
    with locked(folder), ExitStack() as stack:
        for name, address in given:
            local = stack.enter_context(local_file(folder / FILES[name][0]))
            parquet = pq.ParquetFile(stack.enter_context(local.open("rb")))
            tables.append(_new_table(address, parquet))
            counts.append(parquet.metadata.num_rows)
        write_tables(tables, owner_of("matches", folder))
    return [f"wrote {count:,} rows into {table.address}" for count, table in zip(counts, tables, strict=True)]


def _given(options: MatchOptions) -> list[tuple[str, TableAddress]]:
    given = {name: getattr(options, name) for name in FILES}
    return [(name, address) for name, address in given.items() if address is not None]


def _new_table(address: TableAddress, parquet: pq.ParquetFile) -> NewTable:
    schema = written_schema(parquet.schema_arrow)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in parquet.iter_batches(ROWS_AT_ONCE):
            yield from as_sheet(pa.Table.from_batches([batch])).cast(schema).to_batches()

    return NewTable(address, schema, batches)
