"""Training on one actor, or on several of one placement group that all restart together when one of them dies."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

import ray
from ray.util import get_node_ip_address

from al_ray.cluster.actors import (
    BundleSlots,
    Placement,
    actor_class,
    deploy,
    get_results,
    kill_actors,
    placement,
    stream_results,
    wait_for_first,
)
from al_ray.cluster.fatal_errors import RESTARTS
from al_ray.cluster.watchdog import watched
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import ActorLost
from al_ray.core.labels import Labelled, Model
from al_ray.training.optimizer import Step
from al_ray.training.trainer import Trainer, TrainerSpec

logger = logging.getLogger(__name__)

GRACE = 10.0  # Seconds to wait for the error of the worker that failed first, after another noticed its absence.


class Training(Protocol):
    """training.trainer.Trainer.train, on any number of actors."""

    actors: list[Any]

    def __call__(self, labelled: Labelled, number: int, start: Model | None, folder: str) -> Iterator[Step | Model]:
        """Train the model of round `number`; yield steps and the model."""
        ...


@contextmanager
def deploy_training(spec: TrainerSpec, config: ClusterConfig, room: BundleSlots | None = None) -> Iterator[Training]:
    """Start as many actors as the spec has workers; they end with the context. NoPlacement as for shards."""
    if spec.training.workers == 1:
        with deploy(_watched(Trainer), [spec], config, room) as actors:
            yield SingleTrainer(actors)
        return
    with placement({Trainer.__name__: spec.training.workers}, config, "PACK", room) as places:
        group = TrainerGroup(spec, places)
        try:
            yield group
        finally:
            kill_actors(group.actors)


def _watched(trainer: type[Trainer]) -> type[Trainer]:
    """Return the class of an actor that ends itself when a step of its training hangs, under the same name."""

    def steps(self: Trainer, steps: Iterator[Step]) -> Iterator[Step]:
        return watched(trainer.steps(self, steps))

    return type(trainer.__name__, (trainer,), {"steps": steps})


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


class TrainerGroup:
    """Actors that train one model together by data parallelism."""

    def __init__(self, spec: TrainerSpec, places: Placement) -> None:
        """Start the actors."""
        self.spec, self.places = spec, places
        self.restarts = RESTARTS
        self.actors = self._start()

    def __call__(self, labelled: Labelled, number: int, start: Model | None, folder: str) -> Iterator[Step | Model]:
        """Yield what rank 0 yields; after a restart, steps repeat from the last checkpoint.

        All restart when one has died, or when a step raised RuntimeError, as errors of torch.distributed and lack of
        memory do. At most RESTARTS times, as for a shard.
        """
        labels = ray.put(labelled)
        while True:
            try:
                yield from self._train_together(labels, number, start, folder)
                return
            except (ActorLost, RuntimeError) as error:
                if not self.restarts:
                    raise
                self.restarts -= 1
                logger.warning(
                    "one of the training's workers was lost, all start again: %s", " ".join(str(error).split())
                )
                kill_actors(self.actors)
                self.actors = self._start()

    def _start(self) -> list[Any]:
        # Ray must not restart one worker alone: the others could not continue with it.
        trainer = ray.remote(actor_class(_watched(Trainer)))
        ranks = [replace(self.spec, rank=rank) for rank in range(self.spec.training.workers)]
        actors = [trainer.options(max_restarts=0, **self.places.options(spec.rank)).remote(spec) for spec in ranks]
        self.places.await_start([actor.check_device.remote(self.places.config.device) for actor in actors])
        return actors

    def _train_together(self, *arguments: Any) -> Iterator[Step | Model]:
        """Run one training on all actors. When one fails, the others fail too; the first one's own error is raised."""
        first, *others = self.actors
        host = get_results(first.__ray_call__.remote(lambda _: get_node_ip_address()))
        meeting = get_results(first.meet.remote(host))
        stream = first.train.options(num_returns="streaming").remote(*arguments, meeting)
        waiting = [stream, *(other.follow.remote(*arguments, meeting) for other in others)]
        failure = None
        while waiting:
            call = wait_for_first(waiting, None if failure is None else GRACE)
            if call is None:
                break
            try:
                if call is stream:
                    yield get_results(next(stream))
                else:
                    get_results(call)
                    waiting.remove(call)
            except StopIteration:
                waiting.remove(stream)
            except RuntimeError as error:
                failure = failure or error
                waiting.remove(call)
        if failure is not None:
            raise failure
