"""Draw records, and of each the pairs that people label: with others of its cluster, and with candidates outside."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from al_ray.core.labels import NO, YES
from al_ray.core.pairs import Pairs, Rows, as_pairs
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats
from al_ray.metrics.audit.cluster_figures import RecordAnswers, SizeClass, allot, size_classes

MOST_INSIDE = 10
"""Others of its cluster that are asked about a record; of more they are drawn."""
MOST_OUTSIDE = 10
"""Candidates of a record: its pairs of highest score."""


@dataclass(frozen=True)
class Clusters:
    """The clusters of n records. labels: (n,). direct: (m, 2) distinct matches inside a cluster, left < right.

    outside: (k, 2) records and their candidates in other clusters, by record; a pair can be there from both sides.
    """

    labels: Rows
    direct: Pairs
    outside: Pairs

    @classmethod
    def of(cls, labels: Rows, matches: Pairs, candidates: Pairs, scores: Floats) -> "Clusters":
        """Take the matches inside clusters, and of the (k, 2) candidates with (k,) scores those between two of them.

        A record has at most MOST_OUTSIDE; of equal scores those of the lowest rows.
        """
        inside = labels[matches[:, 0]] == labels[matches[:, 1]]
        direct = np.unique(np.sort(matches[inside], axis=1), axis=0)
        apart = labels[candidates[:, 0]] != labels[candidates[:, 1]]
        both = np.concatenate([candidates[apart], candidates[apart][:, ::-1]])
        twice = np.tile(scores[apart], 2)
        # The best score of a pair that is there more than once.
        order = np.lexsort((-twice, both[:, 1], both[:, 0]))
        both, twice = both[order], twice[order]
        first = np.append(True, (np.diff(both, axis=0) != 0).any(axis=1))[: len(both)]
        both, twice = both[first], twice[first]
        order = np.lexsort((both[:, 1], -twice, both[:, 0]))
        both = both[order]
        place = np.arange(len(both)) - np.searchsorted(both[:, 0], both[:, 0])
        return cls(labels, direct, both[place < MOST_OUTSIDE])

    @cached_property
    def sizes(self) -> Rows:
        """Return the size (n,) of the cluster of each record."""
        _, places, counts = np.unique(self.labels, return_inverse=True, return_counts=True)
        return counts[places]

    @cached_property
    def partners(self) -> Rows:
        """Return how many direct matches (n,) each record has in its cluster."""
        return np.bincount(self.direct.ravel(), minlength=len(self.labels))

    @cached_property
    def candidates(self) -> Rows:
        """Return how many candidates (n,) each record has."""
        return np.bincount(self.outside[:, 0], minlength=len(self.labels))

    @cached_property
    def _by_label(self) -> tuple[Rows, Rows]:
        order = np.argsort(self.labels, kind="stable")
        return order, self.labels[order]

    @cached_property
    def _sorted_direct(self) -> Pairs:
        both = np.concatenate([self.direct, self.direct[:, ::-1]])
        return both[np.lexsort((both[:, 1], both[:, 0]))]

    def members(self, row: int) -> tuple[Rows, Rows]:
        """Return the others of the cluster of a record: those that match it directly, and those implied."""
        order, labels = self._by_label
        label = self.labels[row]
        own = np.sort(order[np.searchsorted(labels, label) : np.searchsorted(labels, label, side="right")])
        direct = _of(self._sorted_direct, row)
        return direct, np.setdiff1d(own, np.append(direct, row))

    def candidates_of(self, row: int) -> Rows:
        """Return the candidates of a record, the best first."""
        return _of(self.outside, row)


def _of(pairs: Pairs, row: int) -> Rows:
    """Return the second records of (k, 2) pairs, sorted by the first, of this first one."""
    return pairs[np.searchsorted(pairs[:, 0], row) : np.searchsorted(pairs[:, 0], row, side="right"), 1]


@dataclass(frozen=True)
class RecordDraw:
    """A drawn record of a class, by its place. direct, implied, outside: the records of which people say who match it.

    all_direct, all_implied: how many its cluster has.
    """

    row: int
    size_class: int
    direct: tuple[int, ...]
    implied: tuple[int, ...]
    outside: tuple[int, ...]
    all_direct: int
    all_implied: int

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Return its pairs, the lower row first."""
        return [_ordered(self.row, other) for other in (*self.direct, *self.implied, *self.outside)]

    def answers(self, labels: Mapping[tuple[int, int], int]) -> RecordAnswers:
        """Count the labels of its pairs, which are by their rows, the lower one first."""

        def count(others: tuple[int, ...], size: int) -> tuple[int, int, int]:
            given = [labels.get(_ordered(self.row, other)) for other in others]
            return given.count(YES), given.count(YES) + given.count(NO), size

        return RecordAnswers(
            count(self.direct, self.all_direct),
            count(self.implied, self.all_implied),
            count(self.outside, len(self.outside)),
        )


