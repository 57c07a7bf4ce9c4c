"""A column of vectors is the same in every format, checked row by row, normalised, and part of a task's digest."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from al_ray.core.errors import BadFile, BadOption
from al_ray.core.task import Task
from al_ray.core.vectors import Vectors
from al_ray.datasets.given_vectors import unit_vectors
from al_ray.datasets.tables.options import OwnTexts
from al_ray.datasets.tables.to_task import read_own
from al_ray.datasets.task_folder import read_task, write_task

VECTORS = [[3.0, 4.0], [0.0, -2.0], [1e-3, 0.0]]
WHOLE = (1.0, 0.0, 0.0)


def vectors_of(task: Task) -> Vectors:
    assert task.left.vectors is not None
    return task.left.vectors


def table(path, vectors, kind=None):
    rows = [{"id": number, "text": f"text {number}", "v": vector} for number, vector in enumerate(vectors)]
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".csv":
        cells = (f'{row["id"]},{row["text"]},"{"" if row["v"] is None else row["v"]}"\n' for row in rows)
        path.write_text("id,text,v\n" + "".join(cells))
    else:
        columns = {name: [row[name] for row in rows] for name in ("id", "text")}
        pq.write_table(pa.table(columns | {"v": pa.array(vectors, kind or pa.list_(pa.float32()))}), path)
    return OwnTexts(left=path, id_column="id", text_columns="text", vectors_column="v")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.parquet", pa.list_(pa.float32())), ("a.parquet", pa.list_(pa.float64(), 2)),
        ("a.parquet", pa.large_list(pa.float32())), ("a.jsonl", None), ("a.csv", None),
    ],
)  # fmt: skip
def test_a_column_of_vectors_is_read_and_normalised_from_every_format(tmp_path, name, kind):
    task, _ = read_own(table(tmp_path / name, VECTORS, kind), WHOLE)
    # 3, 4 -> 3/5, 4/5.
    np.testing.assert_allclose(vectors_of(task), [[0.6, 0.8], [0, -1], [1, 0]], rtol=1e-7)
    assert vectors_of(task).dtype == np.float32


def test_a_column_of_vectors_is_read_from_a_data_frame_and_from_a_database(tmp_path):
    ids, texts = ["b", "a", "c"], ["text 0", "text 1", "text 2"]
    frame = pa.table({"id": ids, "text": texts, "v": pa.array(VECTORS, pa.list_(pa.float64()))})
    options = OwnTexts(left=frame, id_column="id", text_columns="text", vectors_column="v")
    task, _ = read_own(options, WHOLE)
    np.testing.assert_allclose(vectors_of(task), [[0.6, 0.8], [0, -1], [1, 0]], rtol=1e-7)
    duckdb = pytest.importorskip("duckdb", reason="needs the extra sql")
    with duckdb.connect(str(tmp_path / "t.db")) as connection:
        connection.register("frame", frame)
        connection.execute("CREATE TABLE t AS SELECT * FROM frame")
    stored, _ = read_own(replace(options, left=f"duckdb:{tmp_path / 't.db'}?table=t"), WHOLE)
    # In the order of ids.
    assert list(stored.left.ids) == ["a", "b", "c"]
    np.testing.assert_array_equal(vectors_of(stored), vectors_of(task)[[1, 0, 2]])


def test_vectors_of_two_tables_have_one_length(tmp_path):
    options = replace(table(tmp_path / "a.csv", VECTORS), right=tmp_path / "b.csv")
    table(tmp_path / "b.csv", [[1.0, 2.0, 3.0]])
    with pytest.raises(BadFile, match=r"2 numbers in .*a.csv and 3 in .*b.csv; give vectors of the same model"):
        read_own(options, WHOLE)


def test_unit_vectors_keep_their_bits():
    drawn = np.random.default_rng(0).normal(size=(50, 24)).astype(np.float32)
    once = unit_vectors(drawn)
    # As an encoder in float32 leaves them.
    near = (once * np.float32(1 + 5e-7)).astype(np.float32)
    np.testing.assert_array_equal(unit_vectors(near), near)
    assert np.linalg.norm(once.astype(np.float64), axis=1) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ([1.0], "has 1 numbers, and most rows have 2"),
        (None, "is empty, or no list of numbers"),
        ([0.0, 0.0], "is all zeros"),
        ([float("nan"), 1.0], "is not of finite numbers"),
        ([1e39, 1.0], "is not of finite numbers"),
    ],
)
def test_a_row_with_a_bad_vector_is_named_or_skipped(tmp_path, bad, reason):
    source = table(tmp_path / "a.parquet", [*VECTORS, bad], pa.list_(pa.float64()))
    with pytest.raises(BadFile, match=rf"a.parquet:row 3: its vector \(column 'v'\) {reason}"):
        read_own(source, WHOLE)
    task, report = read_own(replace(source, bad_rows="skip"), WHOLE)
    assert (len(task.left), len(vectors_of(task)), len(report.skipped)) == (3, 3, 1)


def test_a_cell_that_is_no_list_of_numbers_and_a_column_without_any_are_refused(tmp_path):
    source = table(tmp_path / "a.csv", [*VECTORS, "one, two"])
    with pytest.raises(BadFile, match=r"a.csv:5: its vector \(column 'v'\) is empty, or no list of numbers"):
        read_own(source, WHOLE)
    with pytest.raises(BadFile, match="no cell of the column 'text' is a list of numbers"):
        read_own(replace(source, vectors_column="text"), WHOLE)


def test_vectors_lie_in_the_folder_and_are_part_of_the_digest(tmp_path):
    task, _ = read_own(table(tmp_path / "a.parquet", VECTORS), WHOLE)
    other, _ = read_own(table(tmp_path / "a.parquet", [*VECTORS[:2], [0.0, 1.0]]), WHOLE)
    assert task.digest != other.digest
    write_task(task, tmp_path / "task", {})
    read = read_task(tmp_path / "task")
    assert read.digest == task.digest
    np.testing.assert_array_equal(vectors_of(read), vectors_of(task))
    np.save(tmp_path / "task/left-vectors.npy", vectors_of(other))
    with pytest.raises(BadFile, match="do not match the digest"):
        read_task(tmp_path / "task")
    (tmp_path / "task/left-vectors.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(BadFile, match=r"left-vectors.npy cannot be read"):
        read_task(tmp_path / "task")


def test_pairs_of_texts_and_extensions_have_no_column_of_vectors(tmp_path):
    with pytest.raises(BadOption, match="`vectors_column` goes with `left`"):
        OwnTexts(source=tmp_path / "a.csv", text_columns="a,b", vectors_column="v").check()
    with pytest.raises(BadOption, match="`extend` cannot add texts with vectors"):
        replace(table(tmp_path / "a.csv", VECTORS), extend=tmp_path).check()
