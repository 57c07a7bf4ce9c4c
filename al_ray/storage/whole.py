"""A folder that is there whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from al_ray.core.errors import Written


@contextmanager
def whole(folder: Path) -> Iterator[Path]:
    """A new folder to write into, which takes the place of `folder`, whatever stood there, with the context's end."""
    aside = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        with Written(folder):
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)
            yield aside
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
