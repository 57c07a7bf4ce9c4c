"""Which uncertain pairs are asked first, and what their answers make of the scores by which matches are assigned."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from al_ray.apps.matching.assignment import BY_MODEL, SAID_NO, SAID_YES, CandidateEdges, assign
from al_ray.apps.matching.assignment_rules import ASSIGNMENTS, Assignment
from al_ray.apps.matching.cascade.band import Band
from al_ray.core.pairs import NO_KEYS, Keys, Mask, Rows, is_in
from al_ray.core.scorer import Floats

STEP = 1e-6
"""A pair with a yes has a score from `high` to this much above it, in the order of the model's scores."""


@dataclass(frozen=True)
class Questions:
    """The uncertain pairs: (n,) positions to ask, the first one first, and the number that sure matches settle."""

    order: Rows
    settled: int


def choose_questions(edges: CandidateEdges, p: Floats, band: Band, rule: Assignment) -> Questions:
    """Return which of (n,) edges to ask, those first whose answer is most likely to change the matches.

    p: (n,) of the model. The answer to a match of the model changes it with the chance 1 - p, that to another pair with
    p: both are at most about 1/2 where p is right, and highest where the model is least certain. Of equal chances
    matches of the model come first, then the pair with the lowest (left, right). A pair whose text has a sure match, or
    was labelled yes, is not asked where the rule gives a text one match.
    """
    uncertain = (edges.decisions == BY_MODEL) & (edges.scores >= band.low) & (edges.scores < band.high)
    sure = (edges.decisions == SAID_YES) | ((edges.decisions == BY_MODEL) & (edges.scores >= band.high))
    has_match = np.zeros(edges.texts, dtype=np.bool_)
    has_match[edges.pairs[sure]] = True
    settled = uncertain & _settled(rule, has_match[edges.pairs], edges.symmetric)
    asked = np.flatnonzero(uncertain & ~settled)
    matches = assign(edges, rule, band.cutoff)[asked]
    change = np.where(matches, 1 - p[asked], p[asked])
    order = asked[np.lexsort((edges.right[asked], edges.left[asked], ~matches, -change))]
    return Questions(order, int(settled.sum()))


def _settled(rule: Assignment, has_match: npt.NDArray[np.bool_], symmetric: bool) -> Mask:
    """(n, 2) whether the texts of an edge have a sure match -> (n,) whether a yes would make no match of the edge."""
    about = ASSIGNMENTS[rule]
    if about.of_right or about.together:
        return has_match[:, 0] | has_match[:, 1]
    if about.of_best:
        return has_match[:, 0] & has_match[:, 1] if symmetric else has_match[:, 0]
    return np.zeros(len(has_match), dtype=np.bool_)


@dataclass(frozen=True)
class Verdicts:
    """What an oracle said about uncertain pairs: sorted keys of those that it said yes and no to.

    Pairs of which it is unsure, and those that were not asked, are in neither: the model decides about them.
    record: what match.json says.
    """

    band: Band
    yes: Keys = field(default_factory=lambda: NO_KEYS)
    no: Keys = field(default_factory=lambda: NO_KEYS)
    record: Mapping[str, Any] = field(default_factory=dict)

    def apply(self, keys: Keys, edges: CandidateEdges) -> CandidateEdges:
        """Return the edges, with keys (n,), as matches are assigned: a no is a no, and a yes is a sure match.

        A yes counts as a score just above `high`, so that it is better than every pair that was not answered, and no
        better than other sure matches.
        """
        own, band = edges.decisions == BY_MODEL, self.band
        decisions = np.where(own & is_in(keys, self.no), SAID_NO, edges.decisions).astype(np.uint8)
        lifted = band.high + STEP * (edges.scores - band.low) / (band.high - band.low)
        scores = np.where(own & is_in(keys, self.yes), lifted, edges.scores)
        return replace(edges, scored=replace(edges.scored, scores=scores), decisions=decisions)
