"""Write a folder atomically: all of it is there, or nothing."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from al_ray.core.errors import WriteErrors


@contextmanager
def whole(folder: Path) -> Iterator[Path]:
    """Yield a new folder to write into; it replaces `folder` when the context ends without an error."""
    aside = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        with WriteErrors(folder):
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)
            yield aside
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
