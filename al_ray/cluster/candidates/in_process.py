"""The candidates of two sides of records in one process, without Ray: the same pairs and features as shards find.

All cosines are looked at, so it is for up to some ten thousand records a side.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from al_ray.cluster.candidates.records import WAYS, ComparedRecords
from al_ray.core.candidates import HIGHEST
from al_ray.core.config.sections import CandidatesConfig
from al_ray.core.pairs import NO_KEYS, Keys, Pairs, PairSpace, as_pairs, distinct
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Vectors, paired_scores
from al_ray.encoders.encoder import TextEncoder, embed_batches
from al_ray.encoders.prompts import Side
from al_ray.encoders.tokens import Tokens, batches
from al_ray.search.candidate_ranks import FEW, Features, NearestOf, gather_nearest
from al_ray.search.dense_texts import near_ones
from al_ray.search.knn_merge import KnnRequest, contenders

CELLS = 2**24  # Cosines in memory at a time.


@dataclass(frozen=True)
class ComparedPairs:
    """Candidates in order of key: (n, 2) rows of left and right records, cosines (n,) and features (n, F)."""

    pairs: Pairs
    cosines: Floats
    features: Features


def encode_side(encoder: TextEncoder, texts: tuple[str, ...], side: Side) -> Vectors:
    """Return unit vectors (n, d) of the texts of a side, in the batches and of the precision of a pool."""
    return encode_tokens(encoder, encoder.tokenise(texts, side))


def encode_tokens(encoder: TextEncoder, tokens: Tokens) -> Vectors:
    """Return unit vectors (n, d) of the token ids of n texts, as `encode_side` does."""
    config, count = encoder.config, len(tokens)
    precision = np.float16 if config.vectors == "fp16" else np.float32
    vectors: Vectors = np.empty((count, encoder.dimension), dtype=precision)
    own = batches(tokens, np.arange(count), config.encoder_batch)
    before = torch.get_num_threads()
    # The last bits of vectors depend on it.
    torch.set_num_threads(config.threads)
    try:
        deque(embed_batches(encoder, tokens, own, vectors), maxlen=0)
    finally:
        torch.set_num_threads(before)
    return vectors


def compare_candidates(
    records: ComparedRecords, left: Vectors, right: Vectors, options: CandidatesConfig
) -> ComparedPairs:
    """Find the candidates of records by cosine and 3-grams, from both sides, and compare them.

    left, right: vectors of the records of each side; the same ones twice if both sides are one.
    """
    symmetric, texts = records.symmetric, (len(left), len(right))
    space = PairSpace(NO_KEYS, NO_KEYS, texts[1], symmetric)
    tables, found = [np.zeros((count, 2 * len(WAYS))) for count in texts], list[Keys]()
    for number, side in enumerate(("left",) if symmetric else ("left", "right")):
        own, others = (left, right) if side == "left" else (right, left)
        counts = (options.cosine, options.trigrams) if side == "left" else (options.of_right, options.of_right)
        for at, count in enumerate(counts):
            wanted = max(count, FEW)
            if at == 0:
                knn = KnnRequest(space, symmetric, wanted, HIGHEST, texts[0] * texts[1])
                parts = _nearest_by_cosine(knn, own, others)
            else:
                parts = records.nearest(side, np.arange(len(own)), np.arange(len(others)), wanted, None)
            keys, rows, summary = gather_nearest(parts, side, count, space)
            tables[number][rows, 2 * at : 2 * at + 2] = summary
            found.append(keys)
    found.append(_of_dense(space, left, right, options.dense(symmetric), records.reference.dense))
    pairs = space.pairs(distinct(NO_KEYS, *found))
    cosines = paired_scores(left, pairs[:, 0], right, pairs[:, 1])
    summaries = tables[0], tables[0] if symmetric else tables[1]
    return ComparedPairs(pairs, cosines, records.features(pairs, cosines, *summaries))


def _of_dense(space: PairSpace, left: Vectors, right: Vectors, count: int, least: float | None) -> Keys:
    """Return keys of the candidates of dense left texts by cosine. A text that is not dense has no more of them."""
    if not count or least is None:
        return NO_KEYS
    knn, keys = KnnRequest(space, space.symmetric, count, HIGHEST, len(left) * len(right)), [NO_KEYS]
    for near in _nearest_by_cosine(knn, left, right):
        part = near_ones(near, least, count, space.symmetric)
        keys.append(space.keys(as_pairs(part.rows[part.lines], part.partners)))
    return distinct(*keys)


def _nearest_by_cosine(request: KnnRequest, own: Vectors, others: Vectors) -> Iterator[NearestOf]:
    """Yield the nearest of blocks of texts: rough products say which pairs may be among them, as an index does."""
    size, wide = max(1, CELLS // max(1, len(others))), others.astype(np.float32)
    for start in range(0, len(own), size):
        rows = np.arange(start, min(start + size, len(own)))
        rough = own[rows].astype(np.float32) @ wide.T
        listed = contenders(request, rows, [(rough, np.broadcast_to(np.arange(len(others)), rough.shape))])
        cosines = paired_scores(own, listed.pairs[:, 0], others, listed.pairs[:, 1])
        found = NearestOf(rows, listed.pairs[:, 0] - start, listed.pairs[:, 1], cosines)
        yield found.best(request.neighbours)
