"""Run what a table or figure of the paper lacks, print it and write it."""

from al_ray.apps.papers.reproduction import pipeline
from al_ray.apps.papers.reproduction.pipeline import SPLIT, ReproductionJob
from al_ray.apps.papers.reproduction.tables import ModelResult, other_models, paired_differences, stated_models
from al_ray.apps.papers.reproduction.targets import TARGETS, Part, parts
from al_ray.apps.reporting.markdown import page
from al_ray.apps.reporting.plots import paper_figures as curves
from al_ray.apps.reporting.plots.learning_curves import Picture
from al_ray.apps.reporting.run_records import Run, settings
from al_ray.apps.reporting.tables.by_round import batches, by_labels
from al_ray.apps.reporting.tables.comparisons import against_reference, efficiency
from al_ray.apps.reporting.tables.results import positives, results, stratified
from al_ray.apps.reporting.tables.table import Table
from al_ray.cli._grid.pipeline import run_and_print, runs_table
from al_ray.cli._reproduce.options import ReproduceCommand
from al_ray.cli._shared.called import as_called
from al_ray.cli._shared.progress import Progress
from al_ray.core.errors import BadOption
from al_ray.core.text_table import format_columns
from al_ray.datasets.task_folder import read_task
from al_ray.runs.place import refuse_inside
from al_ray.storage.files import write_pictures, write_text
from al_ray.storage.uri import storage_path


def run_command(options: ReproduceCommand) -> bool:
    """Run what is missing, print and write; return whether every run is complete."""
    check_options(options)
    refuse_inside(options.out, storage_path(options.task))
    task = read_task(storage_path(options.task))
    for split in {*options.evaluation.splits}:
        task.measurable(split)
    needs, seeds = TARGETS[options.target], tuple(range(options.seed, options.seed + options.seeds))
    if needs.concat:
        task.stating(SPLIT)
    job = ReproductionJob(
        options.out, task, seeds, options.cluster, options.scheduling, run_and_print, announce, Progress()
    )
    grids = parts(options.target, options.config)
    if options.dry_run:
        print(plan(options, job, grids))
        return True
    runs = pipeline.run_parts(job, grids)
    tables, pictures = build(options, job, grids[0], runs)
    for table in tables:
        print("", table.title, format_columns(table.lines), *table.notes, sep="\n")
    for picture in pictures:
        write_pictures(options.out / "figures" / picture.name, picture.files)
    heading = f"{options.target[:-1].capitalize()} {options.target[-1]} of the paper: {needs.title}"
    write_text(options.out / f"{options.target}.md", page(heading, tables, pictures, "figures"))
    print(f"wrote {options.out / options.target}.md")
    return not any(run.trouble for run in runs)


def announce(name: str) -> None:
    """Print the name of a result that is about to be measured."""
    print(f"measuring {name}", flush=True)


def check_options(options: ReproduceCommand) -> None:
    """Raise BadOption for options that do not go together, before anything is read."""
    if SPLIT not in options.evaluation.splits:
        raise BadOption(f"--evaluation.splits lacks {SPLIT}, which the paper's tables are of; add it")


def plan(options: ReproduceCommand, job: ReproductionJob, grids: tuple[Part, ...]) -> str:
    """Format all runs and cross-encoders of the target, those that are complete included."""
    lines = [f"{part.name}:\n{runs_table(job.grid(part))}" for part in grids]
    for strategy in TARGETS[options.target].concat:
        for encoder in encoders(options):
            lines.append(f"a cross-encoder of {encoder} on the labels of {strategy}, seeds {len(job.seeds)}")
    return "\n".join(lines)


def encoders(options: ReproduceCommand) -> tuple[str, ...]:
    """Return the encoders that cross-encoders start from."""
    return options.concat.encoders or (options.encoder,)


def build(
    options: ReproduceCommand, job: ReproductionJob, grid: Part, runs: list[Run]
) -> tuple[list[Table], list[Picture]]:
    """Build the tables and figures of the target."""
    setting, target = settings(runs)[0], options.target
    tables: list[Table | None]
    pictures: list[Picture | None] = []
    if target == "table2":
        tables = [stated_models(setting.task, job.task.symmetric, model_results(options, job, grid))]
    elif target == "table6":
        tables = [other_models(setting.task, model_results(options, job, grid))]
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
    return [table.in_words(as_called) for table in tables if table is not None], [
        one for one in pictures if one is not None
    ]


def model_results(options: ReproduceCommand, job: ReproductionJob, grid: Part) -> list[ModelResult]:
    """Evaluate the bi-encoders of a grid, and the cross-encoders on the labels of some of its runs."""
    heuristic = options.target == "table2"
    models = list(pipeline.bi_encoder_results(job, grid, heuristic))
    for one in tuple(models):
        if one.data in TARGETS[options.target].concat:
            for encoder in encoders(options):
                config = options.cross_encoder(encoder, job.task)
                models.append(pipeline.concat(job, grid, one.data, one.seed, config, heuristic))
    return models
