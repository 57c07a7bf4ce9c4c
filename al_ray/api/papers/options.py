"""The options of the commands of further papers, without what they compute with."""

from al_ray.apps.papers.augmentation.options import AugmentConfig
from al_ray.apps.papers.mining.options import MiningConfig
from al_ray.apps.papers.paraphrase.options import ParaphraseConfig

__all__ = ["AugmentConfig", "MiningConfig", "ParaphraseConfig"]
