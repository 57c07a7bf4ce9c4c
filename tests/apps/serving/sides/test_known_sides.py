"""Scores that know the neighbourhood of both sides, of one more text: those of all pairs by loops, to the bit."""

import numpy as np
import pytest

from al_ray.apps.serving.sides.known_sides import KnownSides
from al_ray.core.nearest_means import NearestMeans
from al_ray.core.neighbourhood import mean_of_nearest
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Block, Vectors, paired_scores

WEIGHT = 0.75


def drawn(count: int, seed: int, dtype: type = np.float32) -> Vectors:
    """Unit vectors in groups, with copies of some: equal texts."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(8, 6))[rng.integers(0, 8, count)] + 0.3 * rng.normal(size=(count, 6))
    vectors[1::7] = vectors[::7][: len(vectors[1::7])]
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(dtype)


def by_loops(known: Vectors, others: Vectors | None, query: Vectors) -> Floats:
    """(n,) the scores of a text with known ones as jobs.match has them: it is the last of the left texts."""
    left = np.concatenate([known if others is None else others, query[None]])
    right = left if others is None else known

    def means(ones: Vectors, them: Vectors) -> Floats:
        found = []
        for row, vector in enumerate(ones):
            every = [other for other in range(len(them)) if others is not None or other != row]
            cosines = paired_scores(
                vector[None], np.zeros(len(every), dtype=np.int64), them, np.array(every, dtype=int)
            )
            found.append(mean_of_nearest(cosines, np.zeros(len(cosines), dtype=np.int64), 1)[0])
        return WEIGHT * np.array(found)

    offsets = means(left, right)
    theirs = NearestMeans(np.arange(len(right)), means(right, left))
    block = Block(np.array([len(left) - 1]), query[None], offsets=offsets[-1:], right_offsets=theirs)
    rows, lines = np.arange(len(known)), np.zeros(len(known), dtype=np.int64)
    return block.scores(lines, rows, paired_scores(query[None], lines, known, rows))


def scores_of(sides: KnownSides, query: Vectors, count: int) -> dict[int, float]:
    found = sides.nearest(query, count)
    return dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True))


def opened(known: Vectors, others: Vectors | None) -> KnownSides:
    sides = KnownSides(known, others, WEIGHT, "encoder")
    sides.use(sides.find_best())
    return sides


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("of_others", [None, 40, 3, 1], ids=["one set", "two", "three left texts", "one left text"])
@pytest.mark.parametrize("count", [60, 4, 1])
def test_scores_are_those_of_all_pairs_by_loops(count, of_others, dtype):
    known, others = drawn(count, 1, dtype), None if of_others is None else drawn(of_others, 2, dtype)
    sides = opened(known, others)
    for query in [*drawn(12, 3, dtype), known[0]]:
        expected = by_loops(known, others, query)
        assert scores_of(sides, query, count) == dict(enumerate(expected.tolist()))
        few = scores_of(sides, query, 3)
        assert few.items() <= dict(enumerate(expected.tolist())).items()
        assert sorted(few.values())[::-1][:3] == sorted(expected.tolist())[::-1][:3]


@pytest.mark.parametrize("of_others", [None, 30], ids=["one set", "two"])
def test_changes_leave_the_scores_of_what_is_there_then(of_others):
    others = None if of_others is None else drawn(of_others, 2)
    every, room = drawn(200, 4), 50
    vectors, present = every[:room].copy(), np.ones(room, dtype=np.bool_)
    sides, rng = opened(vectors, others), np.random.default_rng(0)
    for step in range(25):
        gone = rng.choice(np.flatnonzero(present), 3, replace=False)
        # Some come in rows that have none now, and others in new ones.
        rows = np.concatenate([gone[:2], np.arange(len(vectors), len(vectors) + step % 2)])
        vectors = np.concatenate([vectors, vectors[: step % 2]])
        present = np.concatenate([present, np.ones(step % 2, dtype=np.bool_)])
        present[gone[2]] = False
        vectors[rows] = every[50 + 3 * step : 50 + 3 * step + len(rows)]
        sides.change(gone, rows, vectors, present)
        there = np.flatnonzero(present)
        for query in drawn(2, 100 + step):
            expected = by_loops(vectors[there], others, query)
            assert scores_of(sides, query, len(there)) == dict(zip(there.tolist(), expected.tolist(), strict=True))


def test_without_any_known_text_there_is_nothing():
    sides = opened(drawn(2, 1), drawn(5, 2))
    sides.change(np.arange(2), np.empty(0, dtype=np.int64), drawn(2, 1), np.zeros(2, dtype=np.bool_))
    assert scores_of(sides, drawn(1, 3)[0], 5) == {}
