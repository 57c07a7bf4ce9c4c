"""Figures of each cluster: size, canonical member, cohesion, and the edges that hold two parts of it together."""

from dataclasses import dataclass

import numpy as np

from al_ray.apps.matching.clusters.bridges import bridges
from al_ray.apps.matching.clusters.clustering import NO_DECISIONS, Decisions
from al_ray.apps.matching.clusters.edges import Edges
from al_ray.core.pairs import Pairs, Rows
from al_ray.core.scored_pairs import ScoredPairs
from al_ray.core.scorer import Floats

NEAR = 1e-4
"""Means of similarities that are below the highest by no more than this are equal to it.

The last digits of a score depend on which texts were encoded together, and must not choose the canonical text.
"""


@dataclass(frozen=True)
class ClusterFigures:
    """Figures of the k clusters of two or more texts, in the order of their lowest rows.

    labels: (k,) lowest row. sizes: (k,) number of texts. canonical: (k,) the text with the lowest row among those whose
    mean similarity to the other texts of the cluster is the highest, or below it by at most NEAR. cohesion: (k,) mean
    similarity over all pairs of the cluster. lowest: (k,) lowest similarity of an edge, NaN if the cluster has no edge
    (only pairs labelled yes). bridges: (b, 2) edges of all clusters, sorted, whose removal leaves two parts of two or
    more texts each; such an edge is worth a review. An edge labelled yes is none.
    """

    labels: Rows
    sizes: Rows
    canonical: Rows
    cohesion: Floats
    lowest: Floats
    bridges: Pairs


def figures(edges: Edges, labels: Rows, missing: float, decisions: Decisions = NO_DECISIONS) -> ClusterFigures:
    """Compute the figures of clusters.

    labels: (n,) lowest row of each text's cluster. missing: similarity that counts for a pair without an edge. Edges
    labelled no are not used; pairs labelled yes connect texts, but have no similarity unless they are edges.
    """
    usable = edges.without(decisions.no)
    inside = labels[usable.pairs[:, 0]] == labels[usable.pairs[:, 1]]
    pairs, similarities = usable.pairs[inside], usable.scores[inside]
    sizes = np.bincount(labels, minlength=len(labels))
    clusters = np.flatnonzero(sizes >= 2)
    of = labels[pairs[:, 0]]
    every = sizes[clusters] * (sizes[clusters] - 1) // 2
    edge_counts = np.bincount(of, minlength=len(labels))[clusters]
    totals = np.bincount(of, similarities, len(labels))[clusters]
    lowest = np.full(len(labels), np.inf)
    np.minimum.at(lowest, of, similarities)
    yes = decisions.yes[labels[decisions.yes[:, 0]] == labels[decisions.yes[:, 1]]]
    connections = Edges.of(edges.texts, ScoredPairs(np.concatenate([pairs, yes]), np.zeros(len(pairs) + len(yes))))
    return ClusterFigures(
        labels=clusters,
        sizes=sizes[clusters],
        canonical=_canonical(pairs, similarities, labels, missing),
        cohesion=(totals + missing * (every - edge_counts)) / every,
        lowest=np.where(edge_counts > 0, lowest[clusters], np.nan),
        bridges=connections.where(bridges(edges.texts, connections.pairs)).without(yes).pairs,
    )


def _canonical(pairs: Pairs, similarities: Floats, labels: Rows, missing: float) -> Rows:
    """Return the canonical member of each cluster of two or more texts, in the order of their lowest rows."""
    texts = len(labels)
    sizes = np.bincount(labels, minlength=texts)[labels]
    members = np.flatnonzero(sizes >= 2)
    degrees = np.bincount(pairs.ravel(), minlength=texts)
    totals = np.bincount(pairs.ravel(), np.repeat(similarities, 2), texts)
    others = sizes[members] - 1
    means = (totals[members] + missing * (others - degrees[members])) / others
    highest = np.full(texts, -np.inf)
    np.maximum.at(highest, labels[members], means)
    best = members[means >= highest[labels[members]] - NEAR]
    order = best[np.lexsort((best, labels[best]))]
    return order[np.diff(labels[order], prepend=-1) != 0]
