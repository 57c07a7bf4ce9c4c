"""Memory of each process of a run: formulas over sizes that follow the code of this version.

Not included: Ray's object store, texts while they are read, the page cache.
"""

import math
from dataclasses import dataclass
from math import prod

from al_ray.apps.planning.hardware import CPU, CUDA
from al_ray.apps.planning.setting import Setting
from al_ray.apps.planning.stage_times import (
    COMPARISONS,
    SPARE,
    candidate_pairs,
    cells_of,
    first_answers,
    near_pairs,
    scored_pairs,
)
from al_ray.cluster.pool.neighbors import AHEAD_AGAIN
from al_ray.cluster.pool.ring import AHEAD, texts_at_once
from al_ray.core.config.losses import LOSSES
from al_ray.datasets.corpus_file import CACHED
from al_ray.search.faiss_index import TEMPORARY
from al_ray.search.flat_index import PRODUCT, is_flat_on_gpu
from al_ray.search.join.exact_join import GPU_TILE, RESIDENT, TILE
from al_ray.search.lexical.grams import COLUMNS
from al_ray.training.frozen_states import MOST_BYTES

HOST, GPU, DISK = "host", "GPU", "disk"
STATES = 10  # Hidden states of a batch in memory at once in a forward pass; the inner layer counts as four.
TILES = {CPU: TILE, CUDA: GPU_TILE}  # Left and right texts of a product of the exact join at most.
CELL = {CPU: 5, CUDA: 8}  # Bytes of a cell of a product of the exact join.
CONTEXT = 2**29  # A CUDA context of a process on a GPU, with the kernels of torch: assumed, not measured.
LETTERS = 5  # Letters of a token, with its space; letters of an id.
LEARNER = 100 * 2**20  # Bytes of the trees of scikit-learn, imported: 431 MiB beside 330 (2026-11-28).


@dataclass(frozen=True)
class Memory:
    """Bytes that a holder (shard, trainer, driver) needs for something. where: host, GPU or disk."""

    holder: str
    what: str
    where: str
    bytes: float


def memory(run: Setting) -> list[Memory]:
    """Return the memory of one shard, of the trainer and of the driver."""
    device = GPU if run.constants.device == CUDA else HOST
    trainer = _trainer(run, device) if run.config.trainers else []
    return [*_shard(run, device), *trainer, *_driver(run)]


def stored_texts(run: Setting) -> int:
    """Return how many vectors the largest shard stores: of the pool and of all evaluated splits, for one model."""
    return sum(_parts(run))


def _parts(run: Setting) -> list[int]:
    """Return the texts of the largest shard, part by part."""
    sizes, splits = run.sizes, len(run.config.evaluation.splits)
    every = [sizes.texts, sizes.right or 0] + splits * [sizes.evaluation, sizes.evaluation_right or 0]
    return [run.share(texts) for texts in every]


def _vectors(run: Setting) -> list[Memory]:
    """Return vectors in memory up to `--mapped-above` and memory-mapped beyond it, as search/vector_files.py does.

    With `--keep-vectors` also those of two models, the untrained encoder and the last one, in the run's storage.
    """
    sizes, stored = run.sizes, {HOST: 0, DISK: 0}
    each, limit = sizes.dim * sizes.vectors, run.cluster.mapped_above * 2**30
    for texts in _parts(run):
        beyond = (stored[HOST] + texts) * each > limit
        stored[DISK if beyond else HOST] += texts
    kept = [Memory("shard", "vectors kept with the run", DISK, 2 * stored_texts(run) * each)]
    return [
        *(
            Memory("shard", f"vectors of {count:,} texts, {8 * sizes.vectors} bits{way}", where, count * each)
            for (where, count), way in zip(stored.items(), ("", ", mapped"), strict=True)
        ),
        *(kept if run.cluster.keep_vectors else []),
    ]


def _shard(run: Setting, device: str) -> list[Memory]:
    """Return the memory of a shard.

    Less with more shards: vectors, token ids, the index. Constant: positions of all texts and their batches (5 arrays
    of 8 bytes for each), the encoder. More with more shards: the answers of all shards to a block.
    """
    sizes, texts = run.sizes, stored_texts(run)
    side = max(sizes.texts, sizes.right or 0, sizes.evaluation, sizes.evaluation_right or 0)
    libraries = run.constants.libraries.value
    return [
        *_vectors(run),
        Memory("shard", "token ids (mapped) and places of batches", HOST, texts * sizes.tokens * 4 + 40 * side),
        Memory(
            "shard", "indexes of Faiss" if _has_faiss(run) else "indexes, without Faiss", device, _index(run, device)
        ),
        Memory("shard", "search blocks", device, _blocks(run)),
        Memory("shard", "answers of all shards to a block", HOST, _answers(run)),
        *_near_pairs(run),
        *_candidates(run),
        Memory("shard", "encoder weights", device, 4 * sizes.parameters),
        Memory("shard", "a batch in the encoder", device, _activations(run, run.config.encoder_batch)),
        *_context("shard", device),
        Memory("shard", "libraries", HOST, libraries),
    ]


