"""The class of a shard actor: a shard that pulls from its peers and owns strata."""

from al_ray.cluster.pool.strata import OwnsStrata


def pool_actor(shard: type) -> type:
    """Return the actor class of a class of shards, under the same name."""
    return type(shard.__name__, (OwnsStrata, shard), {})
