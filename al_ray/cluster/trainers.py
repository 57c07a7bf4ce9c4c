"""Who trains: one actor, or several of one placement group, which start again together when one of them dies."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import ray
from ray.util import get_node_ip_address

from al_ray.cluster.actors import (
    RESTARTS,
    Places,
    Room,
    deployed,
    first_of,
    gathered,
    kept,
    release,
    standing,
    streamed,
)
from al_ray.core.config import ClusterConfig
from al_ray.core.errors import Lost
from al_ray.core.records import Labelled, Model
from al_ray.model.trainer import Trainer, TrainerSpec
from al_ray.model.training import Step

logger = logging.getLogger(__name__)

GRACE = 10.0  # Seconds in which the one that left says why, after the others have missed it.

Training = Callable[[Labelled, int, Model | None, str], Iterator[Step | Model]]
"""model.trainer.Trainer.train, wherever it runs."""


@contextmanager
def deployed_training(spec: TrainerSpec, config: ClusterConfig, room: Room | None = None) -> Iterator[Training]:
    """What trains, by as many actors as the spec has workers; they end with the context. NoPlace as for shards."""
    if spec.training.workers == 1:
        with deployed(Trainer, [spec], config, room) as (actor,):
            yield lambda *asked: streamed(actor.train.options(num_returns="streaming").remote(*asked))
        return
    with kept(Trainer.__name__, spec.training.workers, config, "PACK", room) as places:
        group = TrainerGroup(spec, places)
        try:
            yield group.train
        finally:
            release(group.actors)


class TrainerGroup:
    """Trainers that train together, an actor in each of several places."""

    def __init__(self, spec: TrainerSpec, places: Places) -> None:
        """Start them."""
        self.spec, self.places = spec, places
        self.restarts = RESTARTS
        self.actors = self._started()

    def train(self, labelled: Labelled, number: int, start: Model | None, folder: str) -> Iterator[Step | Model]:
        """What rank 0 yields; steps again from the last checkpoint, when all had to start again.

        They start again when one of them has died, and when a step of theirs has failed by a RuntimeError, as those of
        torch.distributed are, and memory that ran out: bounded as the restarts of a shard.
        """
        asked = ray.put(labelled)
        while True:
            try:
                yield from self._together(asked, number, start, folder)
                return
            except (Lost, RuntimeError) as error:
                if not self.restarts:
                    raise
                self.restarts -= 1
                logger.warning(
                    "one of the training's workers was lost, all start again: %s", " ".join(str(error).split())
                )
                release(self.actors)
                self.actors = self._started()

    def _started(self) -> list[Any]:
        # Alone a worker would be of no use, so that Ray is not to start it again.
        made = ray.remote(standing(Trainer))
        ranks = [replace(self.spec, rank=rank) for rank in range(self.spec.training.workers)]
        actors = [made.options(max_restarts=0, **self.places.options(spec.rank)).remote(spec) for spec in ranks]
        self.places.await_start([actor.stand.remote(self.places.config.device) for actor in actors])
        return actors

    def _together(self, *asked: Any) -> Iterator[Step | Model]:
        """One training by all. One that leaves fails the others: its own words, or its death, go before theirs."""
        first, *others = self.actors
        host = gathered(first.__ray_call__.remote(lambda _: get_node_ip_address()))
        meeting = gathered(first.meet.remote(host))
        stream = first.train.options(num_returns="streaming").remote(*asked, meeting)
        waiting = [stream, *(other.follow.remote(*asked, meeting) for other in others)]
        missed = None
        while waiting:
            call = first_of(waiting, None if missed is None else GRACE)
            if call is None:
                break
            try:
                if call is stream:
                    yield gathered(next(stream))
                else:
                    gathered(call)
                    waiting.remove(call)
            except StopIteration:
                waiting.remove(stream)
            except RuntimeError as error:
                missed = missed or error
                waiting.remove(call)
        if missed is not None:
            raise missed
