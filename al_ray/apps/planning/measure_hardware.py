"""Measure the constants of hardware.py on this machine by calling each stage of a small round.

Sizes are the defaults of a run's options and the constants of its code (docs/plan.md lists them).
"""

import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from al_ray.apps.planning.hardware import Speed
from al_ray.apps.planning.sizes import Sizes
from al_ray.apps.planning.stage_times import SPARE
from al_ray.cluster.pool.ring import texts_at_once
from al_ray.core.candidates import Order
from al_ray.core.config.encoder import EncoderConfig, family_of
from al_ray.core.config.sections import SearchConfig, TrainingConfig
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.pairs import NO_KEYS, as_pairs
from al_ray.core.rng import generator
from al_ray.core.scorer import Scorer
from al_ray.core.vectors import Block, Vectors, paired_scores
from al_ray.encoders.hardware import settle_arithmetic, settle_training
from al_ray.encoders.tokens import Tokens, batches
from al_ray.encoders.transformer import Encoder
from al_ray.metrics.bootstrap import QueryBootstrap
from al_ray.metrics.estimator import CountRequest, count_sample
from al_ray.search.counting import count_block
from al_ray.search.faiss_index import sample_size, set_threads
from al_ray.search.flat_index import index_of
from al_ray.search.join.exact_join import ExactJoin
from al_ray.search.join.least_pairs import JoinQuery
from al_ray.training.bi_encoder import passes_of_step, train
from al_ray.training.fit import steps_at_once

SEARCH, BATCH = SearchConfig(), TrainingConfig().batch
STEPS, CELLS = 6, 64
SAMPLED = 200_000  # Pairs of an evaluation set.


@dataclass(frozen=True)
class MachineProbe:
    """Inputs of a measurement: encoder, device and number of vectors. source: written next to every constant."""

    encoder: EncoderConfig
    source: str
    device: str
    vectors: int


def measure_constants(probe: MachineProbe, texts: Sequence[str]) -> Iterator[tuple[str, Speed]]:
    """Yield the name and speed of every constant but those of a matcher and `transfer`, which would need two machines.

    texts: what the encoder is measured on. BadOption without a CUDA device, or for an encoder that plans do not cover.
    """
    if probe.device != "cpu" and not torch.cuda.is_available():
        raise BadOption(
            "there is no CUDA device here to measure; give `measure=True` where there is one, or leave out `gpus`"
        )
    if not family_of(probe.encoder.encoder).transformer:
        raise BadOption(
            f"{option('encoder', probe.encoder.encoder)} is no transformer, and plans cover only these; give one"
        )
    settle_arithmetic()
    settle_training(probe.device)
    torch.set_num_threads(probe.encoder.threads)
    set_threads(probe.encoder.threads)
    # Loads Faiss, as an actor does that has an index of it.
    sample_size(f"IVF{CELLS},Flat", 1)
    yield "libraries", Speed(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0, True, probe.source)
    encoder = Encoder.base(probe.encoder, probe.device)
    # At least two blocks of the exact join.
    vectors = clustered(max(probe.vectors, 2 * texts_at_once(probe.device, SEARCH.block)), encoder.dimension)
    of_vectors = exact_speed(vectors, probe.device), index_speeds(vectors, probe.device), count_speeds(vectors)
    figures = encoder_speeds(encoder, texts), *of_vectors
    for name, value in (pair for some in figures for pair in some):
        yield name, Speed(value, True, probe.source)


