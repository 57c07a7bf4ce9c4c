"""Types of options: how paths, and several values of one option, are written on a command line."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from tyro.constructors import PrimitiveConstructorSpec

from al_ray.api.files import StoragePath, Uri, storage_path
from al_ray.api.option_types import LABEL_COLUMNS, ColumnNames, Guarantee, RoundName, with_guarantee

__all__ = ["LABEL_COLUMNS", "ColumnNames", "Numbers", "PathOrUri", "RoundName", "StoragePath", "Uri", "Words"]
__all__ += ["Guarantee", "storage_path", "with_guarantee"]

PathOrUri = Annotated[
    StoragePath,
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="PATH|URI",
        instance_from_str=lambda words: storage_path(words[0]),
        is_instance=lambda value: isinstance(value, Path | Uri),
        str_from_instance=lambda value: [str(value)],
    ),
]


def values_of(kind: Callable[[str], Any], name: str) -> Any:
    """Return the constructor of an option that takes several values, separated by commas or spaces."""
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar=f"{name}[,{name}...]",
        instance_from_str=lambda words: tuple(kind(one) for one in " ".join(words).replace(",", " ").split()),
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda value: [",".join(map(str, value))],
    )


Words = Annotated[tuple[str, ...], values_of(str, "NAME")]
Numbers = Annotated[tuple[int, ...], values_of(int, "N")]
