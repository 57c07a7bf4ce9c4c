"""Training on one worker, or on several actors that exchange gradients (trainer_group.py)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from al_ray.cluster.places import BundleSlots
from al_ray.cluster.watchdog import watched
from al_ray.cluster.workers import deploy, stream_results
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.labels import Labelled, Model
from al_ray.training.optimizer import Step
from al_ray.training.trainer import Trainer, TrainerSpec


class Training(Protocol):
    """training.trainer.Trainer.train, on any number of workers."""

    actors: list[Any]

    def __call__(self, labelled: Labelled, number: int, start: Model | None, folder: str) -> Iterator[Step | Model]:
        """Train the model of round `number`; yield steps and the model."""
        ...


@contextmanager
def deploy_training(spec: TrainerSpec, config: ClusterConfig, slots: BundleSlots | None = None) -> Iterator[Training]:
    """Start as many actors as the spec has workers; they end with the context. NoPlacement as for shards."""
    if spec.training.workers == 1:
        with deploy(watched_trainer(Trainer), [spec], config, slots) as actors:
            yield SingleTrainer(actors)
        return
    # Not at the top: it needs Ray.
    from al_ray.cluster.trainer_group import deploy_group

    with deploy_group(watched_trainer(Trainer), spec, config, slots) as group:
        yield group


def watched_trainer(trainer: type[Trainer]) -> Callable[[TrainerSpec], Trainer]:
    """Return what makes the trainer of an actor, which ends itself when a step of a training hangs.

    trainer: the class of trainers, whose name the actor has.
    """

    def make(spec: TrainerSpec) -> Trainer:
        return trainer(spec, watched)

    make.__name__ = trainer.__name__
    return make


def model_of(events: Iterator[Step | Model], on_step: Callable[[Step], None]) -> Model:
    """Call `on_step` with each step of a training and return its model."""
    model = None
    # Read the stream to its end: Ray treats a stream that is abandoned early as a failed task.
    for event in events:
        if isinstance(event, Model):
            model = event
        else:
            on_step(event)
    assert model is not None
    return model


def training_events(begin: Callable[[], Any]) -> Iterator[Step | Model]:
    """Yield the steps and the model of a training on one actor.

    Ray replays the stream of an actor that died. If that was after it saved the model, the replay is shorter than what
    was read, and the stream ends without the model. The training is then begun again, which reads the model.

    begin: makes the streaming call.
    """
    found = False
    while not found:
        for event in stream_results(begin()):
            found = isinstance(event, Model)
            yield event


class SingleTrainer:
    """An actor that trains alone."""

    def __init__(self, actors: list[Any]) -> None:
        """actors: one."""
        self.actors = actors

    def __call__(self, labelled: Labelled, number: int, start: Model | None, folder: str) -> Iterator[Step | Model]:
        """Yield what the actor yields."""
        (actor,) = self.actors
        train = actor.train.options(num_returns="streaming")
        return training_events(lambda: train.remote(labelled, number, start, folder))
