"""Files that commands write their figures to."""

from collections.abc import Mapping
from typing import Any

from al_ray.api.files import StoragePath, check_out, write_figures

__all__ = ["check_out", "write_result"]


def write_result(out: StoragePath | None, content: Mapping[str, Any]) -> None:
    """Write figures as JSON and print where, if there is a file for them."""
    if out is not None:
        write_figures(out, content)
        print(f"wrote {out}")
