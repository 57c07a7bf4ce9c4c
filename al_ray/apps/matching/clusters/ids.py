"""Ids of clusters that stay the same from one clustering to the next, and what changed between them."""

from dataclasses import dataclass

import numpy as np

from al_ray.core.errors import BadOption
from al_ray.core.pairs import Rows

NO_ID = -1


@dataclass(frozen=True)
class Split:
    """An old cluster whose texts are now in more than one; new_ids: ascending, with old_id itself if it stayed."""

    old_id: int
    new_ids: tuple[int, ...]


@dataclass(frozen=True)
class Merge:
    """A cluster that has texts of more than one old cluster; old_ids: ascending, with new_id itself if it stayed."""

    new_id: int
    old_ids: tuple[int, ...]


@dataclass(frozen=True)
class ClusterIds:
    """Ids of clusters and the changes since the old ones.

    ids: (n,) id of each text's cluster. next_id: first id that was never used. splits, merges: by old id and by new id.
    new: (k,) ids given for the first time, ascending. gone: (g,) old ids that no cluster has any more, ascending.
    """

    ids: Rows
    next_id: int
    splits: tuple[Split, ...]
    merges: tuple[Merge, ...]
    new: Rows
    gone: Rows


@dataclass(frozen=True)
class _Overlaps:
    """The old and new clusters that share a text: (c,) old ids, new clusters and numbers of shared texts."""

    old: Rows
    cluster: Rows
    shared: Rows

    @classmethod
    def of(cls, old: Rows, cluster: Rows) -> "_Overlaps":
        """(n,) old ids or NO_ID, (n,) new clusters 0, 1, 2, ... -> the overlaps, by old id and cluster."""
        known = old != NO_ID
        values, at = np.unique(old[known], return_inverse=True)
        clusters = 1 + int(cluster.max(initial=0))
        keys, shared = np.unique(at * clusters + cluster[known], return_counts=True)
        row, column = np.divmod(keys, clusters)
        return cls(values[row], column, shared)

    def continued(self) -> tuple[Rows, Rows]:
        """Return the old ids that stay, and the new cluster that takes each."""
        # The cluster with the most texts of an old id; ties: the lower cluster.
        by_old = np.lexsort((self.cluster, -self.shared, self.old))
        by_old = by_old[np.diff(self.old[by_old], prepend=NO_ID) != 0]
        # Of the old ids that go to a cluster the one with the most texts; ties: the lower id.
        order = by_old[np.lexsort((self.old[by_old], -self.shared[by_old], self.cluster[by_old]))]
        order = order[np.diff(self.cluster[order], prepend=-1) != 0]
        return self.old[order], self.cluster[order]


def number_clusters(labels: Rows, old_ids: Rows, next_id: int) -> ClusterIds:
    """Give each cluster an id: that of the old cluster which it continues, or a new one.

    labels: (n,) clusters, any integers. old_ids: (n,) id of each text's old cluster, -1 for a new text. next_id: first
    id that was never used.

    An old id goes to the cluster with the most of its texts; ties: the cluster with the lowest row. If several old ids
    go to one cluster, it takes the one with the most texts in it; ties: the lowest id. The others are gone, even where
    some of their texts are elsewhere: an id never names a smaller part of its old cluster. All other clusters, those of
    one text too, get next_id, next_id + 1, ... in the order of their lowest rows. Raises BadOption if an old id is not
    below next_id, for ids are never used again.
    """
    if old_ids.max(initial=NO_ID) >= next_id:
        raise BadOption(f"the next id {next_id} is in use; give at least {int(old_ids.max()) + 1}")
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    # Number the clusters by their lowest rows.
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    cluster = rank[inverse]
    overlaps = _Overlaps.of(old_ids, cluster)
    staying, taker = overlaps.continued()
    ids = np.full(len(first), NO_ID, dtype=np.int64)
    ids[taker] = staying
    new = np.arange(next_id, next_id + len(first) - len(taker), dtype=np.int64)
    ids[ids == NO_ID] = new
    ids_now = ids[overlaps.cluster]
    return ClusterIds(
        ids=ids[cluster],
        next_id=next_id + len(new),
        splits=tuple(Split(*group) for group in _groups(overlaps.old, ids_now)),
        merges=tuple(Merge(*group) for group in _groups(ids_now, overlaps.old)),
        new=new,
        gone=np.setdiff1d(overlaps.old, staying),
    )


def _groups(keys: Rows, values: Rows) -> list[tuple[int, tuple[int, ...]]]:
    """Return the keys that occur more than once, ascending, each with its values, ascending."""
    order = np.lexsort((values, keys))
    keys, values = keys[order], values[order]
    starts = np.flatnonzero(np.diff(keys, prepend=NO_ID) != 0)
    ends = np.append(starts[1:], len(keys))
    several = ends - starts > 1
    return [
        (int(keys[start]), tuple(values[start:end].tolist()))
        for start, end in zip(starts[several].tolist(), ends[several].tolist(), strict=True)
    ]
