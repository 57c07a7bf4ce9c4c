"""Labels of the run for pairs of the texts to match; they overrule the model."""

from dataclasses import dataclass, field

import numpy as np

from al_ray.apps.matching.assignment import BY_MODEL, SAID_NO, SAID_YES
from al_ray.apps.matching.model import MatchingModel
from al_ray.core.labels import NO, UNSURE, YES
from al_ray.core.pairs import NO_KEYS, Keys, PairSpace, is_in
from al_ray.core.same_texts import rows_in
from al_ray.core.task import Task
from al_ray.runs.dev_labels import SPLIT


@dataclass(frozen=True)
class PairDecisions:
    """Sorted keys of the pairs that were labelled yes, no and unsure.

    changed: labelled pairs one of whose texts is another now. unused: labels of a run of one set of texts where two
    are matched, or the other way round.
    """

    yes: Keys = field(default_factory=lambda: NO_KEYS)
    no: Keys = field(default_factory=lambda: NO_KEYS)
    unsure: Keys = field(default_factory=lambda: NO_KEYS)
    changed: int = 0
    unused: int = 0


def known_decisions(model: MatchingModel, task: Task, space: PairSpace) -> PairDecisions:
    """Return the last label of each pair of the run whose two ids are in the task, with the same texts.

    Labels of drawn pairs of dev (--dev-labels) count too. A copy of a model has no labels. task: of the texts to match;
    space: of the pairs to match.
    """
    if model.run is None:
        return PairDecisions()
    labelled = [model.run.ledger.labelled()]
    dev = model.task.splits.get(SPLIT)
    # Without dev pairs the run has none of their labels.
    if dev is not None and dev.space.total:
        labelled.append(model.run.dev_labels.ledger.labelled())
    known, answers = (np.concatenate([getattr(one, name) for one in labelled]) for name in ("pairs", "labels"))
    if task.symmetric != model.task.symmetric:
        return PairDecisions(unused=len(answers))
    pairs, changed = rows_in(task, model.task, known)
    here = space.holds(pairs)
    keys, labels = space.keys(pairs[here]), answers[here]
    # Of a pair that was labelled twice the last label counts.
    last = len(keys) - 1 - np.unique(keys[::-1], return_index=True)[1]
    keys, labels = keys[last], labels[last]
    yes, no, unsure = (np.sort(keys[labels == word]) for word in (YES, NO, UNSURE))
    return PairDecisions(yes, no, unsure, int(changed.sum()))


def decided_by(keys: Keys, decisions: PairDecisions) -> np.ndarray:
    """(n,) keys -> (n,) who decides about each pair, as CandidateEdges has it."""
    decided = np.full(len(keys), BY_MODEL, dtype=np.uint8)
    decided[is_in(keys, decisions.yes)] = SAID_YES
    decided[is_in(keys, decisions.no)] = SAID_NO
    return decided
