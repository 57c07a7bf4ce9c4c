"""Faiss against double loops: flat and IVF, and what is asked for beyond what there is."""

import subprocess
import sys
from dataclasses import replace

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from al_ray.core.errors import BadOption
from al_ray.core.vectors import Block
from al_ray.search import faiss_index
from al_ray.search.faiss_index import (
    CosineIndex,
    ProbedBlock,
    check_index_on_device,
    exact_nearest,
    sample_size,
    set_threads,
    train_index,
)


@pytest.fixture(autouse=True)
def one_thread():
    set_threads(1)


def unit(count: int, seed: int, width: int = 16) -> np.ndarray:
    """(count, width) random unit vectors, read-only as Ray hands them over."""
    vectors = np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors.setflags(write=False)
    return vectors


def products_by_loops(vectors, queries):
    """(q, n) cosines, one product of two numbers after the other."""
    return np.array(
        [
            [sum(float(a) * float(b) for a, b in zip(query, vector, strict=True)) for vector in vectors]
            for query in queries
        ]
    )


def probed_by(index: CosineIndex, queries: Block) -> ProbedBlock:
    """Queries with their cells."""
    probed = index.probed(queries)
    assert isinstance(probed, ProbedBlock)
    return probed


WITHOUT = """
import importlib, pkgutil, sys
for name in ("faiss", "ray", "tyro"):
    sys.modules[name] = None
import al_ray
for module in pkgutil.walk_packages(al_ray.__path__, "al_ray."):
    if module.name.split(".")[1] in ("core", "encoders", "metrics", "search", "training"):
        importlib.import_module(module.name)
import numpy as np
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import SearchConfig
from al_ray.core.vectors import Block
from al_ray.search.faiss_index import sample_size
from al_ray.search.flat_index import exact_neighbors, index_of
from al_ray.search.shard import PoolShard
from al_ray.search.shard_spec import ShardSpec

PoolShard(ShardSpec("pool", EncoderConfig("random-bert", 1, 24, 8, 1), SearchConfig(), 0, 1))
texts = Block(np.arange(4), np.eye(4, dtype=np.float32))
print(index_of(texts, SearchConfig(), "cpu:0", None, None).nearest_to(texts, 1)[1].ravel())
print(exact_neighbors(texts, texts, 1, "cpu:0")[1].ravel(), sample_size("Flat", 4))
try:
    index_of(texts, SearchConfig(), "cpu", None, None)
except ImportError:
    print("an index needs Faiss")
"""


def test_all_but_indexes_is_there_without_faiss_ray_and_tyro():
    """As on a machine with a GPU that has torch alone (make gpu)."""
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    found = "[0 1 2 3]\n[0 1 2 3] 0\nan index needs Faiss\n"
    assert (done.returncode, done.stdout) == (0, found), done.stderr


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(1, 30), st.integers(1, 50), st.integers(0, 2**31))
def test_flat_finds_what_a_double_loop_finds(size, asked, count, seed):
    vectors, queries = unit(size, seed), unit(asked, seed + 1)
    cosines, places = CosineIndex(vectors, "Flat", nprobe=10).nearest(queries, count)
    assert cosines.shape == places.shape == (asked, count)
    real = min(count, size)
    every = products_by_loops(vectors, queries)
    # In float32 two that are as near as this change places now and then.
    assert cosines[:, :real] == pytest.approx(-np.sort(-every, axis=1)[:, :real], abs=1e-6)
    assert cosines[:, :real] == pytest.approx(np.take_along_axis(every, places[:, :real], axis=1), abs=1e-6)
    assert all(len(set(own)) == real for own in places[:, :real].tolist())
    assert (places[:, real:] == -1).all()
    assert (cosines[:, real:] == -np.inf).all()


def test_an_ivf_index_that_looks_into_every_cell_finds_what_flat_finds():
    vectors, queries = unit(400, 0), unit(30, 1)
    every = CosineIndex(vectors, "IVF8,Flat", nprobe=8).nearest(queries, 10)[1]
    assert every.tolist() == CosineIndex(vectors, "Flat", nprobe=1).nearest(queries, 10)[1].tolist()


def test_an_ivf_index_looks_into_as_many_cells_as_it_is_told():
    vectors, queries = unit(400, 0), unit(30, 1)
    found = [(CosineIndex(vectors, "IVF8,Flat", nprobe).nearest(queries, 200)[1] >= 0).sum() for nprobe in (1, 2, 8)]
    assert found[0] < found[1] < found[2] == 30 * 200
    cosines, places = CosineIndex(vectors, "IVF8,Flat", 1).nearest(queries, 200)
    assert ((places == -1) == np.isneginf(cosines)).all()


