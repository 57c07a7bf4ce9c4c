"""Carry out jobs.demo: make the task, run the strategies, and compare them."""

import logging
from pathlib import Path

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.strategies import StrategyName
from al_ray.cli._demo.options import Options
from al_ray.cli._run.pipeline import run
from al_ray.cli._shared.progress import Progress
from al_ray.cluster.measurement import evaluate_round
from al_ray.cluster.session import session
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.errors import BadFile
from al_ray.core.text_table import format_columns
from al_ray.datasets.synthetic import synthetic_task
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.runs.run_folder import RunFolder, bound_config
from al_ray.storage.files import read_json, write_json

SHOWN: tuple[StrategyName, ...] = ("random", "static", "uncertainty")
logger = logging.getLogger(__name__)


def carry_out(asked: Options) -> None:
    """Make the task, run the strategies, print a table."""
    task, cluster = asked.out / "task", ClusterConfig()
    # Before anything is written: a bad option is refused here.
    configs = {strategy: config_of(asked, task, strategy) for strategy in SHOWN}
    write_task(synthetic_task(asked.texts, seed=0), task, {"command": "demo", "texts": asked.texts, "seed": 0})
    rows = [("strategy", "labels", "positives found", "AP %", "P@R20 %")]
    with session(cluster):
        for strategy, config in configs.items():
            logger.info("strategy %s", strategy)
            folder = run(config, cluster, asked.out / strategy)
            if len(rows) == 1:
                rows.append(("(untrained)", "0", "", *shares(untrained(asked, folder, cluster))))
            last = folder.metrics()[-1]
            figures = shares(
                asked.out / strategy / folder.round(last["round"]).name / "record.json", "evaluations", "test"
            )
            rows.append((strategy, f"{last['labels']:,}", f"{last['positives']:,}", *figures))
    about = read_task(task).split("train")
    print(
        f"\n{len(about.positives):,} of the pool's {about.space.total:,} pairs match; figures over all pairs of test:\n"
    )
    print(format_columns(rows))
    print(f"\nruns: {asked.out}/{{{','.join(SHOWN)}}}  (metrics.jsonl, round-NNN/model, events/ for TensorBoard)")


def config_of(asked: Options, task: Path, strategy: StrategyName) -> RunConfig:
    """A run of the demonstration."""
    return RunConfig(
        task=str(task),
        strategy=strategy,
        rounds=asked.rounds,
        first_batch=asked.first_batch,
        encoder=asked.encoder,
        max_length=32,
        evaluation=EvaluationConfig(splits=("dev", "test")),
    )


def untrained(asked: Options, folder: RunFolder, cluster: ClusterConfig) -> Path:
    """What the encoder does before it has seen a label, measured once: the file that holds it."""
    path = asked.out / "untrained-test.json"
    if not path.exists():
        found = evaluate_round(bound_config(folder.path), cluster, folder, "test", 0, Progress())
        write_json(path, found.as_dict())
    return path


def shares(path: Path, *names: str) -> tuple[str, str]:
    """AP and P@R20 in percent, of the figures that stand under these names in a JSON file."""
    figures = read_json(path)
    try:
        for name in names:
            figures = figures[name]
        values = [float(figures[name]["value"]) for name in ("average_precision", "precision_at_recall_20")]
    except (KeyError, TypeError, ValueError) as error:
        raise BadFile(f"{path} lacks figures ({error!r}); restore it") from error
    return f"{100 * values[0]:.1f}", f"{100 * values[1]:.1f}"
