"""Which texts are searched again after a change, and the candidates of all texts from old and new ones; pure.

What was found before holds for two texts that are both still there and whose labels are the same. All pairs with any
other text are searched. So the candidates are those of matching everything at once.
"""

from dataclasses import dataclass

import numpy as np

from al_ray.apps.matching.assignment import is_best
from al_ray.apps.matching.incremental.growth import NEW, GrownTask, Side
from al_ray.apps.matching.incremental.state import MatchState
from al_ray.core.pairs import Keys, Mask, Pairs, PairSpace, Rows, as_pairs, is_in
from al_ray.core.scored_pairs import ScoredPairs


@dataclass(frozen=True)
class Requery:
    """The rows of texts all of whose pairs are searched, and what of the known candidates stays.

    left, right: sorted rows now, of each side; the same if there is one side. kept: pairs of other texts alone.
    """

    left: Rows
    right: Rows
    kept: ScoredPairs

    def __len__(self) -> int:
        return len(self.left) + len(self.right)


def plan_requery(
    state: MatchState, before_task: tuple[int, int], grown: GrownTask, yes: Pairs, no: Pairs, best: bool
) -> Requery:
    """Return which texts are searched again: new and changed ones, and those of pairs whose labels changed.

    before_task: numbers of left and right texts before. yes, no: (n, 2) pairs whose labels count now. best: candidates
    are the best partners of each text; then a text that may have lost its best one is searched again, too.
    """
    symmetric = grown.task.symmetric
    again: dict[Side, Mask] = {side: rows == NEW for side, rows in grown.before.items()}
    now = {"left": grown.now("left", before_task[0]), "right": grown.now("right", before_task[1])}

    def moved(pairs: Pairs) -> Pairs:
        return as_pairs(now["left"][pairs[:, 0]], now["right"][pairs[:, 1]])

    for old, current in ((state.yes, yes), (state.no, no)):
        _mark(again, _unlike(moved(old), current, grown.task.splits["train"].space))
    candidates = moved(state.candidates.pairs)
    there = (candidates != NEW).all(axis=1)
    if best:
        # A text that has lost a candidate: the best one may be among others now.
        _mark(again, candidates[~there])
    if symmetric:
        again["left"] = again["right"] = again["left"] | again["right"]
    kept = there.copy()
    kept[there] = ~(again["left"][candidates[there, 0]] | again["right"][candidates[there, 1]])
    pairs, scores = candidates[kept], state.candidates.scores[kept]
    if symmetric:
        # Rows of one side can change their order, where a text was removed and came back.
        pairs = np.sort(pairs, axis=1)
    return Requery(np.flatnonzero(again["left"]), np.flatnonzero(again["right"]), ScoredPairs(pairs, scores))


def _mark(again: dict[Side, Mask], pairs: Pairs) -> None:
    """Mark the texts of pairs (n, 2) that are there; NEW stands for one that is gone."""
    for rows, mask in zip(pairs.T, (again["left"], again["right"]), strict=True):
        mask[rows[rows != NEW]] = True


def _unlike(one: Pairs, other: Pairs, space: PairSpace) -> Pairs:
    """Return the pairs that are in one of two sets alone, with those of which a text is gone."""
    there = (one != NEW).all(axis=1)
    return np.concatenate([one[~there], space.pairs(np.setxor1d(space.keys(one[there]), space.keys(other)))])


def merge(kept: ScoredPairs, *found: ScoredPairs) -> ScoredPairs:
    """Return the distinct pairs of all, each with its score; a pair that was found twice has one score."""
    pairs = np.concatenate([kept.pairs, *(one.pairs for one in found)])
    scores = np.concatenate([kept.scores, *(one.scores for one in found)])
    order = np.lexsort((-scores, pairs[:, 1], pairs[:, 0]))
    pairs, scores = pairs[order], scores[order]
    first = np.append(True, (np.diff(pairs, axis=0) != 0).any(axis=1))[: len(pairs)]
    return ScoredPairs(pairs[first], scores[first])


def best_of_texts(scored: ScoredPairs, space: PairSpace, texts: tuple[int, int], yes: Keys) -> ScoredPairs:
    """Return the pairs that are the best of one of their texts, and those labelled yes.

    Only these decide matches by a rule of best edges. If the best one of a text goes, all its pairs are searched again
    (plan_requery), so no other pair is needed then either. Ties: as in `assign`. texts: numbers of left and right ones.
    """
    # The best pair first; right texts are numbered after left ones.
    order = np.lexsort((scored.pairs[:, 1], scored.pairs[:, 0], -scored.scores))
    pairs = scored.pairs[order]
    best = is_best(sum(texts), pairs + np.array([0, 0 if space.symmetric else texts[0]])).any(axis=1)
    chosen = np.sort(order[best | is_in(space.keys(pairs), yes)])
    return scored.at(chosen)
