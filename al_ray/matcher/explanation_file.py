"""round-NNN/why.json: why the pairs of a batch had their p by the matcher that chose them, for the page.

base        p of a pair of which no comparison is known
names       of the F comparisons
pairs       of each pair of the batch, in order: p, values (F) and adds (F)
"""

from collections.abc import Sequence

from al_ray.core.errors import BadFile
from al_ray.matcher.explanation import Explanation, Part
from al_ray.storage.files import check_fields, read_json, write_json
from al_ray.storage.uri import StoragePath

FILE = "why.json"
FIX = "remove it: the page then says nothing of why"


def write_explanations(folder: StoragePath, found: Sequence[Explanation], names: Sequence[str]) -> None:
    """Write the explanations of the (n,) pairs of a batch into the folder of its round. names: of the comparisons."""
    pairs = list[dict[str, object]]()
    for one in found:
        parts = {part.name: part for part in one.parts}
        ordered = [parts[name] for name in names]
        values, adds = [part.value for part in ordered], [part.adds for part in ordered]
        pairs.append({"p": one.p, "values": values, "adds": adds})
    base = found[0].base if found else 0.0
    write_json(folder / FILE, {"base": base, "names": list(names), "pairs": pairs})


def read_explanations(folder: StoragePath, count: int) -> list[Explanation]:
    """Return the explanations of the `count` pairs of a batch; none if it was not chosen by a matcher.

    BadFile if the file holds others.
    """
    path = folder / FILE
    if not path.is_file():
        return []
    content = read_json(path, {"base": float, "names": list, "pairs": list}, FIX)
    names = content["names"]
    found = list[Explanation]()
    for one in content["pairs"]:
        check_fields(path, one, {"p": float, "values": list, "adds": list}, FIX)
        values, adds = one["values"], one["adds"]
        if not len(names) == len(values) == len(adds) or not all(isinstance(x, float) for x in (*values, *adds)):
            raise BadFile(f"{path} has other numbers than one for each comparison; {FIX}")
        parts = [Part(*part) for part in zip(names, values, adds, strict=True)]
        # As `explain` orders them: the sort is stable.
        parts.sort(key=lambda part: -abs(part.adds))
        found.append(Explanation(one["p"], content["base"], tuple(parts)))
    if len(found) != count:
        raise BadFile(f"{path} is of {len(found):,} pairs, and the batch has {count:,}; {FIX}")
    return found
