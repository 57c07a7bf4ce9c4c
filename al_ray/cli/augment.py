"""The command augment: python -m jobs.augment --gold stsb:FOLDER --out DIR

Or on a task's own labels: --task TASK --labels RUN|FILE|stated. A cross-encoder is trained on gold pairs and labels
silver pairs that --sampler chooses; a bi-encoder is trained on both. Rerun the same command to resume; --dry-run prints
what there is to do. Every option: --help.
"""

from dataclasses import dataclass, field

from al_ray.api import papers
from al_ray.cli._shared.blocks import TrainingCluster
from al_ray.cli._shared.called import as_called
from al_ray.cli._shared.entry import parse_options
from al_ray.cli._shared.option_types import PathOrUri
from al_ray.cli._shared.progress import Progress
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.serialization import part


@dataclass(frozen=True, kw_only=True)
class AugmentCommand(papers.AugmentConfig):
    """Train on gold and silver labels; rerun the same command to resume."""

    out: PathOrUri
    """Folder of the models. If it holds this augmentation, it is resumed."""
    dry_run: bool = False
    """Print how many pairs and steps there are to do, and end."""
    cluster: TrainingCluster = field(default_factory=ClusterConfig)

    @property
    def config(self) -> papers.AugmentConfig:
        """The options that decide the results."""
        return part(self, papers.AugmentConfig)


OPTIONS = AugmentCommand


def main() -> None:
    """Parse the options, augment and print."""
    about = "Train a bi-encoder on gold labels and on silver labels by a cross-encoder."
    run_command(parse_options(OPTIONS, "augment", about))


def run_command(options: AugmentCommand) -> None:
    """Train teacher and students, print and write, continuing from the folder."""
    augmentation = papers.plan_augmentation(options.config)
    for line in augmentation.lines():
        print(as_called(line), flush=True)
    if options.dry_run:
        return
    progress = Progress()
    lines = augmentation.run(options.out, options.cluster, progress)
    progress.close()
    print(papers.augmentation_table(lines))
    print(f"results: {options.out}")
