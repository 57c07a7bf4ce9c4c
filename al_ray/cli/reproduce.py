"""A table or figure of the paper, of your task: python -m jobs.reproduce table3 --task TASK --out DIR [--seeds 3]

Runs what is missing through jobs.grid and jobs.train, prints the table in the paper's layout with the published figures
beside it, and writes DIR/TABLE.md and DIR/figures. One DIR serves all tables: what one has trained the next reads.
Every option: --help.
"""

import sys
from dataclasses import dataclass, field, replace
from typing import Annotated

import tyro

from al_ray.active_learning.config import RunConfig
from al_ray.apps.cross_encoder.options import TrainConfig
from al_ray.apps.grid.spec import GridConfig
from al_ray.apps.reporting.markdown import page
from al_ray.apps.reporting.plots import paper_figures as curves
from al_ray.apps.reporting.plots.learning_curves import Picture
from al_ray.apps.reporting.run_records import Run, Setting, TaskSummary, settings
from al_ray.apps.reporting.tables.by_round import batches, by_labels
from al_ray.apps.reporting.tables.comparisons import against_reference, efficiency
from al_ray.apps.reporting.tables.results import positives, results, stratified
from al_ray.apps.reporting.tables.table import Table
from al_ray.apps.reproduction import pipeline
from al_ray.apps.reproduction.pipeline import SPLIT, ReproductionJob
from al_ray.apps.reproduction.tables import ModelResult, other_models, paired_differences, stated_models
from al_ray.apps.reproduction.targets import TARGETS, Part, Target, parts
from al_ray.cli._grid.options import Words
from al_ray.cli._grid.pipeline import carried_out, planned
from al_ray.cli._shared.entry import PathOrUri, options
from al_ray.cli._shared.progress import Progress
from al_ray.cluster.session import refuse_lost
from al_ray.core.config.bounds import Between
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import EncoderOptions
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.config.serialization import part
from al_ray.core.errors import BadOption
from al_ray.core.task import Task
from al_ray.core.text_table import format_columns
from al_ray.datasets.task_folder import read_task
from al_ray.runs.run_folder import refuse_inside
from al_ray.storage.files import write_pictures, write_text
from al_ray.storage.uri import storage_path


@dataclass(frozen=True)
class ConcatConfig:
    """Cross-encoders of Tables 2 and 6; all else is as jobs.train has it."""

    encoders: Words = ()
    """What they start from; --encoder alone when not given."""
    epochs: Annotated[int | None, Between(1, 100_000)] = None
    """Passes; the paper's when not given: 2 for a task of one set of texts (QQP), 3 for one of two (WikiQA)."""
    batch: Annotated[int, Between(1, 1_000_000)] = 32
    """Pairs in a step (3.1.3)."""
    near_pairs: int = 300_000
    """At most so many near negatives are scored."""
    random_pairs: int = 300_000
    """Random negatives that are scored, and weighted."""


@dataclass(frozen=True, kw_only=True)
class Options(RunConfig):
    """A table or figure of the paper, of any task; resumable by the same command."""

    target: tyro.conf.Positional[Target]
    """Which: table2 (models of stated pairs), table3 (strategies), table4 (positives found), table5 (stratified),
    table6 (models on the collected labels), figure3 (seed sets, calibration), figure4 (AP and positives by labels)."""
    out: PathOrUri
    """Folder of all tables: made if it is not there, gone on with if it is."""
    seeds: Annotated[int, Between(1, 1_000)] = 3
    """How many seeds: --seed and those after it."""
    evaluation: EvaluationConfig = field(default_factory=lambda: EvaluationConfig(splits=("dev", SPLIT)))
    cluster: tyro.conf.OmitArgPrefixes[ClusterConfig] = field(default_factory=ClusterConfig)
    how: tyro.conf.OmitArgPrefixes[GridConfig] = field(default_factory=GridConfig, metadata={"heading": "grid"})
    concat: ConcatConfig = field(default_factory=ConcatConfig)
    dry_run: bool = False
    """Say which runs and trainings there are to be; start nothing."""

    @property
    def config(self) -> RunConfig:
        """What all runs have in common."""
        return part(self, RunConfig)

    def concatenation(self, encoder: str, task: Task) -> TrainConfig:
        """A cross-encoder's."""
        epochs = self.concat.epochs or (2 if task.symmetric else 3)
        return TrainConfig(
            task=self.task, labels="-", concat_batch=self.concat.batch, search=self.search,
            **vars(replace(part(self, EncoderOptions), encoder=encoder)),
            training=replace(self.training, epochs=epochs, workers=1),
            evaluation=EvaluationConfig(
                splits=(SPLIT,), near_pairs=self.concat.near_pairs, random_pairs=self.concat.random_pairs,
                seed=self.evaluation.seed, near_neighbours=self.evaluation.near_neighbours,
            ),
        )  # fmt: skip


def main() -> None:
    """Read the options, run what is missing, print and write; exit code 1 when a run is not complete."""
    asked: Options = options(Options, "reproduce", "A table or figure of the paper, of any task.")
    if not reproduce(asked):
        sys.exit(1)


