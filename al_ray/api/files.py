"""Paths that commands and programs give, local ones or URIs, and files that figures are written to."""

from collections.abc import Mapping
from typing import Any

from al_ray.runs.place import check_lasting_path
from al_ray.storage.files import check_is_no_folder, write_json
from al_ray.storage.uri import SECRET, StoragePath, Uri, local_path, storage_path

__all__ = [
    "SECRET",
    "StoragePath",
    "Uri",
    "check_out",
    "local_path",
    "check_lasting_path",
    "storage_path",
    "write_figures",
]


def check_out(out: StoragePath) -> None:
    """Raise BadOption, before any work, for a file of figures that is a folder, or that lies in one that is lost."""
    check_lasting_path(out)
    check_is_no_folder("`out`", out)


def write_figures(out: StoragePath, content: Mapping[str, Any]) -> None:
    """Write figures as JSON: in one step, so that a reader finds the old file or the new one."""
    write_json(out, content)
