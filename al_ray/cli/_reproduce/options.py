"""Options of the command reproduce."""

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

import tyro

from al_ray.active_learning.config import RunConfig
from al_ray.apps.cross_encoder.options import TrainConfig
from al_ray.apps.grid.spec import GridConfig
from al_ray.apps.papers.reproduction.targets import Target
from al_ray.cli._shared.option_types import PathOrUri, Words
from al_ray.core.config.bounds import Between
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.encoder import EncoderOptions
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.config.serialization import part
from al_ray.core.task import Task


@dataclass(frozen=True)
class ConcatConfig:
    """Cross-encoders of Tables 2 and 6; other options as in the command train."""

    encoders: Words = ()
    """Encoders to start from. Default: --encoder."""
    epochs: Annotated[int | None, Between(1, 100_000)] = None
    """Epochs. Default: the paper's, 2 for a symmetric task (QQP), 3 for a two-sided one (WikiQA)."""
    batch: Annotated[int, Between(1, 1_000_000)] = 32
    """Pairs per training step (3.1.3)."""
    near_pairs: int = 300_000
    """Maximum number of near negatives to score."""
    random_pairs: int = 300_000
    """Random negatives to score and weight."""


@dataclass(frozen=True, kw_only=True)
class ReproduceCommand(RunConfig):
    """A table or figure of the paper, of any task; rerun the same command to resume."""

    # The table decides them.
    UNUSED: ClassVar[tuple[str, ...]] = ("strategy", "seeding", "matched", "oracle")

    target: tyro.conf.Positional[Target]
    """Which: table2 (models of stated pairs), table3 (strategies), table4 (positives found), table5 (stratified),
    table6 (models on the collected labels), figure3 (seed sets, calibration), figure4 (AP and positives by labels)."""
    out: PathOrUri
    """Folder of all tables. Complete runs and models in it are used again."""
    seeds: Annotated[int, Between(1, 1_000)] = 3
    """Number of seeds: --seed and the next ones."""
    evaluation: EvaluationConfig = field(default_factory=lambda: EvaluationConfig(splits=("dev", "test")))
    concat: ConcatConfig = field(default_factory=ConcatConfig)
    cluster: tyro.conf.OmitArgPrefixes[ClusterConfig] = field(default_factory=ClusterConfig)
    scheduling: tyro.conf.OmitArgPrefixes[GridConfig] = field(default_factory=GridConfig, metadata={"heading": "grid"})
    dry_run: bool = False
    """Print which runs and trainings there are to do; start nothing."""

    @property
    def config(self) -> RunConfig:
        """The options that all runs have in common."""
        return part(self, RunConfig)

    def cross_encoder(self, encoder: str, task: Task) -> TrainConfig:
        """Return the options of a cross-encoder's training; its labels and seed are replaced later."""
        epochs = self.concat.epochs or (2 if task.symmetric else 3)
        return TrainConfig(
            task=self.task, labels="-", concat_batch=self.concat.batch, search=self.search,
            **vars(replace(part(self, EncoderOptions), encoder=encoder)),
            training=replace(self.training, epochs=epochs, workers=1),
            evaluation=EvaluationConfig(
                splits=("test",), near_pairs=self.concat.near_pairs, random_pairs=self.concat.random_pairs,
                seed=self.evaluation.seed, near_neighbours=self.evaluation.near_neighbours,
            ),
        )  # fmt: skip
