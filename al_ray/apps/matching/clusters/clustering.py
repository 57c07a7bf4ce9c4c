"""Clusters of texts from kept edges and people's decisions: the deduplication of one set of texts.

Texts are numbered 0..n-1 over all sides. An edge is a pair of texts that was predicted to match, with its similarity.
No result depends on the order of the edges or of the decisions, or on which text of a pair comes first.
"""

from dataclasses import dataclass, field

import numpy as np

from al_ray.apps.matching.clusters.average_linkage import TOLERANCE, average_linkage
from al_ray.apps.matching.clusters.bridges import bridges
from al_ray.apps.matching.clusters.edges import Edges, pair_keys, pairs_of_keys
from al_ray.apps.matching.options import Clustering
from al_ray.core.errors import BadOption
from al_ray.core.graph import components
from al_ray.core.pairs import NO_PAIRS, Pairs, Rows, distinct, is_in
from al_ray.core.scored_pairs import ScoredPairs


@dataclass(frozen=True)
class Decisions:
    """Pairs that people labelled; each in either order, repeated or not.

    yes: (y, 2) pairs that must be in one cluster. no: (k, 2) pairs that should be in two clusters.
    """

    yes: Pairs = field(default_factory=lambda: NO_PAIRS)
    no: Pairs = field(default_factory=lambda: NO_PAIRS)


NO_DECISIONS = Decisions()


@dataclass(frozen=True)
class Clusters:
    """A partition of the texts.

    labels: (n,) the lowest row of the text's cluster. conflicts: (k, 2) distinct pairs labelled no whose texts are in
    one cluster, left < right, sorted.
    """

    labels: Rows
    conflicts: Pairs

    @classmethod
    def of(cls, edges: Edges, labels: Rows, no: Pairs) -> "Clusters":
        """Return the partition by labels (n,), with the pairs labelled no, (k, 2), that are in one cluster."""
        pairs = pairs_of_keys(edges.texts, distinct(pair_keys(edges.texts, no)))
        return cls(labels, pairs[labels[pairs[:, 0]] == labels[pairs[:, 1]]])


def weak_bridges(edges: Edges, decisions: Decisions, below: float) -> Edges:
    """Return the edges below a similarity that alone hold two parts of two or more texts each together.

    All are found in the graph as it is, and not one after the other. A pair labelled yes is none.
    """
    usable = edges.without(decisions.no)
    pairs = np.concatenate([usable.pairs, decisions.yes])
    joint = Edges.of(edges.texts, ScoredPairs(pairs, np.zeros(len(pairs))))
    found = joint.where(bridges(edges.texts, joint.pairs)).without(decisions.yes)
    weak = usable.where(usable.scores < below)
    return weak.where(is_in(pair_keys(edges.texts, weak.pairs), np.sort(pair_keys(edges.texts, found.pairs))))


def cluster(
    edges: Edges, clustering: Clustering, cutoff: float, missing: float, decisions: Decisions = NO_DECISIONS
) -> Clusters:
    """Partition the texts; pairs labelled yes are always together, and an edge labelled no is not used.

    components: connected components of the edges and of the pairs labelled yes. A pair labelled no does not split a
    component that other edges connect: it is a conflict. cutoff and missing are not used.

    average: average linkage. The connected components of the pairs labelled yes are the first groups. Then the two
    groups with the highest mean similarity over all pairs between them are merged, while that mean is at least
    `cutoff`; groups with a pair labelled no between them are never merged. So chains of edges do not join texts that
    are not similar, and only a contradiction is a conflict: a-b yes, b-c yes, a-c no. Ties: the pair of groups with the
    lowest rows. Every cluster is part of one cluster of `components`.

    missing: similarity that counts for a pair without an edge. The search did not return such a pair, or returned it
    below the cutoff, so its similarity is not known; `missing` is an assumption about it. 0 suits cosines and
    probabilities: unrelated texts. A higher value gives larger clusters. Raises BadOption if it is not below `cutoff`.
    """
    usable = edges.without(decisions.no)
    if clustering == "components":
        labels = components(edges.texts, np.concatenate([usable.pairs, decisions.yes]))
    else:
        if not missing < cutoff - TOLERANCE:
            raise BadOption(
                f"pairs without an edge count as similarity {missing:g}, which is not below the cutoff {cutoff:g}; "
                "give a lower similarity, or a higher cutoff"
            )
        labels = _average(usable, cutoff, missing, decisions)
    return Clusters.of(edges, labels, decisions.no)


def _average(edges: Edges, cutoff: float, missing: float, decisions: Decisions) -> Rows:
    units = components(edges.texts, decisions.yes)
    # A similarity of minus infinity keeps a pair labelled no apart: so is every mean in which it takes part.
    pairs = np.concatenate([edges.pairs, decisions.no])
    similarities = np.concatenate([edges.scores, np.full(len(decisions.no), -np.inf)])
    return average_linkage(units, pairs, similarities, cutoff, missing)
