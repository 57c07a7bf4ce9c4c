"""Labels of the run for pairs of the texts to match; they overrule the model."""

from dataclasses import dataclass, field

import numpy as np

from al_ray.apps.matching.assignment import BY_MODEL, SAID_NO, SAID_YES
from al_ray.apps.matching.model import MatchingModel
from al_ray.core.labels import NO, YES
from al_ray.core.pairs import NO_KEYS, Keys, Pairs, PairSpace, Rows, is_in
from al_ray.core.task import Corpus, Task, strings_at
from al_ray.runs.dev_labels import SPLIT


@dataclass(frozen=True)
class PairDecisions:
    """Sorted keys of the pairs that were labelled yes and no.

    changed: labelled pairs one of whose texts is another now. unused: labels of a run of one set of texts where two
    are matched, or the other way round.
    """

    yes: Keys = field(default_factory=lambda: NO_KEYS)
    no: Keys = field(default_factory=lambda: NO_KEYS)
    changed: int = 0
    unused: int = 0


def known_decisions(model: MatchingModel, task: Task, space: PairSpace) -> PairDecisions:
    """Return the last label of each pair of the run whose two ids are in the task, with the same texts.

    Labels of drawn pairs of dev (--dev-labels) count too. task: of the texts to match; space: of the pairs to match.
    """
    labelled = [model.folder.ledger.labelled()]
    dev = model.task.splits.get(SPLIT)
    # Without dev pairs the run has none of their labels.
    if dev is not None and dev.space.total:
        labelled.append(model.folder.dev_labels.ledger.labelled())
    known, answers = (np.concatenate([getattr(one, name) for one in labelled]) for name in ("pairs", "labels"))
    if task.symmetric != model.task.symmetric:
        return PairDecisions(unused=len(answers))
    pairs, changed = _rows_in(task, model.task, known)
    here = space.holds(pairs)
    keys, labels = space.keys(pairs[here]), answers[here]
    # Of a pair that was labelled twice the last label counts.
    last = len(keys) - 1 - np.unique(keys[::-1], return_index=True)[1]
    keys, labels = keys[last], labels[last]
    return PairDecisions(np.sort(keys[labels == YES]), np.sort(keys[labels == NO]), changed)


def _rows_in(task: Task, before: Task, pairs: Pairs) -> tuple[Pairs, int]:
    """Return the rows (n, 2) of pairs of another task, -1 for a text that is not here, and how many texts changed."""
    if task.digest == before.digest:
        return pairs, 0
    sides = ((task.left, before.left), (task.right, before.right))
    rows = np.empty_like(pairs)
    changed = np.zeros(len(pairs), dtype=np.bool_)
    for side, (now, then) in enumerate(sides):
        rows[:, side], other = _same_texts(now, then, pairs[:, side])
        changed |= other
    return rows, int(changed.sum())


def _same_texts(now: Corpus, then: Corpus, rows: Rows) -> tuple[Rows, np.ndarray]:
    """(n,) rows of a corpus -> (n,) rows of the same id and text in another, else -1; and whether the text changed."""
    wanted, inverse = np.unique(rows, return_inverse=True)
    place_of = dict.fromkeys(strings_at(then.ids, wanted), -1)
    for row, name in enumerate(now.ids):
        if name in place_of:
            place_of[name] = row
    places = np.array([place_of[name] for name in strings_at(then.ids, wanted)], dtype=np.int64)
    there = np.flatnonzero(places >= 0)
    texts = zip(strings_at(now.texts, places[there]), strings_at(then.texts, wanted[there]), strict=True)
    differs = np.zeros(len(wanted), dtype=np.bool_)
    differs[there] = [one != other for one, other in texts]
    places[differs] = -1
    return places[inverse], differs[inverse]


def decided_by(keys: Keys, decisions: PairDecisions) -> np.ndarray:
    """(n,) keys -> (n,) who decides about each pair, as CandidateEdges has it."""
    decided = np.full(len(keys), BY_MODEL, dtype=np.uint8)
    decided[is_in(keys, decisions.yes)] = SAID_YES
    decided[is_in(keys, decisions.no)] = SAID_NO
    return decided