def reproduce(asked: Options) -> bool:
    """Run what is missing, print and write; whether every run is complete."""
    refuse_mixed(asked)
    refuse_inside(asked.out, storage_path(asked.task))
    task = read_task(storage_path(asked.task))
    for split in {*asked.evaluation.splits}:
        task.measurable(split)
    needs, seeds = TARGETS[asked.target], tuple(range(asked.seed, asked.seed + asked.seeds))
    if needs.concat:
        task.stating(SPLIT)
    job = ReproductionJob(asked.out, task, seeds, asked.cluster, asked.how, carried_out, announce, Progress())
    made = parts(asked.target, asked.config)
    if asked.dry_run:
        print(plan(asked, job, made))
        return True
    runs = pipeline.carry_out(job, made)
    tables, pictures = shown(asked, job, made, runs)
    for table in tables:
        print(f"\n{words(table)}")
    for picture in pictures:
        write_pictures(asked.out / "figures" / picture.name, picture.files)
    write_text(asked.out / f"{asked.target}.md", page(titled(asked.target), tables, pictures, "figures"))
    print(f"wrote {asked.out / asked.target}.md")
    return not any(run.trouble for run in runs)


def announce(name: str) -> None:
    """Print the name of a result that is about to be measured."""
    print(f"measuring {name}", flush=True)


def titled(target: Target) -> str:
    """Return the heading of a target, as "Table 3 of the paper: results by strategy"."""
    return f"{target[:-1].capitalize()} {target[-1]} of the paper: {TARGETS[target].title}"


def refuse_mixed(asked: Options) -> None:
    """Options that do not go together, before anything is read."""
    refuse_lost(asked.out)
    for name in ("strategy", "seeding", "matched", "oracle"):
        if getattr(asked, name) != getattr(RunConfig(task=asked.task), name):
            raise BadOption(f"--{name} is {getattr(asked, name)}; the table decides it: leave it out")
    if SPLIT not in asked.evaluation.splits:
        raise BadOption(f"--evaluation.splits lacks {SPLIT}, which the paper's tables are of; add it")


def plan(asked: Options, job: ReproductionJob, made: tuple[Part, ...]) -> str:
    """What there is to do, that which is done already included."""
    lines = [f"{part.name}:\n{planned(job.grid(part))}" for part in made]
    for strategy in TARGETS[asked.target].concat:
        for encoder in encoders(asked):
            lines.append(f"a cross-encoder of {encoder} on the labels of {strategy}, seeds {len(job.seeds)}")
    return "\n".join(lines)


def encoders(asked: Options) -> tuple[str, ...]:
    """What cross-encoders start from."""
    return asked.concat.encoders or (asked.encoder,)


def shown(
    asked: Options, job: ReproductionJob, made: tuple[Part, ...], runs: list[Run]
) -> tuple[list[Table], list[Picture]]:
    """The tables and figures of the target."""
    setting, target = settings(runs)[0], asked.target
    if target in ("table2", "table6"):
        judged = models(asked, job, made[0])
        facts: TaskSummary = setting.task
        table = stated_models(facts, job.task.symmetric, judged) if target == "table2" else other_models(facts, judged)
        return [table], []
    if target == "table4":
        return [positives(setting, target)], []
    if target in ("table3", "table5"):
        main = results(setting, target) if target == "table3" else stratified(setting, target)
        less = paired_differences("uncertainty", pipeline.differences(job, made[0]))
        return there([main, less, against_reference(setting, target)]), []
    drawn = figure3(setting) if target == "figure3" else figure4(setting)
    tables = [by_labels(setting, target, split) for split in setting.splits]
    tables.append(batches(setting, target) if target == "figure3" else efficiency(setting, target))
    return there(tables), [picture for picture in drawn if picture is not None]


def there(tables: list[Table | None]) -> list[Table]:
    """Those that say something."""
    return [table for table in tables if table is not None]


def figure3(setting: Setting) -> list[Picture | None]:
    """Seed sets, and the calibration of what is bought."""
    drawn = [curves.seeding(setting, split, f"figure3a-{split}") for split in setting.splits]
    return [*drawn, curves.batch_calibration(setting, "figure3b")]


def figure4(setting: Setting) -> list[Picture | None]:
    """AP by labels, and the positives among them."""
    drawn = [curves.average_precision(setting, split, f"figure4a-{split}") for split in setting.splits]
    return [*drawn, curves.positive_share(setting, "figure4b")]


def models(asked: Options, job: ReproductionJob, part: Part) -> list[ModelResult]:
    """Both kinds of models of every strategy's labels."""
    heuristic = asked.target == "table2"
    judged = list(pipeline.judged(job, part, heuristic))
    for one in tuple(judged):
        if one.data in TARGETS[asked.target].concat:
            for encoder in encoders(asked):
                told = asked.concatenation(encoder, job.task)
                judged.append(pipeline.concat(job, part, one.data, one.seed, told, heuristic))
    return judged


def words(table: Table) -> str:
    """Return a table for a terminal."""
    return "\n".join([table.title, format_columns(table.lines), *table.notes])
