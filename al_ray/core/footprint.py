"""How much memory each process of a run takes: formulas over sizes, as the code of this version holds things.

Nothing here is a speed; what is not counted: Ray's object store, texts on their way from files, the page cache.
"""

import math
from dataclasses import dataclass

from al_ray.core.speeds import CUDA
from al_ray.core.stages import SPARE, Setting, cells_of, scored_pairs

HOST, GPU, DISK = "host", "GPU", "disk"
STATES = 10  # Hidden states of a batch that live at once in a forward pass: the inner layer is four of them.
TILES = {"cpu": (1024 * 2048, 5), CUDA: (4096 * 8192, 8)}  # Cells of a product of the exact join, bytes of each.
TEMPORARY = 256 * 2**20  # What Faiss takes of a GPU besides its index (model/neighbours.py).
STRING = 57  # Bytes of a Python string besides its letters, and of what points to it.
LETTERS = 5  # Of a word piece, with its space.


@dataclass(frozen=True)
class Memory:
    """Bytes that a holder (a shard, the trainer, the driver) needs for something, and where."""

    holder: str
    what: str
    where: str
    bytes: float


def memory(run: Setting) -> list[Memory]:
    """Of one shard, of the trainer, of the driver."""
    device = GPU if run.constants.device == CUDA else HOST
    return [*_shard(run, device), *_trainer(run, device), *_driver(run)]


def held_texts(run: Setting) -> int:
    """Texts whose vectors the fullest shard keeps: those of the pool and of all measured splits, under one model."""
    return sum(_parts(run))


def _parts(run: Setting) -> list[int]:
    """The same, part by part."""
    sizes, splits = run.sizes, len(run.config.evaluation.splits)
    every = [sizes.texts, sizes.right or 0] + splits * [sizes.evaluation, sizes.evaluation_right or 0]
    return [run.share(texts) for texts in every]


def _vectors(run: Setting) -> list[Memory]:
    """In memory up to `--mapped-above`, and beyond it mapped: part by part, as model/vectors.py does it."""
    sizes, found = run.sizes, {HOST: 0, DISK: 0}
    each, limit = sizes.dim * sizes.vectors, run.cluster.mapped_above * 2**30
    for texts in _parts(run):
        beyond = run.cluster.keep_vectors or (found[HOST] + texts) * each > limit
        found[DISK if beyond else HOST] += texts
    ways = ((HOST, ""), (DISK, ", mapped"))
    return [
        Memory("shard", f"vectors of {found[where]:,} texts, {8 * sizes.vectors} bits{way}", where, found[where] * each)
        for where, way in ways
    ]


def _shard(run: Setting, device: str) -> list[Memory]:
    """What falls with more shards: vectors, its word pieces, the index.

    What does not: the positions of all texts and the batches they make (8 bytes each, five times), the encoder. What
    grows: the answers of all shards to a block.
    """
    sizes, held = run.sizes, held_texts(run)
    side = max(sizes.texts, sizes.right or 0, sizes.evaluation, sizes.evaluation_right or 0)
    libraries = run.constants.libraries.value
    return [
        *_vectors(run),
        Memory("shard", "token ids (mapped) and places of batches", HOST, held * sizes.tokens * 4 + 40 * side),
        Memory("shard", f"index ({run.kind})", device, _index(run, device)),
        Memory("shard", "search blocks", device, _blocks(run)),
        Memory("shard", "answers of all shards to a block", HOST, _answers(run)),
        Memory("shard", "encoder weights", device, 4 * sizes.parameters),
        Memory("shard", "a batch in the encoder", device, _activations(run, run.config.encoder_batch)),
        Memory("shard", "libraries", HOST, libraries),
    ]


