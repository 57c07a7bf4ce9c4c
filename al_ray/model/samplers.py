"""The samplers of paper 003 by name: each gives pairs of a gold set's pool that nobody labelled."""

from al_ray.core.augmentation import AugmentConfig, Gold, Silver
from al_ray.core.config import generator
from al_ray.core.mining import Random, once


def sampled(config: AugmentConfig, gold: Gold) -> Silver:
    """What the config's sampler gives: no pair twice, none of gold, none that is measured by."""
    rng = generator(config.seed, "sampler")
    mined = Random(gold.pool, rng).mined(config.per_text)
    return Silver.of(once(mined, gold.pool, gold.excluded), gold.pool.texts)
