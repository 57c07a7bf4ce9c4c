"""The file of a reference: arrays as safetensors, which runs no code when it is read, checked before they are used.

records.safetensors      beside the matcher's own file; as metadata one JSON object, `reference`:
  format                 FORMAT; another one is refused
  left, right            [name, type] of each field; [] for texts of one column
  symmetric              whether both sides are the same texts
  3-grams                what decides the 3-grams of a text
  dense                  the cosine of dense texts, if these have more candidates than others
N.values.*, N.words.*    frequencies of the N-th shared field, the last one being the whole text (frequency_arrays.py)
grams.columns, .counts   (k,) 3-grams that some texts have, ascending, and in how many texts
grams.totals             number of texts; the most texts in which a 3-gram is that has a weight
"""

import json
from typing import Any, get_args

import numpy as np
from safetensors.numpy import save

from al_ray.cluster.candidates.reference import Reference, Sides
from al_ray.core.errors import BadFile
from al_ray.core.labels import SavedReference
from al_ray.core.task import FieldType
from al_ray.matcher.comparisons.frequency_arrays import frequencies_from, frequency_arrays
from al_ray.matcher.comparisons.records import Field
from al_ray.matcher.model import Arrays, array_of
from al_ray.matcher.model_file import read_arrays
from al_ray.search.lexical.grams import COLUMNS, DEFINITION
from al_ray.search.lexical.weights import DocumentFrequencies
from al_ray.storage.files import check_fields, check_version, in_one_step, stamped
from al_ray.storage.uri import StoragePath, storage_path

NAME = "records.safetensors"
FORMAT = 1
KEY = "reference"
LARGEST = 1 << 32
"""Bytes of a file. A value or a word that occurs takes 12, a 3-gram 8."""
FIX = "restore it, or train the matcher again"
COUNTS = ".counts"
FIELDS = {"format": int, "left": list, "right": list, "symmetric": bool, "3-grams": str, "al_ray": str}


def write_reference(path: StoragePath, reference: Reference) -> SavedReference:
    """Write a reference atomically. The same reference gives the same bytes."""
    sides = {"left": reference.sides.left, "right": reference.sides.right}
    about = {"format": FORMAT, **{name: [[one.name, one.type] for one in side] for name, side in sides.items()}}
    about |= {"symmetric": reference.sides.symmetric, "3-grams": DEFINITION}
    about |= {} if reference.dense is None else {"dense": reference.dense}
    used = np.flatnonzero(reference.grams.counts)
    arrays: dict[str, np.ndarray] = {**frequency_arrays(reference.frequencies)}
    arrays |= {"grams.columns": used.astype(np.int32), "grams.counts": reference.grams.counts[used]}
    # Texts of a task are less than 2^32.
    arrays = {name: array.astype(np.uint32) if name.endswith(COUNTS) else array for name, array in arrays.items()}
    arrays["grams.totals"] = np.array([reference.grams.texts, reference.most], dtype=np.int64)
    content = save(arrays, {KEY: json.dumps(stamped(about))})
    in_one_step(path, lambda aside: aside.write_bytes(content))
    return SavedReference(str(path), reference.digest)


def read_reference(saved: SavedReference, fix: str = FIX) -> Reference:
    """Read a reference; BadFile if it is missing, damaged, of a later al_ray, or another one than the model's."""
    path = storage_path(saved.path)
    arrays, about = read_arrays(path, KEY, "the frequencies of a matcher", LARGEST, fix)
    check_fields(path, about, FIELDS, fix)
    check_version(path, about["al_ray"])
    if about["format"] != FORMAT:
        raise BadFile(f"{path} has format {about['format']}, and this al_ray reads {FORMAT}; {fix}")
    if about["3-grams"] != DEFINITION:
        raise BadFile(
            f"{path} counts 3-grams as {about['3-grams']}, and this Python and al_ray as {DEFINITION}; use those that "
            "trained the matcher, or train it again"
        )
    left, right = (_side(about[name], path, fix) for name in ("left", "right"))
    sides = Sides(left, right, about["symmetric"])
    counts = {name: array.astype(np.int64) for name, array in arrays.items() if not name.startswith("grams.")}
    frequencies = frequencies_from(counts, len(sides.shared[0]), path, fix)
    dense = about.get("dense")
    if dense is not None and not (isinstance(dense, float) and -1 <= dense <= 1):
        raise BadFile(f"{path} has {dense!r} as the cosine of dense texts; {fix}")
    try:
        reference = Reference(sides, frequencies, *_grams(arrays), dense)
    except ValueError as error:
        raise BadFile(f"{path} is damaged ({error}); {fix}") from error
    if reference.digest != saved.digest:
        raise BadFile(f"{path} holds other frequencies than those that the matcher was trained with; {fix}")
    return reference


def _side(fields: Any, path: StoragePath, fix: str) -> tuple[Field, ...]:
    sound = all(
        isinstance(one, list) and len(one) == 2 and isinstance(one[0], str) and one[1] in get_args(FieldType)
        for one in fields
    )
    if not sound:
        raise BadFile(f"{path} has {fields!r} as fields; {fix}")
    return tuple(Field(name, kind) for name, kind in fields)


def _grams(arrays: Arrays) -> tuple[DocumentFrequencies, int]:
    """Return the frequencies of 3-grams and the highest one; ValueError if the arrays hold no frequencies."""
    columns = array_of(arrays, "grams.columns", np.int32, (None,))
    counts = array_of(arrays, "grams.counts", np.uint32, (len(columns),)).astype(np.int64)
    texts, most = array_of(arrays, "grams.totals", np.int64, (2,)).tolist()
    ascending = (np.diff(columns) > 0).all() and (columns >= 0).all() and (columns < COLUMNS).all()
    if not (ascending and (counts > 0).all() and (counts <= texts).all() and texts >= 0 and most >= 0):
        raise ValueError("its 3-grams are no counts")
    every = np.zeros(COLUMNS, dtype=np.int64)
    every[columns] = counts
    return DocumentFrequencies(every, texts), most
