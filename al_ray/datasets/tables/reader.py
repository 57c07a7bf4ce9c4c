"""Read a user's own table files: CSV, TSV and JSON lines, also compressed, Parquet and Arrow.

The csv module reads delimited files, because pyarrow.csv counts rows where we must name lines (a quoted text may hold
line breaks), reports no place for a wrong encoding, and reads to the end of the file at a quote that is never closed.

To add a format, add an entry to FORMATS, and its reader to LINES if it is text, or to BINARY: help and errors read
these.
"""

import codecs
import csv
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

import numpy as np
import pyarrow as pa

from al_ray.core.errors import BadFile, BadOption
from al_ray.core.naming import option
from al_ray.datasets.canonical_cells import json_cell
from al_ray.datasets.tables.arrow_reader import read_arrow_table, read_parquet_table
from al_ray.datasets.tables.columns import Cells, TableRows, check_columns, concatenate, trim_cells
from al_ray.datasets.tsv import BadRowLog
from al_ray.storage.compressed import CODECS, DAMAGED, codec_of, inner_suffix, opened_plain
from al_ray.storage.download import local_file
from al_ray.storage.uri import StoragePath


@dataclass(frozen=True)
class FileFormat:
    """A format of tables. delimiter: between the cells of a line, by default; "" if a line has no such cells."""

    extensions: tuple[str, ...]
    delimiter: str = ""


FORMATS: Mapping[str, FileFormat] = {
    "csv": FileFormat((".csv",), ","),
    "tsv": FileFormat((".tsv", ".tab"), "\t"),
    "jsonl": FileFormat((".jsonl", ".ndjson")),
    "parquet": FileFormat((".parquet", ".pq")),
    "arrow": FileFormat((".arrow", ".feather")),
}
"""All formats by name, in the order of --help."""

if TYPE_CHECKING:
    Format = str
else:
    # A type checker cannot read a Literal made at run time; reading an unknown format is refused.
    Format = Literal["auto", *FORMATS]
