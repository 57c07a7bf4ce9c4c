"""Run active learning."""

from typing import Any

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.stopping import NEVER, StopConfig
from al_ray.api.run_reading import Run
from al_ray.cluster import run as cluster_run
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.progress import OnProgress, no_progress
from al_ray.running.run import OnRound, RunSpec
from al_ray.runs.run_folder import RunFolder, bound_config
from al_ray.storage.uri import StoragePath, storage_path

CLUSTER, ORACLE = ClusterConfig(), OracleConfig()


def no_callback(line: dict[str, Any]) -> None:
    """Ignore a complete round."""


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
