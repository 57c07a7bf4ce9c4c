"""The texts to match, as a task without labels: read as the tables of the model's own task were."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from al_ray.apps.matching.assignment_rules import ASSIGNMENTS
from al_ray.apps.matching.clusters.rules import CLUSTER_OPTIONS, ClusterRules
from al_ray.apps.matching.golden.fields import text_columns
from al_ray.apps.matching.incremental.about import StateAbout
from al_ray.apps.matching.incremental.growth import Side
from al_ray.apps.matching.incremental.order import sorted_by_id
from al_ray.apps.matching.incremental.state import task_name
from al_ray.apps.matching.model import MatchingModel
from al_ray.apps.matching.options import MatchOptions
from al_ray.cluster.candidates.records import feature_names
from al_ray.cluster.candidates.reference import Sides
from al_ray.cluster.candidates.reference_file import read_reference
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.task import Corpus, Task
from al_ray.datasets.tables.columns import name_files
from al_ray.datasets.tables.format_options import FORMAT, TableOptions, TablePaths, inherited_format, paths_of
from al_ray.datasets.tables.options import OwnTexts
from al_ray.datasets.tables.to_task import read_corpus, read_own
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.datasets.tsv import Report
from al_ray.matcher.model_file import read_model
from al_ray.storage.uri import StoragePath, Uri, storage_path

# Of the task's own tables: which columns are read, and which pairs can match.
MAPPING = ("text_columns", "id_column", "right_text_columns", "right_id_column", "same", "different", "vectors_column")


def read_texts(options: MatchOptions, model: MatchingModel) -> tuple[Task, Report]:
    """Return the task of the texts to match, and a report of the rows that were read; a task folder is taken as it is.

    The texts of tables are put in the order of their ids: no result depends on the order of rows.

    BadOption for options that go with a table, given a task folder, or the other way round.
    """
    folder, rules = _task_of(options), ClusterRules.of_options(options)
    if folder is not None:
        if columns := rules.columns(()):
            raise BadOption(
                f"the column {columns[0]!r} is one of a table, and {option('left', folder)} is a task folder, which "
                "has none; give the tables of its texts"
            )
        if options.right is not None:
            raise BadOption(f"{option('left', folder)} is a task folder, which has both sides; leave out `right`")
        if rules.golden is not None:
            raise BadOption(f"`golden` goes with tables, and {option('left', folder)} is a task folder; leave it out")
        return read_task(folder), Report()
    if options.left is None:
        raise BadOption("`right` is without `left`; give both, or `left` alone")
    if options.split is not None:
        raise BadOption(
            f"`split` goes with a task folder, and {option('left', name_files(paths_of(options.left)))} is none; leave "
            "it out"
        )
    # Without dev and test: all texts are matched.
    source = table_source(options, model.table_options, model.config.max_length)
    task, report = read_own(source, (1.0, 0.0, 0.0), rules.columns(text_columns({"text_columns": source.text_columns})))
    return sorted_by_id(task), report


def as_matcher_reads(task: Task, options: MatchOptions, model: MatchingModel) -> Task:
    """Return the task with the fields that a model's matcher compares: their names and types are the model's.

    BadOption, before any work, for texts with other fields.
    """
    matcher = model.model.matcher
    if matcher is None:
        return task
    sides = sides_of(model)
    # Without a reference, shards take the types of a task folder as they are there.
    if matcher.reference is not None or not is_task(options):
        task = typed_as(task, sides)
    trained_on = read_model(storage_path(matcher.path)).names
    if feature_names(task.left, task.right) != trained_on:
        if Sides.of(task.left, task.right) == sides:
            # Of the same fields: says how the comparisons of this al_ray differ.
            read_model(storage_path(matcher.path), feature_names(task.left, task.right))
        raise BadOption(
            f"the matcher of {model.path} compares other fields than these texts have: it was trained on "
            f"{_described(sides)}; give such, or train a run on a task with these fields"
        )
    return task


def _described(sides: Sides) -> str:
    """Return which tables have these fields."""
    tables = "one table (`left`)" if sides.symmetric else "two tables (`left` and `right`)"
    if not sides.left:
        return f"{tables} with one text column"
    names = ",".join(field.name for field in sides.left)
    return f"{tables} with {option('text_columns', names)} in this order"


def sides_of(model: MatchingModel) -> Sides:
    """Return the fields that the matcher of a model compares: those that it keeps, or of its task if it is older."""
    matcher = model.model.matcher
    assert matcher is not None
    if matcher.reference is None:
        return Sides.of(model.task.left, model.task.right)
    return read_reference(matcher.reference).sides


def typed_as(task: Task, sides: Sides) -> Task:
    """Return a task whose fields have these types; BadOption if it has other fields (see `Sides.typed`)."""
    left, right = sides.typed(task.left, task.right)
    return replace(task, left=left, right=right)


def typed_as_known(arrived: Mapping[Side, Corpus], known: Task) -> dict[Side, Corpus]:
    """Return the texts that arrived on each side, their fields named and typed as those of the known texts there."""
    sides, typed = Sides.of(known.left, known.right), dict[Side, Corpus]()
    for side, corpus in arrived.items():
        fields = sides.left if side == "left" else sides.right
        typed[side] = Sides(fields, fields, True).typed(corpus, corpus)[0]
    return typed


def read_arrived(
    options: MatchOptions, mapping: Mapping[str, Any], max_length: int, symmetric: bool, more: Sequence[str] = ()
) -> tuple[dict[Side, Corpus], Report]:
    """Return the texts of tables that are matched with known ones, by side, and a report of the rows that were read.

    mapping: options by which the known tables were read. more: columns that the rules read.
    """
    if symmetric and (options.left is None or options.right is not None):
        raise BadOption("the matches are within one table; give the new texts as `left`, without `right`")
    for path in (*paths_of(options.left), *paths_of(options.right)):
        if isinstance(path, Path | Uri) and _holds_task(path):
            raise BadOption(f"{path} is a task folder; `al_ray.match_into` takes tables, so give one")
    if options.split is not None:
        raise BadOption("`split` goes with a task folder, and `al_ray.match_into` takes tables; leave it out")
    one = replace(options, left=options.left or options.right)
    columns = table_source(one, mapping, max_length)
    arrived, report = dict[Side, Corpus](), Report()
    given: dict[Side, TablePaths | None] = {"left": options.left, "right": options.right}
    for side, tables in given.items():
        if tables is None:
            continue
        source = replace(columns, left=tables, right=None, right_text_columns=None, right_id_column=None)
        if side == "right":
            source = replace(
                source, text_columns=columns.right_text_columns or columns.text_columns,
                id_column=columns.right_id_column or columns.id_column,
            )  # fmt: skip
        arrived[side], read = read_corpus(source, more)
        report = Report((*report.skipped, *read.skipped), {}, (*report.read, *read.read))
    return arrived, report


def table_record(options: MatchOptions, model: MatchingModel) -> dict[str, Any]:
    """Return the options by which the tables were read, for tables of new texts to come."""
    source = table_source(options, model.table_options, model.config.max_length)
    return {name: getattr(source, name) for name in (*MAPPING, *FORMAT)} | {
        "left": [str(path) for path in paths_of(options.left)]
    }


def check_options_of_into(options: MatchOptions, about: StateAbout) -> None:
    """Raise BadOption for options that `match_into` takes from its folder, and where it cannot add texts."""
    given = [name for name, value in options.cutoffs.items() if value is not None and value is not False]
    given += [name for name in ("assign", *CLUSTER_OPTIONS) if getattr(options, name) is not None]
    if given:
        raise BadOption(
            f"`{given[0]}`: `al_ray.match_into` matches by the rules of the matches that are there (match.json); leave "
            "it out, or match all texts again with another `out`"
        )
    if options.search.kind != "exact":
        raise BadOption(
            "`search.kind='knn'` goes with `al_ray.match(..., out=DIR)`; `al_ray.match_into` compares all pairs of new "
            "texts, so leave it out"
        )
    if options.oracle is not None:
        raise BadOption("`oracle` goes with `al_ray.match(..., out=DIR)`; leave it out")
    if options.suggest is not None:
        raise BadOption("`suggest` goes with `al_ray.match(..., out=DIR)`, which compares all texts; leave it out")
    if about.rules.cutoff.score == -inf and not ASSIGNMENTS[about.rules.assign].of_best:
        raise BadOption(
            "`al_ray.match_into` cannot add to the N best pairs of `best=N`; match all texts again with another `out`"
        )
    table = about.table
    given_conditions = ("`OwnTexts.same`", table["same"]), ("`OwnTexts.different`", table["different"])
    conditions = [name for name, columns in given_conditions if columns is not None]
    if conditions:
        raise BadOption(
            f"`al_ray.match_into` cannot add to matches under {conditions[0]}; match all texts again with another `out`"
        )
    if table.get("vectors_column") is not None:
        raise BadOption(
            "`al_ray.match_into` cannot add texts whose vectors are given (`OwnTexts.vectors_column`); match all texts "
            "again with another `out`"
        )
    if table["id_column"] is None:
        raise BadOption(
            "`al_ray.match_into` needs ids, and the texts that are there have row numbers; match them again with "
            "`id_column`"
        )


def check_clustering(options: MatchOptions, task: Task) -> None:
    """Raise BadOption for clusters that cannot be made of these tables."""
    if options.clusters == "average" and not task.symmetric:
        raise BadOption(
            "`clusters='average'` takes the mean over all pairs of a cluster, and pairs within one of two tables are "
            "not compared; leave it out, or give one table (`left=['ours.csv', 'theirs.csv']`)"
        )


def task_folder(options: MatchOptions, task: Task, out: StoragePath) -> StoragePath:
    """Return the folder of the task; that of tables is written into `out`, under a name of its own."""
    known = _task_of(options)
    if known is not None:
        return known
    folder = out / task_name(task)
    files = {
        side: [str(path) for path in paths_of(tables)]
        for side, tables in (("left", options.left), ("right", options.right))
    }
    write_task(task, folder, {"command": "match", **files})
    return folder


def is_task(options: MatchOptions) -> bool:
    """Return whether the texts are those of a task folder."""
    return _task_of(options) is not None


def _task_of(options: MatchOptions) -> StoragePath | None:
    """Return the task folder that is given instead of a table, None for a table; BadOption for one among files."""
    files = paths_of(options.left)
    folder = next((path for path in files if isinstance(path, Path | Uri) and _holds_task(path)), None)
    if folder is not None and len(files) > 1:
        raise BadOption(f"{option('left', folder)} is a task folder; give it alone, or tables")
    return folder


def _holds_task(path: StoragePath) -> bool:
    return (path / "task.json").is_file()


def table_source(options: MatchOptions, mapping: Mapping[str, Any], max_length: int) -> OwnTexts:
    """Return the tables to match as a source; what the options leave out is read as for the model's task.

    mapping: options by which the tables of the task were read, {} if there are none. max_length: of the encoder.
    """
    chosen: dict[str, Any] = {name: getattr(options, name, None) for name in MAPPING}
    for name in ("text_columns", "id_column"):
        # Columns of `left` that are given hold for `right` too, unless those of `right` are.
        if chosen[name] is None:
            chosen[f"right_{name}"] = chosen[f"right_{name}"] or mapping.get(f"right_{name}")
    chosen = {
        name: mapping.get(name) if value is None and "right" not in name else value for name, value in chosen.items()
    }
    assert options.left is not None
    plain, before = TableOptions(), inherited_format(mapping, paths_of(options.left))
    for name in FORMAT:
        value = getattr(options, name)
        chosen[name] = before.get(name, getattr(plain, name)) if value is None else value
    if chosen["text_columns"] is None:
        raise BadOption(
            "the model knows no columns of texts (its task was not made of tables, or it is a copy without its run), "
            "so give the columns of the texts: `text_columns`"
        )
    if options.right is None:
        chosen = {name: value for name, value in chosen.items() if not name.startswith("right_")}
    return OwnTexts(
        left=options.left,
        right=options.right,
        max_length=max_length,
        bad_rows=options.bad_rows,
        **chosen,
    )
