"""Average linkage of a sparse graph, without a matrix of all distances.

Sokal and Michener 1958 (UPGMA). Two groups that are each other's best neighbour are merged at once, for the mean of a
merged group and a third one is never above the higher of the two means before (Murtagh 1983, reciprocal nearest
neighbours). So all such pairs of the whole graph are merged in one vectorised round, with the same result as one merge
at a time. Memory is linear in the number of edges.
"""

from collections import defaultdict
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from al_ray.core.graph import components
from al_ray.core.pairs import Mask, Pairs, Rows, as_pairs
from al_ray.core.scorer import Floats

TOLERANCE = 1e-9
"""A mean that is below the cutoff by no more than this reaches it: a sum of rounded numbers is not exact."""
SHRINKAGE = 0.01
"""If a round merges less than this share of the groups, the rest is merged one pair at a time."""


@dataclass(frozen=True)
class Links:
    """Pairs of groups with at least one edge between them.

    low, high: (m,) lowest rows of both groups, low < high, sorted, distinct. totals: (m,) sum of the similarities of
    the edges between them, minus infinity if one of them is. counts: (m,) number of these edges.
    """

    low: Rows
    high: Rows
    totals: Floats
    counts: Rows

    def __len__(self) -> int:
        return len(self.low)

    @classmethod
    def between(cls, pairs: Pairs, totals: Floats, counts: Rows) -> "Links":
        """Add up the links of the same two groups; a link of a group with itself is dropped."""
        low, high = pairs.min(axis=1), pairs.max(axis=1)
        proper = np.flatnonzero(low != high)
        order = proper[np.lexsort((high[proper], low[proper]))]
        low, high = low[order], high[order]
        starts = np.flatnonzero((np.diff(low, prepend=-1) != 0) | (np.diff(high, prepend=-1) != 0))
        if not len(starts):
            return cls(low, high, totals[order], counts[order])
        added = np.add.reduceat(totals[order], starts), np.add.reduceat(counts[order], starts)
        return cls(low[starts], high[starts], *added)

    def means(self, sizes: Rows, missing: float) -> Floats:
        """Return the (m,) mean similarities over all pairs of texts between two groups; sizes: (n,) by lowest row."""
        pairs = sizes[self.low] * sizes[self.high]
        return (self.totals + missing * (pairs - self.counts)) / pairs

    def contracted(self, groups: Rows, active: Mask) -> "Links":
        """Take the links between two active groups, (n,) booleans, and rename their groups by (n,) `groups`."""
        stays = active[self.low] & active[self.high]
        pairs = as_pairs(groups[self.low[stays]], groups[self.high[stays]])
        return Links.between(pairs, self.totals[stays], self.counts[stays])


def average_linkage(units: Rows, pairs: Pairs, similarities: Floats, cutoff: float, missing: float) -> Rows:
    """Merge the two groups of highest mean similarity over all pairs between them, while it is at least the cutoff.

    units: (n,) first groups, each labelled with its lowest row. pairs, similarities: (m, 2) and (m,) distinct edges;
    minus infinity forbids that both texts meet, unless a unit has both. missing: similarity of a pair without an edge,
    below the cutoff. Returns (n,) lowest rows of the groups. Ties: the pair of groups with the lowest rows.
    """
    floor = cutoff - TOLERANCE
    links = Links.between(units[pairs], similarities, np.ones(len(pairs), dtype=np.int64))
    sizes = np.bincount(units, minlength=len(units))
    merges = [as_pairs(units, np.arange(len(units)))]
    while len(links):
        means = links.means(sizes, missing)
        merging, active = _reciprocal(links, means, floor, len(units))
        if len(merging) < SHRINKAGE * np.count_nonzero(active):
            merges.append(_one_by_one(links, sizes, floor, missing))
            break
        low, high = links.low[merging], links.high[merging]
        merges.append(as_pairs(low, high))
        groups = np.arange(len(units))
        groups[high] = low
        sizes[low] += sizes[high]
        links = links.contracted(groups, active)
    return components(len(units), np.concatenate(merges))


def _reciprocal(links: Links, means: Floats, floor: float, texts: int) -> tuple[Rows, Mask]:
    """Return the links (r,) whose two groups are each other's best, and (n,) whether a group has a mean >= floor.

    A group without one never merges again: later means are not above those of now.
    """
    best = np.full(texts, -np.inf)
    np.maximum.at(best, links.low, means)
    np.maximum.at(best, links.high, means)
    active = best >= floor
    # Links are sorted, so the first of equal means has the lowest rows.
    first = np.full(texts, len(links))
    for side in (links.low, links.high):
        at = np.flatnonzero(means == best[side])
        np.minimum.at(first, side[at], at)
    index = np.arange(len(links))
    return np.flatnonzero((first[links.low] == index) & (first[links.high] == index) & active[links.low]), active


def _one_by_one(links: Links, sizes: Rows, floor: float, missing: float) -> Pairs:
    """Merge one pair of groups at a time, from a heap. Returns (k, 2) merges of groups.

    Rounds are slow where every group waits for the merge before it, as in a clique of equal similarities.
    """
    neighbours = defaultdict[int, dict[int, tuple[float, int]]](dict)
    for low, high, total, count in zip(
        *(a.tolist() for a in (links.low, links.high, links.totals, links.counts)), strict=True
    ):
        neighbours[low][high] = neighbours[high][low] = (total, count)
    size = {group: int(sizes[group]) for group in neighbours}

    def mean(low: int, high: int) -> float:
        total, count = neighbours[low][high]
        pairs = size[low] * size[high]
        return (total + missing * (pairs - count)) / pairs

    heap = [(-mean(low, high), low, high) for low, high in zip(links.low.tolist(), links.high.tolist(), strict=True)]
    heap = [entry for entry in heap if -entry[0] >= floor]
    heapify(heap)
    merges = list[tuple[int, int]]()
    while heap:
        negative, low, high = heappop(heap)
        # An entry is out of date if one of its groups was merged since.
        if low not in neighbours or high not in neighbours[low] or mean(low, high) != -negative:
            continue
        merges.append((low, high))
        size[low] += size.pop(high)
        own, others = neighbours[low], neighbours.pop(high)
        del own[high], others[low]
        for other, (total, count) in others.items():
            del neighbours[other][high]
            before = own.get(other, (0.0, 0))
            own[other] = neighbours[other][low] = (before[0] + total, before[1] + count)
        merged = size[low]
        for other, (total, count) in own.items():
            pairs = merged * size[other]
            value = (total + missing * (pairs - count)) / pairs
            if value >= floor:
                heappush(heap, (-value, min(low, other), max(low, other)))
    return np.array(merges, dtype=np.int64).reshape(-1, 2)
