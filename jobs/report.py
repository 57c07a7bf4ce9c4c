"""Tables, curves and examples of runs and grids: python -m jobs.report FOLDER... --out DIR

DIR/report.html (one file, opens offline), DIR/summary.md, DIR/summary.parquet, DIR/figures/*.png and *.svg.
"""

from collections import Counter
from dataclasses import dataclass, replace

import tyro

from al_ray.core.config import refuse_beyond
from al_ray.core.errors import BadOption
from al_ray.core.runs import Run
from al_ray.data.files import write_pictures, write_text
from al_ray.data.runs import read_runs
from al_ray.data.summaries import write_summary
from al_ray.reports.markdown import markdown
from al_ray.reports.page import page
from al_ray.reports.report import report
from al_ray.reports.summary import rows
from al_ray.storage.places import Place
from jobs.entry import PathOrUri, job, options


@dataclass(frozen=True)
class Options:
    """Any mix of run and grid folders, compared."""

    folders: tyro.conf.Positional[tuple[PathOrUri, ...]]
    """Folders that jobs.run or jobs.grid made."""
    out: PathOrUri
    """Folder of the report: made if it is not there, written over if it is."""
    examples: int = 10
    """Pairs of each kind to show of a run; runs keep --evaluation.examples of them."""


def main() -> None:
    """Read, write, and print the main table."""
    asked: Options = options(Options, "report", "Tables, curves and examples of runs and grids.")
    refuse_beyond(((asked.examples, "--examples", 0, 10_000),))
    refuse_run(asked.out)
    runs = named(asked.folders)
    made = report(runs, asked.examples)
    for picture in made.pictures:
        write_pictures(asked.out / "figures" / picture.name, picture.files)
    write_summary(asked.out / "summary.parquet", rows(runs))
    write_text(asked.out / "summary.md", markdown(made, "figures"))
    write_text(asked.out / "report.html", page(made))
    for run in runs:
        print(f"{run.name}: {run.trouble or 'complete'}")
    print(f"wrote {asked.out / 'report.html'}")


def refuse_run(out: Place) -> None:
    """BadOption for a folder of something else: a grid has a summary.md of its own."""
    for name in ("config.json", "grid.json", "task.json"):
        if (out / name).exists():
            raise BadOption(f"--out {out} is a folder of something else (it has {name}); give the report its own")


def named(folders: tuple[Place, ...]) -> list[Run]:
    """The runs of all folders, each folder once; of two that bear one name, the later is numbered."""
    if not folders:
        raise BadOption("no folder is given; give folders that jobs.run or jobs.grid made")
    runs = [run for folder in dict.fromkeys(folder.resolve() for folder in folders) for run in read_runs(folder)]
    seen = Counter[str]()
    unlike: list[Run] = []
    for run in runs:
        seen[run.name] += 1
        unlike.append(run if seen[run.name] == 1 else replace(run, name=f"{run.name} ({seen[run.name]})"))
    return unlike


if __name__ == "__main__":
    job(main)
