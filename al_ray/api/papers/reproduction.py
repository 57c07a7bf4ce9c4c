"""Run what a table or figure of the paper lacks, and write it, of any task."""

from collections.abc import Callable
from dataclasses import dataclass

from al_ray.active_learning.config import RunConfig
from al_ray.api.grids import GridJob
from al_ray.apps.grid.spec import GridConfig
from al_ray.apps.papers.reproduction import pipeline
from al_ray.apps.papers.reproduction.options import ConcatConfig, cross_encoder
from al_ray.apps.papers.reproduction.pipeline import SPLIT, ReproductionJob
from al_ray.apps.papers.reproduction.tables import ModelResult, other_models, paired_differences, stated_models
from al_ray.apps.papers.reproduction.targets import TARGETS, Part, Target, parts
from al_ray.apps.reporting.markdown import page
from al_ray.apps.reporting.plots import paper_figures as curves
from al_ray.apps.reporting.plots.learning_curves import Picture
from al_ray.apps.reporting.run_records import Run, settings
from al_ray.apps.reporting.tables.by_round import batches, by_labels
from al_ray.apps.reporting.tables.comparisons import against_reference, efficiency
from al_ray.apps.reporting.tables.results import positives, results, stratified
from al_ray.apps.reporting.tables.table import Table
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.progress import OnProgress
from al_ray.core.text_table import format_columns
from al_ray.datasets.task_folder import read_task
from al_ray.runs.place import check_outside_task
from al_ray.storage.files import write_pictures, write_text
from al_ray.storage.uri import StoragePath, storage_path


@dataclass(frozen=True)
class ReproductionSpec:
    """What is reproduced: a target, the options that all its runs have in common, and the number of seeds."""

    target: Target
    config: RunConfig
    concat: ConcatConfig
    seeds: int
    cluster: ClusterConfig
    scheduling: GridConfig


@dataclass(frozen=True)
class Reproduction:
    """A reproduction, checked and not begun."""

    spec: ReproductionSpec
    job: ReproductionJob
    grids: tuple[Part, ...]

    def plan(self) -> str:
        """Format all runs and cross-encoders of the target, those that are complete included."""
        lines = [f"{part.name}:\n{GridJob(self.job.grid(part)).table()}" for part in self.grids]
        for strategy in TARGETS[self.spec.target].concat:
            for encoder in _encoders(self.spec):
                lines.append(f"a cross-encoder of {encoder} on the labels of {strategy}, seeds {len(self.job.seeds)}")
        return "\n".join(lines)

    def run(self, called: Callable[[str], str]) -> tuple[list[str], bool]:
        """Run what is missing and write the target; return its tables in words, and whether every run is complete.

        called: of a text that names options in Python, the text that is printed and written.
        """
        target, out = self.spec.target, self.job.out
        runs = pipeline.run_parts(self.job, self.grids)
        tables, pictures = _build(self.spec, self.job, self.grids[0], runs)
        tables = [table.in_words(called) for table in tables]
        for picture in pictures:
            write_pictures(out / "figures" / picture.name, picture.files)
        heading = f"{target[:-1].capitalize()} {target[-1]} of the paper: {TARGETS[target].title}"
        write_text(out / f"{target}.md", page(heading, tables, pictures, "figures"))
        words = [line for table in tables for line in ("", table.title, format_columns(table.lines), *table.notes)]
        return words, not any(run.trouble for run in runs)


def open_reproduction(
    spec: ReproductionSpec,
    out: StoragePath,
    on_grid: Callable[[GridJob], object],
    on_result: Callable[[str], None],
    on_progress: OnProgress,
) -> Reproduction:
    """Read the task, after all checks that can fail before any work.

    out: folder of all targets, which share runs and models in it. on_grid: called with each grid, to run it to its end.
    on_result: called with the name of a result that is about to be measured.

    Raises:
        BadOption: if `out` lies in the task folder.
        MissingSplit: if the task lacks a split that is measured.
    """
    check_outside_task(out, storage_path(spec.config.task))
    task = read_task(storage_path(spec.config.task))
    for split in {*spec.config.evaluation.splits}:
        task.measurable(split)
    if TARGETS[spec.target].concat:
        task.stating(SPLIT)
    seeds = tuple(range(spec.config.seed, spec.config.seed + spec.seeds))
    job = ReproductionJob(
        out, task, seeds, spec.cluster, spec.scheduling, lambda grid: on_grid(GridJob(grid)), on_result, on_progress
    )
    return Reproduction(spec, job, parts(spec.target, spec.config))


def _encoders(spec: ReproductionSpec) -> tuple[str, ...]:
    """Return the encoders that cross-encoders start from."""
    return spec.concat.encoders or (spec.config.encoder,)


def _build(
    spec: ReproductionSpec, job: ReproductionJob, grid: Part, runs: list[Run]
) -> tuple[list[Table], list[Picture]]:
    """Build the tables and figures of the target."""
    setting, target = settings(runs)[0], spec.target
    tables: list[Table | None]
    pictures: list[Picture | None] = []
    if target == "table2":
        tables = [stated_models(setting.task, job.task.symmetric, _model_results(spec, job, grid))]
    elif target == "table6":
        tables = [other_models(setting.task, _model_results(spec, job, grid))]
    elif target == "table4":
        tables = [positives(setting, target)]
    elif target in ("table3", "table5"):
        main = results(setting, target) if target == "table3" else stratified(setting, target)
        differences = paired_differences("uncertainty", pipeline.differences(job, grid))
        tables = [main, differences, against_reference(setting, target)]
    else:
        tables = [by_labels(setting, target, split) for split in setting.splits]
        if target == "figure3":
            tables.append(batches(setting, target))
            pictures = [curves.seeding(setting, split, f"figure3a-{split}") for split in setting.splits]
            pictures.append(curves.batch_calibration(setting, "figure3b"))
        else:
            tables.append(efficiency(setting, target))
            pictures = [curves.average_precision(setting, split, f"figure4a-{split}") for split in setting.splits]
            pictures.append(curves.positive_share(setting, "figure4b"))
    return [table for table in tables if table is not None], [one for one in pictures if one is not None]


def _model_results(spec: ReproductionSpec, job: ReproductionJob, grid: Part) -> list[ModelResult]:
    """Evaluate the bi-encoders of a grid, and the cross-encoders on the labels of some of its runs."""
    heuristic = spec.target == "table2"
    models = list(pipeline.bi_encoder_results(job, grid, heuristic))
    for one in tuple(models):
        if one.data in TARGETS[spec.target].concat:
            for encoder in _encoders(spec):
                config = cross_encoder(spec.config, spec.concat, encoder, job.task)
                models.append(pipeline.concat(job, grid, one.data, one.seed, config, heuristic))
    return models
