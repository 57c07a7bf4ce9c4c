"""Where a table of a user is: a file or an object, a table of a database, or a data frame."""

from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from al_ray.storage.compressed import inner_stem, inner_suffix
from al_ray.storage.databases.address import TableAddress, is_address, parse_address
from al_ray.storage.databases.frames import FrameTable, is_frame
from al_ray.storage.uri import StoragePath, Uri, storage_path

TablePath: TypeAlias = StoragePath | TableAddress | FrameTable


def table_path(value: Any) -> TablePath:
    """Return where a table is.

    value: a path or a URI, an address as `parse_address` takes it, or a data frame with the Arrow C stream.
    """
    if isinstance(value, FrameTable | TableAddress):
        return value
    if is_frame(value):
        return FrameTable(value)
    text = str(value)
    return parse_address(text) if is_address(text) else storage_path(text)


def is_file(path: TablePath) -> TypeGuard[StoragePath]:
    """Return whether a table is a file or an object, which has a format."""
    return isinstance(path, Path | Uri)


def table_stem(path: TablePath) -> str:
    """Return a short name of a table: that of a file without its extensions, or of the table in its database."""
    return path.stem if isinstance(path, TableAddress | FrameTable) else inner_stem(path)


def table_suffix(path: TablePath) -> str:
    """Return the extension of a file; for other tables the kind of database, or "frame:"."""
    if isinstance(path, TableAddress):
        return f"{path.scheme}:"
    return "frame:" if isinstance(path, FrameTable) else inner_suffix(path)
