"""Tables of a match folder, written in parts: the same as in one, and the old ones stay if a part fails."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from al_ray.apps.matching import folder
from al_ray.apps.matching.clusters.nodes import Nodes
from al_ray.apps.matching.folder import CLUSTERS, MATCHES, TEXTS, Matches, write_clusters, write_matches
from al_ray.core.scored_pairs import NO_SCORED_PAIRS, ScoredPairs
from al_ray.core.task import Corpus, Task
from al_ray.storage.formulas import FormulaCells
from al_ray.storage.uri import StoragePath, Uri, storage_path
from tests.storage.s3 import Server, served

COUNT = 23
EXACT = FormulaCells(escape=False)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served() as started:
        yield started


@pytest.fixture(params=["path", "uri"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> StoragePath:
    if request.param == "path":
        return tmp_path / "out"
    found = storage_path(request.getfixturevalue("server").uri(tmp_path.name))
    assert isinstance(found, Uri)
    return found / "out"


def made() -> tuple[Task, Matches]:
    rng = np.random.default_rng(0)
    texts = tuple('a, "b"\nc' if row % 5 == 0 else "" if row % 3 == 0 else f"text {row}" for row in range(30))
    corpus = Corpus(tuple(f"id {row}" for row in range(30)), texts)
    scores = np.sort(rng.random(COUNT))[::-1].copy()
    pairs, by_label = rng.integers(0, 30, (COUNT, 2)), rng.random(COUNT) < 0.5
    return Task("task", True, corpus, corpus, {}, "digest"), Matches(
        ScoredPairs(pairs, scores, scores / 2), scores / 3, by_label, ~by_label & by_label
    )


def one_table(task: Task, matches: Matches) -> pa.Table:
    decided = ["label" if by_label else "model" for by_label in matches.by_label]
    columns = [
        *task.ids_of(matches.pairs), matches.scores, matches.cosines, matches.probabilities,
        np.arange(1, len(matches) + 1), decided, *task.texts_of(matches.pairs),
    ]  # fmt: skip
    schema = pa.schema([*MATCHES, *TEXTS])
    return pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema)


def as_csv(table: pa.Table, path: Path) -> bytes:
    pa_csv.write_csv(table, path)
    return path.read_bytes()


@pytest.mark.parametrize("size", [7, COUNT, 250_000])
def test_tables_written_in_parts_are_those_written_at_once(place, tmp_path, monkeypatch, size):
    monkeypatch.setattr(folder, "CHUNK", size)
    task, matches = made()
    whole = one_table(task, matches)
    write_matches(place / "matches", matches, task, texts=True, cells=EXACT)
    with (place / "matches.parquet").open("rb") as file:
        read = pq.ParquetFile(file)
        assert read.num_row_groups == -(-COUNT // size)
        assert read.read().equals(whole)
    assert (place / "matches.csv").read_bytes() == as_csv(whole, tmp_path / "whole.csv")


def test_clusters_and_their_texts_are_complete_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "CHUNK", 7)
    (task, _), rows = made(), np.arange(2, 25)
    # Clusters of two texts, of which the first stands for both.
    canonical = rows - rows % 2
    write_clusters(tmp_path, Nodes(task), rows, rows // 2, canonical, EXACT)
    columns = [[f"id {row}" for row in rows], rows // 2, [f"id {row}" for row in canonical]]
    clusters = pa.table(dict(zip(CLUSTERS.names, columns, strict=True)), schema=CLUSTERS)
    assert pq.read_table(tmp_path / "clusters.parquet").equals(clusters)
    assert (tmp_path / "clusters.csv").read_bytes() == as_csv(clusters, tmp_path / "whole.csv")
    kept = {"id": [f"id {row}" for row in range(2, 25, 2)], "text": list(task.left.texts[2:25:2])}
    assert (tmp_path / "deduplicated.csv").read_bytes() == as_csv(pa.table(kept), tmp_path / "whole.csv")


def test_no_match_gives_tables_of_columns_alone(tmp_path):
    task, _ = made()
    none = np.empty(0)
    write_matches(
        tmp_path / "matches",
        Matches(NO_SCORED_PAIRS, None, none > 0, none > 0),
        task,
        False,
        EXACT,
    )
    assert pq.read_table(tmp_path / "matches.parquet").equals(MATCHES.empty_table())
    assert (tmp_path / "matches.csv").read_text() == ",".join(f'"{name}"' for name in MATCHES.names) + "\n"


def test_both_tables_stay_as_they_were_if_a_later_part_cannot_be_made(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "CHUNK", 7)
    task, matches = made()
    write_matches(tmp_path / "matches", matches, task, True, EXACT)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    # The last row of the pairs names a text that is not there.
    scored = replace(matches.scored, pairs=np.concatenate([matches.pairs[:-1], [[0, 99]]]))
    wrong = replace(matches, scored=scored)
    with pytest.raises(IndexError):
        write_matches(tmp_path / "matches", wrong, task, True, EXACT)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert set(before) == {"matches.parquet", "matches.csv"}


def test_on_request_the_csv_files_have_no_formulas_and_the_parquet_files_are_exact(tmp_path):
    corpus = Corpus(("=id", "7"), ('=HYPERLINK("http://x")', "a = b"))
    task, one = Task("task", True, corpus, corpus, {}, "digest"), np.ones(1)
    matches = Matches(ScoredPairs(np.array([[0, 1]]), -one, one), None, one > 2, one > 2)
    cells = FormulaCells(escape=True)
    write_matches(tmp_path / "matches", matches, task, True, cells)
    write_clusters(tmp_path, Nodes(task), np.arange(2), np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64), cells)
    # The score is a number, and no formula.
    assert (tmp_path / "matches.csv").read_text().splitlines()[1:] == [
        '"\'=id","7",-1,1,,1,"model","\'=HYPERLINK(""http://x"")","a = b"'
    ]
    assert (tmp_path / "clusters.csv").read_text().splitlines()[1:] == ['"\'=id",0,"\'=id"', '"7",0,"\'=id"']
    assert (tmp_path / "deduplicated.csv").read_text().splitlines()[1:] == ['"\'=id","\'=HYPERLINK(""http://x"")"']
    assert pq.read_table(tmp_path / "matches.parquet")["left_id"].to_pylist() == ["=id"]
    # matches.csv has 2, clusters.csv 3, deduplicated.csv 2.
    assert cells.count == 7