@pytest.mark.parametrize(("halves", "whole"), [("SQfp16", "Flat"), ("IVF8,SQfp16", "IVF8,Flat")])
def test_an_index_of_16_bits_finds_among_vectors_of_16_bits_what_one_of_32_finds(halves, whole):
    vectors, queries = unit(600, 0).astype(np.float16), unit(40, 1).astype(np.float16)
    # The cells, of which those of the indexes of all shards are one.
    centroids = unit(8, 2)
    one, other = (
        CosineIndex(vectors, factory, 3, trained=train_index(vectors, factory, centroids=centroids))
        if "IVF" in factory
        else CosineIndex(vectors, factory, 3)
        for factory in (halves, whole)
    )
    assert (one.plain, one.nested) == (other.plain, other.nested) == (True, True)
    (cosines, places), (expected, sames) = (index.nearest(queries, 20) for index in (one, other))
    assert places.tolist() == sames.tolist()
    assert cosines == pytest.approx(expected, abs=2e-7)
    # Of vectors of 32 bits it keeps rounded ones.
    assert not CosineIndex(unit(600, 0), halves, 3).plain


@pytest.mark.parametrize("factory", ["IVF8,Flat", "IVF8,SQ8", "IVF8,SQfp16", "IVF8,PQ2x4", "IVF8_HNSW4,Flat"])
def test_queries_with_their_cells_find_what_an_index_finds_that_looks_for_them(factory):
    vectors, queries = unit(600, 0), Block(np.arange(40), unit(40, 1))
    trained = train_index(vectors, factory)
    one, other = (CosineIndex(vectors[start::2], factory, 3, trained=trained) for start in (0, 1))
    probed = probed_by(one, queries)
    assert (probed.cells.shape, probed.cells.dtype) == ((40, 3), np.uint16)
    assert (probed.cosines is None) == factory.endswith(",Flat")
    for index in (one, other):
        for found, expected in zip(index.nearest_to(probed, 400), index.nearest_to(queries, 400), strict=True):
            assert found.tolist() == expected.tolist()
    some, cosines = probed.take(np.array([7, 3])), other.nearest_to(probed, 5)[0]
    assert some.rows.tolist() == [7, 3]
    assert other.nearest_to(some, 5)[0] == pytest.approx(cosines[[7, 3]], abs=1e-6)


def test_cells_that_queries_name_are_those_that_are_searched():
    vectors, queries = unit(600, 0), Block(np.arange(10), unit(10, 1))
    index = CosineIndex(vectors, "IVF8,Flat", 1)
    own = probed_by(index, queries)
    others = replace(own, cells=(own.cells + 1) % 8)
    found = index.nearest_to(others, 600)[1]
    cells = probed_by(index, Block(np.arange(600), vectors)).cells[:, 0]
    for line, (cell,) in zip(found, others.cells, strict=True):
        assert sorted(line[line >= 0].tolist()) == np.flatnonzero(cells == cell).tolist()


def test_cells_of_many_have_larger_numbers(monkeypatch):
    monkeypatch.setattr(faiss_index, "SMALL", 7)
    vectors, queries = unit(600, 0), Block(np.arange(10), unit(10, 1))
    index = CosineIndex(vectors, "IVF8,Flat", 2)
    probed = probed_by(index, queries)
    assert probed.cells.dtype == np.int32
    assert index.nearest_to(probed, 9)[1].tolist() == index.nearest_to(queries, 9)[1].tolist()


def test_an_index_without_cells_adds_none_and_one_has_no_more_than_it_has():
    queries = Block(np.arange(5), unit(5, 1))
    assert CosineIndex(unit(50, 0), "Flat", 3).probed(queries) is queries
    probed = probed_by(CosineIndex(unit(400, 0), "IVF4,Flat", 9), queries)
    assert np.sort(probed.cells, axis=1).tolist() == [[0, 1, 2, 3]] * 5


@pytest.mark.gpu
@pytest.mark.skipif(not hasattr(faiss, "StandardGpuResources"), reason="faiss-gpu is not installed")
def test_cells_of_queries_are_found_and_searched_on_a_gpu_as_on_the_cpu():
    vectors, queries = unit(2000, 0), Block(np.arange(100), unit(100, 1))
    trained = train_index(vectors, "IVF8,Flat")
    cpu, gpu = (CosineIndex(vectors, "IVF8,Flat", 2, device, trained) for device in ("cpu", "cuda:0"))
    probed = probed_by(gpu, queries)
    assert probed.cells.tolist() == probed_by(cpu, queries).cells.tolist()
    assert gpu.nearest_to(probed, 5)[1].tolist() == cpu.nearest_to(probed, 5)[1].tolist()


