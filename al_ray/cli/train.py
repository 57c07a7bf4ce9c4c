"""The command train: python -m jobs.train --labels RUN|FILE|stated --model concat --task TASK --out DIR

concat is a cross-encoder, which reads both texts of a pair together; cosine is the bi-encoder of the command run. Rerun
the same command to resume; --dry-run prints what there is to do. Every option: --help.
"""

import sys
from dataclasses import dataclass, field
from typing import Annotated

import al_ray
from al_ray.cli._evaluate.printout import print_difference, print_evaluation
from al_ray.cli._shared.blocks import Block, Cluster
from al_ray.cli._shared.entry import as_called, parse_options, value_of
from al_ray.cli._shared.option_types import ColumnNames, PathOrUri
from al_ray.cli._shared.progress import Progress
from al_ray.cli._shared.recipe import recipe_defaults
from al_ray.cli.run import run
from al_ray.core.config.bounds import Between, Group
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.recipes import RecipeName, RecipeOptions
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import BadOption


@dataclass(frozen=True, kw_only=True)
class TrainCommand(al_ray.TableOptions):
    """Train a model on existing labels; rerun the same command to resume."""

    # There is one round, whose pairs are given.
    config: Annotated[al_ray.TrainConfig, Block(without=("training.start", "search.ordered_pairs"), merged=True)]
    """The options that decide the results."""
    out: PathOrUri
    """Folder of the model. If it holds this training, the training is resumed. With cosine it is a run folder of one
    round."""
    rerank: PathOrUri | None = None
    """Concat: a run folder, whose last model retrieves the --top pairs that the concat model then ranks; average
    precision of both stages over all pairs of every --evaluation.splits."""
    top: Annotated[int, Between(1, 10**9)] = 10_000
    """K: pairs that --rerank retrieves."""
    columns: ColumnNames = "left_id,right_id,label"
    """Columns of a table of labels: the two ids and the label (1/0, yes/no). Two columns: all are matches."""
    recipe: Annotated[RecipeName, Group(RecipeOptions.HEADING)] = "paper"
    """Cosine: defaults of the options of training, each of which can be given beside it (docs/recipes.md). Pairs are
    ranked by the cosine with each recipe. `--recipe tuned --help all` shows the values of tuned."""
    dry_run: bool = False
    """Print how many pairs and steps there are to do, and end."""
    cluster: Cluster = field(default_factory=ClusterConfig)


OPTIONS = TrainCommand


def parse_arguments(arguments: list[str]) -> TrainCommand:
    """Parse a command line; --recipe gives the defaults of the options of training."""
    default = recipe_defaults(arguments, ("training",))
    description = "Train a model on existing labels, and evaluate it over all pairs."
    cross_encoder = value_of("--model", arguments) != "cosine"
    recipe = value_of("--recipe", arguments)
    if cross_encoder and recipe in {"gentle", "tuned"} and not {"-h", "--help"} & set(arguments):
        raise BadOption(f"--recipe {recipe} is for --model cosine; give that, or leave --recipe out")
    if recipe == "records":
        raise BadOption("--recipe records trains no encoder; give it to jobs.run, or leave it out")
    options: TrainCommand = parse_options(TrainCommand, "train", description, arguments, default)
    return options


def main() -> None:
    """Parse the options, train, evaluate and print."""
    run_command(parse_arguments(sys.argv[1:]))


def run_command(options: TrainCommand) -> None:
    """Train, evaluate, print and write, continuing from the folder."""
    check_options(options)
    training = al_ray.plan_training(
        options.config, options.out, columns=options.columns, table=options, rerank=options.rerank, top=options.top
    )
    for line in training.lines():
        print(as_called(line), flush=True)
    if options.dry_run:
        return
    if options.config.model == "cosine":
        for line in run(training.first_round(), options.cluster, options.out).in_words():
            print(as_called(line))
        return
    progress = Progress()
    # Each evaluation is printed as soon as it is done.
    for evaluation, stages in training.evaluations(options.cluster, progress):
        progress.close()
        print_evaluation(evaluation)
        if stages is not None:
            first = stages.retriever
            print(f"the {first.top:,} highest of {first.folder.path}, ranked by {options.out}:")
            print_evaluation(stages.both)
            if stages.difference is not None:
                print_difference(stages.difference, "both stages", str(first.folder.path))
    print(f"results: {options.out}")


def check_options(options: TrainCommand) -> None:
    """Raise BadOption for options that do not go together, before anything is read."""
    config = options.config
    if config.model == "cosine" and (options.rerank is not None or config.like is not None):
        raise BadOption("--rerank and --like are for --model concat; leave them out with cosine")
    _check_unused_options(config)
    if options.rerank is not None and not config.evaluation.splits:
        raise BadOption("--rerank evaluates --evaluation.splits, and none is given; give one")


def _check_unused_options(config: al_ray.TrainConfig) -> None:
    """Raise BadOption for an option other than its default that the kind of model does not use."""
    if config.model == "cosine":
        if (config.concat_batch, config.slice_pairs) != (
            al_ray.TrainConfig.concat_batch,
            al_ray.TrainConfig.slice_pairs,
        ):
            raise BadOption("--concat-batch and --slice-pairs are for --model concat; leave them out with cosine")
        return
    if config.training.batch != TrainingConfig.batch:
        raise BadOption("--training.batch is for --model cosine; give --concat-batch")
    for name in ("head_rate", "initial_weight", "initial_bias", "worst_loss", "tries"):
        if getattr(config.training, name) != getattr(TrainingConfig, name):
            raise BadOption(f"--training.{name.replace('_', '-')} is for --model cosine; leave it out")
