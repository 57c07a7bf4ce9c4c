"""The catalogue and its index against a sort of all cosines."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.apps.serving import catalogue as module
from al_ray.apps.serving.catalogue import Catalogue
from al_ray.apps.serving.index import open_index
from al_ray.core.errors import BadOption
from al_ray.core.rng import generator
from al_ray.core.vectors import cosines as unit_cosines


def unit(count: int, purpose: str, kinds: int = 10**9) -> np.ndarray:
    """Unit vectors (count, 8), of which at most `kinds` differ: the others are ties."""
    rng = generator(0, purpose)
    drawn = rng.normal(size=(min(count, kinds), 8)).astype(np.float32)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return drawn[rng.integers(0, len(drawn), count)] if kinds < count else drawn


def by_sorting(known: dict[str, np.ndarray], query: np.ndarray, count: int) -> list[tuple[str, float]]:
    """The slow twin: all cosines in float64, sorted; equal ones by id."""
    cosines = {one: float(unit_cosines(query[None], vector[None])[0]) for one, vector in known.items()}
    return sorted(cosines.items(), key=lambda pair: (-pair[1], pair[0]))[:count]


def named(catalogue: Catalogue, queries: np.ndarray, count: int) -> list[list[tuple[str, float]]]:
    return [
        [(catalogue.ids[row], cosine) for row, cosine in zip(near.rows, near.cosines.tolist(), strict=True)]
        for near in catalogue.nearest(queries, count)
    ]


@given(st.integers(0, 40), st.integers(1, 12), st.sampled_from([3, 10**9]), st.data())
def test_the_nearest_are_those_of_a_sort_whatever_came_and_went(first, count, kinds, data):
    vectors, ids = unit(first, "first", kinds), [f"t{row}" for row in range(first)]
    known, catalogue = dict(zip(ids, vectors, strict=True)), Catalogue(vectors)
    catalogue.add_first(ids, [None] * first)
    for step in range(data.draw(st.integers(0, 4))):
        chosen = data.draw(st.lists(st.integers(0, 50).map("t{}".format), max_size=5, unique=True))
        if data.draw(st.booleans()):
            fresh = unit(len(chosen), f"put {step}")
            catalogue.put(chosen, fresh)
            known |= dict(zip(chosen, fresh, strict=True))
        else:
            catalogue.remove(chosen)
            known = {one: vector for one, vector in known.items() if one not in chosen}
    queries = np.concatenate([unit(3, "queries"), vectors[:1]])
    assert len(catalogue) == len(known)
    assert named(catalogue, queries, count) == [by_sorting(known, query, count) for query in queries]


def test_blocks_of_queries_and_of_known_texts_change_nothing(monkeypatch):
    vectors, queries = unit(300, "known", 40), unit(30, "queries")
    catalogue = Catalogue(vectors)
    catalogue.add_first([f"t{row}" for row in range(300)], [None] * 300)
    whole = named(catalogue, queries, 9)
    monkeypatch.setattr(module, "QUERIES", 7)
    monkeypatch.setattr(module, "COLUMNS", 11)
    assert named(catalogue, queries, 9) == whole


def test_an_index_of_all_cells_answers_as_a_sort_with_texts_beside_it_and_without_removed_ones(tmp_path):
    vectors, ids = unit(400, "known"), [f"t{row}" for row in range(400)]
    index = open_index(tmp_path, "model", vectors, "IVF8,Flat", 8)
    assert index.recall == 1
    catalogue, known = Catalogue(vectors, index), dict(zip(ids, vectors, strict=True))
    catalogue.add_first(ids, [None] * 400)
    queries = unit(9, "queries")
    fresh = unit(20, "fresh")
    catalogue.put([f"t{row}" for row in range(390, 410)], fresh)
    known |= {f"t{row}": vector for row, vector in zip(range(390, 410), fresh, strict=True)}
    assert named(catalogue, queries, 5) == [by_sorting(known, query, 5) for query in queries]
    # Of each query the nearest hundred go, more than an index is asked for at first.
    gone = {one for query in queries for one, _ in by_sorting(known, query, 100)}
    catalogue.remove(sorted(gone))
    known = {one: vector for one, vector in known.items() if one not in gone}
    assert 0 < len(known) < 300
    assert named(catalogue, queries, 5) == [by_sorting(known, query, 5) for query in queries]


def test_an_index_is_made_once_and_its_recall_is_measured(tmp_path: Path):
    vectors = unit(2000, "known")
    poor = open_index(tmp_path, "model", vectors, "IVF100,Flat", 1)
    better = open_index(tmp_path, "model", vectors, "IVF100,Flat", 60)
    assert 0.1 < poor.recall < better.recall <= 1
    files = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.faiss")}
    assert len(files) == 1
    again = open_index(tmp_path, "model", vectors, "IVF100,Flat", 1)
    assert again.recall == poor.recall
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.faiss")} == files
    # Other texts: the earlier index goes.
    open_index(tmp_path, "model", vectors[1:], "IVF100,Flat", 1)
    assert len(list(tmp_path.glob("*.faiss"))) == 1
    assert not files.keys() & {path.name for path in tmp_path.iterdir()}
    assert len(list(tmp_path.glob("*.json"))) == 1
    with pytest.raises(BadOption, match="try Flat"):
        open_index(tmp_path, "model", vectors, "Nonsense", 1)


def test_what_a_killed_process_was_writing_of_an_index_is_removed(tmp_path: Path):
    # No process has this number.
    half = tmp_path / ".0123.faiss.999999999-1"
    half.write_bytes(b"half of an index")
    open_index(tmp_path, "model", unit(50, "known"), "Flat", 1)
    assert not half.exists()
    assert len(list(tmp_path.iterdir())) == 2
