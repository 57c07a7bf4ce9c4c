"""Delta tables, as folders or on an object store. They are read alone."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from al_ray.core.errors import BadFile, BadOption
from al_ray.storage.databases.address import TableAddress
from al_ray.storage.databases.port import ROWS_AT_ONCE, TableStream, driver


@contextmanager
def open_delta(address: TableAddress) -> Iterator[TableStream]:
    """Open a version of a Delta table: the newest, unless the address gives one."""
    deltalake = driver("deltalake", address.scheme, "delta")
    version = dict(address.parameters).get("version")
    if version is not None and not version.isdecimal():
        raise BadOption(f"{address}: the version {version!r} is no number; give one such as version=3")
    try:
        table = deltalake.DeltaTable(address.place, version=None if version is None else int(version))
        dataset = table.to_pyarrow_dataset()

        def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
            return dataset.scanner(columns=list(columns), batch_size=ROWS_AT_ONCE).to_batches()

        yield TableStream(dataset.schema.names, batches)
    except (deltalake.exceptions.DeltaError, pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise BadFile(f"{address} cannot be read as a Delta table ({reason}); is its place right?") from error
