"""Measure the constants of hardware.py on this machine with the code and the sizes of runs; about a second for each.

Sizes are the defaults of a run's options and the constants of its code (docs/plan.md lists them).
"""

import math
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from al_ray.apps.planning.hardware import Speed
from al_ray.apps.planning.sizes import Sizes
from al_ray.apps.planning.stage_times import SPARE
from al_ray.cluster.pool.ring import texts_at_once
from al_ray.core.candidates import HIGHEST, Order, unlabelled_candidates
from al_ray.core.config.encoder import EncoderConfig, family_of
from al_ray.core.config.sections import SearchConfig, TrainingConfig
from al_ray.core.errors import BadOption
from al_ray.core.labels import Model
from al_ray.core.naming import option
from al_ray.core.pairs import NO_KEYS, as_pairs
from al_ray.core.rng import generator
from al_ray.core.scorer import Scorer
from al_ray.core.vectors import PAIRS_AT_ONCE, Block, Vectors, paired_scores
from al_ray.encoders.hardware import settle_arithmetic, settle_training
from al_ray.encoders.products import product
from al_ray.encoders.random_bert import RANDOM_BERT
from al_ray.encoders.tokens import Tokens, batches
from al_ray.encoders.transformer import Encoder
from al_ray.metrics import estimator as estimate
from al_ray.metrics.bootstrap import QueryBootstrap
from al_ray.search.counting import COLUMNS
from al_ray.search.faiss_index import sample_size, set_threads
from al_ray.search.flat_index import index_of
from al_ray.search.join.exact_join import GPU_TILE, TILE, ExactJoin
from al_ray.search.join.least_pairs import JoinQuery
from al_ray.search.shard import PoolShard
from al_ray.search.shard_spec import ShardSpec
from al_ray.training.bi_encoder import passes_of_step, train
from al_ray.training.fit import steps_at_once
from al_ray.training.head import Head
from al_ray.training.optimizer import Optimiser

SEARCH, BATCH = SearchConfig(), TrainingConfig().batch
STEPS = 6
CELLS = 64
MEETINGS, FEW = 64, 8  # Meetings of blocks of so few texts that their number alone takes time.


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
    of_vectors = join_speeds(vectors, probe.device), index_speeds(vectors, probe.device), host_speeds(vectors)
    figures = encoder_speeds(encoder, texts), *of_vectors
    for name, value in (pair for some in figures for pair in some):
        yield name, Speed(value, True, probe.source)
    yield "count", Speed(_count(probe), True, probe.source)


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
    sizes = _sizes(encoder, len(tokens.ids) / len(tokens))
    parameters = sum(parameter.numel() for parameter in encoder.network.parameters())
    update = _optimiser(encoder)
    yield "optimiser", parameters / update
    passes = passes_of_step(BATCH, encoder.device != "cpu")
    step = _step(encoder, tokens)
    yield "train", 6 * BATCH * sizes.operations / _beyond(step, 3 * passes * layers * layer + update)


def _sizes(encoder: Encoder, length: float) -> Sizes:
    layers = encoder.transformer.config.num_hidden_layers
    return Sizes(2, None, 2, None, dim=encoder.dimension, layers=layers, tokens=length, hidden=encoder.hidden)


def _beyond(whole: float, part: float) -> float:
    """Return a time without a part of it; at least a fifth, as both are noisy measurements."""
    return max(whole - part, whole / 5)


def _optimiser(encoder: Encoder) -> float:
    """Return the seconds of one step of the optimizer."""
    optimiser = Optimiser.of(encoder, Head(TrainingConfig()).to(encoder.device), TrainingConfig(), 100)

    def step() -> None:
        for parameter in optimiser.all:
            parameter.grad = torch.zeros_like(parameter)
        optimiser.step()

    return median_seconds(step, 3)


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


