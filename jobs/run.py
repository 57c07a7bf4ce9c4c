"""One active-learning run: python -m jobs.run --task TASK --out RUN --strategy uncertainty --seed 0

The same command goes on where an earlier one stopped. Every option: --help.
"""

import sys
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Annotated, Any

import tyro

from al_ray.cluster import run as cluster_run
from al_ray.cluster.run import Work
from al_ray.core.config import ClusterConfig, RunConfig
from al_ray.core.stopping import NEVER, StopConfig, ended
from al_ray.data.run_folder import RunFolder, bought_by, bound_config
from al_ray.oracles.service import OracleConfig
from al_ray.storage.places import Place, place
from jobs.entry import PathOrUri, aligned, job, options
from jobs.progress import Progress

ASKING = OracleConfig()


@dataclass(frozen=True, kw_only=True)
class Options(RunConfig):
    """One active-learning run, resumable by the same command."""

    out: PathOrUri
    """Run folder, a path or a URI such as s3://bucket/run: made if it is not there, gone on with if it is."""
    cluster: Annotated[ClusterConfig, tyro.conf.arg(name="")] = field(default_factory=ClusterConfig)
    asking: Annotated[OracleConfig, tyro.conf.arg(name="")] = field(default_factory=OracleConfig)
    stop: StopConfig = NEVER
    match: PathOrUri | None = None
    """Of stratified-match: a run at its end, of which it draws as many positives and negatives."""
    config: PathOrUri | None = None
    """An earlier run's folder or its config.json: its options are the defaults of this one."""

    @property
    def run(self) -> RunConfig:
        """The options that decide the results."""
        return RunConfig(**{f.name: getattr(self, f.name) for f in fields(RunConfig)})


def main() -> None:
    """Read the options, run, and print what came of it."""
    asked = parsed(sys.argv[1:])
    config = asked.run if asked.match is None else replace(asked.run, matched=bought_by(asked.match))
    folder = run(config, asked.cluster, asked.out, asked.asking, asked.stop)
    print(table(folder.metrics()))
    print(f"results: {folder.path}")


def run(
    config: RunConfig, cluster: ClusterConfig, out: Place, asking: OracleConfig = ASKING, stop: StopConfig = NEVER
) -> RunFolder:
    """Run to the end, from wherever the folder is, with progress and a line a round."""
    watch = Progress()

    def told(line: dict[str, Any]) -> None:
        watch.close()
        print(of_round(line), flush=True)

    folder = cluster_run.run(Work(config, cluster, asking, stop), out, watch, told)
    why = ended(config, stop, folder.complete_rounds())
    if why is not None:
        print(why)
    return folder


def parsed(arguments: list[str]) -> Options:
    """The options of a command line; those of --config stand where the line is silent."""
    default = None
    # Both spellings that tyro takes; a --config without a path is tyro's to refuse.
    named = [value for option, value in pairwise(arguments) if option == "--config"]
    named += [argument.removeprefix("--config=") for argument in arguments if argument.startswith("--config=")]
    if named:
        path = place(named[-1])
        kept = bound_config(path.parent) if path.name == "config.json" else bound_config(path)
        default = Options(**{f.name: getattr(kept, f.name) for f in fields(RunConfig)}, out=tyro.MISSING)
    about = "One active-learning run; the same command goes on where an earlier one stopped."
    return options(Options, "run", about, arguments, default)


def of_round(line: dict[str, Any]) -> str:
    """A round's figures, and what is to be told of them."""
    return "\n".join([table([line]), *(f"warning: {said}" for said in line["warnings"])])


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
    return aligned(rows)


if __name__ == "__main__":
    job(main)
