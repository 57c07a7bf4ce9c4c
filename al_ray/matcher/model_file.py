"""The file of a matcher: arrays as safetensors, which runs no code when it is read, checked before they are used.

matcher.safetensors      the arrays of the model (forest.py, splines.py), and as metadata one JSON object, `matcher`:
  format                 FORMAT; another one is refused
  learner                the name in LEARNERS
  names                  the comparisons, in the order of the columns of features
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from al_ray.core.errors import BadFile, BadOption
from al_ray.matcher.learner import LEARNERS
from al_ray.matcher.model import Arrays, Model
from al_ray.storage.files import check_fields, check_version, in_one_step, stamped
from al_ray.storage.uri import StoragePath

NAME = "matcher.safetensors"
FORMAT = 1
KEY = "matcher"
LARGEST = 1 << 28
"""Bytes of a file. A forest of 1,000 labels has 1.4 million."""
FIX = "restore it, or train the matcher again"


def write_model(path: StoragePath, model: Model, learner: str) -> None:
    """Write a model atomically; learner: the name in LEARNERS. The same model gives the same bytes.

    BadOption for a model that is too large to be read again.
    """
    about = stamped({"format": FORMAT, "learner": learner, "names": list(model.names)})
    arrays = {name: np.ascontiguousarray(array) for name, array in model.arrays().items()}
    content = save(arrays, {KEY: json.dumps(about)})
    if len(content) > LARGEST:
        raise BadOption(f"a matcher of {len(content)} bytes is too large: at most {LARGEST}; train it on fewer labels")
    in_one_step(path, lambda aside: aside.write_bytes(content))


def read_model(path: StoragePath, names: Sequence[str] | None = None, fix: str = FIX) -> Model:
    """Read a model; BadFile if it is missing, damaged, of a later al_ray, or of other comparisons than `names`."""
    arrays, about = read_arrays(path, KEY, "a matcher", LARGEST, fix)
    kind, found = _described(path, about, fix)
    try:
        model = LEARNERS[kind].read(found, arrays)
    except ValueError as error:
        raise BadFile(f"{path} is damaged ({error}); {fix}") from error
    if names is not None and tuple(names) != found:
        raise BadFile(f"{path} {_difference(found, tuple(names))}; use the fields it was trained with, or {fix}")
    return model


def read_arrays(path: StoragePath, key: str, what: str, largest: int, fix: str) -> tuple[Arrays, Any]:
    """Return the arrays of safetensors and the JSON value `key` of the metadata, None if it is missing.

    BadFile, which says that the file cannot be read as `what`, if it is damaged or has more than `largest` bytes.
    """
    try:
        with path.open("rb") as file:
            content = file.read(largest + 1)
        if len(content) > largest:
            raise ValueError(f"it has more than {largest} bytes")
        return load(content), json.loads(_metadata(content).get(key, "null"))
    # KeyError: a type of numbers that numpy lacks.
    except (OSError, ValueError, KeyError, RecursionError, SafetensorError) as error:
        raise BadFile(f"{path} cannot be read as {what} ({error}); {fix}") from error


def _metadata(content: bytes) -> dict[str, str]:
    """Return the metadata of safetensors, which `load` has checked and leaves out."""
    size = int.from_bytes(content[:8], "little")
    # It may be missing, or null.
    return json.loads(content[8 : 8 + size]).get("__metadata__") or {}


def _described(path: StoragePath, about: Any, fix: str) -> tuple[str, tuple[str, ...]]:
    """Return the learner and the names of the comparisons."""
    check_fields(path, about, {"format": int, "learner": str, "names": list, "al_ray": str}, fix)
    check_version(path, about["al_ray"])
    if about["format"] != FORMAT:
        raise BadFile(f"{path} has format {about['format']}, and this al_ray reads {FORMAT}; {fix}")
    if about["learner"] not in LEARNERS:
        raise BadFile(f"{path} has learner {about['learner']!r}, not one of {', '.join(LEARNERS)}; {fix}")
    names = about["names"]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names) or not names:
        raise BadFile(f"{path} has {names!r} as names of comparisons; {fix}")
    return about["learner"], tuple(names)


def _difference(found: tuple[str, ...], expected: tuple[str, ...]) -> str:
    """Return the first difference of two lists of comparisons in words."""
    if set(found) == set(expected):
        return "has the comparisons in another order"
    missing = [name for name in expected if name not in found]
    extra = [name for name in found if name not in expected]
    words = [f"{word} {names[0]!r}" for word, names in (("lacks", missing), ("has", extra)) if names]
    return f"was trained on other comparisons: it {' and '.join(words)}"
