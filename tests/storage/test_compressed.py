"""Tables that are compressed: read by their names, with the lines of the text inside; damaged ones are named."""

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from al_ray.api.tasks import prepare
from al_ray.core.errors import BadFile, BadOption
from al_ray.datasets.tables.columns import TableRows
from al_ray.datasets.tables.extension import extension_of
from al_ray.datasets.tables.options import OwnTexts
from al_ray.datasets.tables.reader import TableFormat, read_table
from al_ray.datasets.tsv import BadRowLog

CSV = 'id,t\n1,"Ørn, \nshoe"\n2,hat\n'


def pack(path: Path, text: str) -> Path:
    if path.suffix.lower() == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as file:
            file.write(text.encode())
    return path


def read(path: Path, **reading: Any) -> TableRows:
    return read_table(path, ["id", "t"], TableFormat(**reading), BadRowLog("fail", ""))


@pytest.mark.parametrize("end", [".gz", ".zst", ".GZ"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", CSV),
        ("t.tsv", 'id\tt\n1\t"Ørn, \nshoe"\n2\that\n'),
        ("t.jsonl", '{"id": 1, "t": "Ørn, \\nshoe"}\n{"id": 2, "t": "hat"}\n'),
    ],
)
def test_files_of_lines_are_read_packed(tmp_path, name, text, end):
    sheet = read(pack(tmp_path / f"{name}{end}", text))
    assert sheet.cells["t"].to_pylist() == ["Ørn, \nshoe", "hat"]
    assert sheet.place(1) == f"{tmp_path / name}{end}:{2 if name == 't.jsonl' else 4}"
    other = read(pack(tmp_path / f"may{end}", text), format=TableFormat().format_of(tmp_path / name))
    assert other.cells["t"].to_pylist() == ["Ørn, \nshoe", "hat"]


@pytest.mark.parametrize("end", [".gz", ".zst"])
def test_a_packed_table_is_the_same_task_and_can_grow_by_a_plain_one(tmp_path, end):
    plain, packed = tmp_path / "t.csv", pack(tmp_path / f"t.csv{end}", CSV.replace(",", ";"))
    plain.write_text(CSV.replace(",", ";"))
    source = OwnTexts(left=packed, id_column="id", text_columns="t", delimiter=";", split="1,0,0")
    task = prepare(source, tmp_path / "packed").task
    assert (task.name, task.digest) == ("t", prepare(replace(source, left=plain), tmp_path / "plain").task.digest)
    # --extend reads it by the delimiter of the earlier table, which was packed.
    assert extension_of(tmp_path / "packed", plain).delimiter == ";"


@pytest.mark.parametrize("end", [".gz", ".zst"])
def test_damaged_and_misnamed_files_are_refused_by_name(tmp_path, end):
    path = pack(tmp_path / f"t.csv{end}", CSV * 100)
    whole = path.read_bytes()
    path.write_bytes(whole[:-6])
    with pytest.raises(BadFile, match=rf"t\.csv{end} is damaged or cut"):
        read(path)
    path.write_text(CSV)
    with pytest.raises(BadFile, match=rf"t\.csv{end} is not (gzip|zstd), though its name ends in {end}; rename it"):
        read(path)
    plain = tmp_path / "t.csv"
    plain.write_bytes(whole)
    with pytest.raises(BadFile, match=rf"t\.csv is (gzip|zstd), not CSV; unpack it, or add {end} to its name"):
        read(plain)
    packed = tmp_path / f"t.parquet{end}"
    packed.write_bytes(whole)
    with pytest.raises(BadOption, match="parquet files compress their columns themselves, and are not read packed"):
        read(packed)


def test_damaged_arrow_files_are_refused(tmp_path):
    path = tmp_path / "t.feather"
    for content in (b"ARROW1", b"ARROW1\0\0" + b"\xff" * 100, b"\xff" * 50):
        path.write_bytes(content)
        with pytest.raises(BadFile, match=r"t\.feather (cannot be read as Arrow|is UTF-16)"):
            read(path)
