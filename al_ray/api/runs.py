"""Run active learning."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.stopping import NEVER, StopConfig
from al_ray.api.run_reading import Run
from al_ray.apps.annotating.options import PageOptions
from al_ray.apps.planning.hardware import CPU, CUDA, read_constants
from al_ray.apps.planning.planned_and_used import compare_with_plan
from al_ray.cluster import run as cluster_run
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.oracle import OracleConfig, oracle_kind
from al_ray.core.config.recipes import RecipeChoice
from al_ray.core.config.trackers import NO_TRACKERS, TrackerOptions
from al_ray.core.errors import BadOption
from al_ray.core.progress import OnProgress, no_progress
from al_ray.running.run import OnEnd, OnRound, Peaks, RunSpec
from al_ray.runs.auto_recipe import say_of_fields, with_recipe_chosen
from al_ray.runs.run_folder import RunFolder, bound_config
from al_ray.storage.uri import StoragePath, storage_path

if TYPE_CHECKING:
    from al_ray.api.labelling.run_page import RunPage

CLUSTER, ORACLE = ClusterConfig(), OracleConfig()


def no_callback(line: dict[str, Any]) -> None:
    """Ignore a complete round."""


def no_page(address: str) -> None:
    """Ignore the address of the page."""


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
        AlRayError: for a bad option or file, or too small a cluster; the message names the place and says what to do.
        LabelsAwaited: if people are to label (oracle "file"); the message says where.
    """
    return run_job(RunJob(config, cluster, oracle_options, stop), out, on_round=on_round, on_progress=on_progress)


@dataclass(frozen=True)
class RunJob:
    """A run, and what accompanies it without a change of its results, which `run_job` carries out.

    recipe: "auto" takes the options of training, scoring and matcher from the recipe for the kind of task
    (docs/recipes.md); None and the others leave the config as it is. tracking: programs that get the
    options, the metrics of each round and the last model. page: of the oracle "page". planned: compare the
    seconds and the memory of the run with its plan, by the speeds in the file `constants`.
    """

    config: RunConfig
    cluster: ClusterConfig = CLUSTER
    oracle_options: OracleConfig = ORACLE
    stop: StopConfig = NEVER
    recipe: RecipeChoice | None = None
    tracking: TrackerOptions = NO_TRACKERS
    page: PageOptions | None = None
    planned: bool = False
    constants: Path | None = None


def run_job(
    job: RunJob,
    out: str | StoragePath,
    *,
    on_round: OnRound = no_callback,
    on_progress: OnProgress = no_progress,
    on_page: Callable[[str], None] = no_page,
    called: Callable[[str], str] = str,
) -> Run:
    """Run active learning to its end as `run` does, with all that can accompany it.

    on_page: receives the address of the page on which people label, while that is served. called: turns the text of a
    command into what the page shows.

    Examples:
        >>> config = al_ray.load_run(folder / "run").config
        >>> done = al_ray.run_job(al_ray.RunJob(config, planned=True), folder / "run")
        >>> done.rounds, bool(done.planned_and_used)
        (2, True)

    Raises:
        AlRayError: for a bad option or file, or too small a cluster; the message names the place and says what to do.
        LabelsAwaited: if people are to label (oracle "file"); the message says where.
    """
    path, compared, config, page = storage_path(str(out)), list[str](), job.config, None
    if job.recipe == "auto":
        config = with_recipe_chosen(config, path)
    elif job.recipe is not None:
        say_of_fields(config)
    on_end = _comparison(job, compared) if job.planned else None
    if job.page is not None and oracle_kind(config.oracle).serves_page:
        shown = _page(config, job.page, path, on_page, called)
        page, on_progress, on_round = shown.serve, shown.after_progress(on_progress), shown.after_round(on_round)
    spec = RunSpec(config, job.cluster, job.oracle_options, job.stop, job.tracking, on_end, page)
    folder = cluster_run.run(spec, path, on_progress, on_round)
    run = Run(path, bound_config(path), folder.end_reason, "\n".join(compared))
    # The slot of the cached property: the task is not read a second time. A folder of its own, because the path of that
    # one is under a lock that was released.
    vars(run)["folder"] = RunFolder(path.resolve(), folder.task)
    return run


def _comparison(job: RunJob, compared: list[str]) -> OnEnd:
    """Return a callback that compares a run with its plan, after the file of speeds is read: a bad one is an error."""
    constants = read_constants(job.constants, *((CUDA, "h200") if job.cluster.gpus_per_shard else (CPU, CPU)))

    def on_end(folder: RunFolder, peaks: Peaks) -> None:
        compared.append(compare_with_plan(folder, peaks, job.cluster, constants))

    return on_end


def _page(
    config: RunConfig, options: PageOptions, out: StoragePath, on_page: Callable[[str], None],
    called: Callable[[str], str],
) -> "RunPage":  # fmt: skip
    """Return the page on which people label; BadOption if its packages are not installed."""
    if find_spec("uvicorn") is None:
        raise BadOption(
            "`oracle='page'` needs packages that are not installed here: the extra annotate (docs/install.md)"
        )
    # Not at the top: the packages of the page are an extra.
    from al_ray.api.labelling.run_page import RunPage

    return RunPage(config, options, out, on_page, called)
