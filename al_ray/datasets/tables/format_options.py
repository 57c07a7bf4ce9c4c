"""Options for the file format of a user's tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from tyro.constructors import PrimitiveConstructorSpec

from al_ray.datasets.tables.reader import Format, TableFormat, formats_help
from al_ray.datasets.tsv import BadRows
from al_ray.storage.compressed import inner_suffix
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


def _table_paths(words: Sequence[str]) -> "StoragePath | tuple[StoragePath, ...]":
    """Return the files of one side of a task, from the words of a command line."""
    if not words:
        raise ValueError("no file is given")
    paths = paths_of(words)
    return paths[0] if len(paths) == 1 else paths


TablePaths = Annotated[
    StoragePath | tuple[StoragePath, ...],
    PrimitiveConstructorSpec(
        nargs="*",
        metavar="FILE|URI [FILE|URI ...]",
        instance_from_str=_table_paths,
        is_instance=lambda value: isinstance(value, StoragePath | tuple),
        str_from_instance=lambda value: [str(path) for path in paths_of(value)],
    ),
]
"""A table of texts: a file or an object of a store, or several with the same columns, read one after the other."""


def paths_of(tables: "str | StoragePath | Iterable[str | StoragePath] | None") -> tuple[StoragePath, ...]:
    """Return the files of a table; none for None. A text with :// is a URI."""
    if tables is None:
        return ()
    return tuple(storage_path(str(one)) for one in ([tables] if isinstance(tables, str | StoragePath) else tables))


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


def inherited_format(mapping: Mapping[str, Any], tables: Iterable[StoragePath]) -> dict[str, Any]:
    """Return the options of the format by which a task was read, for new tables of the same kind; {} for another kind.

    mapping: options of prepare pairs. A delimiter of CSV files says nothing about a Parquet file.
    """
    # A side of several files is a list of them.
    known = [mapping[side] for side in ("left", "right") if mapping.get(side) is not None]
    kinds = {inner_suffix(path) for side in known for path in paths_of(side)}
    same_kind = kinds and {inner_suffix(path) for path in tables} <= kinds
    return {name: mapping[name] for name in FORMAT if name in mapping} if same_kind else {}
