"""From a database through a run and back: prepare, match, match --into, labels export, serve's known texts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import al_ray
from al_ray.apps.matching.model import open_model
from al_ray.apps.serving.arguments import options_of
from al_ray.apps.serving.known import read_known
from al_ray.core.errors import BadOption, WrongFolder
from al_ray.storage.databases.address import TableAddress
from tests.storage.databases.servers import KINDS, Databases

WORDS = ("amber", "basil", "cedar", "delta", "ember", "fjord")
ROWS = [
    (f"p{row}", f"{WORDS[row % 6]} {WORDS[row * 5 % 6]} lamp{' new' * (row >= 12)}", 10.0 + row % 12)
    for row in range(24)
]
SAID = [(f"p{row}", f"p{row + 12}", "yes") for row in range(12)]
COLUMNS = "id text, name text, price double precision"


@pytest.fixture(scope="module")
def databases(server: str, tmp_path_factory: pytest.TempPathFactory) -> Databases:
    made = Databases(tmp_path_factory.mktemp("databases"), server)
    made.execute("postgresql", "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    for kind in KINDS:
        made.insert(kind, "products", COLUMNS, ROWS[::-1])
        made.insert(kind, "june", COLUMNS, [("q1", "fjord ember lamp", 3.0)])
        made.insert(kind, "said", "l text, r text, same text", SAID)
    return made


@pytest.fixture(scope="module")
def ran(databases: Databases, in_process: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a table of SQLite with a matcher, whose labels are in another table there."""
    root = tmp_path_factory.mktemp("ran")
    texts = al_ray.OwnTexts(
        left=databases.address("sqlite", "table=products"), labels=databases.address("sqlite", "table=said"),
        label_columns="l,r,same", labels_are="complete", split="1,0,0", id_column="id", text_columns="name,price",
    )  # fmt: skip
    al_ray.prepare(texts, root / "task")
    config = al_ray.RunConfig(
        task=str(root / "task"), rounds=1, first_batch=16, encoder="random-bert", encoder_layers=1, max_length=16,
        threads=1, matcher="on", evaluation=al_ray.EvaluationConfig(splits=()),
    )  # fmt: skip
    al_ray.run(config, root / "run")
    return root / "run"


def as_texts(rows: list[tuple[Any, ...]]) -> list[tuple[str | None, ...]]:
    """SQLite is read as text."""
    return [tuple(cell if cell is None else str(cell) for cell in row) for row in rows]


def match_options(databases: Databases, kind: str, left: Any, **more: Any) -> al_ray.MatchOptions:
    return al_ray.MatchOptions(
        left=left, matches_table=databases.address(kind, "table=matches"),
        clusters_table=databases.address(kind, "table=clusters"), **more,
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_matches_and_clusters_are_in_the_tables_that_the_folder_has_and_grow_with_it(
    databases: Databases, ran: Path, tmp_path: Path, kind: str
):
    databases.execute(kind, "DROP TABLE IF EXISTS matches", "DROP TABLE IF EXISTS clusters")
    left = databases.address(kind, "table=products")
    options = match_options(databases, kind, left, at_score=0.1, why=True)
    made = al_ray.match(ran, options, tmp_path / "matches")

    def check(folder: al_ray.MatchFolder) -> None:
        matches, clusters = folder.matches(), folder.clusters()
        columns = "left_id, right_id, rank, decided_by, left_text"
        found = databases.rows(kind, f"SELECT {columns} FROM matches ORDER BY rank")
        own = zip(*(matches[name].to_pylist() for name in columns.split(", ")), strict=True)
        assert as_texts(found) == as_texts([*own])
        (_, why), *_ = databases.rows(kind, "SELECT rank, why FROM matches WHERE rank = 1")
        assert isinstance(why, str)
        found = databases.rows(kind, "SELECT id, cluster, canonical FROM clusters")
        assert sorted(as_texts(found)) == sorted(as_texts([*zip(*clusters.to_pydict().values(), strict=True)]))
        assert f"wrote {len(matches):,} rows into {options.matches_table}" in folder.summary

    check(made)
    assert len(made.matches()) > 5
    june = match_options(databases, kind, databases.address(kind, "table=june"), why=True)
    grown = al_ray.match_into(tmp_path / "matches", june)
    assert grown.record["texts"]["new"] == 1
    check(grown)
    # The folder is the owner: another one does not replace its tables, and is told before any work.
    with pytest.raises(BadOption, match=r"table=matches is there already, and not the matches of .*other, written by"):
        al_ray.match(ran, replace(options, left=Path("not read")), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_data_frame_is_matched_as_the_table_is(databases: Databases, ran: Path, tmp_path: Path):
    frame = pd.DataFrame(ROWS, columns=["id", "name", "price"])
    options = al_ray.MatchOptions(left=databases.address("duckdb", "table=products"), at_score=0.1)
    expected = al_ray.match(ran, options, tmp_path / "table").matches()
    made = al_ray.match(ran, replace(options, left=frame), tmp_path / "frame")
    assert made.matches() == expected
    grown = al_ray.match_into(
        tmp_path / "frame",
        al_ray.MatchOptions(left=pd.DataFrame([("q1", "fjord ember lamp", 3.0)], columns=frame.columns)),
    )
    assert grown.record["texts"]["new"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_exported_and_read_again(databases: Databases, ran: Path, tmp_path: Path, kind: str):
    databases.execute(kind, "DROP TABLE IF EXISTS labels")
    address = databases.address(kind, "table=labels")
    run = al_ray.load_run(ran)
    for _ in range(2):
        al_ray.export_labels(run, address, every_column=True)
    assert len(databases.rows(kind, "SELECT * FROM labels")) == 16
    imported = al_ray.import_labels(tmp_path / "new", address, task=run.config.task, columns="left_id,right_id,answer")
    assert imported.labels == 16
    frame = run.labels().to_pandas()
    again = al_ray.import_labels(tmp_path / "new", frame, task=run.config.task, columns="left_id,right_id,answer")
    assert (again.labels, again.known) == (0, 16)
    correction = al_ray.correct_labels(ran, frame, columns="left_id,right_id,answer")
    assert (correction.corrected, correction.correct) == (0, 16)
    with pytest.raises(BadOption, match="`escape_formulas` goes with a CSV file, and `out` is"):
        al_ray.export_labels(run, address, escape_formulas=True)


def test_the_known_texts_of_a_server_may_be_a_table(databases: Databases, ran: Path, tmp_path: Path):
    given = {
        "model": str(ran),
        "known": databases.address("duckdb", "table=products"),
        "store": str(tmp_path / "store"),
    }
    options = options_of({**given, "at_score": 0.1})
    assert isinstance(options.known, TableAddress)
    source, texts = read_known(options, open_model(ran))
    assert source.known == given["known"]
    assert sorted(texts) == sorted(row[0] for row in ROWS)


def test_a_folder_that_is_no_run_is_still_what_is_wrong_first(databases: Databases, tmp_path: Path):
    with pytest.raises(WrongFolder):
        al_ray.match(tmp_path / "run", al_ray.MatchOptions(left="duckdb:x.db?table=t"), tmp_path / "matches")
