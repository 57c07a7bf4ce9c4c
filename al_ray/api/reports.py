"""Write a report of runs and grids."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from al_ray.apps.reporting.export import write_summary
from al_ray.apps.reporting.html import page
from al_ray.apps.reporting.markdown import markdown
from al_ray.apps.reporting.read_runs import read_runs
from al_ray.apps.reporting.report import report as report_of
from al_ray.apps.reporting.run_records import Run as RunRecord
from al_ray.core.config.bounds import Between
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.runs.place import check_lasting_path
from al_ray.storage.files import write_pictures, write_text
from al_ray.storage.uri import StoragePath, storage_path


def report(
    folders: Sequence[str | StoragePath],
    out: str | StoragePath,
    examples: int = 10,
    *,
    called: Callable[[str], str] = str,
) -> list[RunRecord]:
    """Compare the runs of run and grid folders in one page, `out`/report.html, and return their records.

    Also writes summary.md, summary.parquet (a row for each run, round and split) and figures/*.png and *.svg. examples:
    error examples of each kind per run. `trouble` of a record says why a run is not complete; it is empty if the run
    is complete. called: turns a sentence that names an option into what the report shows.

    Examples:
        >>> [record.trouble for record in al_ray.report([folder / "run"], folder / "report")]
        ['']
        >>> (folder / "report" / "report.html").is_file()
        True

    Raises:
        BadOption: if no folder is given, or `out` is a run, grid or task folder.
        WrongFolder: if a folder contains neither a run nor a grid.
    """
    Between(0, 10_000).check(examples, "examples")
    target = storage_path(str(out))
    check_lasting_path(target)
    _check_report_folder(target)
    runs = named([storage_path(str(folder)) for folder in folders])
    records = [replace(run, trouble=called(run.trouble)) for run in runs]
    content = report_of(records, examples).in_words(called)
    for picture in content.pictures:
        write_pictures(target / "figures" / picture.name, picture.files)
    write_summary(target / "summary.parquet", records)
    write_text(target / "summary.md", markdown(content, "figures"))
    write_text(target / "report.html", page(content))
    return records


def _check_report_folder(out: StoragePath) -> None:
    """Raise BadOption for a run, grid or task folder: a grid has a summary.md of its own."""
    for name in ("config.json", "grid.json", "task.json"):
        if (out / name).exists():
            raise BadOption(f"{option('out', out)} is another kind of folder (it has {name}); give the report its own")


def named(folders: Sequence[StoragePath]) -> list[RunRecord]:
    """Read the runs of all folders, each folder once; number runs of the same name."""
    if not folders:
        raise BadOption("no folder is given; give run folders or grid folders")
    runs = [run for folder in dict.fromkeys(folder.resolve() for folder in folders) for run in read_runs(folder)]
    counts, records = Counter[str](), list[RunRecord]()
    for run in runs:
        counts[run.name] += 1
        records.append(run if counts[run.name] == 1 else replace(run, name=f"{run.name} ({counts[run.name]})"))
    return records
