"""Folders of an object store brought near: downloaded once a node, for whatever wants files."""

import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from pathlib import Path

from filelock import FileLock

from al_ray.core.errors import BadFile, WriteErrors
from al_ray.storage.uri import StoragePath, Uri

logger = logging.getLogger(__name__)

KEPT_SECONDS = 24 * 3600.0


def fetched(folder: StoragePath) -> Path:
    """A local folder with what the folder holds: itself, or a copy that all processes of a node share.

    A copy's name holds URI, names, sizes and times of all objects, so that what was written anew is downloaded anew.
    Copies that nobody asked for in KEPT_SECONDS are deleted when another one is made; so ask again before each use.
    """
    if isinstance(folder, Path):
        return folder
    there = [(str(uri), size, written) for uri, size, written in folder.objects()]
    if not there:
        raise BadFile(f"{folder} is not there; restore it")
    near = Path(tempfile.gettempdir()) / f"al_ray-{os.getuid()}"
    copy = near / hashlib.sha256(json.dumps([str(folder), there]).encode()).hexdigest()[:32]
    with WriteErrors(near):
        near.mkdir(mode=0o700, exist_ok=True)
        with FileLock(f"{copy}.lock"):
            if not copy.is_dir():
                _forget(near)
                _download(folder, copy)
            os.utime(copy)
    return copy


def _download(folder: Uri, copy: Path) -> None:
    aside = copy.with_name(f"{copy.name}.{os.getpid()}")
    started = time.monotonic()
    try:
        for uri, *_ in folder.objects():
            path = aside / uri.path.removeprefix(f"{folder.path}/")
            path.parent.mkdir(parents=True, exist_ok=True)
            uri.get(path)
        os.rename(aside, copy)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    logger.info("downloaded %s in %.1f s", folder, time.monotonic() - started)


def _forget(near: Path) -> None:
    for copy in near.iterdir():
        if copy.is_dir() and time.time() - copy.stat().st_mtime > KEPT_SECONDS:
            shutil.rmtree(copy, ignore_errors=True)
