"""What the page shows of clusters: their sizes, the largest, the least coherent, and conflicts."""

from dataclasses import dataclass

import numpy as np

from al_ray.apps.matching.clusters.clustering import Clusters
from al_ray.apps.matching.clusters.figures import ClusterFigures
from al_ray.apps.matching.clusters.nodes import Nodes
from al_ray.apps.matching.folder import Matches
from al_ray.apps.matching.page.bands import spaced
from al_ray.apps.matching.page.examples import ShownPair, ShownText, TextReader
from al_ray.core.pairs import Mask, Pairs, Rows, is_in
from al_ray.core.scorer import Floats

LARGEST, LEAST_COHERENT, CONFLICTS = 5, 10, 20
"""Number of clusters of each list, and of conflicts, that are shown."""
EDGES, TEXTS = 10, 24
"""Number of edges and of texts of a cluster that are shown. Both texts of a shown edge and the canonical one fit."""
SINGLE_SIZES = 5
"""Clusters of at most this many texts have a row of their own for each size."""


@dataclass(frozen=True)
class SizeGroup:
    """The clusters of `low` to `high` texts: their number, their texts and their mean cohesion."""

    low: int
    high: int
    clusters: int
    texts: int
    cohesion: float


@dataclass(frozen=True)
class ClusterEdge:
    """A match within a cluster. left, right: places of its texts among those shown, from 1."""

    left: int
    right: int
    score: float
    by_label: bool
    bridge: bool


@dataclass(frozen=True)
class ShownCluster:
    """A cluster. number: as in clusters.csv. texts: the canonical one first. edges: bridges, then the lowest scores.

    size, edge_count: of the whole cluster. cohesion: mean score over all pairs of its texts.
    """

    number: int
    size: int
    cohesion: float
    edge_count: int
    texts: tuple[ShownText, ...]
    edges: tuple[ClusterEdge, ...]

    @property
    def pairs(self) -> int:
        """Return the number of pairs of its texts."""
        return self.size * (self.size - 1) // 2


@dataclass(frozen=True)
class Conflict:
    """A pair labelled no whose texts are both in a cluster."""

    cluster: int
    pair: ShownPair


@dataclass(frozen=True)
class ClusterSummary:
    """The clusters of two or more texts.

    number, bridges, conflict_count: counts of all. others: number of the clusters of three or more texts that are not
    among the largest. largest, least_coherent, conflicts: those that are shown; a cluster is in one of the lists only.
    """

    number: int
    bridges: int
    conflict_count: int
    others: int
    sizes: tuple[SizeGroup, ...]
    largest: tuple[ShownCluster, ...]
    least_coherent: tuple[ShownCluster, ...]
    conflicts: tuple[Conflict, ...]


def summarize_clusters(
    matches: Matches, clusters: Clusters, figures: ClusterFigures, ids: Rows, reader: TextReader
) -> ClusterSummary:
    """Choose the clusters and the conflicts to show. Clusters and figures are of nodes; ids: (nodes,) of clusters."""
    largest = np.lexsort((figures.labels, -figures.sizes))[:LARGEST]
    # A cluster of two texts is one pair, which the bands of scores show.
    others = np.setdiff1d(np.flatnonzero(figures.sizes >= 3), largest)
    least = others[np.lexsort((figures.labels[others], figures.cohesion[others]))][:LEAST_COHERENT]
    nodes = Nodes(reader.task)
    show = _Cards(matches, nodes.of(matches.pairs), clusters.labels, figures, ids, reader)
    at = spaced(len(clusters.conflicts), CONFLICTS)
    pairs = reader.pairs(nodes.rows(clusters.conflicts[at]))
    numbers = ids[clusters.conflicts[at, 0]].tolist()
    return ClusterSummary(
        number=len(figures.labels),
        bridges=len(figures.bridges),
        conflict_count=len(clusters.conflicts),
        others=len(others),
        sizes=tuple(group_sizes(figures.sizes, figures.cohesion)),
        largest=show.cards(largest),
        least_coherent=show.cards(least),
        conflicts=tuple(Conflict(of, ShownPair(*texts)) for of, texts in zip(numbers, pairs, strict=True)),
    )


def group_sizes(sizes: Rows, cohesion: Floats) -> list[SizeGroup]:
    """(k,) sizes and cohesion of clusters -> those of 2, 3, 4, 5, 6 to 10, 11 to 20, 21 to 50, ... texts, if any."""
    groups, low, high = list[SizeGroup](), 2, 2
    largest = int(sizes.max(initial=0))
    while low <= largest:
        here = (sizes >= low) & (sizes <= high)
        if here.any():
            groups.append(SizeGroup(low, high, int(here.sum()), int(sizes[here].sum()), float(cohesion[here].mean())))
        low = high + 1
        # 10, 20, 50, 100, 200, 500, ...
        leading = int(str(high)[0])
        high = low if low <= SINGLE_SIZES else high * 5 // 2 if leading == 2 else high * 2
    return groups


@dataclass(frozen=True)
class _Cards:
    """Makes the cards of clusters. pairs: the nodes (m, 2) of the matches."""

    matches: Matches
    pairs: Pairs
    labels: Rows
    figures: ClusterFigures
    ids: Rows
    reader: TextReader

    def cards(self, chosen: Rows) -> tuple[ShownCluster, ...]:
        """Return the clusters at (c,) positions of the figures."""
        # All matches are looked through once for all clusters, for there can be millions.
        pairs, numbers = self.pairs, self.figures.labels[chosen]
        of = self.labels[pairs[:, 0]]
        inside = np.flatnonzero((of == self.labels[pairs[:, 1]]) & np.isin(of, numbers))
        members = np.flatnonzero(np.isin(self.labels, numbers))
        return tuple(
            self._card(int(at), members[self.labels[members] == number], inside[of[inside] == number])
            for at, number in zip(chosen.tolist(), numbers.tolist(), strict=True)
        )

    def _card(self, at: int, members: Rows, edges: Rows) -> ShownCluster:
        """Return one cluster: (n,) rows of its texts, (m,) positions of its matches."""
        pairs, scores = self.pairs[edges], self.matches.scores[edges]
        bridge = self._bridges(pairs)
        first = np.lexsort((scores, ~bridge))[:EDGES]
        canonical = self.figures.canonical[at]
        rows = _distinct(np.concatenate([[canonical], pairs[first].ravel(), members[: TEXTS + 1]]))[:TEXTS]
        place = {row: number for number, row in enumerate(rows.tolist(), start=1)}
        places = np.array([place[row] for row in pairs[first].ravel().tolist()], dtype=np.int64).reshape(-1, 2)
        low, high = np.sort(places, axis=1).T.tolist()
        by_label = self.matches.by_label[edges[first]].tolist()
        shown = zip(low, high, scores[first].tolist(), by_label, bridge[first].tolist(), strict=True)
        return ShownCluster(
            number=int(self.ids[self.figures.labels[at]]),
            size=int(self.figures.sizes[at]),
            cohesion=float(self.figures.cohesion[at]),
            edge_count=len(edges),
            texts=tuple(self.reader.nodes(rows)),
            edges=tuple(ClusterEdge(*edge) for edge in shown),
        )

    def _bridges(self, pairs: Pairs) -> Mask:
        texts = len(self.labels)
        keys, known = (np.sort(one, axis=1) @ np.array([texts, 1]) for one in (pairs, self.figures.bridges))
        return is_in(keys, np.sort(known))


def _distinct(rows: Rows) -> Rows:
    """Drop repeated rows, in the order of first occurrence."""
    return rows[np.sort(np.unique(rows, return_index=True)[1])]
