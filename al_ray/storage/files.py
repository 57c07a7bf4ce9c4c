"""JSON and Parquet files: atomic and durable writes, and errors that name the file."""

import json
import logging
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from glob import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from al_ray import __version__
from al_ray.core.config.serialization import fits
from al_ray.core.errors import BadFile, BadOption, WriteErrors
from al_ray.core.labels import ENCODER
from al_ray.storage.bounded_parquet import BoundedParquet
from al_ray.storage.uri import StoragePath, Uri

logger = logging.getLogger(__name__)
WRITER = "al_ray"
"""Name of the version of al_ray in the JSON file that describes a folder. Before 0.2.0 there was none."""
UNFINISHED = re.compile(r"\.(.+)\.(\d+)-\w+")
"""What a file or folder is called while the process of this number writes it: .NAME.PROCESS-ANYTHING."""

LEFTOVER_SECONDS = 24 * 3600.0


def write_json(path: StoragePath, content: Any) -> None:
    """Write JSON atomically."""
    write_text(path, json.dumps(content, indent=2) + "\n")


def write_root(path: StoragePath, content: Mapping[str, Any]) -> None:
    """Write the JSON file that describes a folder atomically, with the version of al_ray that writes it."""
    write_json(path, stamped(content))


def stamped(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a JSON file with the version of this al_ray, which `read_json` checks and leaves out."""
    return {**content, WRITER: __version__}


def written_by(path: StoragePath) -> str | None:
    """Return the version of al_ray that wrote a JSON file; None if it is older than 0.2.0, or no JSON."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return content.get(WRITER) if isinstance(content, dict) else None


def check_version(path: StoragePath, version: object) -> None:
    """BadFile for a file of a later al_ray, whose folders may mean something else. Patch levels make no difference."""
    numbers = re.match(r"(\d+)\.(\d+)", str(version))
    own = __version__.split(".")
    if numbers is None or [*map(int, numbers.groups())] > [*map(int, own[:2])]:
        fix = "install that version, or a later one"
        raise BadFile(f"{path} was written by al_ray {version}, and this is al_ray {__version__}; {fix}")


def write_text(path: StoragePath, text: str) -> None:
    """Write text atomically."""
    in_one_step(path, lambda aside: aside.write_bytes(text.encode()))


def write_pictures(path: StoragePath, pictures: Mapping[str, bytes]) -> None:
    """Write the files of a picture, kind -> content, as PATH.KIND, each atomically."""
    for kind, content in pictures.items():
        in_one_step(path.parent / f"{path.name}.{kind}", lambda aside, content=content: aside.write_bytes(content))


def make_table(schema: pa.Schema, columns: Iterable[Any]) -> pa.Table:
    """Make a table of columns in the order of the schema."""
    return pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema)


def write_parquet(path: StoragePath, table: pa.Table, new: bool = False) -> None:
    """Write a table atomically, with page checksums; new: as `in_one_step` takes it."""
    in_one_step(path, lambda aside: _write_parquet(table, aside), new)


def _write_parquet(table: pa.Table, path: Path) -> None:
    # An open file, because pyarrow rejects names that are not UTF-8.
    with path.open("wb") as file:
        pq.write_table(table, file, write_page_checksum=True)


def in_one_step(path: StoragePath, write: Callable[[Path], Any], new: bool = False) -> None:
    """Write a temporary file, sync it to disk and rename it to `path`; its folder is created. BadFile if that fails.

    The previous file stays intact if the disk is full or the process dies on the way. On an object store with a fence:
    FolderInUse if another process has taken over the folder, or, with `new`, if the object exists.
    """
    if isinstance(path, Uri):
        with WriteErrors(path), tempfile.TemporaryDirectory(prefix="al_ray-") as folder:
            aside = Path(folder) / path.name
            write(aside)
            if path.fence is None:
                path.put(aside)
            else:
                path.fence.write(path.key, aside.read_bytes(), new)
        return
    aside = aside_of(path)
    with WriteErrors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # A name that is new has no leftovers, and a folder may have very many such files (oracles/llm/store.py).
        if path.exists():
            _remove_leftovers(path)
        try:
            write(aside)
            sync(aside)
            os.replace(aside, path)
        finally:
            aside.unlink(missing_ok=True)
        # Sync the folder too: otherwise a power cut could lose the file's name, and with it labels that were paid for.
        sync(path.parent)


def aside_of(path: Path) -> Path:
    """Return where this thread writes a file or folder before it is renamed to `path`."""
    # Two threads of a process may write the same file.
    return path.parent / f".{path.name}.{os.getpid()}-{threading.get_native_id()}"


def remove_unfinished(folder: StoragePath, pattern: str = ".*", name: str | None = None) -> None:
    """Remove what killed processes were writing in a folder; pattern: of their names.

    name: of the one file or folder that they were writing; without it the caller has locked the folder. What a living
    process of this machine writes stays: there are files that are written without the lock. Objects of a store are
    written in one step.
    """
    for path in folder.glob(pattern) if isinstance(folder, Path) else ():
        found = UNFINISHED.fullmatch(path.name)
        if found is None or name not in (None, found[1]) or _lives(int(found[2])):
            continue
        # Without a lock another process may remove it, too.
        with WriteErrors(path), suppress(FileNotFoundError):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        logger.info("removed %s, which a process was writing that has ended", path)


