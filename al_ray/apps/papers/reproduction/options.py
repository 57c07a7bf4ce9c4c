"""Options of the cross-encoders of a reproduction."""

from dataclasses import dataclass, replace
from typing import Annotated

from al_ray.active_learning.config import RunConfig
from al_ray.apps.cross_encoder.options import NEAR_PAIRS, RANDOM_PAIRS, TrainConfig
from al_ray.core.config.bounds import Between
from al_ray.core.config.encoder import EncoderOptions
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.config.serialization import part
from al_ray.core.task import Task


@dataclass(frozen=True)
class ConcatConfig:
    """Cross-encoders of Tables 2 and 6; other options as in the command train."""

    encoders: tuple[str, ...] = ()
    """Encoders to start from. Default: --encoder."""
    epochs: Annotated[int | None, Between(1, 100_000)] = None
    """Epochs. Default: the paper's, 2 for a symmetric task (QQP), 3 for a two-sided one (WikiQA)."""
    batch: Annotated[int, Between(1, 1_000_000)] = 32
    """Pairs per training step (3.1.3)."""
    near_pairs: int = NEAR_PAIRS
    """Maximum number of near negatives to score."""
    random_pairs: int = RANDOM_PAIRS
    """Random negatives to score and weight."""


def cross_encoder(config: RunConfig, concat: ConcatConfig, encoder: str, task: Task) -> TrainConfig:
    """Return the options of a cross-encoder's training; its labels and seed are replaced later."""
    epochs = concat.epochs or (2 if task.symmetric else 3)
    return TrainConfig(
        task=config.task, labels="-", concat_batch=concat.batch, search=config.search,
        **vars(replace(part(config, EncoderOptions), encoder=encoder)),
        training=replace(config.training, epochs=epochs, workers=1),
        evaluation=EvaluationConfig(
            splits=("test",), near_pairs=concat.near_pairs, random_pairs=concat.random_pairs,
            seed=config.evaluation.seed, near_neighbours=config.evaluation.near_neighbours,
        ),
    )  # fmt: skip
