"""Samples of the texts of a task with their vectors, which the shards of a pool compute."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from al_ray.apps.drift.pair_values import SideSample
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.cluster.workers import get_results
from al_ray.core.labels import Model
from al_ray.core.pairs import Rows
from al_ray.core.rng import generator
from al_ray.core.task import Corpus, Split, Task, strings_at
from al_ray.core.vectors import Vectors
from al_ray.encoders.prompts import Side
from al_ray.search.merge import join_blocks

SAMPLE = 2000
"""At most as many texts of a side are compared."""
BLOCK = 256
"""Texts that one shard encodes together. They are encoded in these blocks, however many shards there are."""


@dataclass(frozen=True)
class TextSample:
    """Sampled texts of one side: their rows and vectors, the texts, and how many tokens (n,) each has."""

    side: Side
    texts: list[str]
    tokens: Rows
    sample: SideSample


def sides_of(task: Task, split: Split) -> list[tuple[Side, Corpus, Rows]]:
    """Return the sides of a split with their texts and rows; a symmetric task has one."""
    left: tuple[Side, Corpus, Rows] = ("left", task.left, split.space.left)
    return [left] if task.symmetric else [left, ("right", task.right, split.space.right)]


def draw_rows(rows: Rows, count: int, seed: int, whose: str, side: Side) -> Rows:
    """Return `count` random rows, or all if there are fewer, in random order. whose: "training" or "new"."""
    return generator(seed, f"drift-{whose}-{side}").choice(rows, min(count, len(rows)), replace=False)


def sample_training(pool: ShardedPool, model: Model, task: Task, rows: Sequence[Rows]) -> list[TextSample]:
    """Encode texts of the task on which the model was trained. rows: of each side, in random order."""
    samples = list[TextSample]()
    for (side, corpus, every), own in zip(sides_of(task, task.split("train")), rows, strict=True):
        texts = strings_at(corpus.texts, own)
        vectors, tokens = _encode(pool, model, texts, side)
        samples.append(TextSample(side, texts, tokens, SideSample(own, vectors, len(every))))
    return samples


def sample_new(pool: ShardedPool, model: Model, split: Split, seed: int) -> list[TextSample]:
    """Draw texts of the pool's own task, whose vectors the shards hold."""
    samples = list[TextSample]()
    for side, corpus, every in sides_of(pool.task, split):
        own = draw_rows(every, SAMPLE, seed, "new", side)
        texts = strings_at(corpus.texts, own)
        tokens = get_results(pool.shards[0].token_lengths.remote(model, texts, side))
        vectors = stored_vectors(pool, model, split, side, own)
        samples.append(TextSample(side, texts, tokens, SideSample(own, vectors, len(every))))
    return samples


def stored_vectors(pool: ShardedPool, model: Model, split: Split, side: Side, rows: Rows) -> Vectors:
    """Return the vectors (n, d) of distinct rows (n,) of a split, which the shards hold."""
    pool.embed(model, [split.name])
    part = pool.parts[split.name, side]
    block = join_blocks(get_results([shard.vectors_of.remote(model, part, rows) for shard in pool.shards]))
    return block.vectors[np.searchsorted(block.rows, rows)]


def _encode(pool: ShardedPool, model: Model, texts: Sequence[str], side: Side) -> tuple[Vectors, Rows]:
    """Return the vectors (n, d) and numbers of tokens (n,) of texts, which all shards encode."""
    calls = [
        pool.shards[start // BLOCK % len(pool.shards)].encode_texts.remote(model, texts[start : start + BLOCK], side)
        for start in range(0, len(texts), BLOCK)
    ]
    vectors, tokens = zip(*get_results(calls), strict=True)
    return np.concatenate(vectors), np.concatenate(tokens)
