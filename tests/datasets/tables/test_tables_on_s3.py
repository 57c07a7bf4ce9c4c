"""A user's tables on an object store: read as those on a disk, and errors name the URI."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from al_ray.core.errors import BadFile, BadOption
from al_ray.datasets.tables.extension import extension_of
from al_ray.datasets.tables.format_options import inherited_format, paths_of
from al_ray.datasets.tables.options import OwnTexts
from al_ray.datasets.tables.to_task import read_own
from al_ray.datasets.task_folder import write_task
from al_ray.storage.uri import storage_path
from tests.storage.s3 import Server, served

SHARES = (0.5, 0.25, 0.25)
CSV = 'key,words\r\na,wie heißt du\r\nb,"two\nlines"\r\nc,how are you\r\n'
JSON = '{"key": "d", "words": "why"}\n{"key": "e", "words": "who"}\n'


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served() as started:
        yield started


@pytest.fixture
def both(server: Server, tmp_path: Path) -> tuple[Path, str]:
    """A folder with three tables, and the URI of the same objects, up to their names."""
    pq.write_table(pa.table({"key": [7, 8], "words": ["one", "two"]}), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_bytes(CSV.encode())
    (tmp_path / "t.jsonl").write_text(JSON)
    (tmp_path / "bad.csv").write_text("key,words\na,b\nc\n")
    for path in tmp_path.iterdir():
        with server.store.open_output_stream(f"{server.bucket}/{tmp_path.name}/{path.name}") as file:
            file.write(path.read_bytes())
    return tmp_path, tmp_path.name


def source(*files: Path | str, **more: Any) -> OwnTexts:
    left = paths_of(files)
    tables = left if len(files) > 1 else left[0]
    return OwnTexts(left=tables, text_columns="words", id_column="key", **more)


@pytest.mark.parametrize("names", [["t.csv"], ["t.jsonl"], ["t.parquet"], ["t.csv", "t.jsonl", "t.parquet"]])
def test_objects_are_read_as_files(server, both, names):
    folder, key = both
    here, _ = read_own(source(*(folder / name for name in names)), SHARES)
    there, _ = read_own(source(*(server.uri(f"{key}/{name}") for name in names)), SHARES)
    assert (there.name, there.digest) == (here.name, here.digest)
    assert (list(there.left.ids), list(there.left.texts)) == (list(here.left.ids), list(here.left.texts))


def test_errors_name_the_uri_and_the_line(server, both):
    _, key = both
    for name, error, words in (
        ("nowhere.csv", BadFile, "does not exist"), ("bad.csv", BadFile, "bad.csv.*:3: it has 1 columns, not 2"),
        ("t.txt", BadOption, "t.txt.*: its extension is none of"),
    ):  # fmt: skip
        with pytest.raises(error, match=words) as caught:
            read_own(source(server.uri(f"{key}/{name}")), SHARES)
        assert f"s3://bucket/{key}/{name}?endpoint_override" in str(caught.value)
    twice = server.uri(f"{key}/t.csv")
    with pytest.raises(BadOption, match="twice; give each file once"):
        read_own(source(twice, twice), SHARES)


def test_the_format_of_a_task_holds_for_later_objects_of_the_same_kind(server, both, tmp_path):
    _, key = both
    uri = server.uri(f"{key}/t.csv")
    options = source(uri, quoting="standard", encoding="utf-8-sig")
    task, _ = read_own(options, SHARES)
    mapping = {"command": "prepare pairs", "left": [uri], "id_column": "key", "text_columns": "words"}
    write_task(task, tmp_path / "task", mapping | {"encoding": "utf-8-sig", "delimiter": ","})
    assert inherited_format({"left": [uri], "delimiter": ";"}, [storage_path(server.uri("june.csv"))]) == {
        "delimiter": ";"
    }
    assert inherited_format({"left": [uri], "delimiter": ";"}, [storage_path(server.uri("june.parquet"))]) == {}
    extended = extension_of(str(tmp_path / "task"), left=server.uri(f"{key}/t.jsonl"))
    assert extended.left == storage_path(server.uri(f"{key}/t.jsonl"))
    assert extended.encoding == "utf-8"