def clustered(count: int, dim: int) -> Vectors:
    """Draw (count, dim) unit vectors in clusters of 16, with cosines of about 0.7 within a cluster."""
    rng = generator(0, "measure")
    centres = np.repeat(rng.standard_normal((-(-count // 16), dim)), 16, axis=0)[:count]
    vectors = centres + 0.65 * rng.standard_normal((count, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def encoder_speeds(encoder: Encoder, texts: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Measure tokenising, embedding and training, which changes the encoder's weights."""
    started = time.perf_counter()
    tokens = encoder.tokenise(texts)
    yield "tokenise", len(tokens.ids) / (time.perf_counter() - started)
    layers = encoder.transformer.config.num_hidden_layers
    of_batches = batches(tokens, np.arange(len(tokens)), encoder.config.encoder_batch)
    layer = median_seconds(lambda: encoder.embed(tokens, of_batches[0][:1]), 20) / layers
    yield "layers", 1 / layer
    whole = median_seconds(lambda: [encoder.embed(tokens, batch) for batch in of_batches], 2)
    work = sum(_sizes(encoder, float(length)).operations for length in tokens.lengths(np.arange(len(tokens))))
    yield "embed", work / _beyond(whole, len(of_batches) * layers * layer)
    sizes, launched = _sizes(encoder, len(tokens.ids) / len(tokens)), passes_of_step(BATCH, encoder.device != "cpu")
    yield "train", 6 * BATCH * sizes.operations / _beyond(_step(encoder, tokens), 3 * launched * layers * layer)


def _sizes(encoder: Encoder, length: float) -> Sizes:
    layers = encoder.transformer.config.num_hidden_layers
    return Sizes(2, None, 2, None, dim=encoder.dimension, layers=layers, tokens=length, hidden=encoder.hidden)


def _beyond(whole: float, part: float) -> float:
    """Return a time without a part of it; at least a fifth, as both are noisy measurements."""
    return max(whole - part, whole / 5)


def _step(encoder: Encoder, tokens: Tokens) -> float:
    """Return the median seconds of a training step, without the first ones.

    On a GPU steps are yielded many at once, when all of them are taken: that many are one measurement.
    """
    at_once = steps_at_once(encoder.device)
    measured, first = (STEPS, 2) if at_once == 1 else (1, 1)
    rows = generator(0, "measure-pairs").integers(len(tokens), size=(BATCH * at_once * (first + measured), 2))
    labels = np.tile(np.array([0, 1], dtype=np.uint8), len(rows) // 2)
    times = [time.perf_counter()]
    for step in train(encoder, (tokens, tokens), (rows, labels), TrainingConfig(epochs=1, batch=BATCH), [0, 0, 0]):
        if step.step % at_once == 0:
            times.append(time.perf_counter())
    return float(np.median(np.diff(times)[first:])) / at_once


def exact_speed(vectors: Vectors, device: str) -> Iterator[tuple[str, float]]:
    """Measure the exact join of half of the vectors with the other half, in blocks of a run.

    Blocks visit others under a bound so tight that almost no pair is rescored, as in large pools.
    """
    rows, half = np.arange(len(vectors)), len(vectors) // 2
    block = min(texts_at_once(device, SEARCH.block), half)
    # Whole blocks of both sides.
    texts = half - half % block
    left, right = (
        [Block(rows[at : at + block], vectors[at : at + block]) for at in range(first, first + texts, block)]
        for first in (0, half)
    )

    def join() -> None:
        query = JoinQuery(Order(0.6), 2048, 2 * len(vectors), symmetric=True)
        found = ExactJoin([query], [NO_KEYS], device, half=device != "cpu")
        found.tighten([1e-4])
        for visitor in left:
            for own in right:
                found.add(visitor, own)
        found.results()

    yield "exact", texts**2 * vectors.shape[1] / median_seconds(join, 2)


def index_speeds(vectors: Vectors, device: str) -> Iterator[tuple[str, float]]:
    """Measure the searches of a block of queries by an index: those of Faiss, but for Flat on a GPU."""
    held, width = Block(np.arange(len(vectors)), vectors), min(SEARCH.neighbours + SPARE, len(vectors))
    queries = held.take(np.arange(SEARCH.block))
    pairs = len(queries.rows) * vectors.size
    for name, index, share in (("flat", "Flat", 1.0), ("ivf", f"IVF{CELLS},Flat", SEARCH.nprobe / CELLS)):
        made = index_of(held, replace(SEARCH, index=index), device, None, None)
        yield name, pairs * share / median_seconds(lambda made=made: made.nearest_to(queries, width), 2)


def count_speeds(vectors: Vectors) -> Iterator[tuple[str, float]]:
    """Measure a count of a block of queries with all vectors on the CPU, and a count of an evaluation set.

    One pair in a hundred reaches the lowest of 100 thresholds.
    """
    held = Block(np.arange(len(vectors)), vectors)
    queries = held.take(held.rows[: SEARCH.block])
    low, high = np.quantile(queries.vectors @ vectors[: 4 * SEARCH.block].T, [0.99, 0.9999])
    thresholds = np.linspace(high, low, 100)
    request, scorer = CountRequest(thresholds, QueryBootstrap(held.rows, False, thresholds)), Scorer(10.0, -5.0)
    once = median_seconds(lambda: count_block(queries, held, as_pairs([], []), request, scorer), 1)
    yield "count", len(queries.rows) * len(held.rows) / once
    keys = np.sort(generator(0, "measure-host").integers(len(vectors) ** 2, size=SAMPLED))
    left, right = np.divmod(keys, len(vectors))

    def sample() -> None:
        scores = paired_scores(vectors, left, vectors, right)
        count_sample(request, keys, as_pairs(left, right), scores, scorer.logit(scores), 1.0)

    yield "sampled", SAMPLED / median_seconds(sample, 1)


def median_seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the median seconds of several repeats after a warm-up; a GPU is synchronized after each."""
    times: list[float] = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return float(np.median(times[1:]))
