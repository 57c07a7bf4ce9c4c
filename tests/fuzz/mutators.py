"""Damage to files: bytes of any file, and the values of JSON, tables, Parquet, logs and safetensors.

Each mutator takes the content of a file, a source of chance and the content of another file, and returns new content.
"""

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import PurePath
from random import Random
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

Mutator = Callable[[bytes, Random, bytes], bytes]
# Stands for a value that is nested deeper than any parser goes.
DEEP, DEPTH = "@deep@", 100_000
VALUES: Sequence[Any] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    7,
    10**18,
    -(2**63),
    2**64,
    10**30,
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    "",
    " ",
    "0",
    "nan",
    "../../x",
    "/etc/hostname",
    "../fz-task",
    "\x00",
    "\ud800",
    "\u2028",
    "é" * 9,
    "x" * 50_000,
    [],
    {},
    [[]],
    [None],
    ["a", "b"],
    [1, 2, 3],
    {"": None},
    {"value": 1},
    DEEP,
    "yes",
    "model:enc",
    "builtins:exec",
    "s3://nobody/x",
)


def flip(content: bytes, rng: Random, other: bytes) -> bytes:
    """Flip up to 8 bits."""
    changed = bytearray(content)
    for _ in range(rng.randint(1, 8) if content else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncate(content: bytes, rng: Random, other: bytes) -> bytes:
    """Tear the end off."""
    return content[: rng.randrange(len(content) + 1)]


def cut(content: bytes, rng: Random, other: bytes) -> bytes:
    """Remove a part."""
    start = rng.randrange(len(content) + 1)
    return content[:start] + content[start + rng.randint(1, 64) :]


def repeat(content: bytes, rng: Random, other: bytes) -> bytes:
    """Write a part twice, or many times."""
    start = rng.randrange(len(content) + 1)
    return content[:start] + content[start : start + rng.randint(1, 64)] * rng.choice([2, 3, 500]) + content[start:]


def insert(content: bytes, rng: Random, other: bytes) -> bytes:
    """Insert bytes."""
    start = rng.randrange(len(content) + 1)
    new = rng.choice(
        [b"\x00", b"\xff\xfe", b'"', b"\n", b"\r", b"{", b"]", b",", b"\xef\xbb\xbf", b"\xc3", rng.randbytes(9)]
    )
    return content[:start] + new + content[start:]


def zero(content: bytes, rng: Random, other: bytes) -> bytes:
    """Write zeros or ones over a part, as a disk does that lost a page."""
    start, length = rng.randrange(len(content) + 1), rng.choice([1, 4, 8, 64, 4096])
    return (
        content[:start]
        + rng.choice([b"\x00", b"\xff"]) * len(content[start : start + length])
        + content[start + length :]
    )


def splice(content: bytes, rng: Random, other: bytes) -> bytes:
    """Put the end of another file behind the beginning."""
    return content[: rng.randrange(len(content) + 1)] + other[rng.randrange(len(other) + 1) :]


def replace_all(content: bytes, rng: Random, other: bytes) -> bytes:
    """Put something else in its place."""
    return rng.choice([b"", b"\n", b"{}", b"[]", b"null", b"1", b"PAR1", b"\x80\x04N.", content + content, other])


def recode(content: bytes, rng: Random, other: bytes) -> bytes:
    """Write a text in another encoding, or with other line ends."""
    text = content.decode("latin-1")
    return rng.choice(
        [
            text.encode("utf-16"),
            text.encode("utf-8"),
            b"\xef\xbb\xbf" + content,
            content.replace(b"\n", b"\r\n"),
            content.replace(b"\n", b"\r"),
        ]
    )


BYTES: Sequence[Mutator] = (flip, truncate, cut, repeat, insert, zero, splice, replace_all, recode)


def mutate_value(value: Any, rng: Random) -> Any:
    """Return a JSON value with a change at a random place of it."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        name = rng.choice(list(value))
        change = rng.random()
        if change < 0.12:
            return {key: one for key, one in value.items() if key != name}
        if change < 0.2:
            return {**value, rng.choice(["", "x", name + "2", name.upper()]): value[name]}
        if change < 0.28:
            return {**value, name: value[rng.choice(list(value))]}
        return {**value, name: mutate_value(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        place, change = rng.randrange(len(value)), rng.random()
        if change < 0.1:
            return value[:place] + value[place + 1 :]
        if change < 0.2:
            return [*value, value[place]]
        if change < 0.25:
            return value[::-1]
        return [*value[:place], mutate_value(value[place], rng), *value[place + 1 :]]
    if isinstance(value, int | float) and not isinstance(value, bool) and rng.random() < 0.4:
        return rng.choice(
            [
                -value,
                value + 1,
                value - 1,
                value * 10**9,
                str(value),
                float(value) if abs(value) < 1e300 else 0,
                [value],
            ]
        )
    if isinstance(value, str) and rng.random() < 0.3:
        return rng.choice([value + "x", value[:-1], value.upper(), [value], f"../{value}", f"/{value}", value * 3])
    return rng.choice(VALUES)


def written_json(value: Any) -> bytes:
    """Return a value as JSON, in which DEEP stands for a nested list, and lone surrogates are escaped."""
    return json.dumps(value).replace(f'"{DEEP}"', "[" * DEPTH + "]" * DEPTH).encode()


def mutate_json(content: bytes, rng: Random, other: bytes) -> bytes:
    """Change one to three values of a JSON document."""
    value = json.loads(content)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        value = mutate_value(value, rng)
    return written_json(value)


def mutate_json_lines(content: bytes, rng: Random, other: bytes) -> bytes:
    """Change values of a line, or the order of lines."""
    lines = content.splitlines()
    return b"\n".join(_changed_lines(lines, rng, lambda line: mutate_json(line, rng, other))) + b"\n"


def mutate_log(content: bytes, rng: Random, other: bytes) -> bytes:
    """Change values of a line of an append-only log, with a checksum that fits."""

    def changed(line: bytes) -> bytes:
        value = mutate_json(line.partition(b" ")[2], rng, other)
        return b"%08x %s" % (crc32(value), value)

    return b"\n".join(_changed_lines(content.splitlines(), rng, changed)) + b"\n"


def _changed_lines(lines: list[bytes], rng: Random, change: Callable[[bytes], bytes]) -> list[bytes]:
    if not lines:
        return lines
    place, kind = rng.randrange(len(lines)), rng.random()
    if kind < 0.1:
        return [*lines[:place], *lines[place + 1 :]]
    if kind < 0.2:
        return [*lines, lines[place]]
    return [*lines[:place], change(lines[place]), *lines[place + 1 :]]


CELLS = (
    "",
    " ",
    "yes",
    "no",
    "NaN",
    "1",
    "-1",
    "1.0",
    "007",
    "é",
    "a,b",
    'a"b',
    "a\nb",
    "\x00",
    "=1+1",
    "\u2028",
    "x" * 70_000,
    "ⅷ",
    "1e400",
    "9" * 5000,
    "\ufeff",
    "\x1c",
    "\ud83d\ude00",
)


def mutate_delimited(content: bytes, rng: Random, other: bytes) -> bytes:
    """Change cells, rows and columns of a CSV or TSV file."""
    text = content.decode("utf-8-sig")
    mark = "\t" if text.count("\t") > text.count(",") else ","
    rows = [*csv.reader(io.StringIO(text, newline=""), delimiter=mark)]
    for _ in range(rng.choice([1, 1, 2, 3])):
        row, column, kind = rng.randrange(len(rows)), rng.randrange(max(1, len(rows[0]))), rng.randrange(11)
        if kind < 3 and column < len(rows[row]):
            rows[row][column] = rng.choice(CELLS)
        elif kind == 3:
            rows = [one[:column] + one[column + 1 :] for one in rows]
        elif kind == 4:
            rows = [[*one, *one[column : column + 1]] for one in rows]
        elif kind == 5:
            rows = [[*one[column:], *one[:column]] for one in rows]
        elif kind == 6 and column < len(rows[0]):
            rows[0][column] = rng.choice([*CELLS, *rows[0], rows[0][column].upper()])
        elif kind == 7:
            rows.insert(rng.randrange(len(rows) + 1), [*rng.choice(rows)])
        elif kind == 8:
            rows[row] = rows[row][:-1] if rng.random() < 0.5 else [*rows[row], "x"]
        elif kind == 9:
            rows = rows[: rng.randrange(len(rows)) + 1]
        else:
            rows[1:] = rng.sample(rows[1:], len(rows) - 1)
    out = io.StringIO()
    style: dict[str, Any] = {
        "delimiter": rng.choice([mark, mark, mark, ";", "|"]),
        "lineterminator": rng.choice(["\n", "\r\n"]),
    }
    csv.writer(out, quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), **style).writerows(rows)
    return out.getvalue().encode("utf-8", "surrogatepass")


TYPES = (
    pa.string(),
    pa.large_string(),
    pa.int64(),
    pa.int32(),
    pa.int8(),
    pa.uint64(),
    pa.float64(),
    pa.float32(),
    pa.bool_(),
    pa.binary(),
    pa.null(),
    pa.date32(),
    pa.timestamp("ns"),
    pa.decimal128(30, 2),
    pa.list_(pa.int64()),
    pa.dictionary(pa.int32(), pa.string()),
    pa.struct([("a", pa.int64())]),
    pa.float16(),
    pa.string_view(),
    pa.uint8(),
    pa.large_list(pa.string()),
)


def _column(column: Any, rng: Random) -> Any:
    """Return a column with values, or a type, that differ."""
    values, kind = column.to_pylist(), rng.randrange(5)
    if kind == 0 and values:
        values[rng.randrange(len(values))] = None
    elif kind == 1 and values:
        place = rng.randrange(len(values))
        odd = {
            int: [-1, 2**62, 0, 10**6, -(2**63)],
            float: [float("nan"), float("inf"), -1e308],
            str: ["", "x" * 9999, "é", "no", "\x00"],
        }
        values[place] = rng.choice(odd.get(type(values[place]), [None]))
    elif kind == 2 and values:
        rng.shuffle(values)
    else:
        target = rng.choice(TYPES)
        try:
            return column.cast(target)
        except pa.ArrowException:
            pass
        try:
            return pa.chunked_array(
                [pa.array([[one] for one in values] if pa.types.is_list(target) else values, target)]
            )
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return pa.chunked_array([pa.nulls(len(values), target)])
    try:
        return pa.chunked_array([pa.array(values, column.type)])
    except (pa.ArrowException, OverflowError):
        # The odd value does not fit into the type.
        return pa.chunked_array([pa.nulls(len(values), column.type)])


def mutate_parquet(content: bytes, rng: Random, other: bytes) -> bytes:
    """Change types, values, names and numbers of columns and rows of a Parquet file."""
    table = pq.read_table(io.BytesIO(content))
    names, columns = list(table.schema.names), list(table.columns)
    for _ in range(rng.choice([1, 1, 2])):
        place, kind = rng.randrange(len(names)), rng.randrange(9)
        if kind < 4:
            columns[place] = _column(columns[place], rng)
        elif kind == 4 and len(names) > 1:
            del names[place], columns[place]
        elif kind == 5:
            names[place] = rng.choice(["", "x", names[place].upper(), rng.choice(names)])
        elif kind == 6:
            names.append(rng.choice([names[place], "more"]))
            columns.append(columns[place])
        elif kind == 7:
            names, columns = names[::-1], columns[::-1]
        else:
            rows = (
                [rng.randrange(len(table)) for _ in range(rng.choice([0, 1, len(table) // 2, 2 * len(table)]))]
                if len(table)
                else []
            )
            columns = [column.take(pa.array(rows, pa.int64())) for column in columns if len(column) == len(table)]
            names, table = names[: len(columns)], table.take(pa.array(rows, pa.int64()))
            if not columns:
                return b"PAR1PAR1"
    file = io.BytesIO()
    compression, dictionary = rng.choice(["none", "snappy", "zstd", "gzip"]), rng.random() < 0.5
    try:
        made = pa.Table.from_arrays(columns, names=names)
        pq.write_table(
            made, file, compression=compression, use_dictionary=dictionary, write_page_checksum=rng.random() < 0.5
        )
    except (pa.ArrowException, NotImplementedError):
        return flip(content, rng, other)
    return file.getvalue()


def mutate_safetensors(content: bytes, rng: Random, other: bytes) -> bytes:
    """Change values of the header of a safetensors file."""
    length = int.from_bytes(content[:8], "little")
    header = mutate_json(content[8 : 8 + length], rng, other)
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


STRUCTURE: dict[str, Mutator] = {
    ".json": mutate_json,
    ".jsonl": mutate_json_lines,
    ".log": mutate_log,
    ".csv": mutate_delimited,
    ".tsv": mutate_delimited,
    ".parquet": mutate_parquet,
    ".safetensors": mutate_safetensors,
}


def mutate(name: str, content: bytes, rng: Random, other: bytes) -> bytes:
    """Return damaged content of a file, by the structure that its name promises in two of three cases."""
    structure = STRUCTURE.get(PurePath(name).suffix)
    if structure is not None and rng.random() < 0.67:
        try:
            return structure(content, rng, other)
        except pa.ArrowException:
            # A change that Arrow cannot make.
            return flip(content, rng, other)
    changed = content
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        changed = rng.choice(BYTES)(changed, rng, other)
    return changed
