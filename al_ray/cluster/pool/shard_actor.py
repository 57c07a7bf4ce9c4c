"""The class of a shard actor: a shard that pulls from its peers, owns strata, and finds and ranks candidates."""

from al_ray.cluster.candidates.owning import OwnsCandidates


def pool_actor(shard: type) -> type:
    """Return the actor class of a class of shards, under the same name."""
    return type(shard.__name__, (OwnsCandidates, shard), {})