def _remove_leftovers(path: Path) -> None:
    """Remove what killed processes left of a file that is written without a lock, a day after they wrote it last.

    A process of another machine, or another thread of this one, may be writing the file now, and its number says
    nothing here.
    """
    for aside in path.parent.glob(f".{escape(path.name)}.*"):
        found = UNFINISHED.fullmatch(aside.name)
        # It may belong to another user, or another process may remove it, too.
        with suppress(OSError):
            if found and found[1] == path.name and time.time() - aside.lstat().st_mtime > LEFTOVER_SECONDS:
                aside.unlink()
                logger.info("removed %s, which a process was writing that has ended", aside)


def _lives(process: int) -> bool:
    """Return whether another process has this number. In a container each process that writes may have the same."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return process != os.getpid()


def check_is_no_folder(option: str, path: StoragePath) -> None:
    """BadOption, before any work, if the path of an output file is a folder."""
    if path.is_dir():
        raise BadOption(f"{option} {path} is a folder; give the name of a file in it")


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to disk."""
    written = os.open(path, os.O_RDONLY)
    try:
        os.fsync(written)
    finally:
        os.close(written)


def read_json(
    path: StoragePath,
    names: Sequence[str] | Mapping[str, Any] = (),
    fix: str = "restore it, or start again in another `out`",
) -> Any:
    """Read JSON; BadFile with what to do for a file that is missing, truncated, or lacks one of the names.

    BadFile, too, for one that a later al_ray wrote (see `check_version`); the version is left out of the content.
    names: of fields, with the type of each if they are a mapping.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadFile(f"{path} cannot be read ({error}); {fix}") from error
    if isinstance(content, dict) and WRITER in content:
        check_version(path, content.pop(WRITER))
    check_fields(path, content, names, fix)
    return content


def check_fields(place: object, content: Any, names: Sequence[str] | Mapping[str, Any], fix: str) -> None:
    """Raise BadFile with what to do if a JSON object lacks one of the names, or has a value of another type.

    place: of the object. names: as `read_json` takes them.
    """
    lacks = [name for name in names if not isinstance(content, dict) or name not in content]
    if lacks:
        raise BadFile(f"{place} lacks {', '.join(lacks)}; {fix}")
    if isinstance(names, Mapping):
        for name, kind in names.items():
            if not fits(content[name], kind):
                raise BadFile(f"{place} has {content[name]!r} as {name}; {fix}")


def file_in(folder: StoragePath, name: Any, place: object, fix: str) -> StoragePath:
    """Return a file or folder directly in a folder; BadFile for a name that leads elsewhere, such as "../x".

    place: the file that has the name.
    """
    if not isinstance(name, str) or name in ("", ".", "..") or any(one in name for one in "/\\\0"):
        raise BadFile(f"{place} has {name!r} as the name of a file in {folder}; {fix}")
    return folder / name


def read_parquet(
    path: StoragePath,
    schema: pa.Schema | None = None,
    columns: list[str] | None = None,
    fix: str = "restore it",
    lacking: Sequence[str] = (),
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> pa.Table:
    """Read a table, or some of its columns; BadFile if it is missing or damaged, or differs from `schema`.

    lacking: the columns of the schema that may have empty cells. renamed: what columns of earlier versions are called
    now, by their names then.
    """
    try:
        with path.open("rb") as file:
            parquet = BoundedParquet(file)
            _check_columns_of_file(path, _renamed(parquet.schema, renamed), schema, fix)
            table = parquet.read(columns)
            # pyarrow drops the metadata of the table.
            table = table.rename_columns(_renamed(table.schema, renamed).names).replace_schema_metadata(
                table.schema.metadata
            )
        # Finds texts that are not UTF-8, among others.
        table.validate(full=True)
    except (OSError, pa.ArrowException) as error:
        raise BadFile(f"{path} cannot be read ({str(error).partition(chr(10))[0]}); {fix}") from error
    for name in schema.names if schema is not None else ():
        if table[name].null_count and name not in lacking:
            raise BadFile(f"{path} has empty cells in column {name!r}; {fix}")
    return table


def _renamed(there: pa.Schema, renamed: Mapping[str, str]) -> pa.Schema:
    return pa.schema([column.with_name(renamed.get(column.name, column.name)) for column in there])


def _check_columns_of_file(path: StoragePath, there: pa.Schema, schema: pa.Schema | None, fix: str) -> None:
    if schema is not None and (there.names != schema.names or there.types != schema.types):
        raise BadFile(f"{path} holds {', '.join(there.names)}, not what this al_ray wrote; {fix}")


def trained_encoder(folder: StoragePath, content: Mapping[str, Any], source: StoragePath) -> StoragePath | None:
    """Return the folder of the encoder that a round of the run trained for a matcher; None if it is not trained.

    folder: of the model in its run. content: of the file `source`, which has the round; BadFile if it is none.
    """
    number = content.get("encoder_round")
    if number is None:
        return None
    if type(number) is not int or number < 1:
        raise BadFile(f"{source} has encoder_round {number!r}, which is no round; restore it")
    return folder.resolve().parent.parent / f"round-{number:03}" / ENCODER
