"""Local paths and URIs on object stores, with the same methods; each write to a URI is one PUT.

On an object store nothing is renamed or copied: an object is written whole or not at all, and the object
that is written last marks a folder as complete.
"""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cache
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, cast
from urllib.parse import parse_qsl

import pyarrow as pa
from pyarrow import fs

from al_ray.core.errors import BadFile, BadOption
from al_ray.storage.conditional import ConditionalStore, store_error
from al_ray.storage.fence import Fence

SECRET = r"[\w-]*(?:key|secret|token|passw|signature)[\w-]*|sig"
"""Names of options in the query of a URI whose values are secrets: secret_key, X-Amz-Signature, without case."""

COLLAPSED = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
"""How a URI begins, and what pathlib.Path makes of one; a drive has a single letter."""


@dataclass(frozen=True)
class Uri:
    """An object, or a folder of objects, of an object store: scheme://path?query, with the methods of pathlib.Path.

    path: bucket and key; query: what pyarrow.fs.FileSystem.from_uri takes, such as endpoint_override and region.
    Credentials are those of the environment (AWS_ACCESS_KEY_ID and its like, or the machine's role).
    Errors of the store become BadFile with the URI and the fix.
    fence: of a folder that this process has locked (storage/lock.py) and all below; it is not sent to other processes.
    """

    scheme: str
    path: str
    query: str = ""
    fence: Fence | None = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[type["Uri"], tuple[str, str, str]]:
        return Uri, (self.scheme, self.path, self.query)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.path}" + (f"?{self.query}" if self.query else "")

    def __truediv__(self, name: str) -> "Uri":
        # As with a Path, nothing added is the same place.
        return replace(self, path=f"{self.path}/{name}") if name else self

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """Return the name without its extension."""
        return PurePosixPath(self.name).stem

    @property
    def suffix(self) -> str:
        """Return the extension of the name, with its dot."""
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> "Uri":
        """Return the folder of the object; the parent of a bucket is the bucket."""
        return replace(self, path=self.path.rpartition("/")[0] or self.path)

    @property
    def parents(self) -> tuple["Uri", ...]:
        """Return all folders of the object, up to the bucket."""
        return (self.parent, *self.parent.parents) if "/" in self.path else ()

    def resolve(self) -> "Uri":
        """Return the URI itself, which means the same in every process."""
        return self

    def exists(self) -> bool:
        """Return whether there is such an object, or a folder with objects."""
        return self._kind() != fs.FileType.NotFound

    def is_file(self) -> bool:
        """Return whether there is such an object."""
        return self._kind() == fs.FileType.File

    def is_dir(self) -> bool:
        """Return whether there are objects in such a folder."""
        return self._kind() == fs.FileType.Directory

    def stamp(self) -> "Stamp | None":
        """Return the object's size and the time (ns) at which it was written; None when there is none."""
        with _StoreErrors(self):
            info = self.store.get_file_info(self.path)
        return None if info.type == fs.FileType.NotFound else (info.size, info.mtime_ns)

    def objects(self) -> Iterator[tuple["Uri", int, int]]:
        """Yield all objects below a folder, each with its size in bytes and the time (ns) at which it was written."""
        with _StoreErrors(self):
            infos = self.store.get_file_info(fs.FileSelector(self.path, allow_not_found=True, recursive=True))
        for one in sorted(infos, key=lambda one: one.path):
            if one.type == fs.FileType.File:
                yield replace(self, path=one.path), one.size, one.mtime_ns

    def glob(self, pattern: str) -> Iterator["Uri"]:
        """Yield the objects directly in the folder whose names match the pattern."""
        with _StoreErrors(self):
            infos = self.store.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        for one in infos:
            if one.type == fs.FileType.File and fnmatch(one.base_name, pattern):
                yield self / one.base_name

    def open(self, mode: str = "rb") -> Any:
        """Open the object for reading in parts."""
        assert mode == "rb"
        with _StoreErrors(self):
            return self.store.open_input_file(self.path)

    def read_bytes(self) -> bytes:
        """Return the content of the object."""
        with _StoreErrors(self), self.store.open_input_stream(self.path) as file:
            return file.read()

    def read_text(self, encoding: str = "utf-8") -> str:
        """Return the content as text; ValueError if it cannot be decoded."""
        return self.read_bytes().decode(encoding)

    def write_bytes(self, content: bytes) -> None:
        """Write the object in one request; an existing one is overwritten."""
        self._put(pa.py_buffer(content))

    def put(self, local: Path) -> None:
        """Write a local file's content in one request; it need not fit into memory."""
        # An empty file cannot be memory-mapped.
        if not local.stat().st_size:
            self.write_bytes(b"")
            return
        with pa.memory_map(str(local)) as file:
            self._put(file.read_buffer())

    def get(self, local: Path) -> None:
        """Download the object into a new local file."""
        with _StoreErrors(self), self.store.open_input_stream(self.path) as source, local.open("wb") as file:
            shutil.copyfileobj(source, file, 1 << 23)

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the object."""
        with _StoreErrors(self):
            try:
                self.store.delete_file(self.path)
            except FileNotFoundError:
                if not missing_ok:
                    raise

    def _put(self, content: pa.Buffer) -> None:
        with _StoreErrors(self, "written"), self.store.open_output_stream(self.path) as file:
            # In one call: a stream that is closed halfway would leave half an object.
            file.write(content)

    def _kind(self) -> fs.FileType:
        with _StoreErrors(self):
            return self.store.get_file_info(self.path).type

    @property
    def bucket(self) -> str:
        """Return the first part of the path."""
        return self.path.partition("/")[0]

    @property
    def key(self) -> str:
        """Return the path in the bucket."""
        return self.path.partition("/")[2]

    def conditional_store(self) -> ConditionalStore | None:
        """Return the bucket for conditional writes; None if the scheme has none that al_ray knows."""
        if self.scheme != "s3":
            return None
        with _StoreErrors(self):
            return ConditionalStore(self.bucket, self.query, cast(fs.S3FileSystem, self.store).region)

    @property
    def store(self) -> fs.FileSystem:
        """Return the file system of the store; BadOption if there is none for the scheme."""
        return _store(self.scheme, self.bucket, self.query)


StoragePath = Path | Uri
Stamp = tuple[int | None, ...]


def stamp_of(path: StoragePath) -> Stamp | None:
    """Return numbers that change when a file is written or replaced, without reading it; None if it does not exist.

    Two writes of the same size within the resolution of the file system's clock have the same numbers: a few
    milliseconds on a disk, a second on an object store.
    """
    if isinstance(path, Uri):
        return path.stamp()
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def storage_path(text: str) -> StoragePath:
    """Parse a path, or with :// a URI; BadOption for a URI without a bucket or with a secret in it."""
    scheme, mark, rest = text.partition("://")
    if not mark:
        return local_path(text)
    path, _, query = rest.partition("?")
    check_no_secrets(text)
    path = path.strip("/")
    if not path or "//" in path or scheme == "file":
        raise BadOption(
            f"{text} is not a path on an object store; give one such as s3://bucket/folder, or a local path"
        )
    return Uri(scheme, path, query)


