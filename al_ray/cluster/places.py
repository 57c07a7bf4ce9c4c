"""The places of workers, as seen by code that starts workers in them, without Ray."""

from dataclasses import dataclass
from typing import Any, Protocol

from al_ray.core.config.cluster import ClusterConfig


@dataclass(frozen=True)
class BundleSlots:
    """Bundles of an existing placement group of Ray, by number, one for each worker at least."""

    group: Any
    bundles: tuple[int, ...]


class Places(Protocol):
    """Places for workers of several kinds."""

    @property
    def config(self) -> ClusterConfig:
        """What each worker gets."""
        ...

    def slots(self, kind: str) -> BundleSlots | None:
        """Return the places of a kind of workers; None in this process, where there is always one."""
        ...


def bundle_of(config: ClusterConfig) -> dict[str, float]:
    """Return the resources of one worker: a bundle of a placement group."""
    return {"CPU": config.cpus_per_shard, **({"GPU": config.gpus_per_shard} if config.gpus_per_shard else {})}
