"""Labels of the run for pairs of the texts to match; they overrule the model."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from al_ray.apps.matching.assignment import BY_MODEL, SAID_NO, SAID_YES
from al_ray.apps.matching.model import MatchingModel
from al_ray.core.errors import BadOption
from al_ray.core.labels import NO, UNSURE, YES
from al_ray.core.naming import option
from al_ray.core.pairs import NO_KEYS, NO_PAIRS, Keys, PairSpace, is_in
from al_ray.core.same_texts import rows_in
from al_ray.core.task import Task, strings_at
from al_ray.runs.dev_labels import SPLIT


@dataclass(frozen=True)
class PairDecisions:
    """Sorted keys of the pairs that were labelled yes, no and unsure.

    rule: sorted keys of the pairs that match by a rule (--always), without those labelled yes or no. overruled: number
    of its pairs that were labelled no. changed: labelled pairs one of whose texts is another now. unused: labels of a
    run of one set of texts where two are matched, or the other way round.
    """

    yes: Keys = field(default_factory=lambda: NO_KEYS)
    no: Keys = field(default_factory=lambda: NO_KEYS)
    unsure: Keys = field(default_factory=lambda: NO_KEYS)
    changed: int = 0
    unused: int = 0
    rule: Keys = field(default_factory=lambda: NO_KEYS)
    overruled: int = 0

    @property
    def certain(self) -> Keys:
        """Return the sorted keys of the pairs that match whatever their score: labelled yes, or by a rule."""
        return np.union1d(self.yes, self.rule)

    def with_rule(self, keys: Keys) -> "PairDecisions":
        """Return the decisions with the pairs of a rule: sorted keys. Labels overrule it."""
        no = is_in(keys, self.no)
        return replace(self, rule=keys[~no & ~is_in(keys, self.yes)], overruled=int(no.sum()))


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
    # A pair that a rule decides is as good as one that was labelled yes.
    decided[is_in(keys, decisions.certain)] = SAID_YES
    decided[is_in(keys, decisions.no)] = SAID_NO
    return decided


def always_pairs(task: Task, columns: Sequence[str], space: PairSpace, most: int) -> Keys:
    """Return the sorted keys of the pairs of a space whose texts have equal values in all of these columns.

    An empty value is equal to none. BadOption if there are more than `most`.
    """
    groups: tuple[dict[tuple[str, ...], list[int]], ...] = {}, {}
    for corpus, rows, found in ((task.left, space.left, groups[0]), (task.right, space.right, groups[1])):
        cells = [strings_at(corpus.columns[name], rows) for name in columns]
        for row, *values in zip(rows.tolist(), *cells, strict=True):
            if all(values):
                found.setdefault(tuple(values), []).append(row)
        if task.symmetric:
            break
    left, right = groups[0], groups[0 if task.symmetric else 1]
    shared = [(rows, right[value]) for value, rows in left.items() if value in right]
    if sum(len(one) * len(other) for one, other in shared) > (2 if task.symmetric else 1) * most + len(space.left):
        raise BadOption(
            f"{option('always', ','.join(columns))}: more than {option('most', most)} pairs have equal values; name a "
            "column whose values are of few texts, or give a higher `most`"
        )
    blocks = [np.stack(np.meshgrid(one, other), axis=-1).reshape(-1, 2) for one, other in shared]
    pairs = np.concatenate([NO_PAIRS, *blocks])
    return np.unique(space.keys(pairs[space.holds(np.sort(pairs, axis=1) if task.symmetric else pairs)]))
