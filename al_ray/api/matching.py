"""Match texts by a trained model: the matches, and the clusters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from al_ray.api.run_reading import Run
from al_ray.api.runs import CLUSTER
from al_ray.apps.drift.measure import drift_lines
from al_ray.apps.drift.report import report_drift
from al_ray.apps.drift.suggestions import suggestion_lines
from al_ray.apps.matching import pipeline
from al_ray.apps.matching.database_tables import check_tables, write_match_tables
from al_ray.apps.matching.model import open_model
from al_ray.apps.matching.options import MatchOptions
from al_ray.apps.matching.summary import audit_command
from al_ray.apps.matching.texts import is_task
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import BadOption
from al_ray.core.progress import OnProgress, no_progress
from al_ray.metrics.handover import RoundName
from al_ray.runs.place import check_lasting_path
from al_ray.storage.files import read_parquet
from al_ray.storage.uri import StoragePath, storage_path


@dataclass(frozen=True)
class MatchFolder:
    """A folder of matches: its files are described in docs/match.md.

    record: the content of match.json: the model, the cutoff, counts and drift. summary: the lines that the command
    prints about the matches. next_steps: lines about the pairs that people may label next, and the command for that.
    """

    path: StoragePath
    record: Mapping[str, Any]
    summary: tuple[str, ...]
    next_steps: tuple[str, ...] = ()

    def matches(self) -> pa.Table:
        """Return the matches, the best first, one row each.

        Columns: left_id, right_id, score, cosine, probability (null if the model is not calibrated), rank, decided_by
        ("model", "label", "rule" or "oracle"), left_text and right_text unless the options leave texts out, and if they
        ask for it why: what each comparison of the matcher adds to p, a list of comparison, value and adds.
        """
        return read_parquet(self.path / "matches.parquet")

    def clusters(self) -> pa.Table:
        """Return the cluster of each text: id, cluster and canonical, the id that stands for the cluster.

        Of two tables the first column is `table` (left or right), and the last one `canonical_table`.

        Raises:
            BadOption: if an earlier version matched two tables, of which it made no clusters.
        """
        if "clusters" not in self.record:
            raise BadOption(f"{self.path} has no clusters, as an earlier al_ray made it; match its texts again")
        return read_parquet(self.path / "clusters.parquet")

    def golden(self) -> pa.Table:
        """Return the golden records: cluster, records (how many), and of each field its value, FIELD_from and FIELD_by.

        FIELD_from is the id of the record that the value comes from, FIELD_by the rule that chose it, or who gave it.

        Raises:
            BadOption: if the options had no `golden`.
        """
        if "golden" not in self.record:
            raise BadOption(f"{self.path} has no golden records; match its texts with `MatchOptions.golden`")
        return read_parquet(self.path / "golden.parquet")


def match(
    model: Run | str | StoragePath,
    options: MatchOptions,
    out: str | StoragePath,
    *,
    round: RoundName = None,
    cluster: ClusterConfig = CLUSTER,
    on_progress: OnProgress = no_progress,
    called: Callable[[str], str] = str,
) -> MatchFolder:
    """Match texts by a model, and write matches and clusters into the folder `out`.

    model: a run, or its folder: the model that is best by evidence matches (docs/handover.md), or that of `round`: a
    number, 0 for the untrained encoder, or "last"; or a model folder that was copied out of its run (docs/match.md).
    All pairs of texts are compared. Tables of a database that the options name are written last, from the files of the
    folder, in one transaction. Call it again with the same arguments after a stop. called: turns a text that names
    options into what matches.html shows. Works in this process, or on Ray (docs/api.md).

    Examples:
        >>> lines = ["id,text", "1,how to swim", "2,how do i swim", "3,who was the first king"]
        >>> table = folder / "questions.csv"
        >>> written = table.write_text(chr(10).join(lines))
        >>> options = al_ray.MatchOptions(left=table, id_column="id", text_columns="text", at_score=-1.0)
        >>> found = al_ray.match(folder / "run", options, folder / "matches")
        >>> len(found.matches()), found.clusters()["cluster"].to_pylist()
        (3, [0, 0, 0])

    Raises:
        BadOption: if options do not fit together, to the model or to the texts; the message says what to do.
        BadFile: if a table or a file of the model cannot be read; the message names the row.
        WrongFolder: if `out` holds matches of another model or of other texts, or something else.
    """
    if options.complete:
        raise BadOption("complete is for match_into; leave it out")
    folder = storage_path(str(out))
    check_lasting_path(folder)
    check_tables(options, folder)
    opened = open_model(model.path if isinstance(model, Run) else storage_path(str(model)), round)
    result = pipeline.match_texts(options, opened, folder, cluster, on_progress, report_drift, called)
    # Without the texts of a task folder there is nothing to show to people.
    return _written(folder, result, options, options.texts or not is_task(options))


def match_into(
    folder: str | StoragePath,
    options: MatchOptions,
    *,
    cluster: ClusterConfig = CLUSTER,
    on_progress: OnProgress = no_progress,
    called: Callable[[str], str] = str,
) -> MatchFolder:
    """Match new texts with those of a folder of matches and with each other, and replace the files of the folder.

    The model and the rules are those of the matches that are there. Texts with a known id replace the known ones; with
    `options.complete` known texts that are not in the tables are removed. Known texts are not encoded again. called: as
    of `match`. Works in this process, or on Ray (docs/api.md).

    Examples:
        >>> new = folder / "more.csv"
        >>> written = new.write_text(chr(10).join(["id,text", "4,what is the way to swim"]))
        >>> grown = al_ray.match_into(folder / "matches", al_ray.MatchOptions(left=new))
        >>> len(grown.matches()), grown.record["texts"]["new"]
        (6, 1)

    Raises:
        BadOption: if the folder holds no matches of tables with ids, or options do not fit to them.
        BadFile: if a table or a file of the folder cannot be read; the message names the row.
    """
    known = storage_path(str(folder))
    check_lasting_path(known)
    check_tables(options, known)
    return _written(known, pipeline.match_into(options, known, cluster, on_progress, called), options, True)


def _written(folder: StoragePath, result: pipeline.MatchResult, options: MatchOptions, has_texts: bool) -> MatchFolder:
    tables = write_match_tables(options, folder)
    audit = audit_command(result.record, folder) if has_texts else None
    steps = [*suggestion_lines(result.record, folder)]
    steps += [f"are they right? label some: {audit}"] if audit is not None else []
    summary = (*result.summary, *drift_lines(result.record), *tables)
    return MatchFolder(folder, result.record, summary, tuple(steps))
