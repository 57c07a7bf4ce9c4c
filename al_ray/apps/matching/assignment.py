"""Which candidate edges are matches: all, the best of a text, mutual bests, or a one-to-one matching.

No rule depends on the order of the edges: equal scores are settled by (left, right) rows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import networkx as nx
import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from al_ray.apps.matching.assignment_rules import Assignment
from al_ray.core.errors import BadOption
from al_ray.core.graph import components
from al_ray.core.pairs import Mask, Pairs, Rows, as_pairs
from al_ray.core.scored_pairs import ScoredPairs
from al_ray.core.scorer import Floats

# Who decided about an edge: the model, or people, who said yes or no. These are not the labels of core/labels.py, where
# 0 is NO.
BY_MODEL, SAID_YES, SAID_NO = 0, 1, 2

OFFSET = 1e-9
"""Added to the weight of each edge in a one-to-one matching, so that an edge exactly at the cutoff counts.

It only decides between totals that differ by less than 1e-9 per edge. Of these, more edges are better.
"""
DENSE_CELLS = 20_000
"""A two-sided component with at most this many cells, left times right texts, is solved as a dense table."""
MOST_STEPS = 50_000_000
"""A one-sided component with a cycle of odd length is refused if its texts times its edges are more than these.

networkx takes 1.4 to 2.9 s for each million: 8 s for 1,000 texts with 3,000 edges, 14 s with 10,000 edges, 73 s with
48,000 edges, and 63 s for 3,000 texts with 9,000 edges. From this size on it takes minutes.
"""
SHRINKAGE = 0.02
"""If a round of the reduction settles less than this share of the edges, the rest is solved by component."""


@dataclass(frozen=True)
class CandidateEdges:
    """Candidate edges: distinct pairs of texts, in any order.

    scored: their scores are finite where the model decides, and not read elsewhere. symmetric: both columns are rows of
    one collection and left < right. decisions: (n,) BY_MODEL, SAID_YES or SAID_NO.
    """

    scored: ScoredPairs
    symmetric: bool
    decisions: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.scored)

    @property
    def left(self) -> Rows:
        """(n,) rows of the left texts."""
        return self.scored.pairs[:, 0]

    @property
    def right(self) -> Rows:
        """(n,) rows of the right texts."""
        return self.scored.pairs[:, 1]

    @property
    def scores(self) -> Floats:
        """(n,) scores."""
        return self.scored.scores

    def where(self, chosen: Mask | Rows) -> "CandidateEdges":
        """Take the edges at which the (n,) mask is true, or those at the (k,) positions, in their order."""
        return CandidateEdges(self.scored.at(chosen), self.symmetric, self.decisions[chosen])

    @property
    def texts(self) -> int:
        """Number of rows, as far as the edges show: those of both sides together when not symmetric."""
        if not len(self):
            return 0
        right = int(self.right.max()) + 1
        return right if self.symmetric else self._left_texts + right

    @property
    def pairs(self) -> Pairs:
        """(n, 2) texts, numbered over both sides: when not symmetric, the right texts follow the left ones."""
        return as_pairs(self.left, self.right if self.symmetric else self.right + self._left_texts)

    @property
    def _left_texts(self) -> int:
        return int(self.left.max(initial=-1)) + 1


@dataclass(frozen=True)
class OpenEdges:
    """The edges among which a rule chooses: the model's with at least the cutoff, at the (n,) positions `at`."""

    edges: CandidateEdges
    at: Rows
    cutoff: float

    @cached_property
    def ranked(self) -> Rows:
        """(n,) positions, the best edge first, so that the best edge of a text is its first one."""
        left, right, scores = self.edges.left[self.at], self.edges.right[self.at], self.edges.scores[self.at]
        return self.at[np.lexsort((right, left, -scores))]

    @cached_property
    def pairs(self) -> Pairs:
        """(n, 2) texts of the ranked edges, numbered over both sides."""
        return self.edges.pairs[self.ranked]

    @cached_property
    def answered(self) -> npt.NDArray[np.bool_]:
        """(n, 2) whether the left and the right text of a ranked edge has a yes."""
        answered = np.zeros(self.edges.texts, dtype=np.bool_)
        answered[self.edges.pairs[self.edges.decisions == SAID_YES]] = True
        return answered[self.pairs]

    @cached_property
    def best(self) -> npt.NDArray[np.bool_]:
        """(n, 2) whether a ranked edge is the best of its left and of its right text, which has no yes."""
        return is_best(self.edges.texts, self.pairs) & ~self.answered


def _best(open_edges: OpenEdges) -> Rows:
    best = open_edges.best
    return open_edges.ranked[best.any(axis=1) if open_edges.edges.symmetric else best[:, 0]]


