"""A few inputs of every reader: each is read, or refused by an error that names the file, within limits.

`make fuzz INPUTS=100000` reads more of them (tests/fuzz/__main__.py).
"""

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from al_ray.core.errors import AlRayError, BadFile
from tests.fuzz import harness, limits
from tests.fuzz.readers import READERS, Reader

EACH = 12
"""Inputs of a reader whose share is 1."""


@pytest.fixture(scope="module")
def work(sound: Path, tmp_path_factory) -> Path:
    return Path(shutil.copytree(sound, tmp_path_factory.mktemp("fuzz") / "work"))


@pytest.mark.parametrize("name", READERS)
def test_what_is_damaged_is_read_or_refused_by_name(sound, work, monkeypatch, name):
    monkeypatch.chdir(work)
    assert harness.run_damage(name, -1, {}).outcome in ("read", "refused")
    results = [harness.run_input(name, number, sound) for number in range(max(3, round(EACH * READERS[name].share)))]
    faults = [f"input {one.number} of {name}: {one.fault}" for one in results if one.fault]
    assert not faults, "\n\n".join(faults)


JSON_DEEP = b"[" * 100_000 + b"]" * 100_000


def two_columns(path: Path) -> bytes:
    table, file = pq.read_table(path), io.BytesIO()
    pq.write_table(table.append_column(table.schema.names[0], table.column(0)), file)
    return file.getvalue()


def an_empty_cell(path: Path) -> bytes:
    table, file = pq.read_table(path), io.BytesIO()
    empty = pa.array([None, *table["left_id"].to_pylist()[1:]], pa.string())
    pq.write_table(table.set_column(table.schema.get_field_index("left_id"), "left_id", empty), file)
    return file.getvalue()


def another_type(path: Path) -> bytes:
    table, file = pq.read_table(path), io.BytesIO()
    pq.write_table(table.set_column(0, "left_id", table.column(0).cast(pa.string_view())), file)
    return file.getvalue()


def a_step_back(path: Path) -> bytes:
    starts, file = np.load(path), io.BytesIO()
    starts[1] = starts[2] + 1
    np.save(file, starts)
    return file.getvalue()


def fields(path: Path, **changed: object) -> bytes:
    return json.dumps(json.loads(path.read_text()) | changed).encode()


def long_task(path: Path) -> bytes:
    return fields(path, task="x" * 5_000)


# Inputs that once raised something else, or whose errors named no file: reader, file, content, and what is said now.
def raw_answer_of_an_object(path: Path) -> bytes:
    return json.dumps({**json.loads(path.read_bytes()), "answers": [{}]}).encode()


def long_table(path: Path) -> bytes:
    content = json.loads(path.read_bytes())
    return json.dumps({**content, "snapshot": content["snapshot"] | {"table": "x" * 300}}).encode()


def option(name: str, value: object) -> Callable[[Path], bytes]:
    """Change an option by which a task was made."""
    return lambda path: fields(path, provenance=json.loads(path.read_bytes())["provenance"] | {name: value})