# First bytes of files of other kinds, their names, and the fix.
STRANGERS = {
    b"PAR1": ("Parquet", "give `format='parquet'`"),
    b"PK\x03\x04": ("a spreadsheet or a zip", "save it as CSV (UTF-8)"),
    b"ARROW1": ("Arrow", "give `format='arrow'`"),
    b"\x1f\x8b": ("gzip", "unpack it, or add .gz to its name"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unpack it, or add .zst to its name"),
    b"\xff\xfe": ("UTF-16", "give `encoding='utf-16'`"),
    b"\xfe\xff": ("UTF-16", "give `encoding='utf-16'`"),
}
BINARY = {"parquet": read_parquet_table, "arrow": read_arrow_table}
"""The readers of formats that are no text."""
ROWS_AT_ONCE = 20_000


@dataclass(frozen=True)
class TableFormat:
    """The format of a table; TableOptions explains the fields. If `fixed`, messages name no option to change it."""

    format: Format = "auto"
    delimiter: str | None = None
    quoting: Literal["standard", "none"] = "standard"
    encoding: str = "utf-8"
    header: bool = True
    fixed: bool = False
    naming: str = ""  # How to name other columns, in messages on a missing one.

    def __post_init__(self) -> None:
        """Validate encoding and delimiter."""
        try:
            "".encode(self.encoding)
        except (LookupError, UnicodeError) as error:
            raise BadOption(
                f"{option('encoding', self.encoding)}: {error}; give one such as utf-8, cp1252, utf-16"
            ) from error
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise BadOption(f"`delimiter` is {self.delimiter!r}; give one character other than a quote, or tab")

    @property
    def codec(self) -> str:
        """Return the name of the codec; for UTF-8 one that skips a byte-order mark."""
        name = codecs.lookup(self.encoding).name
        return "utf-8-sig" if name == "utf-8" else name

    def advice(self, option: str) -> str:
        """Return the advice to change an option, unless the format is fixed."""
        return "" if self.fixed else option

    def format_of(self, path: StoragePath) -> Format:
        """Return the format of a file, by its extension unless it is given."""
        by_extension = {extension: name for name, one in FORMATS.items() for extension in one.extensions}
        form = by_extension.get(inner_suffix(path)) if self.format == "auto" else self.format
        if form is None:
            *names, last = FORMATS
            fix = self.advice(f"give `format`: {', '.join(names)} or {last}") or "rename the file"
            raise BadOption(f"{path}: its extension is none of {' '.join(by_extension)}; {fix}")
        if form in BINARY and codec_of(path):
            raise BadOption(
                f"{path}: {form} files compress their columns themselves, and are not read packed; unpack it"
            )
        return form


def read_table(path: StoragePath, columns: Sequence[str], reading: TableFormat, faults: BadRowLog) -> TableRows:
    """Read columns of a file or an object; a row that cannot be read goes to `faults`."""
    form = reading.format_of(path)
    _check_kind(path, form, reading)
    names, skipped = list(dict.fromkeys(columns)), len(faults.skipped)
    with local_file(path) as local:
        if form in BINARY:
            sheet = BINARY[form](path, local, names, reading.naming)
        else:
            with _opened(path, local, form, reading) as file:
                sheet = _lines(path, file, names, form, reading, faults)
    if not len(sheet):
        readable = " that can be read" if len(faults.skipped) > skipped else ""
        raise BadFile(f"{path} holds no row{readable}; is it the right file, and whole?")
    return sheet


def _check_kind(path: StoragePath, form: Format, reading: TableFormat) -> None:
    """BadFile for a folder, an empty file, or one whose first bytes are those of another kind."""
    if path.is_dir():
        raise BadFile(f"{path} is a folder; give one file")
    try:
        with path.open("rb") as file:
            start = file.read(6)
    except OSError as error:
        raise BadFile(f"{path} cannot be read ({error.strerror}); give the path of the table") from error
    if not start:
        raise BadFile(f"{path} is empty; give a table with rows")
    codec = codec_of(path)
    if codec and not start.startswith(CODECS[codec][1]):
        raise BadFile(f"{path} is not {CODECS[codec][0]}, though its name ends in {codec}; rename it")
    allowed = {form.title()} if form in BINARY else {"UTF-16"} if reading.codec.startswith("utf-16") else set[str]()
    allowed |= {CODECS[codec][0]} if codec else set[str]()
    for magic, (kind, fix) in STRANGERS.items():
        if start.startswith(magic) and kind not in allowed:
            raise BadFile(f"{path} is {kind}, not {form.upper()}; {reading.advice(fix) or 'save it as CSV (UTF-8)'}")


def _lines(
    path: StoragePath, file: TextIO, columns: list[str], form: Format, reading: TableFormat, faults: BadRowLog
) -> TableRows:
    """Read a file of lines in blocks, so that few Python strings are in memory at a time.

    A byte that cannot be decoded becomes a lone surrogate, which Arrow refuses; only then is its row searched for.
    """
    parts: list[list[Cells]] = [[] for _ in columns]
    places = [np.empty((0, 2), dtype=np.int64)]
    rows = LINES[form](file, path, columns, reading, faults)
    while block := list(islice(rows, ROWS_AT_ONCE)):
        try:
            cells = _cells(block, len(columns))
        except UnicodeEncodeError:
            block = [row for row in block if _decoded(path, row, reading, faults)]
            cells = _cells(block, len(columns))
        for part, column in zip(parts, cells, strict=True):
            part.append(trim_cells(column))
        places.append(np.array([row[:2] for row in block], dtype=np.int64).reshape(-1, 2))
    numbers, lines = np.concatenate(places).T
    return TableRows(path, {name: concatenate(part) for name, part in zip(columns, parts, strict=True)}, numbers, lines)


@contextmanager
def _opened(path: StoragePath, local: Path, form: Format, reading: TableFormat) -> Iterator[TextIO]:
    """Open a local copy of a file of lines; errors name the file."""
    # With newline="" the csv module sees line breaks as they are; elsewhere only LF ends a line.
    newline = "" if FORMATS[form].delimiter and reading.quoting == "standard" else "\n"
    codec = codec_of(path)
    try:
        with (
            opened_plain(local, codec) as plain,
            TextIOWrapper(plain, reading.codec, errors="surrogateescape", newline=newline) as file,
        ):
            yield file
    except UnicodeError as error:
        hint = reading.advice("give its `encoding`, or ")
        raise BadFile(f"{path} is not {reading.encoding} ({error}); {hint}fix it") from error
    except DAMAGED as error:
        raise BadFile(f"{path} is damaged or cut ({error}); get it again") from error
    except OSError as error:
        if codec and error.errno is None:
            raise BadFile(f"{path} is damaged or cut ({error}); get it again") from error
        raise BadFile(f"{path} cannot be read ({error.strerror})") from error


Row = tuple[int, int, list[str | None]]


def _cells(block: list[Row], columns: int) -> list[Cells]:
    return [pa.array([row[2][at] for row in block], pa.large_string()) for at in range(columns)]


def _decoded(path: StoragePath, row: Row, reading: TableFormat, faults: BadRowLog) -> bool:
    try:
        "".join(cell or "" for cell in row[2]).encode()
    except UnicodeEncodeError:
        hint = reading.advice(" (has the file another `encoding`, as cp1252?)")
        faults.add(f"{path}:{row[1]}", f"it is not {reading.encoding}{hint}")
        return False
    return True


def _delimited_rows(
    file: TextIO, path: StoragePath, columns: list[str], reading: TableFormat, faults: BadRowLog
) -> Iterator[Row]:
    """Yield the rows of a CSV or TSV file, without blank lines."""
    delimiter = reading.delimiter or FORMATS[reading.format_of(path)].delimiter
    records = _quoted(file, path, delimiter, reading) if reading.quoting == "standard" else _bare(file, delimiter)
    width, at, number = 0, list[int](), 0
    for line, row, fault in records:
        if not width and not fault:
            width, at = len(row), _positions(path, line, row, columns, reading)
            if reading.header:
                continue
        if fault or len(row) != width:
            reason = fault or f"it has {len(row)} columns, not {width} as the first row"
            if not width:
                raise BadFile(f"{path}:{line}: {reason}; fix the first row")
            faults.add(f"{path}:{line}", reason)
        else:
            yield number, line, [row[i] for i in at]
        number += 1


Record = tuple[int, list[str], str]


def _quoted(file: TextIO, path: StoragePath, delimiter: str, reading: TableFormat) -> Iterator[Record]:
    """Yield (line, cells, fault) of each record with standard quoting."""
    csv.field_size_limit(sys.maxsize)
    records = csv.reader(file, delimiter=delimiter, strict=True)
    hint = reading.advice("; if quotes are ordinary characters give `quoting='none'`")
    while True:
        line = records.line_num + 1
        try:
            row = next(records)
        except StopIteration:
            return
        except csv.Error as error:
            if "unexpected end" in str(error):
                # The quote swallows all that follows, so it is not known which rows a skip would lose.
                raise BadFile(f"{path}:{line}: a quote opens in this row and is never closed; fix it{hint}") from error
            yield line, [], f"its quotes are wrong ({error}){hint}"
        else:
            if row:
                yield line, row, ""


def _bare(file: TextIO, delimiter: str) -> Iterator[Record]:
    """Yield (line, cells, no fault) of each line; quotes are ordinary characters."""
    for line, text in enumerate(file, start=1):
        if text := text.rstrip("\r\n"):
            yield line, text.split(delimiter), ""


def _positions(path: StoragePath, line: int, first: list[str], columns: list[str], reading: TableFormat) -> list[int]:
    """Return the positions of the columns in a row: by the header, or by number if there is none."""
    if not reading.header:
        for name in columns:
            if not name.isdecimal() or int(name) >= len(first):
                last = len(first) - 1
                raise BadOption(f"`header=False`: {name!r} is not a column of {path}; give numbers from 0 to {last}")
        return [int(name) for name in columns]
    header = [name.strip().removeprefix("\ufeff").strip() for name in first]
    if any("\udc80" <= letter <= "\udcff" for letter in "".join(header)):
        hint = reading.advice("give its `encoding`, such as cp1252, or ")
        raise BadFile(f"{path}:{line}: the header is not {reading.encoding}; {hint}fix it")
    no_header = "; if the file has no header, give `header=False` and columns by number"
    hint = "; it has only one column: does the file have another `delimiter`?" if len(header) == 1 else no_header
    check_columns(f"{path}:{line}", columns, header, reading.naming + reading.advice(hint))
    return [header.index(name) for name in columns]


def _json_rows(
    file: TextIO, path: StoragePath, columns: list[str], reading: TableFormat, faults: BadRowLog
) -> Iterator[Row]:
    """Yield the rows of a file with a JSON object in each line; a missing name is an empty cell."""
    number, seen = 0, dict[str, None]()
    for line, text in enumerate(file, start=1):
        if not text.strip():
            continue
        try:
            content = json.loads(text)
            if not isinstance(content, dict):
                raise ValueError(f"it is not a JSON object but {text.strip()[:20]!r}; each line must be one object")
            cells = [json_cell(name, content.get(name)) for name in columns]
        except (ValueError, RecursionError) as error:
            faults.add(f"{path}:{line}", _json_fault(error, reading))
        else:
            if number < ROWS_AT_ONCE or any(name not in seen for name in columns):
                seen.update(dict.fromkeys(content))
            yield number, line, cells
        number += 1
    if seen:
        check_columns(str(path), columns, list(seen), reading.naming)


def _json_fault(error: Exception, reading: TableFormat) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON ({error.msg}, column {error.colno}); each line must be one object"
    return "it is nested too deep" if isinstance(error, RecursionError) else str(error)


LINES: Mapping[str, Callable[[TextIO, StoragePath, list[str], TableFormat, BadRowLog], Iterator[Row]]] = {
    "csv": _delimited_rows,
    "tsv": _delimited_rows,
    "jsonl": _json_rows,
}
"""The readers of text: they yield the number, the line and the cells of each row, and report bad ones."""


def formats_help() -> str:
    """Return the --help of --format."""
    text = " ".join(extension for name in LINES for extension in FORMATS[name].extensions)
    others = " ".join(extension for name in BINARY for extension in FORMATS[name].extensions)
    return f"Format of all tables; auto: by the extension ({text}, also packed: .csv.gz, .csv.zst; {others})."
