"""The options of jobs.labels: one class for each subcommand."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from al_ray.cli._shared.entry import PathOrUri
from al_ray.datasets.tables.format_options import ColumnNames, TableOptions
from al_ray.datasets.tables.options import LABEL_COLUMNS, label_column_names
from al_ray.datasets.tables.reader import TableFormat

SplitName = Literal["train", "dev"]


@dataclass(frozen=True, kw_only=True)
class OfRun:
    """The option of all subcommands."""

    run: PathOrUri
    """Run folder."""


@dataclass(frozen=True, kw_only=True)
class Status(OfRun):
    """Count the labels of each round."""


@dataclass(frozen=True, kw_only=True)
class Export(OfRun):
    """Write the labelled pairs in the order bought: sentence1, sentence2, label (1 match, 0 no match)."""

    out: PathOrUri
    """File to write: .parquet, .csv or .jsonl."""
    every_column: bool = False
    """Also write ids, answer, round and source, and the pairs labelled unsure."""
    split: SplitName = "train"
    """dev: the drawn pairs of dev (jobs.run --dev-labels), by which models were measured."""
    escape_formulas: bool = False
    """In a CSV file, put a quote before cells that a spreadsheet would run as a formula. labels import cannot read such
    a file, because it does not know ids with a quote."""


@dataclass(frozen=True, kw_only=True)
class Table(OfRun, TableOptions):
    """A table of labels."""

    columns: ColumnNames = LABEL_COLUMNS
    """Columns of the table: the two ids and the label (1/0, yes/no, unsure). Two columns: all are matches."""

    @cached_property
    def reading(self) -> TableFormat:
        """The format of the table."""
        return replace(super().reading, naming="; name its columns with --columns")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its two or three columns."""
        return label_column_names("--columns", self.columns)


@dataclass(frozen=True, kw_only=True)
class Import(Table):
    """Add labels bought elsewhere as the next round of a run, or as the seed set of a new one."""

    labels: PathOrUri
    """Table of labels (Parquet, CSV, TSV or JSON lines); or a run folder, also of another task, such as that of last
    month: its labels of pairs whose two texts have the same ids and are unchanged here; or a folder of jobs.match
    --suggest N: the answers of people to the suggested pairs."""
    task: PathOrUri | None = None
    """Task folder; required for a new run folder."""


@dataclass(frozen=True, kw_only=True)
class Correct(Table):
    """Correct labels: the history keeps the old label, the next training uses the new one."""

    labels: Path | None = None
    """Table of corrections; without it, give one pair by --left-id and --right-id."""
    left_id: str | None = None
    """Id of the left text."""
    right_id: str | None = None
    """Id of the right text."""
    label: Literal["yes", "no", "unsure"] | None = None
    """The correct label."""
    split: SplitName = "train"
    """dev: the drawn pairs of dev (jobs.run --dev-labels), whose estimates are computed again."""


@dataclass(frozen=True, kw_only=True)
class Close(OfRun):
    """End the open round with the labels that it has: the run trains on them, and may choose its other pairs again."""


Command = Status | Export | Import | Correct | Close