def local_path(path: str | Path, option: str = "") -> Path:
    """Return a local path; BadOption for a URI, of which pathlib.Path makes s3:/bucket, a folder on this disk.

    option: before the path in the message, if it takes local paths alone.
    """
    if not COLLAPSED.match(str(path)):
        return Path(path)
    fix = "give a local path" if option else "give it as a text such as s3://bucket/folder, not as a pathlib.Path"
    raise BadOption(f"{option} {path} is a URI; {fix}".lstrip())


def check_no_secrets(
    uri: str, option: str = "", fix: str = "remove it, and set it as AWS_SECRET_ACCESS_KEY or its like"
) -> None:
    """Raise BadOption for a URI with a password, or with the value of a key in its query; the message lacks them.

    Config files, logs and Ray's records have the URIs of a command, and would then hold the secret. option: before the
    URI in the message.
    """
    scheme, _, rest = uri.partition("://")
    path, _, query = rest.partition("?")
    host = path.partition("/")[0]
    # A secret key of AWS may have a slash, and then ends after the first one: only a port may follow a colon.
    _, colon, port = re.sub(r"^\[[0-9a-f:.]*\]", "", host.lower()).partition(":")
    if "@" in host or (colon and (not port.isdecimal() or "@" in path)):
        raise BadOption(f"{option}{scheme}://...@{path.rpartition('@')[2]} holds a password; {fix}")
    options = parse_qsl(query)
    if any("@" in value or re.fullmatch(SECRET, name, re.IGNORECASE) for name, value in options):
        raise BadOption(f"{option}{scheme}://{path}?... holds a secret in its query; {fix}")


def put_folder(local: Path, folder: Uri, last: str) -> None:
    """Upload all files of a local folder; the old file `last` is deleted first, and the new one written last.

    So a folder that has it is complete, even if a writer died. Old objects that are not uploaded again are deleted.
    """
    names = [path.relative_to(local).as_posix() for path in sorted(local.rglob("*")) if path.is_file()]
    (folder / last).unlink(missing_ok=True)
    uploads = {folder / name for name in names}
    for uri, *_ in folder.objects():
        if uri not in uploads:
            uri.unlink(missing_ok=True)
    for name in (*(name for name in names if name != last), last):
        (folder / name).put(local / name)


@cache
def _store(scheme: str, bucket: str, query: str) -> fs.FileSystem:
    """Connect to the store of a bucket, once in each process: it may have to look up the bucket's region."""
    # Without delayed open even a small object is sent in three requests.
    queries = [query, "allow_delayed_open=true" if scheme == "s3" else ""]
    uri = f"{scheme}://{bucket}"
    try:
        return fs.FileSystem.from_uri(f"{uri}?{'&'.join(filter(None, queries))}")[0]
    except pa.ArrowInvalid as error:
        fix = "give one such as s3://bucket/folder?region=eu-west-1"
        raise BadOption(f"{Uri(scheme, bucket, query)} is not an object store ({error}); {fix}") from error


class _StoreErrors:
    """Context of calls to a store: its errors become BadFile with the URI and the fix."""

    def __init__(self, uri: Uri, what: str = "read") -> None:
        self.uri, self.what = uri, what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, FileNotFoundError):
            raise BadFile(f"{self.uri} does not exist; restore it") from error
        if isinstance(error, OSError | pa.ArrowException):
            raise store_error(self.uri, self.what, str(error).splitlines()[0]) from error
