"""The samplers of paper 003 by name: each gives pairs of a gold set's pool that nobody labelled."""

import math

import numpy as np
import torch

from al_ray.apps.augmentation.options import AugmentConfig, Gold, Silver
from al_ray.apps.augmentation.word_replacement import Embeddings, Masked, Source, reworded
from al_ray.apps.mining.dense import Nearest, PoolVectors
from al_ray.apps.mining.lexical import Bm25, Tfidf
from al_ray.apps.mining.miners import DRAWN, MinedPairs, Miner, Pool, Random, deduplicate
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.pairs import as_pairs
from al_ray.core.rng import generator
from al_ray.encoders.transformer import Encoder

MIXED = {"bm25+neighbours": ("bm25", "neighbours"), "uncertainty": ("bm25", "neighbours", "random")}
SURPLUS = 4
"""Of uncertainty: so many times as many pairs are labelled as are kept."""


def sampled(config: AugmentConfig, gold: Gold) -> Silver:
    """What the config's sampler gives: no pair twice, none of gold, none that is measured by.

    Of uncertainty more pairs than are wanted: which ones are kept, the cross-encoder's scores decide.
    """
    torch.set_num_threads(config.threads)
    if config.sampler in ("insertion", "substitution"):
        return _reworded(config, gold)
    names = MIXED.get(config.sampler, (config.sampler,))
    count = math.ceil(SURPLUS * config.per_text / len(names)) if config.sampler == "uncertainty" else config.per_text
    mined = MinedPairs.concatenate([_miner(name, config, gold.pool).mine(count) for name in names])
    return Silver.of(deduplicate(mined, gold.pool, gold.excluded), gold.pool.texts)


def wanted(config: AugmentConfig, gold: Gold) -> int:
    """How many pairs uncertainty keeps."""
    return config.per_text * len(gold.pool.queries)


def _miner(name: str, config: AugmentConfig, pool: Pool) -> Miner:
    if name == "random":
        return Random(pool, generator(config.seed, "sampler"))
    if name == "neighbours":
        return Nearest(pool, PoolVectors.encode(Encoder.base(_teacher(config)), pool))
    return Bm25(pool) if name == "bm25" else Tfidf(pool)


def _teacher(config: AugmentConfig) -> EncoderConfig:
    return config.teaching.run(1).encoding


def _reworded(config: AugmentConfig, gold: Gold) -> Silver:
    """Gold pairs with one text of other words, now the left one and now the right one."""
    pool, pairs = gold.pool, gold.train.pairs
    source: Source
    if config.words_from == "masked":
        source = Masked(_teacher(config))
    else:
        known = [pool.texts[row] for row in np.union1d(pool.queries, pool.candidates).tolist()]
        source = Embeddings(Encoder.base(_teacher(config)), known)
    rng, insert = generator(config.seed, "rewording"), config.sampler == "insertion"
    # The texts of a gold set are distinct.
    rows = {text: row for row, text in enumerate(pool.texts)}
    left, right = list[int](), list[int]()
    for turn in range(config.per_text):
        side = turn % 2
        texts = reworded([pool.texts[row] for row in pairs[:, side].tolist()], source, insert, config.changed, rng)
        new = [rows.setdefault(text, len(rows)) for text in texts]
        others = pairs[:, 1 - side].tolist()
        left += new if side == 0 else others
        right += others if side == 0 else new
    made = as_pairs(left, right)
    # A text that became its partner says nothing of either.
    made = made[made[:, 0] != made[:, 1]]
    wider = Pool(tuple(rows), pool.queries, pool.candidates)
    count = len(made)
    mined = MinedPairs(made, np.full(count, config.sampler), np.full(count, np.nan), np.full(count, DRAWN))
    known = np.concatenate([gold.train.pairs, *(scored.pairs for scored in gold.measured.values())])
    return Silver.of(deduplicate(mined, wider, np.unique(wider.keys(known))), wider.texts)
