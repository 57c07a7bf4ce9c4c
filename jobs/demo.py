"""Watch active learning find rare pairs: python -m jobs.demo

Makes a small synthetic task, runs three strategies on it with one budget of labels, and compares them over all pairs of
the test split. It shows how things work; the evidence is in the README's results. The same command goes on where an
earlier one stopped.
"""

import logging
from dataclasses import dataclass
from pathlib import Path

from al_ray.cluster.session import session
from al_ray.cluster.world import measured
from al_ray.core.config import ClusterConfig, EvaluationConfig, RunConfig, Strategy
from al_ray.core.errors import BadFile
from al_ray.data.files import read_json, write_json
from al_ray.data.run_folder import RunFolder, bound_config
from al_ray.data.synthetic import synthetic_task
from al_ray.data.tables import read_task, write_task
from jobs.entry import aligned, job, options
from jobs.progress import Progress
from jobs.run import run

STRATEGIES: tuple[Strategy, ...] = ("random", "static", "uncertainty")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """The demonstration."""

    out: Path = Path(".demo")
    """Folder of the task and the runs."""
    texts: int = 4000
    """Questions of the task, half of them in the training pool."""
    encoder: str = "all-MiniLM-L6-v2"
    """As in jobs.run."""
    first_batch: int = 128
    """As in jobs.run."""
    rounds: int = 3
    """As in jobs.run."""


def main() -> None:
    """Make the task, run the strategies, print a table."""
    asked: Options = options(Options, "demo", "Watch active learning find rare pairs in a small synthetic task.")
    task, cluster = asked.out / "task", ClusterConfig()
    # Before anything is written: a bad option is refused here.
    configs = {strategy: config_of(asked, task, strategy) for strategy in STRATEGIES}
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
    print(aligned(rows))
    print(f"\nruns: {asked.out}/{{{','.join(STRATEGIES)}}}  (metrics.jsonl, round-NNN/model, events/ for TensorBoard)")


def config_of(asked: Options, task: Path, strategy: Strategy) -> RunConfig:
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
        found = measured(bound_config(folder.path), cluster, folder, "test", 0, Progress())
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


if __name__ == "__main__":
    job(main)