def test_an_index_that_a_gpu_cannot_hold_is_refused_before_there_are_vectors(monkeypatch):
    check_index_on_device("HNSW32", "cpu")
    if not hasattr(faiss, "StandardGpuResources"):
        with pytest.raises(BadOption, match="is faiss-cpu, which cannot search there: install faiss-gpu"):
            check_index_on_device("IVF8,Flat", "cuda:0")
    # It is searched by torch.
    check_index_on_device("Flat", "cuda:0")

    def to_gpu(resources: str, device: int, index: object) -> None:
        assert (resources, device) == ("resources", 0)
        if isinstance(index, faiss.IndexHNSW):
            raise RuntimeError("Error in ... at GpuCloner.cpp:1: Error: 'false' failed: This index type is not there\n")

    monkeypatch.setattr(faiss, "StandardGpuResources", lambda: "resources", raising=False)
    monkeypatch.setattr(faiss, "index_cpu_to_gpu", to_gpu, raising=False)
    check_index_on_device("IVF8,Flat", "cuda:0")
    with pytest.raises(
        BadOption, match=r"HNSW32'`: Faiss has no such index on a GPU \('false' failed: This .*give Flat"
    ):
        check_index_on_device("HNSW32", "cuda:0")


def test_a_cosine_of_one_is_found_for_itself():
    vectors = unit(50, 3)
    cosines, places = CosineIndex(vectors, "Flat", nprobe=1).nearest(vectors, 1)
    assert places[:, 0].tolist() == list(range(50))
    assert cosines == pytest.approx(1, abs=1e-6)


def test_an_index_of_nothing_finds_nothing():
    cosines, places = CosineIndex(unit(0, 0), "Flat", nprobe=1).nearest(unit(3, 1), 4)
    assert (places == -1).all()
    assert np.isneginf(cosines).all()


@pytest.mark.parametrize(("factory", "size"), [("Flatt", 50), ("IVF", 50), ("", 50), ("IVF100,Flat", 3)])
def test_what_faiss_refuses_is_a_bad_option_of_one_line(factory, size):
    with pytest.raises(BadOption, match=rf"`search\.index` '{factory}' on {size} vectors: .*; try Flat$") as refused:
        CosineIndex(unit(size, 0), factory, nprobe=1)
    assert len(str(refused.value).splitlines()) == 1


def test_parts_of_a_pool_that_learnt_from_one_sample_find_what_the_whole_finds():
    vectors, queries = unit(600, 0), unit(40, 1)
    learnt = train_index(vectors[::2], "IVF8,Flat")
    whole = CosineIndex(vectors, "IVF8,Flat", 2, trained=learnt).nearest(queries, 10)
    parts = [CosineIndex(vectors[start::3], "IVF8,Flat", 2, trained=learnt).nearest(queries, 10) for start in range(3)]
    cosines = np.concatenate([part[0] for part in parts], axis=1)
    places = np.concatenate(
        [np.where(part[1] < 0, -1, part[1] * 3 + start) for start, part in enumerate(parts)], axis=1
    )
    best = np.argsort(-cosines, axis=1, kind="stable")[:, :10]
    assert np.take_along_axis(places, best, axis=1).tolist() == whole[1].tolist()
    alone = CosineIndex(vectors[::3], "IVF8,Flat", 2).nearest(queries, 10)
    assert alone[1].tolist() != parts[0][1].tolist(), "a part that learns by itself has other cells"


@pytest.mark.parametrize("factory", ["IVF8,Flat", "IVF8,SQ8", "IVF8,PQ2x4"])
def test_an_index_keeps_the_cells_that_were_learned(factory):
    vectors, centroids = unit(700, 0), unit(8, 1)
    learnt = train_index(vectors if "Flat" not in factory else centroids, factory, centroids=centroids)
    index = CosineIndex(vectors, factory, 8, trained=learnt).index
    assert index.quantizer.reconstruct_n(0, 8).tolist() == centroids.tolist()
    # A text is in the cell of the nearest centroid.
    nearest = (vectors @ centroids.T).argmax(axis=1)
    assert [index.invlists.list_size(cell) for cell in range(8)] == np.bincount(nearest, minlength=8).tolist()


@pytest.mark.parametrize(("factory", "size"), [("Flat", 0), ("IVF8,Flat", 20_000), ("IVF1000,Flat", 100_000)])
def test_an_index_says_how_many_vectors_it_learns_from(factory, size):
    assert sample_size(factory, 16) == size


@pytest.mark.parametrize("metric", ["ip", "l2"])
@pytest.mark.parametrize("at_once", [7, 1000])
def test_exact_search_finds_what_a_sort_of_all_finds_in_parts_of_any_size(monkeypatch, metric, at_once):
    monkeypatch.setattr(faiss_index, "AT_ONCE", at_once)
    vectors, queries, rows = unit(100, 5), unit(6, 6), np.arange(100)[::-1] * 3
    expected = queries @ vectors.T if metric == "ip" else ((queries[:, None] - vectors) ** 2).sum(axis=2)
    order = np.argsort(-expected if metric == "ip" else expected, axis=1)[:, :10]
    scores, places = exact_nearest(Block(rows, vectors), queries, 10, metric)
    assert places.tolist() == rows[order].tolist()
    np.testing.assert_allclose(scores, np.take_along_axis(expected, order, axis=1), atol=1e-5)
    assert exact_nearest(Block(rows[:3], vectors[:3]), queries, 10, metric)[1].shape == (6, 3)
    assert exact_nearest(Block(rows[:0], vectors[:0]), queries, 10, metric)[1].shape == (6, 0)
