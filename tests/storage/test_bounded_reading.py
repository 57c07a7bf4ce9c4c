"""Small files that stand for much: they are refused by name, and take little memory and time."""

import io
import json
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from al_ray.apps.annotating.sheets import read_titles
from al_ray.apps.grid.spec import read_grid_file
from al_ray.core.errors import BadFile
from al_ray.datasets.corpus_file import read_corpus, read_rows
from al_ray.datasets.tables.reader import TableFormat, read_table
from al_ray.datasets.tsv import BadRowLog
from al_ray.encoders.tokens import load_array
from al_ray.oracles.answer_files import read_answer_files
from al_ray.storage.bounded_parquet import BoundedParquet
from al_ray.storage.files import read_json, read_parquet
from tests.fuzz.limits import limits

MILLION = 1_000_000
ROWS = pa.schema([("row", pa.int64())])


def written(path: Path, table: pa.Table, **options) -> Path:
    pq.write_table(table, path, compression="zstd", **options)
    assert path.stat().st_size < MILLION
    return path


def one_text(path: Path) -> Path:
    """Three million times one text of a million letters, which stands once in the file: 3 TB."""
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(3 * MILLION, np.int32)), pa.array(["x" * MILLION]))
    return written(path, pa.table({"id": texts, "text": texts}), store_schema=False)


def one_number(path: Path) -> Path:
    """One number 180 million times: 1.4 GB."""
    return written(path, pa.table({"row": pa.array(np.zeros(180 * MILLION, np.int64))}))


