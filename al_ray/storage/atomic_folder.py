"""Write a folder atomically: all of it is there, or nothing."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from al_ray.core.errors import WriteErrors
from al_ray.storage.files import aside_of, remove_unfinished


@contextmanager
def whole(folder: Path) -> Iterator[Path]:
    """Yield a new folder to write into; it replaces `folder` when the context ends without an error.

    After an error `folder` is as it was before. What a killed process left of its own attempt is removed.
    """
    aside = aside_of(folder)
    old = aside.with_name(f"{aside.name}_old")
    remove_unfinished(folder.parent, name=folder.name)
    try:
        with WriteErrors(folder):
            aside.mkdir(parents=True)
            yield aside
            # Renamed, not deleted: a process that is killed meanwhile would leave a part of the old folder.
            if folder.exists():
                folder.rename(old)
            aside.rename(folder)
    finally:
        if old.exists() and not folder.exists():
            old.rename(folder)
        shutil.rmtree(aside, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
