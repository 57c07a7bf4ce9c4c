"""Carry out jobs.run: run with progress, and print a line a round."""

from dataclasses import replace
from typing import Any

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.stopping import NEVER, StopConfig, end_reason
from al_ray.cli._run.options import Options
from al_ray.cli._shared.progress import Progress
from al_ray.cluster import run as cluster_run
from al_ray.cluster.run import RunSpec
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.text_table import format_columns
from al_ray.runs.run_folder import RunFolder, bought_by
from al_ray.storage.uri import StoragePath

ASKING = OracleConfig()


def carry_out(asked: Options) -> None:
    """Run, and print what came of it."""
    config = asked.run if asked.match is None else replace(asked.run, matched=bought_by(asked.match))
    folder = run(config, asked.cluster, asked.out, asked.asking, asked.stop)
    print(table(folder.metrics()))
    print(f"results: {folder.path}")


def run(
    config: RunConfig, cluster: ClusterConfig, out: StoragePath, asking: OracleConfig = ASKING, stop: StopConfig = NEVER
) -> RunFolder:
    """Run to the end, from wherever the folder is, with progress and a line a round."""
    watch = Progress()

    def told(line: dict[str, Any]) -> None:
        watch.close()
        print(of_round(line), flush=True)

    folder = cluster_run.run(RunSpec(config, cluster, asking, stop), out, watch, told)
    why = end_reason(config, stop, folder.complete_rounds())
    if why is not None:
        print(why)
    return folder


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
    return format_columns(rows)
