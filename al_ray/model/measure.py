"""The constants of core/speeds.py, measured on this machine with the code that runs use: a second or so each."""

import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from al_ray.core import estimate
from al_ray.core.config import EncoderConfig, SearchConfig, TrainingConfig, generator
from al_ray.core.errors import BadOption
from al_ray.core.pairs import NO_KEYS, as_pairs
from al_ray.core.records import Model
from al_ray.core.resampling import Questions
from al_ray.core.scoring import Scorer
from al_ray.core.speeds import Speed
from al_ray.core.stages import PASS, SPARE, Sizes
from al_ray.core.strategy import HIGHEST, Order, found
from al_ray.model import join, pool
from al_ray.model.cnn import is_cnn
from al_ray.model.encoder import RANDOM_BERT, Encoder, Vectors
from al_ray.model.neighbours import Neighbours, set_threads
from al_ray.model.tokens import Tokens, batches
from al_ray.model.training import Head, Optimiser, dots, train

STEPS, BATCH = 6, 16
CELLS, PROBED, WANTED = 64, 10, 100


@dataclass(frozen=True)
class Asked:
    """What is measured: which encoder, where, on how many vectors; `source` is put beside every constant."""

    encoder: EncoderConfig
    source: str
    device: str
    vectors: int


def measured(asked: Asked, texts: Sequence[str]) -> Iterator[tuple[str, Speed]]:
    """Every constant by name, as it is found; all but `transfer`, for which it would take two machines and Ray."""
    if asked.device != "cpu" and not torch.cuda.is_available():
        raise BadOption("there is no CUDA device here to measure; run --measure where there is one, or without --gpus")
    if is_cnn(asked.encoder.name):
        raise BadOption(f"--encoder {asked.encoder.name} is no transformer, which plans are of; give one to measure")
    torch.set_num_threads(asked.encoder.threads)
    set_threads(asked.encoder.threads)
    yield "libraries", Speed(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0, True, asked.source)
    encoder = Encoder.base(asked.encoder, asked.device)
    vectors = clustered(asked.vectors, encoder.dimension)
    figures = _encoder(encoder, texts), _exact(vectors, asked.device), _faiss(vectors, asked.device), _host(vectors)
    for name, value in (pair for some in figures for pair in some):
        yield name, Speed(value, True, asked.source)
    yield "count", Speed(_count(asked), True, asked.source)


