"""Download folders of an object store, once for each node, for code that needs local files."""

import hashlib
import json
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path

from filelock import FileLock

from al_ray.core.errors import BadFile, WriteErrors
from al_ray.storage.uri import StoragePath, Uri

logger = logging.getLogger(__name__)

UNUSED_SECONDS = 24 * 3600.0


def fetched(folder: StoragePath, without: Sequence[str] = ()) -> Path:
    """Return a local folder with the same content: the folder itself, or a copy shared by all processes of a node.

    without: patterns of names directly in the folder; what has such a name is not downloaded.

    The name of a copy is a hash of the URI and of names, sizes and times of all objects, so a changed folder is
    downloaded again. So is a copy of which a file is missing or cut off: programs that clean the folder of temporary
    files delete single files, and a power cut may empty them. Copies not used for UNUSED_SECONDS are deleted at the
    next download: call this before each use.
    """
    if isinstance(folder, Path):
        return folder
    objects = _objects(folder, without)
    if not objects:
        raise BadFile(f"{folder} does not exist; restore it")
    cache, named = Path(tempfile.gettempdir()) / f"al_ray-{os.getuid()}", [(str(uri), *rest) for uri, *rest in objects]
    copy = cache / hashlib.sha256(json.dumps([str(folder), named]).encode()).hexdigest()[:32]
    sizes = {copy / local_name(uri, folder): size for uri, size, _ in objects}
    with WriteErrors(cache):
        cache.mkdir(mode=0o700, exist_ok=True)
        check_cache_owner(cache)
        with FileLock(f"{copy}.lock"):
            if not all(path.is_file() and path.stat().st_size == size for path, size in sizes.items()):
                shutil.rmtree(copy, ignore_errors=True)
                _delete_unused(cache)
                _download(folder, [uri for uri, *_ in objects], copy)
            os.utime(copy)
    return copy


@contextmanager
def local_file(path: StoragePath) -> Iterator[Path]:
    """Yield a local file of the same content: the file itself, or a copy of an object, which ends with the context."""
    if isinstance(path, Path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="al_ray-") as folder:
        copy = Path(folder) / path.name
        with WriteErrors(copy):
            path.get(copy)
        yield copy


def check_cache_owner(cache: Path) -> None:
    """Raise BadFile for a cache that another user has made in the folder of temporary files, or may write into."""
    status = cache.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise BadFile(f"{cache} belongs to another user, or others may write into it; remove it, or set another TMPDIR")


def local_name(uri: Uri, folder: Uri) -> str:
    """Return the path of an object below a folder; BadFile for a key such as "../x", which would lead out of it."""
    name = uri.path.removeprefix(f"{folder.path}/")
    if not name or name.startswith("/") or any(part in ("", ".", "..") for part in name.split("/")):
        raise BadFile(f"{uri} has a key that cannot be a path below a folder; rename the object")
    return name


def _objects(folder: Uri, without: Sequence[str]) -> list[tuple[Uri, int, int]]:
    """Return the objects of a folder, except those below a name that matches a pattern."""
    return [
        (uri, size, written)
        for uri, size, written in folder.objects()
        if not any(fnmatch(local_name(uri, folder).partition("/")[0], pattern) for pattern in without)
    ]


def _download(folder: Uri, objects: Sequence[Uri], copy: Path) -> None:
    aside = copy.with_name(f"{copy.name}.{os.getpid()}")
    started = time.monotonic()
    try:
        for uri in objects:
            path = aside / local_name(uri, folder)
            path.parent.mkdir(parents=True, exist_ok=True)
            uri.get(path)
        os.rename(aside, copy)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    logger.info("downloaded %s in %.1f s", folder, time.monotonic() - started)


def _delete_unused(cache: Path) -> None:
    for copy in cache.iterdir():
        # Another process may rename what it has downloaded, or delete what is unused.
        with suppress(FileNotFoundError):
            if copy.is_dir() and time.time() - copy.stat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(copy, ignore_errors=True)