def _ordered(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)


def classes_of(clusters: Clusters, count: int) -> tuple[tuple[SizeClass, ...], list[Rows]]:
    """Return the classes of sizes, with the draws that each has of `count`, and the records of each."""
    sizes, known = clusters.sizes, clusters.candidates
    places = size_classes(sizes, known)
    groups = [np.flatnonzero(places == one) for one in np.unique(places[places >= 0])]
    records = np.array([len(own) for own in groups], dtype=np.int64)
    pairs = np.array([float((sizes[own] - 1).sum()) for own in groups])
    drawn = allot(records, pairs, min(count, int(records.sum()))) if groups else records
    return tuple(
        SizeClass(
            int(sizes[own].min()), int(sizes[own].max()), len(own), int(share), float((sizes[own] - 1).sum()),
            float(clusters.partners[own].sum()), float((sizes[own] - 1 - clusters.partners[own]).sum()),
            float((1 - 1 / sizes[own]).sum()), float(known[own].sum()), float((known[own] / (1 + known[own])).sum()),
        )
        for own, share in zip(groups, drawn.tolist(), strict=True)
    ), groups  # fmt: skip


def draw_records(clusters: Clusters, count: int, seed: int) -> tuple[tuple[SizeClass, ...], list[RecordDraw]]:
    """Draw records of each class uniformly, and of large clusters some of the others."""
    classes, groups = classes_of(clusters, count)
    draws: list[RecordDraw] = []
    for place, (one, own) in enumerate(zip(classes, groups, strict=True)):
        rng = generator(seed, f"audit-clusters-{one.low}")
        draws += [_draw(clusters, row, place, rng) for row in np.sort(rng.permutation(own)[: one.drawn]).tolist()]
    return classes, draws


def _draw(clusters: Clusters, row: int, place: int, rng: np.random.Generator) -> RecordDraw:
    direct, implied = clusters.members(row)
    asked, others = len(direct), len(direct) + len(implied)
    if others > MOST_INSIDE:
        # In proportion, and at least one of each kind.
        asked = round(MOST_INSIDE * len(direct) / others)
        asked = min(max(asked, min(1, len(direct))), MOST_INSIDE - min(1, len(implied)))
    chosen = rng.permutation(direct)[:asked], rng.permutation(implied)[: MOST_INSIDE - asked]
    of_direct, of_implied = (tuple(np.sort(rows).tolist()) for rows in chosen)
    outside = tuple(clusters.candidates_of(row).tolist())
    return RecordDraw(row, place, of_direct, of_implied, outside, len(direct), len(implied))


def answers_of(
    classes: Sequence[SizeClass], draws: Sequence[RecordDraw], labels: Mapping[tuple[int, int], int]
) -> tuple[tuple[RecordAnswers, ...], ...]:
    """Return the answers of the drawn records of each class. labels: of pairs by their rows, the lower one first."""
    return tuple(
        tuple(one.answers(labels) for one in draws if one.size_class == place) for place in range(len(classes))
    )


def pairs_of(draws: Sequence[RecordDraw]) -> Pairs:
    """Return the distinct pairs (n, 2) of all draws, the lower row first, in order."""
    every = sorted({pair for draw in draws for pair in draw.pairs})
    return as_pairs(*np.array(every, dtype=np.int64).reshape(-1, 2).T)