def _index(run: Setting, device: str) -> float:
    """Faiss copies the vectors (float32, SQfp16's halves or PQ's bytes) with a number of 8 bytes; the exact join has
    none on a CPU, and on a GPU its own vectors there in 32 and 16 bits.
    """  # fmt: skip
    sizes = run.sizes
    held = run.share(sizes.texts if sizes.right is None else sizes.right)
    if run.kind == "exact":
        return 0
    codes = run.config.search.index.partition("PQ")[2].partition("x")[0]
    each = int(codes) if codes.isdigit() else (2 if "SQfp16" in run.config.search.index else 4) * sizes.dim
    cells = cells_of(run.config.search.index)
    return held * (each + 8 * bool(cells)) + cells * sizes.dim * 4 + (TEMPORARY if device == GPU else 0)


def _blocks(run: Setting) -> float:
    """knn: a block's queries and its candidates, 28 bytes each. exact: a tile, two blocks, and the candidates kept."""
    sizes, search = run.sizes, run.config.search
    if run.kind == "exact":
        cells, each = TILES[run.constants.device]
        tile = min(cells, search.block**2) * each
        return tile + 2 * search.block * sizes.dim * 6 + max(run.config.batches) * 1.25 * 32
    return search.block * (sizes.dim * 4 + (search.neighbours + SPARE) * 28)


def _answers(run: Setting) -> float:
    """Of every shard 12 bytes a neighbour of each query in a block, 44 more while they are merged; exact has none."""
    search = run.config.search
    return 0 if run.kind == "exact" else run.shards * search.block * (search.neighbours + 1) * 56


def _activations(run: Setting, batch: int) -> float:
    """Of a batch of longest texts in a forward pass, 4 bytes a number; attention of `dim / 64` heads besides."""
    sizes, longest = run.sizes, run.config.max_length
    return batch * longest * 4 * (STATES * sizes.dim + longest * math.ceil(sizes.dim / 64))


def _trainer(run: Setting, device: str) -> list[Memory]:
    """Weights, gradients and two moments; activations of all layers, twice STATES each, of the texts of a step.

    Each of several workers takes as much, and a copy of the gradients under way to the others. Momentum contrast has
    weights twice.
    """
    sizes, recipe = run.sizes, run.config.training
    held = (16 if recipe.workers == 1 else 20) + (4 if recipe.loss == "momentum" else 0)
    refit = 2 * run.labels[-1] * sizes.dim * 4
    return [
        Memory("trainer", "weights, gradients, moments", device, held * sizes.parameters),
        Memory("trainer", "a step", device, 2 * sizes.layers * _activations(run, 2 * recipe.batch)),
        Memory("trainer", "vectors of labelled pairs", HOST, refit),
        Memory("trainer", "libraries", HOST, run.constants.libraries.value),
    ]


def _driver(run: Setting) -> list[Memory]:
    """The task's texts and ids as Python strings; the best pairs so far and a few blocks' (32 bytes a pair, sorted);
    labels; and of an estimate its evaluation sets: keys, and while they are scored 48 bytes a pair.
    """  # fmt: skip
    sizes, search, splits = run.sizes, run.config.search, len(run.config.evaluation.splits)
    texts = sizes.texts + (sizes.right or 0) + splits * (sizes.evaluation + (sizes.evaluation_right or 0))
    most = max(run.config.batches)
    block = min(most, search.block * search.neighbours) if run.kind == "knn" else most
    waiting = 2 * run.shards + 2 if run.kind == "knn" else run.shards
    sets = 0 if run.counted else scored_pairs(run) * (8 * splits + 48)
    return [
        Memory("driver", "texts and their ids", HOST, texts * (2 * STRING + 8 + LETTERS * sizes.tokens + 16)),
        Memory("driver", "chosen pairs", HOST, 32 * (2 * most + block) + 16 * waiting * block),
        Memory("driver", "labels", HOST, 40 * run.labels[-1]),
        Memory("driver", "evaluation sets", HOST, sets),
        Memory("driver", "libraries", HOST, run.constants.libraries.value),
    ]
