"""Find texts of one task in another, by id and text."""

import re

import numpy as np

from al_ray.core.pairs import Mask, Pairs, Rows
from al_ray.core.task import Corpus, Task, strings_at
from al_ray.core.text import spelling

# Whether a file has 12 or 12.0 depends on its other rows, where a program has stored numbers as floats.
WHOLE = re.compile(r"-?[0-9]+(\.0)?")


def rows_in(task: Task, before: Task, pairs: Pairs) -> tuple[Pairs, Mask]:
    """Return the rows (n, 2) in a task of pairs of another one, and (n,) whether a text of the pair is another now.

    The row is -1 for a text whose id is not there, or that is another there by more than its spelling. 12 and 12.0 are
    one id, if only one of them is there.
    """
    changed = np.zeros(len(pairs), dtype=np.bool_)
    if task.digest == before.digest:
        return pairs, changed
    sides = ((task.left, before.left), (task.right, before.right))
    rows = np.empty_like(pairs)
    for side, (now, then) in enumerate(sides):
        rows[:, side], other = _same_texts(now, then, pairs[:, side])
        changed |= other
    return rows, changed


def _same_texts(now: Corpus, then: Corpus, rows: Rows) -> tuple[Rows, Mask]:
    """(n,) rows of a corpus -> (n,) rows of the same id and text in another, else -1; and whether the text changed."""
    wanted, inverse = np.unique(rows, return_inverse=True)
    place_of = dict.fromkeys(strings_at(then.ids, wanted), -1)
    for row, name in enumerate(now.ids):
        if name in place_of:
            place_of[name] = row
    _find_other_spelling(now, place_of)
    places = np.array([place_of[name] for name in strings_at(then.ids, wanted)], dtype=np.int64)
    there = np.flatnonzero(places >= 0)
    texts = zip(strings_at(now.texts, places[there]), strings_at(then.texts, wanted[there]), strict=True)
    differs = np.zeros(len(wanted), dtype=np.bool_)
    differs[there] = [one != other and spelling(one) != spelling(other) for one, other in texts]
    places[differs] = -1
    return places[inverse], differs[inverse]


def _find_other_spelling(now: Corpus, place_of: dict[str, int]) -> None:
    """Set the rows of ids that are not there, and are there spelled as 12 in place of 12.0 or the other way round."""
    missing = (name for name, row in place_of.items() if row < 0 and WHOLE.fullmatch(name))
    spelled = {name.removesuffix(".0") if name.endswith(".0") else f"{name}.0": name for name in missing}
    spelled = {other: name for other, name in spelled.items() if other not in place_of}
    for row, name in enumerate(now.ids if spelled else ()):
        if name in spelled:
            place_of[spelled[name]] = row
