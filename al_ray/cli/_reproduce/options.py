"""Options of the command reproduce."""

from dataclasses import dataclass, field, replace
from typing import Annotated

import tyro

from al_ray.active_learning.config import RunConfig
from al_ray.apps.cross_encoder.options import NEAR_PAIRS, RANDOM_PAIRS, TrainConfig
from al_ray.apps.grid.spec import GridConfig
from al_ray.apps.papers.reproduction.targets import Target
from al_ray.cli._shared.blocks import Block, Cluster
from al_ray.cli._shared.option_types import PathOrUri, Words
from al_ray.cli.grid import Scheduling
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
    near_pairs: int = NEAR_PAIRS
    """Maximum number of near negatives to score."""
    random_pairs: int = RANDOM_PAIRS
    """Random negatives to score and weight."""


@dataclass(frozen=True, kw_only=True)
class ReproduceCommand:
    """A table or figure of the paper, of any task; rerun the same command to resume."""

    # The table decides the options that are left out.
    config: Annotated[RunConfig, Block(without=("strategy", "seeding", "matched", "oracle"), merged=True)] = field(
        metadata={"defaults": {"evaluation": EvaluationConfig(splits=("dev", "test"))}}
    )
    """The options that all runs have in common."""
    target: tyro.conf.Positional[Target]
    """Which: table2 (models of stated pairs), table3 (strategies), table4 (positives found), table5 (stratified),
    table6 (models on the collected labels), figure3 (seed sets, calibration), figure4 (AP and positives by labels)."""
    out: PathOrUri
    """Folder of all tables. Complete runs and models in it are used again."""
    seeds: Annotated[int, Between(1, 1_000)] = 3
    """Number of seeds: --seed and the next ones."""
    concat: ConcatConfig = field(default_factory=ConcatConfig)
    cluster: Cluster = field(default_factory=ClusterConfig)
    scheduling: Scheduling = field(default_factory=GridConfig)
    dry_run: bool = False
    """Print which runs and trainings there are to do; start nothing."""

    def cross_encoder(self, encoder: str, task: Task) -> TrainConfig:
        """Return the options of a cross-encoder's training; its labels and seed are replaced later."""
        config, epochs = self.config, self.concat.epochs or (2 if task.symmetric else 3)
        return TrainConfig(
            task=config.task, labels="-", concat_batch=self.concat.batch, search=config.search,
            **vars(replace(part(config, EncoderOptions), encoder=encoder)),
            training=replace(config.training, epochs=epochs, workers=1),
            evaluation=EvaluationConfig(
                splits=("test",), near_pairs=self.concat.near_pairs, random_pairs=self.concat.random_pairs,
                seed=config.evaluation.seed, near_neighbours=config.evaluation.near_neighbours,
            ),
        )  # fmt: skip
