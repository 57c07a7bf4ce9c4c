"""Neighbours asked for in two rounds: the pairs of one round, bit for bit, and fewer neighbours on their way."""

from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.candidates import HIGHEST, MARGIN, Candidates, Order
from al_ray.core.pairs import Keys, PairSpace, distinct
from al_ray.core.vectors import Block, paired_scores
from al_ray.search.faiss_index import NONE, CosineIndex, train_index
from al_ray.search.knn_merge import KnnRequest, PairIndex, Shortlist, members, nearest, select, shortlist
from al_ray.search.knn_rounds import First, Portion, first_portion, first_round, join_rounds, portion_of_nearest
from al_ray.search.merge import Neighbors


@dataclass
class RoughIndex:
    """Compares all texts; its cosines are off by up to MARGIN, in each call differently."""

    held: Block
    rng: np.random.Generator
    plain: bool = True
    nested: bool = True
    size: int = 0
    widest: int = 0

    def __post_init__(self) -> None:
        self.size = self.widest = len(self.held.rows)

    def cosines(self, queries: Block, count: int) -> np.ndarray:
        exact = queries.vectors.astype(np.float64) @ self.held.vectors.astype(np.float64).T
        # A twentieth is left for rounding to float32.
        return (exact + 0.95 * self.rng.uniform(-MARGIN, MARGIN, exact.shape)).astype(np.float32)

    def nearest_to(self, queries: Block, count: int):
        cosines = self.cosines(queries, count)
        places = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
        cosines = np.take_along_axis(cosines, places, axis=1)
        room = (0, 0), (0, count - places.shape[1])
        cosines, places = np.pad(cosines, room, constant_values=-inf), np.pad(places, room, constant_values=NONE)
        return cosines, np.where(cosines == -inf, NONE, places)


class GraphIndex(RoughIndex):
    """Finds others where more are asked for, as HNSW does, but the same in each call."""

    def cosines(self, queries: Block, count: int) -> np.ndarray:
        exact = queries.vectors.astype(np.float64) @ self.held.vectors.astype(np.float64).T
        return np.where((np.arange(self.size) + count) % 3 > 0, exact, -inf)


class CodeIndex(GraphIndex):
    """Says only roughly how near a text is."""

    def cosines(self, queries: Block, count: int) -> np.ndarray:
        return np.round(super().cosines(queries, count), 1)


class ScalarIndex(RoughIndex):
    """Compares all texts by their codes, as SQfp16 does: the same in each call, and wrong by more than MARGIN."""

    def cosines(self, queries: Block, count: int) -> np.ndarray:
        exact = queries.vectors.astype(np.float64) @ self.held.vectors.astype(np.float64).T
        return np.round(exact, 1).astype(np.float32)


MAKERS = {
    "plain": RoughIndex,
    "graph": lambda held, rng: GraphIndex(held, rng, nested=False),
    "codes": lambda held, rng: CodeIndex(held, rng, plain=False, nested=False),
    "scalars": lambda held, rng: ScalarIndex(held, rng, plain=False),
}


@dataclass
class Case:
    """Texts on shards, some of which ask for their nearest, and how many neighbours were on their way."""

    vectors: np.ndarray
    owner: np.ndarray
    request: KnnRequest
    block: Block
    labelled: Keys
    received: int = 0
    indexes: list[PairIndex] = field(default_factory=list)

    def held(self, shard: int) -> Block:
        rows = np.flatnonzero(self.owner == shard)
        return Block(rows, self.vectors[rows])

    def answers(self, portion: Portion) -> list[Neighbors]:
        """As with_neighbors of cluster/pool/neighbors.py asks."""
        count, self.received = self.request.neighbours + self.request.symmetric, 0

        def ask(shard: int, wanted: Portion) -> Neighbors:
            found = portion_of_nearest(self.indexes[shard], self.held(shard), self.block, count, wanted)
            self.received += found[1].size
            return found

        answers = [ask(shard, portion) for shard in range(len(self.indexes))]
        if portion is None:
            return answers
        first = first_round(self.request, self.block.rows, answers)
        return [join_rounds(first, [ask(shard, rest) for shard, rest in first.rests.items()])]

    def outcome(self, portion: Portion):
        """The least pairs with their cosines, and the keys of all near pairs."""
        answers, request, rows = self.answers(portion), self.request, self.block.rows
        # All of them, as in find_near: which pairs are certain at once depends on the cosines of a call.
        every = replace(request, count=request.space.total)
        certain, close = members(every, rows, answers)
        best = self.settled(request, shortlist(request, inf, rows, self.labelled, answers))
        near = distinct(np.concatenate([certain, self.settled(every, close).keys]))
        return best.keys.tolist(), best.cosines.tolist(), near.tolist()

    def settled(self, request: KnnRequest, listed: Shortlist) -> Candidates:
        cosines = paired_scores(self.block.vectors, listed.lines, self.vectors, listed.pairs[:, 1])
        return select(request, listed, [cosines])


