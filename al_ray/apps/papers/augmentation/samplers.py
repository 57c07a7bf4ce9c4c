"""The samplers of paper 003 by name: each returns unlabelled pairs of the pool of a gold set."""

import math

import numpy as np
import torch

from al_ray.apps.papers.augmentation.options import AugmentConfig, Gold, Silver
from al_ray.apps.papers.augmentation.word_replacement import Embeddings, Masked, reword
from al_ray.apps.papers.mining.dense import PoolVectors, build_miner
from al_ray.apps.papers.mining.miners import MinedPairs, Pool, deduplicate
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.pairs import as_pairs
from al_ray.core.rng import generator
from al_ray.encoders.transformer import Encoder

MIXED = {"bm25+neighbours": ("bm25", "neighbours"), "uncertainty": ("bm25", "neighbours", "random")}
REWORDING = "insertion", "substitution"
SURPLUS = 4
"""For uncertainty: number of pairs labelled per pair selected."""


def sample_pairs(config: AugmentConfig, gold: Gold) -> Silver:
    """Sample pairs as the config says: each pair once, and none of the gold pairs of any split.

    uncertainty returns more pairs than needed; the cross-encoder's scores select among them.
    """
    torch.set_num_threads(config.threads)
    pool = gold.pool
    if config.sampler in REWORDING:
        pool, mined = _reword(config, gold)
    else:
        names = MIXED.get(config.sampler, (config.sampler,))
        count = _of_each(config, len(names))
        rng = generator(config.seed, "sampler")
        vectors = PoolVectors.encode(Encoder.base(_teacher(config)), pool) if "neighbours" in names else None
        mined = MinedPairs.concatenate([build_miner(name, pool, vectors, 0, rng).mine(count) for name in names])
    return Silver.of(deduplicate(mined, pool, np.unique(pool.keys(gold.pairs))), pool.texts)


def most_silver(config: AugmentConfig, gold: Gold) -> int:
    """Return the maximum number of pairs that `sample_pairs` can return, all of which the cross-encoder labels."""
    if config.sampler in REWORDING:
        return config.per_text * len(gold.train)
    names = MIXED.get(config.sampler, (config.sampler,))
    return _of_each(config, len(names)) * len(names) * len(gold.pool.queries)


def _of_each(config: AugmentConfig, miners: int) -> int:
    """Return how many pairs of a text each of so many miners takes."""
    return math.ceil(SURPLUS * config.per_text / miners) if config.sampler == "uncertainty" else config.per_text


def _teacher(config: AugmentConfig) -> EncoderConfig:
    return config.teaching.run(1).encoding


def _reword(config: AugmentConfig, gold: Gold) -> tuple[Pool, MinedPairs]:
    """Change words of gold pairs, alternately in the left and the right text: a pool with the new texts, and pairs."""
    pool, pairs = gold.pool, gold.train.pairs
    masked, teacher = config.words_from == "masked", _teacher(config)
    source = Masked(teacher) if masked else Embeddings(teacher, pool.members)
    rng, insert = generator(config.seed, "rewording"), config.sampler == "insertion"
    # The texts of a pool of gold pairs are distinct.
    rows = {text: row for row, text in enumerate(pool.texts)}
    left, right = list[int](), list[int]()
    for turn in range(config.per_text):
        side = turn % 2
        texts = reword([pool.texts[row] for row in pairs[:, side].tolist()], source, insert, config.changed, rng)
        new = [rows.setdefault(text, len(rows)) for text in texts]
        others = pairs[:, 1 - side].tolist()
        left += new if side == 0 else others
        right += others if side == 0 else new
    new_pairs = as_pairs(left, right)
    # A text that became equal to its partner is left out.
    new_pairs = new_pairs[new_pairs[:, 0] != new_pairs[:, 1]]
    return Pool(tuple(rows), pool.queries, pool.candidates), MinedPairs.unranked(new_pairs, config.sampler)
