"""Golden records of clusters, batch by batch: the value of each field, and the record that it comes from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from al_ray.apps.matching.clusters.nodes import Nodes
from al_ray.apps.matching.golden.fields import GoldenPlan
from al_ray.apps.matching.golden.overrides import Override
from al_ray.apps.matching.golden.rules import Members
from al_ray.core.pairs import Mask, Rows

AT_ONCE = 65_536
"""Records whose cells are in memory at a time. A cluster is not divided, so a larger one is a batch of its own."""
NONE = -1

Applied = Mapping[str, Mapping[int, Override]]
"""The overrides that are in effect: field -> number of a cluster -> override."""


@dataclass(frozen=True)
class ClusteredRecords:
    """The (n,) records that were clustered. nodes: sorted. clusters: number of each one's cluster, as in clusters.csv.

    canonical: (n,) whether each is the canonical one of its cluster.
    """

    nodes: Rows
    clusters: Rows
    canonical: Mask

    def of(self, cluster: int) -> "ClusteredRecords":
        """Return the records of one cluster."""
        here = self.clusters == cluster
        return ClusteredRecords(self.nodes[here], self.clusters[here], self.canonical[here])


@dataclass(frozen=True)
class GoldenValues:
    """The values (c,) of a field, None where all are empty. nodes: (c,) of the records that they come from, else NONE.

    overrides: (c,) the override that gives the value, or None.
    """

    values: Sequence[str | None]
    nodes: Rows
    overrides: Sequence[Override | None]


@dataclass(frozen=True)
class GoldenBatch:
    """Golden records of (c,) clusters, the least number first. sizes: records of each. fields: in the plan's order."""

    clusters: Rows
    sizes: Rows
    fields: Sequence[GoldenValues]


def golden_batches(
    nodes: Nodes, plan: GoldenPlan, records: ClusteredRecords, applied: Applied, at_once: int = AT_ONCE
) -> Iterator[GoldenBatch]:
    """Yield the golden records of all clusters, in the order of their numbers. No result depends on `at_once`."""
    order = np.lexsort((records.nodes, records.clusters))
    clusters = records.clusters[order]
    starts = np.flatnonzero(np.diff(clusters, prepend=-1))
    ends = np.append(starts[1:], len(order))
    begin = 0
    while begin < len(starts):
        # At least one cluster, and more while their records fit.
        end = max(begin + 1, int(np.searchsorted(ends, starts[begin] + at_once, side="right")))
        here = order[starts[begin] : ends[end - 1]]
        yield _batch(nodes, plan, records, here, applied)
        begin = end


def _batch(nodes: Nodes, plan: GoldenPlan, records: ClusteredRecords, here: Rows, applied: Applied) -> GoldenBatch:
    """Return the golden records of the clusters of some records, which are in the order of clusters, then of nodes."""
    members, numbers = records.nodes[here], records.clusters[here]
    clusters, places, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    values = plan.cells(nodes, members)
    view = Members(
        places,
        cache(lambda name: nodes.column_at(name, members)),
        np.sum([[value != "" for value in one] for one in values], axis=0),
        np.sum([[len(value) for value in one] for one in values], axis=0),
        records.canonical[here],
        plan.times,
    )
    chosen = list[GoldenValues]()
    for field, cells in zip(plan.fields, values, strict=True):
        empty = np.array([value == "" for value in cells])
        # Records are in the order of nodes, and the sort is stable: of equal ranks the first one is taken.
        best = np.lexsort((-field.rule.ranks(view, cells), empty, places))[
            np.searchsorted(places, np.arange(len(sizes)))
        ]
        own = [cells[at] or None for at in best.tolist()]
        chosen.append(
            _overridden(own, np.where(empty[best], NONE, members[best]), clusters, applied.get(field.name, {}))
        )
    return GoldenBatch(clusters, sizes, chosen)


def _overridden(
    values: Sequence[str | None], nodes: Rows, clusters: Rows, applied: Mapping[int, Override]
) -> GoldenValues:
    """Put the values of overrides in place of those of rules."""
    given = [applied.get(cluster) for cluster in clusters.tolist()] if applied else [None] * len(clusters)
    return GoldenValues(
        [value if one is None else one.value or None for value, one in zip(values, given, strict=True)],
        np.where([one is not None for one in given], NONE, nodes),
        given,
    )
