"""Flat search without Faiss, on a device "cpu:0", which runs what is for GPUs, against Faiss and double loops."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from al_ray.core.candidates import MARGIN
from al_ray.core.config.sections import SearchConfig
from al_ray.core.nearest_means import NearestMeans
from al_ray.core.pair_rule import GroupCodes, PairRule
from al_ray.core.vectors import Block, Vectors
from al_ray.search import flat_index
from al_ray.search.faiss_index import NONE, CosineIndex, exact_nearest
from al_ray.search.flat_index import FlatIndex, exact_neighbors, index_of
from al_ray.search.join.exact_join import rough_cosines, rough_error
from al_ray.search.knn_merge import WIDEST, nearest

GPU = "cpu:0"


def unit(count: int, seed: int, kind: str = "float32") -> Vectors:
    """(count, 16) random unit vectors, read-only as Ray hands them over."""
    vectors = np.random.default_rng(seed).standard_normal((count, 16))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(kind)
    vectors.setflags(write=False)
    return vectors


def texts(count: int, seed: int, kind: str = "float32") -> Block:
    """So many texts, whose rows are not their places."""
    return Block(np.arange(count) * 3, unit(count, seed, kind))


def cosines_of(queries: Block, held: Block) -> np.ndarray:
    """(q, n) in float64."""
    return queries.vectors.astype(np.float64) @ held.vectors.astype(np.float64).T


@pytest.fixture(params=[2**29, 4 * 16 * 40], ids=["one product", "products of 40 texts"])
def tiles(request, monkeypatch):
    """Sizes of products."""
    monkeypatch.setattr(flat_index, "PRODUCT", request.param)


@pytest.mark.parametrize("resident", [True, False])
@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("count", [1, 7, 250])
def test_the_same_neighbours_as_faiss_gives(tiles, kind, resident, count):
    held, queries = texts(200, 0, kind), texts(16, 1, kind)
    index = FlatIndex(held, GPU, resident=resident)
    cosines, places = index.nearest_to(queries, count)
    wanted = CosineIndex(held.vectors, "Flat", 1).nearest_to(queries, count)
    assert places.tolist() == wanted[1].tolist()
    assert (cosines.dtype, cosines.shape) == (np.float32, (16, count))
    assert cosines[:, : min(count, 200)] == pytest.approx(wanted[0][:, : min(count, 200)], abs=MARGIN)
    assert (cosines[:, 200:] == -np.inf).all()
    assert (places[:, 200:] == NONE).all()


def test_vectors_of_16_bits_stay_as_they_are_and_are_products_of_float32(monkeypatch):
    """What a GPU cuts off a sum changes no neighbour, and no cosine by more than MARGIN."""
    held, queries = texts(3000, 0, "float16"), texts(20, 1, "float16")
    index = FlatIndex(held, GPU)
    assert index.vectors is not None
    assert index.vectors.dtype == torch.float16
    rough_ones = list[int]()

    def cut(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        products = rough_cosines(left, right)
        if left.dtype != torch.float16:
            return products
        rough_ones.append(len(left))
        wrong = torch.from_numpy(np.random.default_rng(0).uniform(-1, 1, products.shape)).float()
        return products + bound * wrong

    # A hundred times as wrong as so few dimensions can be: then many texts are within the error of the last one.
    bound = 100 * rough_error(16)
    monkeypatch.setattr(flat_index, "rough_cosines", cut)
    monkeypatch.setattr(flat_index, "rough_error", lambda width: bound)
    cosines, places = index.nearest_to(queries, 50)
    every = cosines_of(queries, held)
    assert places.tolist() == np.argsort(-every, axis=1)[:, :50].tolist()
    assert cosines == pytest.approx(np.take_along_axis(every, places, axis=1), abs=MARGIN)
    assert rough_ones == [20]


def test_a_query_with_more_near_texts_than_were_taken_is_compared_again(monkeypatch):
    """200 texts lie within the error of a rough product, and the order among them is that of the true cosines."""
    query = np.zeros(16)
    query[0] = 1
    away = 1e-3 * np.random.default_rng(0).permutation(200)[:, None] * np.eye(16)[1]
    near = ((query + away) / np.linalg.norm(query + away, axis=1, keepdims=True)).astype(np.float16)
    held = Block(np.arange(300), np.concatenate([unit(100, 0, "float16"), near]))
    queries = Block(np.arange(3), np.concatenate([unit(2, 1, "float16"), query[None].astype(np.float16)]))
    every = cosines_of(queries, held)
    wrong = np.random.default_rng(1).uniform(-1, 1, every.shape)
    monkeypatch.setattr(flat_index, "rough_error", lambda width: 0.05)
    again = list[int]()

    def cut(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        products = rough_cosines(left, right)
        if left.dtype == torch.float16:
            return products + 0.05 * torch.from_numpy(wrong).float()
        again.append(len(left))
        return products

    monkeypatch.setattr(flat_index, "rough_cosines", cut)
    cosines, places = FlatIndex(held, GPU).nearest_to(queries, 20)
    assert again == [1]
    assert cosines == pytest.approx(-np.sort(-every, axis=1)[:, :20], abs=MARGIN)
    assert cosines == pytest.approx(np.take_along_axis(every, places, axis=1), abs=MARGIN)


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_all_texts_at_one_cosine_are_given_though_more_than_faiss_gives_on_a_gpu(kind):
    """count 600 asks for 4 * 600 = 2,400 at most, and 2,300 texts are the same."""
    same = np.repeat(unit(1, 5, kind), 2300, axis=0)
    held = Block(np.arange(2500), np.concatenate([unit(200, 0, kind), same]))
    queries = Block(np.arange(1), same[:1])
    assert WIDEST < 2300
    for index in (FlatIndex(held, GPU), CosineIndex(held.vectors, "Flat", 1)):
        cosines, rows = nearest(index, held, queries, 600)
        assert set(range(200, 2500)) <= set(rows[0].tolist())
        assert (cosines[0, :2300] > 1 - 1e-3).all()
    # An index of Faiss on a GPU says that it gives no more.
    narrow = CosineIndex(held.vectors, "Flat", 1)
    narrow.widest = WIDEST
    assert nearest(narrow, held, queries, 600)[1].shape == (1, WIDEST)


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("condition", ["same", "different", "both"])
def test_of_a_task_with_a_rule_those_are_found_that_can_match(tiles, condition, kind, device):
    rng, held, queries = np.random.default_rng(3), texts(150, 0, kind), texts(9, 1, kind)

    def codes(groups: int) -> GroupCodes:
        left, right = rng.integers(groups, size=(2, 450)).astype(np.int32)
        return GroupCodes(("column",), left, right)

    same, different = codes(4), codes(3)
    rule = PairRule(None if condition == "different" else same, None if condition == "same" else different)
    index = index_of(held, SearchConfig(), device, rule, None)
    cosines, places = index.nearest_to(queries, 30)
    every = np.where(rule.table(queries.rows, held.rows), cosines_of(queries, held), -np.inf)
    wanted = -np.sort(-every, axis=1)[:, :30]
    assert cosines == pytest.approx(wanted, abs=MARGIN)
    assert (places == NONE).tolist() == (wanted == -np.inf).tolist()
    found = np.take_along_axis(every, np.maximum(places, 0), axis=1)
    assert np.where(places == NONE, -np.inf, found) == pytest.approx(wanted, abs=MARGIN)


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_the_truth_for_recall_is_the_same_on_every_device(tiles, kind):
    held, queries = texts(200, 0, kind), texts(12, 1, kind)
    cosines, rows = exact_neighbors(held, queries, 10, GPU)
    wanted = exact_nearest(held, queries.vectors, 10, "ip")
    assert rows.tolist() == wanted[1].tolist() == exact_neighbors(held, queries, 10, "cpu")[1].tolist()
    assert cosines == pytest.approx(wanted[0], abs=MARGIN)
    few = Block(held.rows[:3], held.vectors[:3])
    assert (exact_neighbors(few, queries, 5, GPU)[1][:, 3:] == NONE).all()
    none = Block(held.rows[:0], held.vectors[:0])
    assert exact_neighbors(none, queries, 5, GPU)[1].shape == (12, 0)


def test_flat_is_faiss_on_a_cpu_and_not_on_a_gpu_and_other_kinds_are_faiss():
    held, search = texts(300, 0), SearchConfig()
    assert isinstance(index_of(held, search, "cpu", None, None), CosineIndex)
    assert isinstance(index_of(held, search, GPU, None, None), FlatIndex)
    assert isinstance(index_of(held, replace(search, index="IVF4,Flat"), "cpu", None, None), CosineIndex)


def test_a_query_that_is_clear_is_not_compared_again(monkeypatch):
    """Of random texts the last of those taken is much further than the last asked for."""
    kinds = set[torch.dtype]()

    def products(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        kinds.add(left.dtype)
        return rough_cosines(left, right)

    monkeypatch.setattr(flat_index, "rough_cosines", products)
    FlatIndex(texts(3000, 0, "float16"), GPU).nearest_to(texts(20, 1, "float16"), 50)
    assert kinds == {torch.float16}


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_with_offsets_of_right_texts_the_nearest_are_those_of_one_more_dimension(tiles, kind, device):
    """cos(x, y) - o(y) is the inner product of [x, 1] and [y, -o(y)], which Faiss finds exactly, too."""
    held, queries = texts(200, 0, kind), texts(16, 1, kind)
    offsets = np.random.default_rng(2).uniform(-1, 1, 200)
    shifted = replace(queries, right_offsets=NearestMeans(held.rows, offsets))
    scores, places = FlatIndex(held, device).nearest_to(shifted, 30)
    every = cosines_of(queries, held) - offsets
    assert places.tolist() == np.argsort(-every, axis=1)[:, :30].tolist()
    assert scores == pytest.approx(np.take_along_axis(every, places, axis=1), abs=MARGIN)
    wider = np.column_stack([held.vectors.astype(np.float32), -offsets.astype(np.float32)])
    ones = np.column_stack([queries.vectors.astype(np.float32), np.ones(16, np.float32)])
    found = CosineIndex(wider, "Flat", 1).nearest(ones, 30)
    assert found[1].tolist() == places.tolist()
    assert found[0] == pytest.approx(scores, abs=MARGIN)
