"""JSON and Parquet: what is written is whole and lasting, and what cannot be read or written is named."""

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from al_ray.core.errors import BadFile, BadOption, Written
from al_ray.storage.places import Place, Uri


def write_json(path: Place, content: Any) -> None:
    """Write JSON in one step."""
    write_text(path, json.dumps(content, indent=2) + "\n")


def write_text(path: Place, text: str) -> None:
    """Write text in one step."""
    in_one_step(path, lambda aside: aside.write_bytes(text.encode()))


def write_pictures(path: Place, pictures: Mapping[str, bytes]) -> None:
    """Write a picture's files, kind -> content, as PATH.KIND, each in one step."""
    for kind, content in pictures.items():
        in_one_step(path.parent / f"{path.name}.{kind}", lambda aside, content=content: aside.write_bytes(content))


def write_parquet(path: Place, table: pa.Table) -> None:
    """Write a table in one step, with checksums of what it holds."""
    in_one_step(path, lambda aside: _write_parquet(table, aside))


def _write_parquet(table: pa.Table, path: Path) -> None:
    # A file, not its name: pyarrow takes no name that is not UTF-8.
    with path.open("wb") as file:
        pq.write_table(table, file, write_page_checksum=True)


def in_one_step(path: Place, write: Callable[[Path], Any]) -> None:
    """Write aside, see it on the disk, and put it in place; its folder is made. BadFile when that cannot be.

    What stood there before stands there still when the disk is full, or when the process dies on the way.
    """
    if isinstance(path, Uri):
        with Written(path), tempfile.TemporaryDirectory(prefix="al_ray-") as folder:
            aside = Path(folder) / path.name
            write(aside)
            path.put(aside)
        return
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with Written(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write(aside)
            _sync(aside)
            os.replace(aside, path)
        finally:
            aside.unlink(missing_ok=True)
        # A label that was paid for outlives a power cut: so must the name of its file.
        _sync(path.parent)


def refuse_folder(option: str, path: Place) -> None:
    """BadOption, before any work, for a folder where a file is to be written."""
    if path.is_dir():
        raise BadOption(f"{option} {path} is a folder; give the name of a file in it")


def _sync(path: Path) -> None:
    written = os.open(path, os.O_RDONLY)
    try:
        os.fsync(written)
    finally:
        os.close(written)


def read_json(path: Place, names: Sequence[str] = ()) -> Any:
    """Read JSON; BadFile names the file that is missing, cut short, or lacks one of the names."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadFile(f"{path} cannot be read ({error}); restore it, or start again in another --out") from error
    lacks = [name for name in names if not isinstance(content, dict) or name not in content]
    if lacks:
        raise BadFile(f"{path} lacks {', '.join(lacks)}; restore it, or start again in another --out")
    return content


def read_parquet(path: Place, schema: pa.Schema | None = None) -> pa.Table:
    """Read a table; BadFile names the file that is missing, damaged, or has not these columns of these types."""
    try:
        with path.open("rb") as file:
            table = pq.ParquetFile(file, page_checksum_verification=True).read()
        table.validate(full=True)
    except (OSError, pa.ArrowException) as error:
        raise BadFile(f"{path} cannot be read ({str(error).splitlines()[0]}); restore it") from error
    if schema is not None and (table.schema.names != schema.names or table.schema.types != schema.types):
        raise BadFile(f"{path} holds {', '.join(table.schema.names)}, not what this al_ray wrote; restore it")
    return table
