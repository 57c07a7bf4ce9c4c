"""Training on several actors of one placement group, which all restart together when one of them dies."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import ray
from ray.util import get_node_ip_address

from al_ray.cluster.actor_host import ActorHandle, HostSpec, start_actor
from al_ray.cluster.actors import Placement, get_results, kill_actors, placement, wait_for_first
from al_ray.cluster.fatal_errors import RESTARTS
from al_ray.cluster.places import BundleSlots
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import ActorLost
from al_ray.core.labels import Labelled, Model
from al_ray.training.optimizer import Step
from al_ray.training.trainer import Trainer, TrainerSpec

logger = logging.getLogger(__name__)

GRACE = 10.0  # Seconds to wait for the error of the worker that failed first, after another noticed its absence.


@contextmanager
def deploy_group(
    trainer: Callable[[TrainerSpec], Trainer], spec: TrainerSpec, config: ClusterConfig, slots: BundleSlots | None
) -> Iterator["TrainerGroup"]:
    """Start as many actors with a trainer as the spec has workers; they end with the context."""
    with placement({Trainer.__name__: spec.training.workers}, config, "PACK", slots) as places:
        group = TrainerGroup(trainer, spec, places)
        try:
            yield group
        finally:
            kill_actors(group.actors)


class TrainerGroup:
    """Actors that train one model together by data parallelism."""

    def __init__(self, trainer: Callable[[TrainerSpec], Trainer], spec: TrainerSpec, places: Placement) -> None:
        """Start the actors."""
        self.trainer, self.spec, self.places = trainer, spec, places
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

    def _start(self) -> list[ActorHandle]:
        # Ray must not restart one worker alone: the others could not continue with it.
        host, bounds = HostSpec(self.trainer), {"max_restarts": 0}
        ranks = [replace(self.spec, rank=rank) for rank in range(self.spec.training.workers)]
        actors = [start_actor(host, spec, {**bounds, **self.places.options(spec.rank)}) for spec in ranks]
        self.places.await_start(actors)
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
