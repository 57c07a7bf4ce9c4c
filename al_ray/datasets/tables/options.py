"""Options for a user's own tables, and the check of their combinations."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from al_ray.core.errors import BadOption
from al_ray.core.task import FieldType, LabelsAre
from al_ray.datasets.field_types import parse_types
from al_ray.datasets.tables.format_options import ColumnNames, TableOptions, TablePaths, TypedNames, paths_of
from al_ray.datasets.tables.reader import FORMATS, TableFormat
from al_ray.storage.uri import StoragePath

LABEL_COLUMNS = "left,right,label"
HALVES = "`source` needs `text_columns` of one text, then as many of the other, such as text1,text2"


@dataclass(frozen=True, kw_only=True)
class OwnTexts(TableOptions):
    """Your own Parquet, CSV/TSV or JSON lines: texts with labels beside them, or labelled pairs of texts."""

    text_columns: ColumnNames
    """Text columns, separated by commas or spaces; their texts are joined by a space. With --source those of the first
    text, then as many of the second: t1,t2."""
    left: TablePaths | None = None
    """Table of texts: a file, or several with the same columns. Without --right the task pairs all of its texts with
    each other, unordered."""
    right: TablePaths | None = None
    """Table of the texts to pair with those of --left: a file, or several."""
    id_column: str | None = None
    """Column of the ids, of any type; the row number from 0 when not given."""
    right_text_columns: ColumnNames | None = None
    """Columns of the text in --right; --text-columns when not given."""
    right_id_column: str | None = None
    """Column of the ids in --right; --id-column when not given."""
    fields: TypedNames | None = None
    """Types of several --text-columns, where the printed ones are wrong: price:number,born:date. Types are text, name
    (short), number, date, code (identifier) and category. They decide how a matcher compares two records."""
    labels: Path | None = None
    """Table of labels: two ids and 1/0, true/false, yes/no, match/non-match; empty: none."""
    label_columns: ColumnNames | None = None
    """Columns of --labels: two ids and a label (left,right,label when not given). Two columns: all match."""
    source: Path | None = None
    """Table with two texts in each row, instead of --left. Equal texts become one; ids are numbers from 0."""
    labels_are: LabelsAre = "partial"
    """complete: every match is labelled, so a pair without a label is a negative, and average precision over all pairs
    can be measured. partial: a pair without a label is unknown."""
    label_column: str | None = None
    """Column of the label in --source; no pair is labelled when not given."""
    same: ColumnNames | None = None
    """With --left: pair only texts with equal values in all of these columns, such as country; --right has them too."""
    different: str | None = None
    """With --left: pair only texts with two values in this column, such as source; an empty value differs from all."""
    two_sided: bool = False
    """With --source: pair first texts with second texts, as questions with answers, not all with each other."""
    closure: bool = True
    """With one collection: texts connected by a chain of matches match, whatever their labels say."""
    split_column: str | None = None
    """Column of --left or --source that holds train, dev (or validation) or test."""
    split: str | None = None
    """Shares of the (left) texts in train, dev and test; texts connected by labels share a split (0.5,0.25,0.25)."""
    seed: int = 0
    """Random seed of the split."""
    max_length: int = 128
    """Maximum tokens per text of your encoder; the report counts longer texts."""
    extend: StoragePath | None = None
    """Task folder made by prepare pairs: the new task has its texts, splits and labels, and the rows of --left and
    --right. New texts are in train. Options that are not given are those of that task."""

    def check(self) -> None:
        """Validate the combination of options, before any file is read."""
        pairs, label_files = self.source is not None, self.labels is not None
        for wrong, fix in (
            *(self._wrong_alone() if self.extend is None else self._wrong_extension()),
            (pairs and self.left is not None, "`left` and `source` exclude one another; give one of them"),
            (pairs and label_files, "`labels` goes with `left`; with `source` name the `label_column`"),
            (pairs and self.id_column is not None, "`id_column` goes with `left`; leave it out with `source`"),
            (not pairs and self.label_column is not None, "`label_column` goes with `source`; give `label_columns`"),
            (not pairs and self.two_sided, "`two_sided` goes with `source`; with `left` give `right=FILE`"),
            (
                pairs and (self.same or self.different) is not None,
                "`same` and `different` go with `left`; leave them out with `source`",
            ),
            (
                self.right is not None and (self.id_column is None) and self.right_id_column is not None,
                "`right_id_column` is without `id_column`; give both, or neither",
            ),
            (self.split is not None and self.split_column is not None, "give `split` or `split_column`, not both"),
            (self.max_length < 3, f"`max_length` is {self.max_length}; give at least 3"),
            (pairs and len(column_names("`text_columns`", self.text_columns)) % 2, HALVES),
        ):
            if wrong:
                raise BadOption(fix)
        self._check_columns()
        self._check_files()

    def _wrong_alone(self) -> Iterator[tuple[bool, str]]:
        """Yield conditions of a new task, each whether it is violated, and the fix."""
        pairs = self.source is not None
        yield self.right is not None and self.left is None, "`right` is without `left`; give both, or `left` alone"
        yield not pairs and self.left is None, "give `left=FILE` (texts) or `source=FILE` (pairs of texts)"
        yield self.label_columns is not None and self.labels is None, "`label_columns` is without `labels=FILE`"
        of_right = self.right is None and (self.right_id_column or self.right_text_columns) is not None
        yield of_right, "`right_id_column` and `right_text_columns` are without `right=FILE`"

    def _wrong_extension(self) -> Iterator[tuple[bool, str]]:
        """Yield conditions of a task that extends another, each whether it is violated, and the fix."""
        yield self.source is not None, "`extend` and `source` exclude one another; give the new texts as `left=FILE`"
        yield (
            self.left is None and self.right is None,
            "`extend` is without new texts; give `left=FILE` or `right=FILE`",
        )
        yield self.id_column is None, "`extend` finds texts by their ids; give their `id_column`"
        split = (self.split or self.split_column) is not None
        yield split, "`extend` puts all new texts in train; leave out `split` and `split_column`"

    def _check_columns(self) -> None:
        texts = column_names("`text_columns`", self.text_columns)
        for option, column in (("`label_column`", self.label_column), ("`split_column`", self.split_column)):
            if column is not None and column in texts:
                raise BadOption(
                    f"{option} {column} is one of `text_columns`, so the text would reveal it; name another"
                )
        if self.right_text_columns is not None:
            column_names("`right_text_columns`", self.right_text_columns)
        if self.labels is not None:
            self.columns_of_labels()
        self.columns_of_rule()
        self.given_types()

    def _check_files(self) -> None:
        sides = {"`left`": (self.left, self.id_column), "`right`": (self.right, self.right_id_column or self.id_column)}
        for side, (tables, ids) in sides.items():
            _check_several(side, paths_of(tables), ids)
        others = [path for path in (self.labels, self.source) if path is not None]
        files = [*paths_of(self.left), *paths_of(self.right), *others]
        delimiters = {FORMATS[self.reading.format_of(path)].delimiter for path in files}
        if not any(delimiters) and (self.delimiter or self.quoting == "none" or not self.header):
            raise BadOption(
                "`delimiter`, `quoting` and `header=False` are for CSV and TSV files, and no such file is given"
            )
        if self.right is not None and self.left == self.right and self.right_text_columns is None:
            raise BadOption("`right` is the same file as `left`; leave it out to pair a collection with itself")

    def columns_of_rule(self) -> dict[str, tuple[str, ...]]:
        """Return the columns of each condition that is given, "same" or "different"."""
        same = {} if self.same is None else {"same": column_names("`same`", self.same)}
        return same if self.different is None else {**same, "different": (self.different,)}

    def given_types(self) -> dict[str, FieldType]:
        """Return the types of --fields by column; BadOption for a column or a type that does not exist."""
        if self.fields is None:
            return {}
        columns = column_names("`text_columns`", self.text_columns)
        if self.source is not None:
            columns = columns[: len(columns) // 2]
        elif self.right_text_columns is not None:
            others = column_names("`right_text_columns`", self.right_text_columns)
            # If they are as many, a right column is called as the left one in its place.
            columns = columns if len(others) == len(columns) else tuple(dict.fromkeys((*columns, *others)))
        return parse_types(column_names("`fields`", self.fields), columns)

    def columns_of_labels(self) -> tuple[str, ...]:
        """Return two columns of ids, and that of the label if there is one."""
        return label_column_names("`label_columns`", self.label_columns or LABEL_COLUMNS)


def _check_several(side: str, files: Sequence[StoragePath], id_column: str | None) -> None:
    """Raise BadOption for several files that give no ids, or for a file that is given twice."""
    twice = next((path for number, path in enumerate(files) if path in files[:number]), None)
    if twice is not None:
        raise BadOption(f"{side} gives {twice} twice; give each file once")
    if len(files) > 1 and id_column is None:
        raise BadOption(
            f"{side} gives {len(files):,} files, and a row number does not tell of which file it is; give the column "
            "of the ids: `id_column`"
        )


def label_column_names(option: str, columns: str) -> tuple[str, ...]:
    """Split the column names of a table of labels: two ids, and the label unless all rows are matches."""
    names = column_names(option, columns)
    if len(names) not in (2, 3):
        raise BadOption(f"{option} is {columns}; give three, such as {LABEL_COLUMNS}, or two ids")
    return names


def labels_reading(table: TableOptions) -> TableFormat:
    """Return the format of a table of labels, of which messages say how to name other columns."""
    return replace(table.reading, naming="; name its columns with `columns`")


def column_names(option: str, columns: str) -> tuple[str, ...]:
    """Split column names at commas; a name that contains a comma is quoted, as in CSV."""
    names = tuple(name.strip() for name in next(csv.reader([columns], skipinitialspace=True), []))
    if not names or not all(names):
        raise BadOption(f"{option} is {columns!r}; give names separated by commas")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadOption(f"{option} names {twice[0]!r} twice; name each column once")
    return names