def _one_to_one(open_edges: OpenEdges) -> Rows:
    free, edges, cutoff = ~open_edges.answered.any(axis=1), open_edges.edges, open_edges.cutoff
    at = open_edges.ranked[free]
    floor = cutoff if cutoff > -np.inf else edges.scores[open_edges.at].min(initial=np.inf)
    return at[_matching(edges.texts, open_edges.pairs[free], edges.scores[at] - floor + OFFSET, edges.symmetric)]


CHOOSERS: Mapping[str, Callable[[OpenEdges], Rows]] = {
    "all": lambda open_edges: open_edges.at,
    "best": _best,
    "mutual": lambda open_edges: open_edges.ranked[open_edges.best.all(axis=1)],
    "one-to-one": _one_to_one,
}
"""The function of each rule in ASSIGNMENTS: returns the positions of the edges that are matches."""


def assign(edges: CandidateEdges, rule: Assignment, cutoff: float) -> Mask:
    """Return (n,) whether each edge is a match.

    An edge of the model matches only if its score is at least `cutoff`. An edge that people said no to never matches.
    An edge that people said yes to always matches, whatever its score, and is better than every edge of the model, so a
    text with a yes has no best edge of the model. A text may have several such edges.

    all: all edges of the model. best: the best edge of each left text; when symmetric, an edge that is the best of one
    of its texts. mutual: an edge that is the best of both its texts, so every mutual edge is also one of `best`.
    one-to-one: a matching of the texts without a yes. Each has at most one edge, and the total of
    score - cutoff + OFFSET is the largest possible. If `cutoff` is minus infinity, the lowest score of an edge of the
    model takes its place there.

    Ties: of equal scores the edge with the lowest (left, right) is the best. Of several matchings with the largest
    total one is returned; which one does not depend on the order of the edges.

    Cost of one-to-one: linear in the edges that belong to small components. A two-sided component of k texts takes up
    to k^3 steps in C, and a symmetric component with a cycle of odd length k^3 steps in Python: 8 s for 1,000 texts
    with 3,000 edges. BadOption if that takes minutes (MOST_STEPS). A higher cutoff gives smaller components.
    """
    matches = edges.decisions == SAID_YES
    candidates = np.flatnonzero((edges.decisions == BY_MODEL) & (edges.scores >= cutoff))
    matches[CHOOSERS[rule](OpenEdges(edges, candidates, cutoff))] = True
    return matches


def is_best(texts: int, pairs: Pairs) -> npt.NDArray[np.bool_]:
    """(n, 2) pairs, the best first -> (n, 2) whether a pair is the best of its left and of its right text."""
    index = np.arange(len(pairs))
    first = np.full(texts, len(pairs))
    for side in (0, 1):
        np.minimum.at(first, pairs[:, side], index)
    return first[pairs] == index[:, None]


def _matching(texts: int, pairs: Pairs, weights: Floats, symmetric: bool) -> Mask:
    """Return (n,) whether each pair is in a matching with the largest total weight.

    pairs: (n, 2), the best first. weights: (n,), positive and descending.
    """
    matching, rest = _reduced(texts, pairs, weights)
    if not len(rest):
        return matching
    # Texts are renumbered, or each step below would take time for the texts without an edge.
    rows, numbers = np.unique(pairs[rest], return_inverse=True)
    ends = numbers.reshape(-1, 2)
    two_sided = np.ones(len(rest), dtype=np.bool_)
    if symmetric:
        ends, two_sided = _in_two_sides(len(rows), ends)
    parts = components(len(rows), ends)
    numbered = np.stack([_number_within(ends[:, side], parts) for side in (0, 1)], axis=1)
    part = parts[ends[:, 0]]
    order = np.argsort(part, kind="stable")
    starts = np.flatnonzero(np.diff(part[order], prepend=-1))
    found = np.split(order, starts[1:])
    for edges in found:
        if not two_sided[edges[0]]:
            _check_component_size(ends[edges])
    for edges in found:
        if two_sided[edges[0]]:
            matching[rest[edges]] = _two_sided_matching(numbered[edges], weights[rest[edges]])
        else:
            matching[rest[edges]] = _general_matching(ends[edges], weights[rest[edges]])
    return matching


def _reduced(texts: int, pairs: Pairs, weights: Floats) -> tuple[Mask, Rows]:
    """Match the dominant edges until few are left: return (n,) matched, and the positions of the edges still open."""
    matching = np.zeros(len(pairs), dtype=np.bool_)
    rest = np.arange(len(pairs))
    while len(rest):
        dominant = rest[_is_dominant(texts, pairs[rest], weights[rest])]
        matching[dominant] = True
        matched = np.zeros(texts, dtype=np.bool_)
        matched[pairs[dominant]] = True
        before, rest = len(rest), rest[~matched[pairs[rest]].any(axis=1)]
        # A long path of falling weights would take a round for each edge.
        if before - len(rest) < SHRINKAGE * before:
            break
    return matching, rest


