"""The texts of simulated runs: the vectors of the untrained encoder, and the pool and the measured pairs of a task."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from al_ray.core.config.bounds import Between
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.errors import BadOption
from al_ray.core.pairs import Pairs, PairSpace, Rows, is_in
from al_ray.core.rng import generator
from al_ray.core.task import Corpus, Split, Task, strings_at
from al_ray.core.vectors import Vectors
from al_ray.encoders.encoder import embed_rows
from al_ray.encoders.transformer import Encoder
from studies.adapter import SideVectors
from studies.vector_cache import Sides, cached, origin_of

FOLDS = 3
Measured = Literal["fold-0", "fold-1", "fold-2", "dev"]


@dataclass(frozen=True)
class Shares:
    """How much of the task is used: fewer texts change the share of positives in the pool."""

    left: Annotated[float, Between(0.001, 1)] = 1.0
    """Share of the pool's left texts to keep, drawn at random by the seed."""
    distractors: Annotated[int | None, Between(0, 1_000_000_000)] = None
    """Right texts besides those of stated pairs of both splits, drawn at random. Default: all."""


def make_splits(task: Task, measured: Measured, shares: Shares, seed: int) -> tuple[Split, Split]:
    """Return the pool and the measured split; the latter is called dev, because it is the one that a run evaluates.

    A fold is a third of the left texts of train, in a fixed random order, and the pool is the other two thirds.
    """
    if task.symmetric:
        raise BadOption(f"--task: {task.name!r} has one set of texts; simulated runs need two")
    train = task.measurable("train")
    if measured == "dev":
        other, pool_left = task.measurable("dev"), train.space.left
    else:
        order = generator(0, "simulated-folds").permutation(train.space.left)
        own = np.sort(order[int(measured.removeprefix("fold-")) :: FOLDS])
        other, pool_left = _of_left(train, own), np.setdiff1d(train.space.left, own)
    if shares.left < 1:
        count = max(1, round(shares.left * len(pool_left)))
        pool_left = np.sort(generator(seed, "simulated-share").choice(pool_left, count, replace=False))
    pool, other = _of_left(train, pool_left), replace(other, name="dev")
    if shares.distractors is not None:
        stated = [split.positives for split in (pool, other)] + [split.stated_negatives for split in (pool, other)]
        right = np.unique(np.concatenate(stated)[:, 1])
        rest = np.setdiff1d(np.union1d(pool.space.right, other.space.right), right)
        count = min(shares.distractors, len(rest))
        right = np.union1d(right, generator(seed, "simulated-distractors").choice(rest, count, replace=False))
        pool, other = _of_right(pool, right), _of_right(other, right)
    return pool, other


def _of_left(split: Split, rows: Rows) -> Split:
    """Keep the pairs of sorted left rows."""
    return _restricted(split, replace(split.space, left=rows))


def _of_right(split: Split, rows: Rows) -> Split:
    """Keep the pairs of sorted right rows."""
    return _restricted(split, replace(split.space, right=np.intersect1d(split.space.right, rows)))


def _restricted(split: Split, space: PairSpace) -> Split:
    def kept(pairs: Pairs) -> Pairs:
        return pairs[is_in(pairs[:, 0], space.left) & is_in(pairs[:, 1], space.right)]

    return Split(split.name, space, kept(split.positives), kept(split.stated_negatives))


def frozen_vectors(task: Task, cache: Path, config: EncoderConfig) -> SideVectors:
    """Read the vectors of the cache, or encode the texts of train and dev and write it; texts of test alone stay 0."""

    def encode() -> Sides:
        encoder = Encoder.base(config)
        spaces = [task.splits[name].space for name in ("train", "dev") if name in task.splits]
        left, right = (
            encode_side(encoder, corpus, np.unique(np.concatenate(rows)))
            for corpus, rows in ((task.left, [s.left for s in spaces]), (task.right, [s.right for s in spaces]))
        )
        return left, right

    return SideVectors(*cached(cache, origin_of(task, config), encode))


def encode_side(encoder: Encoder, corpus: Corpus, rows: Rows) -> Vectors:
    """Return vectors (n, d) of a corpus whose (k,) sorted `rows` are encoded; the others are 0."""
    vectors = np.zeros((len(corpus), encoder.dimension), dtype=np.float32)
    tokens = encoder.tokenise(strings_at(corpus.texts, rows))
    vectors[rows] = embed_rows(encoder, tokens, np.arange(len(rows)))
    return vectors
