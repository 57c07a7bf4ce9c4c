"""The command report: python -m jobs.report FOLDER... --out DIR

DIR/report.html (one file, opens offline), DIR/summary.md, DIR/summary.parquet, DIR/figures/*.png and *.svg.
"""

from dataclasses import dataclass
from typing import Annotated

import tyro

import al_ray
from al_ray.cli._shared.called import as_called
from al_ray.cli._shared.entry import parse_options
from al_ray.cli._shared.option_types import PathOrUri
from al_ray.core.config.bounds import Between


@dataclass(frozen=True)
class ReportCommand:
    """Compare any mix of run and grid folders."""

    folders: tyro.conf.Positional[tuple[PathOrUri, ...]]
    """Run folders and grid folders."""
    out: PathOrUri
    """Folder of the report; files of an earlier report are replaced."""
    examples: Annotated[int, Between(0, 10_000)] = 10
    """Error examples of each kind to show of a run; a run records --evaluation.examples of them."""


OPTIONS = ReportCommand


def main() -> None:
    """Parse the options, write the report and print a line for each run."""
    options = parse_options(OPTIONS, "report", "Tables, curves and examples of runs and grids.")
    for run in al_ray.report(options.folders, options.out, options.examples, called=as_called):
        print(f"{run.name}: {run.trouble or 'complete'}")
    print(f"wrote {options.out / 'report.html'}")