def one_beginning(path: Path) -> Path:
    """Texts that begin as the one before, in a file of a kilobyte: 1.1 GB."""
    texts = ["y" * MILLION + str(row) for row in range(1_100)]
    return written(path, pa.table({"text": texts}), use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"})


READS = {
    "own table": (one_text, lambda path: read_table(path, ["text"], TableFormat(), BadRowLog("fail"))),
    "own table of numbers": (one_number, lambda path: read_table(path, ["row"], TableFormat(), BadRowLog("fail"))),
    "texts of a task": (one_text, read_corpus),
    "rows of a task": (one_number, lambda path: read_rows(path, ROWS)),
    "any table": (one_text, read_parquet),
    "any table of numbers": (one_number, lambda path: read_parquet(path, ROWS)),
}


@pytest.mark.parametrize("name", READS)
def test_a_parquet_file_that_expands_without_bound_is_refused(tmp_path, name):
    write, read = READS[name]
    path = write(tmp_path / "small.parquet")
    with limits(), pytest.raises(BadFile, match=r"small\.parquet cannot be read .*bytes of memory"):
        read(path)


@pytest.mark.slow
def test_texts_that_share_their_beginning_are_refused_too(tmp_path):
    with pytest.raises(BadFile, match=r"small\.parquet cannot be read .*bytes of memory"):
        read_parquet(one_beginning(tmp_path / "small.parquet"))


def test_what_is_large_without_harm_is_read_as_it_is():
    """Many rows of few texts, whose dictionary is large enough to be looked at, in two row groups."""
    texts = [f"{row % 700} " + "x" * 2000 for row in range(30_000)]
    table = pa.table({"text": texts, "number": range(len(texts)), "list": [[text[:3]] for text in texts]})
    for schema in (True, False):
        file = io.BytesIO()
        pq.write_table(table, file, row_group_size=20_000, store_schema=schema)
        parquet = BoundedParquet(file)
        assert parquet.read().cast(table.schema) == table
        assert parquet.read(["text"]) == table.select(["text"])
        assert parquet.read(["text"], group=1) == table.select(["text"]).slice(20_000)


def with_footer(content: bytes, *changes: tuple[bytes, bytes]) -> bytes:
    """Return the bytes of a Parquet file with changes in its footer, which precedes its length and PAR1."""
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    footer = content[start:-8]
    for old, new in changes:
        assert footer.count(old) == 1
        footer = footer.replace(old, new)
    return content[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


# Of the schema in Thrift: columns INT64, OPTIONAL (02) or REQUIRED (00), name; the root of two or one, before which the
# number of all elements stands; and how the values of two or one are ordered.
A, A_REQUIRED = bytes.fromhex("1504 2502 1801 61 00"), bytes.fromhex("1504 2500 1801 61 00")
B = bytes.fromhex("1504 2502 1801 62 00")
ROOT_OF_TWO, ROOT_OF_ONE = (bytes.fromhex(f"{n}c 3500 1806 736368656d61 {m} 00") for n, m in ((3, "1504"), (2, "1502")))
ORDER_OF_TWO, ORDER_OF_ONE = bytes.fromhex("192c 1c0000 1c0000"), bytes.fromhex("191c 1c0000")
LIES = {
    "column a has levels that its schema lacks": [(A, A_REQUIRED)],
    "column b is not in the schema": [(B, b""), (ROOT_OF_TWO, ROOT_OF_ONE), (ORDER_OF_TWO, ORDER_OF_ONE)],
}
OPENS = """
import sys
import pyarrow as pa
from al_ray.storage.bounded_parquet import BoundedParquet
try:
    BoundedParquet(open(sys.argv[1], "rb"))
except (OSError, pa.ArrowException) as error:
    print("refused:", error)
"""


@pytest.mark.parametrize("lie", LIES)
def test_a_parquet_file_for_which_arrow_would_end_the_process_is_refused(tmp_path, lie):
    """A process of its own opens the file: it says what is wrong, or dies."""
    file = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2], "b": [3, None]}), file, store_schema=False)
    path = tmp_path / "damaged.parquet"
    path.write_bytes(with_footer(file.getvalue(), *LIES[lie]))
    command = [sys.executable, "-c", OPENS, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("refused: "), done.stderr


DEEP = "[" * 100_000 + "]" * 100_000


def deep_lines(path: Path) -> None:
    path.write_text(f'{{"text": {DEEP}}}\n')
    read_table(path, ["text"], TableFormat("jsonl"), BadRowLog("fail"))


def deep_toml(path: Path) -> None:
    path.write_text(f"axes = {DEEP}\n")
    read_grid_file(path)


def deep_json(path: Path) -> None:
    path.write_text(DEEP)
    read_json(path)


def deep_answers(path: Path) -> None:
    path.write_text(json.dumps([{"data": {"pair": "a"}, "annotations": "@"}]).replace('"@"', DEEP))
    read_answer_files([path], ["a"], [("l", "r")])


@pytest.mark.parametrize("read", [deep_lines, deep_toml, deep_json, deep_answers])
def test_what_is_nested_without_end_is_refused(tmp_path, read):
    with limits(), pytest.raises(BadFile, match=r"deep\.json"):
        read(tmp_path / "deep.json")


def test_entities_of_xml_are_not_multiplied(tmp_path):
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    path = tmp_path / "label-studio.xml"
    path.write_text(f'<!DOCTYPE View [<!ENTITY e0 "x">{entities}]><View><Header value="&e11;"/></View>')
    with limits():
        assert read_titles(path) == {}


def test_an_array_that_is_said_to_be_huge_is_refused_before_memory_is_taken(tmp_path):
    path = tmp_path / "huge.npy"
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": (10**13,)})
    with limits(), pytest.raises(ValueError, match="mmap"):
        load_array(path)


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"abcdef": [1]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"abcdef", b"\xffbcdef"))
    with pytest.raises(BadFile, match="not UTF-8"):
        read_parquet(path)


class Held:
    """Something that a weak reference can watch."""


def test_reading_keeps_nothing_of_the_function_that_reads(tmp_path: Path) -> None:
    """Arrow keeps an exception of Python that it met, and the frames under it: once all tables of a driver."""
    path = written(tmp_path / "rows.parquet", pa.table({"row": pa.array([1, 2, 3])}))

    def read() -> weakref.ref[Held]:
        held = Held()
        assert read_rows(path, ROWS).tolist() == [[1], [2], [3]]
        return weakref.ref(held)

    assert read()() is None