def case_of(vectors, owner, indexes, neighbours, symmetric, order=HIGHEST, count=10**6, every=1, labelled=()) -> Case:
    rows = np.arange(len(vectors))
    space = PairSpace(rows, rows, len(rows), symmetric)
    block = Block(rows[::every], vectors[::every])
    case = Case(
        vectors,
        owner,
        KnnRequest(space, symmetric, neighbours, order, count),
        block,
        np.array(sorted(labelled), dtype=np.int64),
    )
    case.indexes = [indexes(case.held(shard)) for shard in range(owner.max() + 1)]
    return case


@st.composite
def cases(draw) -> Case:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shards = draw(st.integers(1, 6))
    texts = shards + draw(st.integers(0, 60))
    # Few directions, so that many texts are at one cosine; some differ by less than float32 can tell.
    directions = rng.standard_normal((draw(st.integers(1, 30)), 4))
    kind = rng.integers(len(directions), size=texts)
    vectors = directions[kind] + draw(st.sampled_from([0.0, 1e-7, 0.3])) * rng.standard_normal((texts, 4))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    owner = kind % shards if draw(st.booleans()) else rng.integers(shards, size=texts)
    # No shard is empty.
    owner[:shards] = np.arange(shards)
    make = MAKERS[draw(st.sampled_from(sorted(MAKERS)))]
    labelled = np.flatnonzero(rng.random(texts**2) < draw(st.sampled_from([0, 0.3])))
    order, count = Order(draw(st.sampled_from([inf, 0.5, -inf]))), draw(st.sampled_from([1, 20, 10**6]))
    return case_of(
        vectors, owner, lambda held: make(held, rng), draw(st.integers(1, 25)), draw(st.booleans()), order, count,
        draw(st.integers(1, 3)), labelled.tolist(),
    )  # fmt: skip


@given(cases(), st.integers(1, 26))
def test_two_rounds_find_what_one_round_finds(case, first):
    assert case.outcome(First(first)) == case.outcome(None)


def test_only_a_shard_that_may_have_more_is_asked_again():
    # The third nearest so far is at 0.8. Shard 0 may have more there, shards 1 and 2 have none; shard 3 has given all.
    answers = [
        (np.array([[cosine, last]]), np.array([[2 * shard, 2 * shard + 1]]))
        for shard, (cosine, last) in enumerate([(0.9, 0.8), (0.7, 0.6), (0.8, 0.8 - 5e-6)])
    ]
    answers.append((np.array([[0.95, -inf]]), np.array([[6, NONE]])))
    request = KnnRequest(PairSpace(np.array([9]), np.arange(7), 10, False), False, 3, HIGHEST, 10)
    first = first_round(request, np.array([9]), answers)
    assert list(first.rests) == [0]
    assert first.rests[0].lines.tolist() == [0]
    assert first.floors == pytest.approx([0.8 - 2 * MARGIN], abs=1e-12)
    # Where fewer than wanted are known, all are asked but shard 3.
    assert list(first_round(replace(request, neighbours=8), np.array([9]), answers).rests) == [0, 1, 2]
    # Shard 0 answers anew: what it gave before counts no more.
    cosines, rows = join_rounds(first, [(np.array([[0.9, 0.8, 0.8, 0.1]]), np.array([[0, 1, 8, 9]]))])
    assert sorted(zip(rows[0].tolist(), cosines[0].tolist(), strict=True)) == [
        (0, 0.9),
        (1, 0.8),
        (4, 0.8),
        (6, 0.95),
        (8, 0.8),
    ]