def _is_dominant(texts: int, pairs: Pairs, weights: Floats) -> Mask:
    """Return (n,) whether each edge is the best of both its texts and weighs at least both second bests together.

    Such edges are in a matching with the largest total. A matching without such an edge has at most one other edge at
    each of its texts; these two weigh no more than it does, so it can replace them.
    """
    best = is_best(texts, pairs)
    # A text without a second edge points at the weight 0 behind the last.
    second = np.full(texts, len(pairs))
    for side in (0, 1):
        others = np.flatnonzero(~best[:, side])
        np.minimum.at(second, pairs[others, side], others)
    return best.all(axis=1) & (weights >= np.append(weights, 0.0)[second[pairs]].sum(axis=1))


def _in_two_sides(texts: int, pairs: Pairs) -> tuple[Pairs, Mask]:
    """Divide texts into two sides, such that edges run from one side to the other, where a component permits it.

    Returns the (n, 2) pairs with the text of the first side first, and (n,) whether the pair's component can be
    divided: it can if it has no cycle of odd length. Other pairs stay as they are.
    """
    # In the graph with two copies of each text, an edge connects unlike copies. Both copies of a text are connected if
    # and only if its component has a cycle of odd length.
    shift = np.array([0, texts])
    copies = components(2 * texts, np.concatenate([pairs + shift, pairs + shift[::-1]]))
    one, other = copies[:texts], copies[texts:]
    flipped = (one > other)[pairs[:, 0]]
    return np.where(flipped[:, None], pairs[:, ::-1], pairs), (one != other)[pairs[:, 0]]


def _number_within(ends: Rows, parts: Rows) -> Rows:
    """Number the texts among the (n,) ends from 0 within each component; parts: component of each text."""
    rows, numbers = np.unique(ends, return_inverse=True)
    order = np.lexsort((rows, parts[rows]))
    position = np.empty(len(rows), dtype=np.int64)
    position[order] = np.arange(len(rows))
    return position[numbers] - np.searchsorted(parts[rows[order]], parts[ends])


def _two_sided_matching(pairs: Pairs, weights: Floats) -> Mask:
    """Return (n,) whether each pair of one component is matched; both sides are numbered from 0."""
    height, width = (pairs.max(axis=0) + 1).tolist()
    partner = np.full(height, -1)
    if height * width <= DENSE_CELLS:
        # Without an edge the weight is 0, as for two texts that are not matched.
        table = np.zeros((height, width))
        table[pairs[:, 0], pairs[:, 1]] = weights
        rows, columns = linear_sum_assignment(table, maximize=True)
    else:
        # Every left text must be matched here, so each has a column of its own that stands for no match. A constant is
        # added to all weights, for none may be 0; it adds the same to every total.
        constant, index = weights.max(), np.arange(height)
        values = np.concatenate([weights + constant, np.full(height, constant)])
        cells = (np.append(pairs[:, 0], index), np.append(pairs[:, 1], width + index))
        table = coo_array((values, cells), shape=(height, width + height)).tocsr()
        rows, columns = min_weight_full_bipartite_matching(table, maximize=True)
    partner[rows] = columns
    return partner[pairs[:, 0]] == pairs[:, 1]


def _check_component_size(pairs: Pairs) -> None:
    """Raise BadOption for a component whose one-to-one matching takes too long."""
    texts = len(np.unique(pairs))
    if texts * len(pairs) > MOST_STEPS:
        raise BadOption(
            f"`assign='one-to-one'`: {texts:,} texts are connected by {len(pairs):,} pairs above the cutoff, which "
            "takes minutes or hours to match; give a higher cutoff, or `assign='mutual'` (`al_ray.match_into` has "
            "the rules of its folder: match all texts again, with another `out`); nothing was written"
        )


def _general_matching(pairs: Pairs, weights: Floats) -> Mask:
    """Return (n,) whether each pair of one component is matched, by the blossom algorithm (Galil 1986)."""
    graph = nx.Graph()
    graph.add_weighted_edges_from(
        (*pair, weight) for pair, weight in zip(pairs.tolist(), weights.tolist(), strict=True)
    )
    matched = {(min(pair), max(pair)) for pair in nx.max_weight_matching(graph)}
    return np.array([tuple(pair) in matched for pair in pairs.tolist()], dtype=np.bool_)