def clustered(count: int, dim: int) -> Vectors:
    """(count, dim) unit vectors in clusters of 16, cosines within a cluster about 0.7."""
    rng = generator(0, "measure")
    centres = np.repeat(rng.standard_normal((-(-count // 16), dim)), 16, axis=0)[:count]
    vectors = centres + 0.65 * rng.standard_normal((count, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def _encoder(encoder: Encoder, texts: Sequence[str]) -> Iterator[tuple[str, float]]:
    started = time.perf_counter()
    tokens = Tokens.of([ids for block in encoder.tokenise(texts) for ids in block])
    yield "tokenise", len(tokens.ids) / (time.perf_counter() - started)
    layers = encoder.transformer.config.num_hidden_layers
    dealt = batches(tokens, np.arange(len(tokens)), encoder.config.batch)
    layer = _seconds(lambda: encoder.embed(tokens, dealt[0][:1]), 20) / layers
    yield "layers", 1 / layer
    whole = _seconds(lambda: [encoder.embed(tokens, batch) for batch in dealt], 2)
    work = sum(_sizes(encoder, float(length)).operations for length in tokens.lengths(np.arange(len(tokens))))
    yield "embed", work / _beyond(whole, len(dealt) * layers * layer)
    sizes = _sizes(encoder, len(tokens.ids) / len(tokens))
    parameters = sum(parameter.numel() for parameter in encoder.transformer.parameters())
    moved = _optimiser(encoder)
    yield "optimiser", parameters / moved
    passes = 2 if encoder.device != "cpu" else 2 * -(-BATCH // PASS)
    step = _step(encoder, tokens)
    yield "train", 6 * BATCH * sizes.operations / _beyond(step, 3 * passes * layers * layer + moved)


def _sizes(encoder: Encoder, length: float) -> Sizes:
    layers = encoder.transformer.config.num_hidden_layers
    return Sizes(2, None, 2, None, dim=encoder.dimension, layers=layers, tokens=length)


def _beyond(whole: float, part: float) -> float:
    """What is left of a time without a part of it; at least a fifth, for each was measured with its own noise."""
    return max(whole - part, whole / 5)


def _optimiser(encoder: Encoder) -> float:
    """Seconds of one move."""
    optimiser = Optimiser.of(encoder, Head(TrainingConfig()).to(encoder.device), TrainingConfig(), 100)

    def move() -> None:
        for parameter in optimiser.all:
            parameter.grad = torch.zeros_like(parameter)
        optimiser.step()

    return _seconds(move, 3)


def _step(encoder: Encoder, tokens: Tokens) -> float:
    """Seconds of one step of a training, the first two left out."""
    rows = generator(0, "measure-pairs").integers(len(tokens), size=(BATCH * (STEPS + 2), 2))
    labels = np.tile(np.array([0, 1], dtype=np.uint8), len(rows) // 2)
    times = [time.perf_counter()]
    for _ in train(encoder, (tokens, tokens), (rows, labels), TrainingConfig(epochs=1, batch=BATCH), [0, 0, 0]):
        times.append(time.perf_counter())
    return float(np.median(np.diff(times)[2:]))


def _exact(vectors: Vectors, device: str) -> Iterator[tuple[str, float]]:
    """The join's time for a pair is dim / product + 1 / compare: two dims tell them apart."""
    dim, few = vectors.shape[1], max(1, vectors.shape[1] // 8)
    rows, half = np.arange(len(vectors)), len(vectors) // 2

    def seconds(width: int, texts: int, repeats: int) -> float:
        own = np.ascontiguousarray(vectors[:, :width])
        own /= np.linalg.norm(own, axis=1, keepdims=True)
        left = join.Block(rows[:texts], own[:texts])
        right = join.Block(rows[half : half + texts], own[half : half + texts])
        return _seconds(lambda: _join(left, right, device), repeats) / (texts * texts)

    whole, narrow = seconds(dim, half, 2), seconds(few, half, 2)
    product = _beyond(whole, narrow) / (dim - few)
    yield "product", 1 / product
    yield "compare", 1 / _beyond(narrow, few * product)
    yield "meetings", 1 / (64 * seconds(dim, 8, 20))


def _join(left: join.Block, right: join.Block, device: str) -> None:
    """A meeting of two blocks when the bound is so tight that next to no pair is looked at again, as in large pools."""
    wanted = join.Wanted(Order(0.6), 2048, 2 * (int(right.rows[-1]) + 1), symmetric=True)
    search = join.LeastPairs(wanted, NO_KEYS, device, half=device != "cpu")
    search.tighten(1e-4)
    search.add(left, right)
    search.result()


def _faiss(vectors: Vectors, device: str) -> Iterator[tuple[str, float]]:
    queries, width = vectors[:2048], min(WANTED + SPARE, len(vectors))
    met = len(queries) * vectors.size
    flat = Neighbours(vectors, "Flat", PROBED, device)
    yield "flat", met / _seconds(lambda: flat.nearest(queries, width), 2)
    ivf = Neighbours(vectors, f"IVF{CELLS},Flat", PROBED, device)
    yield "ivf", met * PROBED / CELLS / _seconds(lambda: ivf.nearest(queries, width), 2)


def _host(vectors: Vectors) -> Iterator[tuple[str, float]]:
    asked, held = torch.from_numpy(vectors[:1024]), torch.from_numpy(vectors[: pool.COLUMNS])
    yield "host_product", len(asked) * len(held) * vectors.shape[1] / _seconds(lambda: asked @ held.T, 5)
    rng = generator(0, "measure-host")
    left, right = rng.integers(len(vectors), size=(2, 16 * pool.COLUMNS))

    def rescored() -> None:
        for start in range(0, len(left), pool.COLUMNS):
            here = slice(start, start + pool.COLUMNS)
            dots(vectors[left[here]], vectors[right[here]])

    yield "rescore", len(left) * vectors.shape[1] / _seconds(rescored, 2)
    keys, cosines = rng.integers(1 << 50, size=1_000_000), rng.random(1_000_000)
    yield "sort", len(keys) / _seconds(lambda: found(keys, cosines, NO_KEYS).least(HIGHEST, len(keys) // 2), 1)


def _count(asked: Asked) -> float:
    """Pairs a second that a shard tallies; of 32 dimensions, so that their product is little of it.

    One pair in a hundred reaches the lowest of 100 thresholds.
    """
    config = EncoderConfig(RANDOM_BERT, None, 24, 64, asked.encoder.threads, "fp32")
    rows = np.arange(asked.vectors // 2)
    tokens = Tokens.of((4 + generator(0, "measure-count").integers(94, size=(len(rows), 12))).tolist())
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "left").mkdir()
        tokens.write(Path(folder) / "left")
        np.save(Path(folder) / "left-all.npy", rows)
        shard = pool.PoolShard(pool.ShardSpec(folder, config, SearchConfig(), 0, 1))
        model = Model("", shard.untrained().digest, Scorer(10.0, -5.0))
        queries = shard.block(model, "left-all", 0, min(1024, len(rows) // 4))
        every = shard.block(model, "left-all", 0, len(rows))
    low, high = np.quantile(queries.vectors @ every.vectors.T, [0.99, 0.9999])
    thresholds, nothing = np.linspace(high, low, 100), as_pairs([], [])
    wanted = estimate.Asked(thresholds, Questions(rows, False, thresholds))
    once = _seconds(lambda: shard.tally(model, "left-all", queries, nothing, wanted), 1)
    return len(queries.rows) * len(rows) / once


def _seconds(work: Callable[[], object], repeats: int) -> float:
    """The median of so many repeats, after one that is left out; a GPU has done its work by then."""
    times: list[float] = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return float(np.median(times[1:]))