def spread(texts: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((texts, 16)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("index", ["Flat", "IVF8,Flat", "HNSW16", "SQ8"])
@pytest.mark.parametrize(("shards", "most"), [(4, 0.6), (16, 0.25)])
def test_fewer_neighbours_are_on_their_way_the_more_shards_there_are(index, shards, most):
    vectors = spread(2000, 0)
    learnt = train_index(vectors, index) if index != "HNSW16" else None
    case = case_of(
        vectors, np.random.default_rng(1).integers(shards, size=2000),
        lambda held: CosineIndex(held.vectors, index, 2, trained=learnt), 50, True, every=10,
    )  # fmt: skip
    expected, received = case.outcome(None), case.received
    assert case.outcome(first_portion(51, shards)) == expected
    assert case.received < most * received


def test_a_shard_that_has_all_the_nearest_is_the_only_one_that_is_asked_again():
    # 200 texts of each of four groups, and each group on a shard of its own.
    owner = np.arange(800) % 4
    vectors = spread(4, 1)[owner] + 0.1 * spread(800, 2)
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    case = case_of(vectors, owner, lambda held: CosineIndex(held.vectors, "Flat", 1), 40, True, every=5)
    # 25 of each shard. Of the 40 nearest so far its own gave 24, without the text itself, and another one 16.
    assert first_portion(41, 4) == First(25)
    answers = [
        portion_of_nearest(index, case.held(shard), case.block, 41, First(25))
        for shard, index in enumerate(case.indexes)
    ]
    first = first_round(case.request, case.block.rows, answers)
    assert {shard: case.block.rows[rest.lines].tolist() for shard, rest in first.rests.items()} == {
        shard: [row for row in range(0, 800, 5) if row % 4 == shard] for shard in range(4)
    }
    expected, received = case.outcome(None), case.received
    assert case.outcome(First(25)) == expected
    # 160 queries: 25 each of four shards, and at most the 49 of one round of its own.
    assert case.received <= 160 * (4 * 25 + 49) < received


@pytest.mark.parametrize("count", [1, 5, 101, 2000])
def test_one_shard_gives_all_at_once(count):
    assert first_portion(count, 1) is None


def test_what_a_shard_gives_at_first():
    # 101 / 63 = 1.6 are a shard's share; 1.6 + 4 * 1.27 = 6.7, so 7 and one.
    assert first_portion(101, 63) == First(8)
    # 33.7 + 4 * 5.8 = 56.9.
    assert first_portion(101, 3) == First(58)
    # 50.5 + 4 * 7.1 = 78.9 are too many for a second round.
    assert first_portion(101, 2) is None
    # 2.5 + 4 * 1.6 = 8.8 are more than there are.
    assert first_portion(5, 2) is None


def test_many_texts_at_one_cosine_are_all_seen():
    vectors = np.concatenate([np.tile(spread(1, 3), (300, 1)), spread(200, 4)])
    owner = np.concatenate([np.arange(300) % 2, np.arange(200) % 3])
    case = case_of(vectors, owner, lambda held: CosineIndex(held.vectors, "Flat", 1), 20, False, every=25)
    keys = case.outcome(First(10))[2]
    # Of equally near texts those of the lowest rows are the nearest.
    assert [key % 500 for key in keys if key < 500] == list(range(20))
    assert keys == case.outcome(None)[2]


def test_the_rest_of_a_shard_has_no_columns_that_nobody_needs():
    vectors = spread(100, 5)
    held, index = Block(np.arange(100), vectors), CosineIndex(vectors, "Flat", 1)
    every, rows = nearest(index, held, held, 20)
    request = KnnRequest(PairSpace(held.rows, held.rows, 100, False), False, 20, HIGHEST, 10**6)
    parts = [(every[:, part], rows[:, part]) for part in (slice(3), slice(3, 30))]
    first = first_round(request, held.rows, parts)
    assert (first.floors == np.float64(every[:, 19]) - 2 * MARGIN).all()
    _, more = portion_of_nearest(index, held, held, 20, first.rests[0])
    assert more.shape == (100, 20)