def _context(holder: str, device: str) -> list[Memory]:
    """Return what each process that uses a GPU takes there, also where several share it."""
    return [Memory(holder, "CUDA context (assumed)", GPU, CONTEXT)] if device == GPU else []


def _has_faiss(run: Setting) -> bool:
    """Whether indexes are Faiss's."""
    return not is_flat_on_gpu(run.config.search.index, run.constants.device)


def _index(run: Setting, device: str) -> float:
    """Return the bytes of the indexes that exist together: of an evaluated split for near pairs or error examples, and
    of the pool; the exact join has none.

    Near pairs are found by the untrained encoder, whose indexes stay for the search of the first round. Error examples
    are found by another model than the pool's pairs.
    """  # fmt: skip
    sizes, found = run.sizes, run.kind == "knn"
    pool, split = (
        _index_of(run, device, texts)
        for texts in (sizes.right or sizes.texts, sizes.evaluation_right or sizes.evaluation)
    )
    near = 0 if run.counted else len(run.config.evaluation.splits) * split
    examples = split if found and run.config.evaluation.splits and run.config.evaluation.examples else 0
    largest = max(sizes.right or sizes.texts, sizes.evaluation_right or sizes.evaluation)
    product = min(PRODUCT, 4 * run.config.search.block * run.share(largest))
    temporary = (TEMPORARY if _has_faiss(run) else product) if device == GPU and (found or near) else 0
    return max(near + found * pool, examples) + temporary


def _index_of(run: Setting, device: str, texts: int) -> float:
    """Return the bytes of an index of so many texts.

    Faiss copies the vectors (float32, half precision for SQfp16, codes for PQ); an IVF index adds ids of 8 bytes. Flat
    on a GPU has them as they are.
    """
    sizes, index = run.sizes, run.config.search.index
    codes = index.partition("PQ")[2].partition("x")[0]
    number = 2 if "SQfp16" in index else 4 if _has_faiss(run) else sizes.vectors
    each = int(codes) if codes.isdigit() else number * sizes.dim
    cells = cells_of(index)
    return run.share(texts) * (each + 8 * bool(cells)) + cells * sizes.dim * 4


def _blocks(run: Setting) -> float:
    """Return the bytes of a search block. knn: queries, candidates of 28; exact: a product, the visiting blocks, own
    blocks that stay on a GPU, candidates.
    """  # fmt: skip
    sizes, search, device = run.sizes, run.config.search, run.constants.device
    if run.kind == "exact":
        block, each = texts_at_once(device, search.block), sizes.dim * (4 if device == CPU else 6)
        cells = min(prod(TILES[device]), block**2)
        own = min(RESIDENT, run.share(sizes.right or sizes.texts) * each) if device == CUDA else block * each
        return cells * CELL[device] + block * each + own + max(run.batches) * 1.25 * 32
    return search.block * (sizes.dim * 4 + (search.neighbours + SPARE) * 28)


def _answers(run: Setting) -> float:
    """Return the bytes of all shards' answers to a shard's blocks; exact has none.

    12 for a neighbour, of the block that is merged and of those that are asked for ahead. In one round 44 more while it
    is merged; in two rounds 26 more where the second is asked for, and 92 for each of the nearest while it is merged.
    """
    search = run.config.search
    first, asked = first_answers(run, search.neighbours), 12 * (AHEAD + 1)
    if run.kind == "exact":
        return 0
    if not first:
        return run.shards * search.block * (search.neighbours + SPARE) * (asked + 44)
    each = asked + 12 * AHEAD_AGAIN + 26 * (AHEAD_AGAIN + 1)
    return search.block * (run.shards * first * each + search.neighbours * 92)


