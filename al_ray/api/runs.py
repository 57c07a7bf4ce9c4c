"""Run active learning, and read what a run folder holds."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.stopping import NEVER, StopConfig
from al_ray.api.models import PairModel, load_model
from al_ray.cluster import run as cluster_run
from al_ray.cluster.run import OnRound, RunSpec
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.config.sections import ScoringConfig, Sides
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import Labelled
from al_ray.core.progress import OnProgress, no_progress
from al_ray.datasets.tables.label_tables import labels_table
from al_ray.metrics.handover import RoundName
from al_ray.runs.other_runs import bound_task
from al_ray.runs.run_folder import RunFolder, bound_config
from al_ray.storage.uri import StoragePath, storage_path

CLUSTER, ORACLE = ClusterConfig(), OracleConfig()


def no_callback(line: dict[str, Any]) -> None:
    """Ignore a complete round."""


@dataclass(frozen=True)
class Run:
    """A run folder: its options, its metrics by round, its labels and its models."""

    path: StoragePath
    config: RunConfig
    # Why the run ended before its last planned round; None if it did not, or was only loaded.
    stopped: str | None = None

    @cached_property
    def folder(self) -> RunFolder:
        """Open the folder for reading, with the task that it is bound to."""
        # Resolved: after a change of the working directory a relative path would be that of an empty run.
        return RunFolder(self.path.resolve(), bound_task(self.path))

    @property
    def rounds(self) -> int:
        """Return the number of complete rounds."""
        return self.folder.last

    def metrics(self) -> pa.Table:
        """Return the metrics of all complete rounds, one row each: the columns are the fields of metrics.jsonl.

        average_precision and precision_at_recall_20 are shares in [0, 1], null where nothing was evaluated; `seconds`
        is a struct of the seconds of each stage; average_precision_interval and average_precision_gain are structs of
        value, low and high, 95% over queries. A field that an earlier version of al_ray did not write is null.
        """
        rounds = self.folder.complete_rounds()
        names = dict.fromkeys(name for line in rounds for name in line)
        try:
            return pa.Table.from_pylist([{name: line.get(name) for name in names} for line in rounds])
        except (pa.ArrowException, OverflowError) as error:
            path = self.path / "metrics.jsonl"
            raise BadFile(f"{path} has values of several types in one field ({error}); restore it") from error

    def labels(self) -> pa.Table:
        """Return all labels, in the order bought, those of the round under way included, one row a pair.

        Columns: sentence1, sentence2, label (1 match, 0 no match, null unsure), left_id, right_id, answer, round,
        source.
        """
        return labels_table(self.labelled(), self.folder.task, every=True)

    def labelled(self) -> Labelled:
        """Return all labels as arrays, in the order bought, those of the round under way included."""
        return self.folder.ledger.labelled()

    def model(self, round: RoundName = None) -> PairModel:
        """Load the model of a round, 0 for the untrained encoder, or "last"; the best by evidence by default.

        Which that is, and why, is `choice` of the model (docs/handover.md).

        Raises:
            BadOption: if the round is not complete, or if the model has a matcher (`load_matcher`).
        """
        return load_model(self.path.resolve(), round=round)

    def with_neighbourhood(self, neighbourhood: float, sides: Sides | None = None) -> "Run":
        """Return the same run, which `evaluate` and `compare` rank by other scores (docs/neighbourhood.md).

        neighbourhood: a, from 0 to 1; 0 for the cosine. w and b are fitted again to these scores; nothing is written.
        sides: "left" or "both", as --scoring.neighbourhood-sides; by default those of the run.

        Raises:
            BadOption: if it is beyond these bounds, or if a matcher ranks the pairs.
        """
        if self.config.matcher == "on":
            raise BadOption(
                f"--neighbourhood: {self.path} has a matcher, whose p ranks the candidates (docs/matcher.md); leave it "
                "out, or give --round 0 for the cosine"
            )
        sides = sides or (self.config.scoring.neighbourhood_sides if neighbourhood else "left")
        config = replace(self.config, scoring=ScoringConfig(neighbourhood, sides))
        return Run(self.path, config, self.stopped)

    def complete_round(self, round: int | None, first: int = 0) -> int:
        """Return the number of a complete round, the last one by default; 0 is the untrained encoder.

        Raises:
            BadOption: if the round is before `first` or not complete.
        """
        last = self.rounds
        number = last if round is None else round
        if not first <= number <= last:
            raise BadOption(f"round {number}: {self.path} has complete rounds 1 to {last}; 0 is the untrained encoder")
        return number


def run(
    config: RunConfig,
    out: str | StoragePath,
    *,
    cluster: ClusterConfig = CLUSTER,
    oracle_options: OracleConfig = ORACLE,
    stop: StopConfig = NEVER,
    on_round: OnRound = no_callback,
    on_progress: OnProgress = no_progress,
) -> Run:
    """Run active learning to its end; if `out` holds the run, resume it.

    on_round receives the metrics of each round, as in metrics.jsonl, when the round is complete; on_progress receives a
    stage, how much of it is done and how much there is. oracle_options: of an oracle that is a function. Limits of
    cost and `stop` are stored in the folder and hold when the run is resumed without them. Works in this
    process, or on Ray (docs/api.md).

    Examples:
        >>> config = al_ray.RunConfig(
        ...     task=str(folder / "task"), rounds=2, first_batch=16, encoder="random-bert", encoder_layers=1,
        ...     max_length=16, training=al_ray.TrainingConfig(worst_loss=100.0),
        ... )
        >>> run = al_ray.run(config, folder / "run", on_round=lambda line: print(line["round"], line["labels"]))
        1 16
        2 40
        >>> run.metrics().select(["round", "labels"]).to_pydict()
        {'round': [1, 2], 'labels': [16, 40]}
        >>> run.labels().column_names[:3], len(run.labels())
        (['sentence1', 'sentence2', 'label'], 40)

    Raises:
        AlRayError: for a bad option or file, or too small a cluster; the message names the place and the cure.
        LabelsAwaited: if people are to label (oracle "file"); the message says where.
    """
    path = storage_path(str(out))
    folder = cluster_run.run(RunSpec(config, cluster, oracle_options, stop), path, on_progress, on_round)
    run = Run(path, bound_config(path), folder.end_reason)
    # The slot of the cached property: the task is not read a second time. A folder of its own, because the path of that
    # one is under a lock that was released.
    vars(run)["folder"] = RunFolder(path.resolve(), folder.task)
    return run


def load_run(path: str | StoragePath) -> Run:
    """Open the folder of a run.

    Examples:
        >>> al_ray.load_run(folder / "run").rounds
        2

    Raises:
        WrongFolder: if it is not the folder of a run.
        BadFile: if its config.json is damaged.
    """
    folder = storage_path(str(path))
    return Run(folder, bound_config(folder))
