"""Options for the file format of a user's tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from tyro.constructors import PrimitiveConstructorSpec

from al_ray.core.errors import BadOption
from al_ray.datasets.tables.reader import Format, TableFormat, formats_help
from al_ray.datasets.tsv import BadRows
from al_ray.storage.databases.address import SCHEMES, TableAddress, is_address, parse_address
from al_ray.storage.databases.frames import ArrowStream
from al_ray.storage.databases.table_path import TablePath, table_path, table_suffix
from al_ray.storage.uri import StoragePath, storage_path


def _listed(metavar: str) -> PrimitiveConstructorSpec[str]:
    """Return how a text of parts between commas is read from a command line, on which spaces separate them too."""
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar=metavar,
        instance_from_str=lambda words: ",".join([*(word.removesuffix(",") for word in words[:-1]), *words[-1:]]),
        is_instance=lambda value: isinstance(value, str),
        str_from_instance=lambda value: [value],
    )


ColumnNames = Annotated[str, _listed("NAME[,NAME...]")]
"""Names of columns, separated by commas; on a command line also by spaces."""
TypedNames = Annotated[str, _listed("NAME:TYPE[,NAME:TYPE...]")]
"""Names of columns with their types, separated as ColumnNames are."""
FieldRules = Annotated[str, _listed("FIELD=RULE[,FIELD=RULE...]")]
"""Names of fields with a rule for each, separated as ColumnNames are."""


def _table_paths(words: Sequence[str]) -> "TablePath | tuple[TablePath, ...]":
    """Return the files of one side of a task, from the words of a command line."""
    if not words:
        raise ValueError("no file is given")
    return side_of(words) or ()


def _one_word(metavar: str, parse: Callable[[str], Any], kinds: Any) -> PrimitiveConstructorSpec[Any]:
    """Return how one word of a command line is read, as a value of some of these kinds."""
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda words: parse(words[0]),
        is_instance=lambda value: isinstance(value, kinds),
        str_from_instance=lambda value: [str(value)],
    )


TablePaths = Annotated[
    str | TablePath | ArrowStream | Sequence[str | TablePath | ArrowStream],
    PrimitiveConstructorSpec(
        nargs="*",
        metavar="FILE|URI|DATABASE [FILE|URI|DATABASE ...]",
        instance_from_str=_table_paths,
        is_instance=lambda value: isinstance(value, TablePath | tuple),
        str_from_instance=lambda value: [str(path) for path in paths_of(value)],
    ),
]
"""A table of texts: a file, an object of a store or a table of a database (docs/tables.md), or several with the same
columns, read one after the other; in Python also a data frame."""
OneTable = Annotated[
    str | TablePath | ArrowStream, _one_word("FILE|URI|DATABASE", lambda word: table_path(word), TablePath)
]
"""A table as of TablePaths, one alone."""
DatabaseTable = Annotated[str | TableAddress, _one_word("DATABASE", lambda word: database_table(word), TableAddress)]
"""A table of a database, to write."""
StoredTable = Annotated[
    StoragePath | TableAddress,
    _one_word("FILE|URI|DATABASE", lambda word: stored_table(word), StoragePath | TableAddress),
]
"""A table that other processes can read: a file, an object of a store or a table of a database."""


def database_table(text: str) -> TableAddress:
    """Return where a table of a database is; BadOption for anything else."""
    if not is_address(text):
        raise BadOption(f"{text!r} is no table of a database; give one such as {SCHEMES['duckdb'].example}")
    return parse_address(text)


def stored_table(text: str) -> StoragePath | TableAddress:
    """Return where a table is, from its path, URI or address."""
    return parse_address(text) if is_address(text) else storage_path(text)


def paths_of(tables: Any) -> tuple[TablePath, ...]:
    """Return the tables of a side; none for None. tables: one, or several, each as `table_path` takes it."""
    if tables is None:
        return ()
    return tuple(map(table_path, tables if isinstance(tables, list | tuple) else [tables]))


def side_of(tables: Any) -> TablePath | tuple[TablePath, ...] | None:
    """Return the table of a side, or several; None for none. tables: as of `paths_of`."""
    paths = paths_of(tables)
    return paths[0] if len(paths) == 1 else paths or None


def normalize_tables(options: Any, *names: str) -> None:
    """Set fields of a frozen value, each of which gives tables, to what `side_of` makes of them."""
    for name in names:
        object.__setattr__(options, name, side_of(getattr(options, name)))


def require_ids_of(side: str, tables: Iterable[TablePath], id_column: str | None) -> None:
    """Raise BadOption for a table of a database without a column of ids."""
    of_database = next((path for path in tables if isinstance(path, TableAddress)), None)
    if of_database is not None and id_column is None:
        raise BadOption(
            f"{side} is {of_database}, and rows of a database have no numbers; give the column of the ids: `id_column`"
        )


FORMAT = ("format", "delimiter", "quoting", "encoding", "header")


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """File format of tables, and what to do with bad rows."""

    HEADING: ClassVar[str] = "table"

    format: Format = field(default="auto", metadata={"help": formats_help()})
    delimiter: str | None = None
    """Column delimiter of CSV and TSV files; a comma or a tab, by extension, when not given."""
    quoting: Literal["standard", "none"] = "standard"
    """none: in CSV and TSV files a quote is an ordinary character."""
    encoding: str = "utf-8"
    """Encoding of CSV, TSV and JSON lines files; a byte-order mark is ignored."""
    header: bool = True
    """--no-header: CSV and TSV files have no header, and columns are given by number, from 0."""
    bad_rows: BadRows = "fail"
    """What to do with a bad row: fail with its line, or skip it and list it."""

    @cached_property
    def reading(self) -> TableFormat:
        """Return the format as one value."""
        delimiter = "\t" if self.delimiter in ("tab", "\\t") else self.delimiter
        return TableFormat(self.format, delimiter, self.quoting, self.encoding, self.header)


def inherited_format(mapping: Mapping[str, Any], tables: Iterable[TablePath]) -> dict[str, Any]:
    """Return the options of the format by which a task was read, for new tables of the same kind; {} for another kind.

    mapping: options of prepare pairs. A delimiter of CSV files says nothing about a Parquet file.
    """
    # A side of several files is a list of them.
    known = [mapping[side] for side in ("left", "right") if mapping.get(side) is not None]
    kinds = {table_suffix(path) for side in known for path in paths_of(side)}
    same_kind = kinds and {table_suffix(path) for path in tables} <= kinds
    return {name: mapping[name] for name in FORMAT if name in mapping} if same_kind else {}
