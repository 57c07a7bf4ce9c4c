"""round-NNN/importance.json: which comparisons a matcher uses, by what each adds or takes on average.

pairs         the number of labelled pairs over which the means are
comparisons   name and adds (mean size of what the comparison adds to p) of each, the greatest first
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from al_ray.core.errors import BadFile
from al_ray.core.scorer import Floats
from al_ray.storage.files import check_fields, read_json, write_json
from al_ray.storage.uri import StoragePath

FILE = "importance.json"
FIX = "restore it, or remove it"


@dataclass(frozen=True)
class Importance:
    """Names of the comparisons (F,), what each adds or takes on average, the greatest first; over how many pairs."""

    names: tuple[str, ...]
    adds: tuple[float, ...]
    pairs: int


def write_importance(folder: StoragePath, names: Sequence[str], adds: Floats, pairs: int) -> None:
    """Write (F,) means of the comparisons into the folder of a round."""
    order = np.argsort(-adds, kind="stable").tolist()
    comparisons = [{"name": names[at], "adds": float(adds[at])} for at in order]
    write_json(folder / FILE, {"pairs": pairs, "comparisons": comparisons})


def read_importance(folder: StoragePath) -> Importance | None:
    """Return which comparisons the matcher of a round uses; None for a round without a matcher, or of old."""
    path = folder / FILE
    if not path.exists():
        return None
    content = read_json(path, {"pairs": int, "comparisons": list}, FIX)
    found = content["comparisons"]
    for one in found:
        check_fields(path, one, {"name": str, "adds": float}, FIX)
    if not found:
        raise BadFile(f"{path} has no comparisons; {FIX}")
    return Importance(tuple(one["name"] for one in found), tuple(one["adds"] for one in found), content["pairs"])
