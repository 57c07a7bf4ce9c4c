"""One active-learning run: python -m jobs.run --task TASK --out RUN --strategy uncertainty --seed 0

The same command goes on where an earlier one stopped. Every option: --help.
"""

import sys
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

import tyro

from al_ray.cluster.session import refuse_lost, session
from al_ray.cluster.world import deployed_world
from al_ray.core import loop
from al_ray.core.config import ClusterConfig, RunConfig, as_dict, from_dict
from al_ray.core.records import State
from al_ray.data.run_folder import RunFolder, opened, read_json
from al_ray.data.tables import read_task
from jobs.entry import job
from jobs.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Options(RunConfig):
    """One active-learning run, resumable by the same command."""

    out: Path
    """Run folder: made if it is not there, gone on with if it is."""
    cluster: Annotated[ClusterConfig, tyro.conf.arg(name="")] = field(default_factory=ClusterConfig)
    config: Path | None = None
    """config.json of an earlier run: its options are the defaults of this one."""

    @property
    def run(self) -> RunConfig:
        """The options that decide the results."""
        return RunConfig(**{f.name: getattr(self, f.name) for f in fields(RunConfig)})


def main() -> None:
    """Read the options, run, and print what came of it."""
    options = parsed(sys.argv[1:])
    folder = run(options.run, options.cluster, options.out)
    print(table(folder.metrics()))
    print(f"results: {folder.path}")


def run(config: RunConfig, cluster: ClusterConfig, out: Path) -> RunFolder:
    """Run to the end, from wherever the folder is."""
    refuse_lost(out)
    task = read_task(Path(config.task))
    for name in ("train", *config.evaluation.splits):
        task.split(name)
    with opened(out, task) as journal:
        journal.bind({**as_dict(config), "task_digest": task.digest})
        state = journal.state()
        if state.round < len(config.batches):
            _go_on(config, cluster, journal, state)
    return journal


def _go_on(config: RunConfig, cluster: ClusterConfig, journal: RunFolder, state: State) -> None:
    watch = Progress()
    with session(cluster), deployed_world(config, cluster, journal.task, journal, watch) as world:
        for _ in loop.run(config, journal.task.split("train"), world, state):
            watch.close()
            print(table(journal.metrics()[-1:]), flush=True)


def parsed(arguments: list[str]) -> Options:
    """The options of a command line; those of --config stand where the line is silent."""
    default: Any = None
    if "--config" in arguments:
        content = read_json(Path(arguments[arguments.index("--config") + 1]))
        default = from_dict(RunConfig, {name: value for name, value in content.items() if name != "task_digest"})
        kept = {f.name: getattr(default, f.name) for f in fields(RunConfig)}
        default = Options(**kept, out=tyro.MISSING)
    return tyro.cli(Options, args=arguments, default=default, prog="python -m jobs.run", description=__doc__)


def table(lines: list[dict[str, Any]]) -> str:
    """A line a round."""
    rows: list[tuple[str, ...]] = [("round", "labels", "positives", "AP %", "P@R20 %", "boundary", "seconds")]
    for line in lines:
        shares = [
            "-" if line[name] is None else f"{100 * line[name]:.1f}"
            for name in ("average_precision", "precision_at_recall_20")
        ]
        boundary = "-" if line["boundary"] is None else f"{line['boundary']:.3f}"
        seconds = f"{sum(line['seconds'].values()):.0f}"
        counted = [f"{line[name]:,}" for name in ("round", "labels", "positives")]
        rows.append((*counted, *shares, boundary, seconds))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


if __name__ == "__main__":
    job(main)
