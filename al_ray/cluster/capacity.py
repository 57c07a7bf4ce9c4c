"""The capacity of a cluster: what its nodes have, how many groups of actors fit, and whose turn it is to get places."""

import logging
import time
import uuid
from collections.abc import Mapping, Sequence

import ray
from ray.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

logger = logging.getLogger(__name__)

NAME = "al_ray-"  # How the names of al_ray's placement groups begin; the time at which a command asked follows.
POLL_SECONDS = 1  # Ray truncates to whole seconds.
QUIET_SECONDS = 5  # Before the first line about a wait: a group that has room is placed within a second or two.
LINE_SECONDS = 60  # Between two lines.


def describe_nodes() -> str:
    """Describe the resources of each live node: an actor must fit into one of them."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    resources = [", ".join(f"{node.get(name, 0):g} {name}s" for name in ("CPU", "GPU")) for node in nodes]
    return f"{len(nodes)} nodes ({'; '.join(resources)})"


def describe_capacity(bundles: Sequence[Mapping[str, float]]) -> str:
    """Describe the nodes, and why these bundles have no places: in use, or no cluster of this size."""
    if not count_placements(bundles):
        return f"{describe_nodes()}, which is too small for them until it grows"
    available = ray.available_resources()
    free = " and ".join(f"{available.get(name, 0):g} {name}s" for name in ("CPU", "GPU"))
    return f"{describe_nodes()}, of which {free} are free and the rest is in use"


def count_placements(bundles: Sequence[Mapping[str, float]]) -> int:
    """Return how many groups of these bundles fit on the idle nodes: each bundle goes to the first node with room."""
    nodes = [dict(node["Resources"]) for node in ray.nodes() if node["Alive"]]
    largest_first, count = sorted(bundles, key=lambda one: sorted(one.items()), reverse=True), 0
    while True:
        for bundle in largest_first:
            fits = [node for node in nodes if all(node.get(name, 0) >= number for name, number in bundle.items())]
            if not fits:
                return count
            for name, number in bundle.items():
                fits[0][name] -= number
        count += 1


class _Wait:
    """A wait for places: its end, and a line now and then about what it waits for."""

    def __init__(self, workers: str, bundles: Sequence[Mapping[str, float]], seconds: float) -> None:
        """workers: whom the bundles are for, in words."""
        now = time.monotonic()
        self.workers, self.bundles = workers, bundles
        self.end, self.next_line, self.lines = now + seconds, now + QUIET_SECONDS, 0

    @property
    def over(self) -> bool:
        """Whether it has taken all its time."""
        return time.monotonic() >= self.end

    def go_on(self, behind: bool = False) -> None:
        """Log a line if it is time to. behind: whether others come first."""
        now = time.monotonic()
        if now < self.next_line or self.over:
            return
        self.next_line, self.lines = now + LINE_SECONDS, self.lines + 1
        logger.warning(
            "waiting for places for %s, all at once%s, up to %.0f s more; the cluster has %s",
            self.workers,
            ", after a command that has waited longer" if behind else "",
            self.end - now,
            describe_capacity(self.bundles),
        )

    def succeed(self) -> None:
        """Log that there are places, if the wait was logged."""
        if self.lines:
            logger.warning("%s have their places now", self.workers)


def reserve(
    workers: str, bundles: Sequence[Mapping[str, float]], strategy: str, seconds: float
) -> PlacementGroup | None:
    """Return a new placement group that has its places; None if it gets none within some seconds.

    Commands on one cluster get places in the order of their requests, whatever the size. Ray alone would serve the
    latest request first, and a large group only when no small one waits. So a command that is not the first has no
    group while it waits. One for which the cluster must grow first neither waits for others nor holds them up.
    """
    wait, ticket = _Wait(workers, bundles, seconds), f"{NAME}{time.time():017.6f}"
    while not wait.over:
        if _is_behind(ticket, bundles):
            time.sleep(POLL_SECONDS)
            wait.go_on(behind=True)
            continue
        name, placed = f"{ticket}-{uuid.uuid4().hex[:8]}", False
        group = placement_group([dict(one) for one in bundles], strategy, name)
        try:
            while not placed and not wait.over and not _is_behind(ticket, bundles):
                placed = group.wait(POLL_SECONDS)
                wait.go_on()
        finally:
            if not placed:
                remove_placement_group(group)
        if placed:
            wait.succeed()
            return group
    return None


def await_again(group: PlacementGroup, workers: str, bundles: Sequence[Mapping[str, float]], seconds: float) -> bool:
    """Return whether all bundles of a placement group that was placed before have places within some seconds."""
    wait, placed = _Wait(workers, bundles, seconds), False
    while not placed and not wait.over:
        placed = group.wait(POLL_SECONDS)
        wait.go_on()
    if placed:
        wait.succeed()
    return placed


def _is_behind(ticket: str, bundles: Sequence[Mapping[str, float]]) -> bool:
    """Return whether a command that asked earlier waits for places that the nodes have."""
    earlier = [
        group["bundles"].values()
        for group in placement_group_table().values()
        if group["state"] == "PENDING" and group["name"].startswith(NAME) and group["name"] < ticket
    ]
    return any(count_placements(list(others)) for others in earlier) and count_placements(bundles) > 0