def _near_pairs(run: Setting) -> list[Memory]:
    """Return the memory of evaluation sets, if AP is estimated. While one is drawn: near pairs, by finder and by owner
    (32 bytes for a pair while they are merged), random draws (48), and the rows of all texts (24 bytes for a text while
    they are sorted). The sets: 8 bytes for a pair in Ray's object store, and on the first shard 16 more while it merges
    or reads one.
    """  # fmt: skip
    texts, draws = run.sizes.evaluation + (run.sizes.evaluation_right or 0), run.config.evaluation.random_pairs
    needed = (32 * near_pairs(run) + 48 * min(run.sizes.evaluation_pairs, draws)) / run.shards + 24 * texts
    if run.counted:
        return []
    sets = scored_pairs(run) * (8 * len(run.config.evaluation.splits) + 16)
    return [
        Memory("shard", "near pairs of an evaluation set", HOST, needed),
        Memory("shard", "evaluation sets", HOST, sets),
    ]


def _candidates(run: Setting) -> list[Memory]:
    """Return the candidates of a matcher: mapped comparisons of 4 bytes; key, cosine, way and score of each pair; and
    how many texts have each 3-gram and each word.
    """  # fmt: skip
    if run.config.matcher == "off":
        return []
    sizes, splits = run.sizes, len(run.config.evaluation.splits)
    pairs = candidate_pairs(run, sizes.texts, sizes.right)
    pairs += splits * candidate_pairs(run, sizes.evaluation, sizes.evaluation_right)
    return [
        Memory("shard", "candidates and their comparisons (mapped)", HOST, pairs / run.shards * (4 * COMPARISONS + 25)),
        Memory("shard", "frequencies of 3-grams", HOST, 8 * COLUMNS),
    ]


def _activations(run: Setting, batch: int) -> float:
    """Return the bytes of a forward pass of a batch of longest texts: float32, and `width / 64` attention heads."""
    sizes, longest = run.sizes, run.config.max_length
    return batch * longest * 4 * (STATES * sizes.width + longest * math.ceil(sizes.width / 64))


def _trainer(run: Setting, device: str) -> list[Memory]:
    """Return the memory of a training worker.

    Weights, gradients and two moments; activations of all layers, twice STATES each, for the texts of a step. With
    several workers, each has also a copy of the gradients for the others. A loss with slow keys stores weights twice,
    and so does a pull towards the initial ones. The stored outputs of frozen layers are counted for two texts of a
    pair, as if no text were in two pairs; of frozen layers there are weights alone.
    """
    sizes, recipe = run.sizes, run.config.training
    twice = LOSSES[recipe.loss].slow_keys
    each = (16 if recipe.workers == 1 else 20) + 4 * twice + 4 * (recipe.l2_sp > 0)
    refit = 2 * run.labels[-1] * sizes.dim * 4
    frozen, trained = list[Memory](), sizes.trained_parameters(run.frozen)
    if run.frozen:
        # Of the last round in which they are stored.
        states = max((size for size in map(run.frozen_states, run.labels) if size <= MOST_BYTES), default=0)
        frozen = [Memory("trainer", "outputs of frozen layers", device, states)]
    layers = max(1, sizes.layers - run.frozen)
    copies = 8 if twice else 4
    weights = copies * sizes.parameters + (each - copies) * trained
    return [
        Memory("trainer", "weights, gradients, moments", device, weights),
        Memory("trainer", "a step", device, 2 * layers * _activations(run, 2 * recipe.batch)),
        *frozen,
        *_context("trainer", device),
        Memory("trainer", "vectors of labelled pairs", HOST, refit),
        Memory("trainer", "libraries", HOST, run.constants.libraries.value),
    ]


def _driver(run: Setting) -> list[Memory]:
    """Return the memory of the driver: rows of the splits; ids and texts that were read last (in Arrow, with an offset
    of 8 bytes each); the best pairs of each shard (32 bytes for a pair while they are merged); and labels.
    """
    sizes, splits = run.sizes, len(run.config.evaluation.splits)
    left, right = sizes.texts + splits * sizes.evaluation, (sizes.right or 0) + splits * (sizes.evaluation_right or 0)
    cached = min(left, CACHED) + min(right, CACHED)
    return [
        Memory("driver", "rows of its splits", HOST, 8 * (left + right)),
        Memory("driver", "texts and ids read last", HOST, cached * (2 * 8 + LETTERS * (sizes.tokens + 1))),
        Memory("driver", "chosen pairs", HOST, 32 * (run.shards + 2) * max(run.batches)),
        Memory("driver", "labels", HOST, 40 * run.labels[-1]),
        Memory("driver", "scikit-learn, which learns the matcher", HOST, LEARNER * (run.config.matcher == "on")),
        Memory("driver", "libraries", HOST, run.constants.libraries.value),
    ]
