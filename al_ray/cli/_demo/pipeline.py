"""Make the task of the demonstration, run the strategies and compare them."""

import logging
from pathlib import Path

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.strategies import StrategyName
from al_ray.api.evaluation import evaluate
from al_ray.api.runs import load_run
from al_ray.cli._demo.options import Options
from al_ray.cli._run.pipeline import run
from al_ray.cli._shared.progress import Progress
from al_ray.cluster.session import session
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.errors import BadFile
from al_ray.core.text_table import format_columns
from al_ray.datasets.synthetic import synthetic_task
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.files import read_json, write_json
from al_ray.storage.uri import StoragePath

STRATEGIES: tuple[StrategyName, ...] = ("random", "static", "uncertainty")
logger = logging.getLogger(__name__)


def run_command(options: Options) -> None:
    """Make the task, run the strategies and print a table."""
    task, cluster = options.out / "task", ClusterConfig()
    # Before anything is written, because a bad option raises here.
    configs = {strategy: config_of(options, task, strategy) for strategy in STRATEGIES}
    write_task(synthetic_task(options.texts, seed=0), task, {"command": "demo", "texts": options.texts, "seed": 0})
    rows = [("strategy", "labels", "positives", "AP %", "P@R20 %")]
    with session(cluster):
        for strategy, config in configs.items():
            logger.info("strategy %s", strategy)
            folder = run(config, cluster, options.out / strategy)
            if len(rows) == 1:
                rows.append(("(untrained)", "0", "", *shares(untrained(options, folder, cluster))))
            last = folder.metrics()[-1]
            metrics = shares(folder.round(last["round"]) / "record.json", "evaluations", "test")
            rows.append((strategy, f"{last['labels']:,}", f"{last['positives']:,}", *metrics))
    pool = read_task(task).split("train")
    print(
        f"\n{len(pool.positives):,} of the pool's {pool.space.total:,} pairs match; results over all pairs of test:\n"
    )
    print(format_columns(rows))
    print(
        f"\nruns: {options.out}/{{{','.join(STRATEGIES)}}}  (metrics.jsonl, round-NNN/model, events/ for TensorBoard)"
    )


def config_of(options: Options, task: Path, strategy: StrategyName) -> RunConfig:
    """Return the config of a run of the demonstration."""
    return RunConfig(
        task=str(task), strategy=strategy, rounds=options.rounds, first_batch=options.first_batch,
        encoder=options.encoder, max_length=32, evaluation=EvaluationConfig(splits=("dev", "test")),
    )  # fmt: skip


def untrained(options: Options, folder: RunFolder, cluster: ClusterConfig) -> Path:
    """Evaluate the untrained encoder, unless that is done; return the file of the evaluation."""
    path = options.out / "untrained-test.json"
    if not path.exists():
        evaluation = evaluate(load_run(folder.path), "test", round=0, cluster=cluster, on_progress=Progress())
        write_json(path, evaluation.as_dict())
    return path


def shares(path: StoragePath, *names: str) -> tuple[str, str]:
    """Return AP and P@R20 in percent from the metrics under these names in a JSON file."""
    metrics = read_json(path)
    try:
        for name in names:
            metrics = metrics[name]
        values = [float(metrics[name]["value"]) for name in ("average_precision", "precision_at_recall_20")]
    except (KeyError, TypeError, ValueError) as error:
        raise BadFile(f"{path} lacks metrics ({error!r}); restore it") from error
    return f"{100 * values[0]:.1f}", f"{100 * values[1]:.1f}"
