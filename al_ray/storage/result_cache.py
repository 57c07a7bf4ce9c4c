"""Results that are computed once, each stored with `made_from`: all values that decide it.

FOLDER/NAME.json          a result as JSON, with what it was made from
PLACE/*.parquet           a result as tables; the name of the folder PLACE ends with the key of what it was made from
PLACE/set.json            what the tables were made from, and what else describes them; written last
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from al_ray.core.errors import BadFile
from al_ray.storage.files import read_json, write_json, write_parquet
from al_ray.storage.uri import StoragePath

ABOUT = "set.json"


class ResultCache:
    """A folder of results as JSON, one for each name."""

    def __init__(self, path: StoragePath) -> None:
        """Use a folder, which is created with the first result."""
        self.path = path

    def read(self, name: str, made_from: Mapping[str, Any]) -> Any:
        """Return the result of a name; None when there is none, or one that was made from other values."""
        path = self.path / f"{name}.json"
        if not path.exists():
            return None
        content = read_json(path, ["made_from", "found"])
        return content["found"] if content["made_from"] == made_from else None

    def write(self, name: str, made_from: Mapping[str, Any], result: Any) -> None:
        """Write a result; it replaces one that was made from other values."""
        write_json(self.path / f"{name}.json", {"made_from": made_from, "found": result})


def key_of(made_from: Mapping[str, Any]) -> str:
    """Return a hash of these values, in any order: 16 hex digits."""
    return hashlib.sha256(json.dumps(dict(made_from), sort_keys=True).encode()).hexdigest()[:16]


def read_about(
    place: StoragePath, made_from: Mapping[str, Any], names: Sequence[str] | Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the description of the tables in `place`, with these fields; None when there are no tables.

    BadFile when they were made from other values: the folder's name holds the key of `made_from`, so this is damage.
    """
    path = place / ABOUT
    if not path.exists():
        return None
    about = read_json(
        path, {"made_from": dict, **(names if isinstance(names, Mapping) else dict.fromkeys(names, object))}
    )
    if about["made_from"] != dict(made_from):
        raise BadFile(f"{path} was not made from the values in the hash of its folder's name; remove {place}")
    return about


def write_tables(
    place: StoragePath, made_from: Mapping[str, Any], tables: Mapping[str, pa.Table], about: Mapping[str, Any]
) -> None:
    """Write tables, file name -> table, and last of all their description: a folder without it holds no result."""
    for name, table in tables.items():
        write_parquet(place / name, table)
    write_json(place / ABOUT, {"made_from": dict(made_from), **about})
