"""Tables, curves and examples of runs and grids: python -m jobs.report FOLDER... --out DIR

DIR/report.html (one file, opens offline), DIR/summary.md, DIR/summary.parquet, DIR/figures/*.png and *.svg.
"""

from dataclasses import dataclass
from typing import Annotated

import tyro

from al_ray.cli._shared.entry import PathOrUri, options
from al_ray.core.config.bounds import Between


@dataclass(frozen=True)
class Options:
    """Compare any mix of run and grid folders."""

    folders: tyro.conf.Positional[tuple[PathOrUri, ...]]
    """Folders that jobs.run or jobs.grid made."""
    out: PathOrUri
    """Folder of the report; files of an earlier report are replaced."""
    examples: Annotated[int, Between(0, 10_000)] = 10
    """Pairs of each kind shown of a run; a run records --evaluation.examples of them."""


def main() -> None:
    """Write the report, and print a line a run."""
    given: Options = options(Options, "report", "Tables, curves and examples of runs and grids.")
    from al_ray.api.reports import report

    for run in report(given.folders, given.out, given.examples):
        print(f"{run.name}: {run.trouble or 'complete'}")
    print(f"wrote {given.out / 'report.html'}")
