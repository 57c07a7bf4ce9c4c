"""What may not be left when a command has ended: files, locks, actors, placement groups."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from tests.cluster.processes import workers
from tests.soak.small_cluster import SmallCluster
from tests.soak.strikes import ACTORS
from tests.soak.waiting import wait_until

PATIENCE = 30.0
KEPT = (".lock", ".validate_storage_marker")
"""The second is of Ray Tune, which never removes it."""


def temporary_files() -> list[Path]:
    """Return what al_ray has in the folder for temporary files, but for the cache that it keeps there."""
    return [path for path in Path(tempfile.gettempdir()).glob("al_ray-*") if path.name != f"al_ray-{os.getuid()}"]


def leftovers(folder: Path, before: set[Path], killed: bool, cluster: SmallCluster) -> list[str]:
    """Return what is left, beside its results, of a command that has written a folder.

    before: the temporary files before it. killed: it could not remove its own.
    """
    left = [path for path in folder.rglob(".*") if path.name not in KEPT]
    if not killed:
        left += set(temporary_files()) - before
    complaints = [f"left behind: {path}" for path in left]
    with suppress(FileNotFoundError):
        try:
            FileLock(folder / ".lock", timeout=0).acquire().lock.release()
        except Timeout:
            complaints.append(f"the lock of {folder} is held")
    complaints += cluster.left(PATIENCE)
    return complaints + wait_until(lambda: [f"left behind: {one}" for one in workers(*ACTORS.values())], PATIENCE)
