"""Files that commands write their figures to."""

from collections.abc import Mapping
from typing import Any

from al_ray.runs.place import refuse_lost
from al_ray.storage.files import refuse_folder, write_json
from al_ray.storage.uri import StoragePath


def check_out(out: StoragePath) -> None:
    """Raise BadOption, before any work, for an --out that is a folder, or that lies in one that is lost."""
    refuse_lost(out)
    refuse_folder("--out", out)


def write_result(out: StoragePath | None, content: Mapping[str, Any]) -> None:
    """Write figures as JSON and print where, if there is a file for them."""
    if out is not None:
        write_json(out, content)
        print(f"wrote {out}")