FOUND: list[tuple[str, str, Any, str]] = [
    ("grid", "fz-grid/sittings.json", b"3", "sittings.json holds no list of sessions"),
    ("run", "fz-run/llm/00001.json", raw_answer_of_an_object, "00001.json is not a raw answer"),
    ("store", "fz-store/store.json", long_table, "cannot be read (File name too long)"),
    (
        "audit",
        "fz-audit/audit-key.json",
        lambda path: fields(path, positives=None),
        "audit-key.json lacks positives; restore it",
    ),
    ("extend", "fz-two/task.json", option("encoding", 1e308), "task.json: encoding is 1e+308"),
    ("extend", "fz-two/task.json", option("id_column", [1, 2, 3]), "task.json: id_column is [1, 2, 3]"),
    ("extend", "fz-two/task.json", option("left", 3), "task.json: left is 3, which is no value of it"),
    ("grid", "fz-grid/sittings.json", b"[3]", "sittings.json: GridSession is 3"),
    (
        "run",
        "fz-run/planned.json",
        b'{"memory": {"shard": "x"}}',
        "the memory of shard in fz-run/planned.json lacks used",
    ),
    ("run-config", "fz-run/config.json", long_task, "cannot be read (File name too long)"),
    ("scorer", "fz-model/scorer.json", JSON_DEEP, "scorer.json cannot be read"),
    (
        "scorer",
        "fz-model/sentence_bert_config.json",
        b'{"max_seq_length": 2}',
        "sentence_bert_config.json: `max_length` is 2",
    ),
    (
        "scorer",
        "fz-model/config_sentence_transformers.json",
        b"2",
        "config_sentence_transformers.json holds no settings",
    ),
    ("scorer", "fz-model/config_sentence_transformers.json", b"{", "config_sentence_transformers.json cannot be read"),
    (
        "cnn",
        "fz-cnn/model/vocab.json",
        b'{"bins": Infinity, "counts": [], "words": []}',
        "vocab.json, the encoder's vocabulary",
    ),
    ("task", "fz-one/left.parquet", two_columns, "left.parquet has 2 columns 'id'"),
    ("task", "fz-one/task.json", lambda path: fields(path, provenance=3), "task.json: its provenance is 3"),
    ("audit", "fz-audit/audit-key.parquet", an_empty_cell, "audit-key.parquet has empty cells in column 'left_id'"),
    ("matches", "fz-matches/matches.parquet", another_type, "matches.parquet holds left_id, right_id, score"),
    ("vectors", "fz-vectors/tokens/starts-00000.npy", a_step_back, "token ids in fz-vectors/tokens are truncated"),
    (
        "run",
        "fz-run/metrics.jsonl",
        lambda path: path.read_bytes().replace(b'"labels": 8', b'"labels": "8"'),
        "metrics.jsonl:1",
    ),
]


@pytest.mark.parametrize(("name", "file", "content", "words"), FOUND)
def test_what_was_found_is_refused_by_name(copied, name: str, file: str, content: Any, words: str):
    made: Any = content(Path(file)) if callable(content) else content
    Path(file).write_bytes(made)
    with pytest.raises(AlRayError) as refused:
        READERS[name].read(Path(READERS[name].path))
    assert words in str(refused.value)


def _raises(path: Path) -> None:
    raise KeyError("number")


def _fails_otherwise(path: Path) -> None:
    raise TypeError("a number")


def _names_nothing(path: Path) -> None:
    raise BadFile("it cannot be read; restore it")


def _takes_memory(path: Path) -> None:
    bytearray(4 * limits.MEMORY)


def _never_ends(path: Path) -> None:
    while True:
        pass


def _writes(path: Path) -> None:
    path.with_name("beside").write_text("x")


def _differs(path: Path, read: object) -> None:
    assert read == "something else"


@pytest.mark.parametrize(
    ("reader", "fault"),
    [
        (Reader("fz-table.csv", _raises), "KeyError: 'number'"),
        (Reader("fz-table.csv", _names_nothing), "the error names no file"),
        (Reader("fz-table.csv", _takes_memory), "MiB more memory"),
        (Reader("fz-table.csv", _never_ends), "TooLong"),
        (Reader("fz-table.csv", _fails_otherwise), "TypeError"),
        (Reader("fz-table.csv", str, check=_differs), "AssertionError"),
        (Reader("fz-store", lambda folder: _writes(folder / "store.json")), "reading has changed the folder"),
    ],
)
def test_a_reader_that_breaks_a_promise_fails(sound, work, monkeypatch, reader, fault):
    monkeypatch.chdir(work)
    monkeypatch.setattr(limits, "CPU_SECONDS", 1.0)
    monkeypatch.setattr(limits, "MEMORY", 2**25)
    monkeypatch.setitem(READERS, "broken", reader)
    result = harness.run_input("broken", 0, sound)
    assert result.outcome == "failed"
    assert fault in result.fault
    monkeypatch.chdir("/")
    shutil.rmtree(work / "fz-store")
    shutil.copytree(sound / "fz-store", work / "fz-store")


def test_an_input_is_the_same_in_every_process_and_after_a_failure_it_is_read_from_its_folder(sound, tmp_path):
    damage = harness.damage_of("csv", 7, sound)
    assert damage == harness.damage_of("csv", 7, sound) != harness.damage_of("csv", 8, sound)
    place = harness.keep(harness.Result("csv", 7, "failed", {**damage, "gone": None}, "a fault"), tmp_path)
    assert harness.kept(place) == ("csv", 7, {**damage, "gone": None})
