"""What was found once and is not computed again: FOLDER/NAME.json holds a finding, and all that decided it."""

from collections.abc import Mapping
from typing import Any

from al_ray.data.files import read_json, write_json
from al_ray.storage.places import Place


class Findings:
    """A folder of findings."""

    def __init__(self, path: Place) -> None:
        """A folder, new or with findings in it."""
        self.path = path

    def read(self, name: str, made_from: Mapping[str, Any]) -> Any:
        """A finding, if it is there and was made from the same; else None."""
        path = self.path / f"{name}.json"
        if not path.exists():
            return None
        kept = read_json(path, ["made_from", "found"])
        return kept["found"] if kept["made_from"] == made_from else None

    def keep(self, name: str, made_from: Mapping[str, Any], found: Any) -> None:
        """Write a finding, in the place of one that was made from something else."""
        write_json(self.path / f"{name}.json", {"made_from": made_from, "found": found})