def join_speeds(vectors: Vectors, device: str) -> Iterator[tuple[str, float]]:
    """Measure the exact join in blocks of a run: the time of a pair is dim / product + 1 / compare, and that of a
    meeting divided among its pairs; solved from two values of dim and from meetings of small blocks.
    """  # fmt: skip
    dim, few = vectors.shape[1], max(1, vectors.shape[1] // 8)
    rows, half = np.arange(len(vectors)), len(vectors) // 2

    def seconds(width: int, texts: int, block: int, repeats: int) -> float:
        own = np.ascontiguousarray(vectors[:, :width])
        own /= np.linalg.norm(own, axis=1, keepdims=True)
        left, right = (
            [Block(rows[at : at + block], own[at : at + block]) for at in range(first, first + texts, block)]
            for first in (0, half)
        )
        return median_seconds(lambda: _join(left, right, device), repeats)

    block = min(texts_at_once(device, SEARCH.block), half)
    # Whole blocks of both sides.
    texts = half - half % block
    meeting = seconds(dim, math.isqrt(MEETINGS) * FEW, FEW, 20) / MEETINGS
    shared = meeting / min(block**2, math.prod(TILE if device == "cpu" else GPU_TILE))
    whole, narrow = (seconds(width, texts, block, 2) / texts**2 for width in (dim, few))
    multiply = _beyond(whole, narrow) / (dim - few)
    yield "product", 1 / multiply
    yield "compare", 1 / _beyond(narrow, few * multiply + shared)
    yield "meetings", 1 / meeting


def _join(left: Sequence[Block], right: Sequence[Block], device: str) -> None:
    """Let blocks visit others under a bound so tight that almost no pair is rescored, as in large pools."""
    query = JoinQuery(Order(0.6), 2048, 2 * (int(right[-1].rows[-1]) + 1), symmetric=True)
    join = ExactJoin([query], [NO_KEYS], device, half=device != "cpu")
    join.tighten([1e-4])
    for visitor in left:
        for own in right:
            join.add(visitor, own)
    join.results()


def index_speeds(vectors: Vectors, device: str) -> Iterator[tuple[str, float]]:
    """Measure the searches of a block of queries by an index: those of Faiss, but for Flat on a GPU."""
    held, width = Block(np.arange(len(vectors)), vectors), min(SEARCH.neighbours + SPARE, len(vectors))
    queries = held.take(np.arange(SEARCH.block))
    pairs = len(queries.rows) * vectors.size
    for name, index, share in (("flat", "Flat", 1.0), ("ivf", f"IVF{CELLS},Flat", SEARCH.nprobe / CELLS)):
        made = index_of(held, replace(SEARCH, index=index), device, None, None)
        yield name, pairs * share / median_seconds(lambda made=made: made.nearest_to(queries, width), 2)


def host_speeds(vectors: Vectors) -> Iterator[tuple[str, float]]:
    """Measure what the CPU does in any case, but for counts."""
    queries, block = torch.from_numpy(vectors[: SEARCH.block]), torch.from_numpy(vectors[:COLUMNS])
    yield (
        "host_product",
        len(queries) * len(block) * vectors.shape[1] / median_seconds(lambda: product(queries, block), 5),
    )
    rng = generator(0, "measure-host")
    left, right = rng.integers(len(vectors), size=(2, 32 * PAIRS_AT_ONCE))
    seconds = median_seconds(lambda: paired_scores(vectors, left, vectors, right), 2)
    yield "rescore", len(left) * vectors.shape[1] / seconds
    keys, cosines = rng.integers(1 << 50, size=1_000_000), rng.random(1_000_000)
    half = len(keys) // 2
    yield (
        "sort",
        len(keys) / median_seconds(lambda: unlabelled_candidates(keys, cosines, NO_KEYS).least(HIGHEST, half), 1),
    )


def _count(probe: MachineProbe) -> float:
    """Return the pairs that a shard counts in a second; with 32 dimensions, so that the product takes little of it.

    One pair in a hundred reaches the lowest of 100 thresholds.
    """
    config = EncoderConfig(RANDOM_BERT, None, 24, 64, probe.encoder.threads)
    rows = np.arange(probe.vectors // 2)
    tokens = Tokens.of((4 + generator(0, "measure-count").integers(94, size=(len(rows), 12))).tolist())
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "left").mkdir()
        tokens.write(Path(folder) / "left")
        np.save(Path(folder) / "left-all.npy", rows)
        shard = PoolShard(ShardSpec(folder, config, SEARCH, 0, 1))
        model = Model("", shard.untrained().digest, Scorer(10.0, -5.0))
        queries = shard.block(model, "left-all", 0, min(SEARCH.block, len(rows) // 4))
        every = shard.block(model, "left-all", 0, len(rows))
    low, high = np.quantile(queries.vectors @ every.vectors.T, [0.99, 0.9999])
    thresholds, nothing = np.linspace(high, low, 100), as_pairs([], [])
    request = estimate.CountRequest(thresholds, QueryBootstrap(rows, False, thresholds))
    once = median_seconds(lambda: shard.count_negatives(model, "left-all", queries, nothing, request), 1)
    return len(queries.rows) * len(rows) / once


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
