"""The command labels: python -m jobs.labels {status,export,import,correct,close} --run RUN

status counts the labels of each round. export writes them as pairs of texts. import adds labels from elsewhere as a
round of the run. correct changes labels; the next training uses the corrected ones. close ends a round that
lacks labels. Every option: --help.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import al_ray
from al_ray.cli._shared.entry import as_called, parse_options
from al_ray.cli._shared.option_types import LABEL_COLUMNS, ColumnNames, PathOrUri
from al_ray.core.errors import BadOption

SplitName = Literal["train", "dev"]


@dataclass(frozen=True, kw_only=True)
class OfRun:
    """The option of all subcommands."""

    run: PathOrUri
    """Run folder."""


@dataclass(frozen=True, kw_only=True)
class Status(OfRun):
    """Count the labels of each round."""

    def lines(self) -> Iterator[str]:
        """Yield the counts of each round, and how to resume a run with an incomplete one."""
        return al_ray.label_status(self.run).lines()


@dataclass(frozen=True, kw_only=True)
class Export(OfRun):
    """Write the labelled pairs in the order of labelling: sentence1, sentence2, label (1 match, 0 no match)."""

    out: PathOrUri
    """File to write: .parquet, .csv or .jsonl."""
    every_column: bool = False
    """Also write ids, answer, round and source, and the pairs labelled unsure."""
    split: SplitName = "train"
    """dev: the drawn pairs of dev (jobs.run --dev-labels), by which models were measured."""
    escape_formulas: bool = False
    """In a CSV file, put a quote before cells that a spreadsheet would run as a formula. labels import cannot read such
    a file, because it does not know ids with a quote."""

    def lines(self) -> Iterator[str]:
        """Write all labels of a run, those of an incomplete round included."""
        labelled = al_ray.export_labels(
            al_ray.load_run(self.run), self.out, every_column=self.every_column, split=self.split,
            escape_formulas=self.escape_formulas,
        )  # fmt: skip
        decided = len(labelled.decided)
        unsure = f"{'and' if self.every_column else 'without'} {len(labelled) - decided:,} unsure"
        yield f"wrote {decided:,} labelled pairs ({labelled.positives:,} matches) {unsure} to {self.out}"


@dataclass(frozen=True, kw_only=True)
class Table(OfRun, al_ray.TableOptions):
    """A table of labels."""

    columns: ColumnNames = LABEL_COLUMNS
    """Columns of the table: the two ids and the label (1/0, yes/no, unsure). Two columns: all are matches."""


@dataclass(frozen=True, kw_only=True)
class Import(Table):
    """Add labels from elsewhere as the next round of a run, or as the seed set of a new one."""

    labels: PathOrUri
    """Table of labels (Parquet, CSV, TSV or JSON lines); or a run folder, also of another task, such as that of last
    month: its labels of pairs whose two texts have the same ids and are unchanged here; or a folder of jobs.match
    --suggest N: the answers of people to the suggested pairs."""
    task: PathOrUri | None = None
    """Task folder; required for a new run folder."""

    def lines(self) -> Iterator[str]:
        """Import a table of labels, and yield how a run trains on them."""
        done = al_ray.import_labels(self.run, self.labels, task=self.task, columns=self.columns, table=self)
        known = f"{done.known:,} known before"
        yield f"round {done.round}: {done.labels:,} labels, {done.matches:,} of them matches; {known}"
        yield from done.report.lines()
        yield done.next_step


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

    def lines(self) -> Iterator[str]:
        """Correct the label of one pair, or those in a table."""
        # A folder that is no run is what is wrong first.
        al_ray.load_run(self.run)
        labels: Path | list[tuple[str, str, str]] | None = self.labels
        if labels is None or (self.left_id, self.right_id, self.label) != (None, None, None):
            if labels is not None or self.left_id is None or self.right_id is None or self.label is None:
                raise BadOption("give --labels FILE, or one pair by --left-id, --right-id and --label")
            labels = [(self.left_id, self.right_id, self.label)]
        return al_ray.correct_labels(self.run, labels, columns=self.columns, table=self, split=self.split).lines()


@dataclass(frozen=True, kw_only=True)
class Close(OfRun):
    """End the open round with the labels that it has: the run trains on them, and may choose its other pairs again."""

    def lines(self) -> Iterator[str]:
        """End the open round with the labels that it has; what people have answered in its files is read first."""
        return al_ray.close_round(self.run).lines()


OPTIONS = Status | Export | Import | Correct | Close


def main() -> None:
    """Run one of the subcommands."""
    options = parse_options(OPTIONS, "labels", "Count, export, import or correct the labels of a run.")
    for line in options.lines():
        print(as_called(line))
