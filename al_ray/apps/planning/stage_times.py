"""Time of each stage of a round: formulas over sizes and measured speeds, with their assumptions.

They model search/shard.py, search/join/exact_join.py, training/trainer.py and cluster/pool; change them together.
"""

import math
from math import prod

from al_ray.apps.planning.hardware import CPU, CUDA, Time, longest, time_of
from al_ray.apps.planning.setting import Setting
from al_ray.apps.planning.sizes import pairs_of
from al_ray.cluster.pool.ring import texts_at_once
from al_ray.core.chunks import texts_in_chunk
from al_ray.core.config.encoder import family_of
from al_ray.core.neighbourhood import NEIGHBOURS
from al_ray.search import knn_merge
from al_ray.search.faiss_index import LEAST_SAMPLE, SAMPLE_PER_CELL, SMALL
from al_ray.search.join.exact_join import GPU_TILE, TILE
from al_ray.search.kmeans import ITERATIONS, shared_cells
from al_ray.search.knn_rounds import First, first_portion
from al_ray.training.bi_encoder import passes_of_step
from al_ray.training.frozen_states import MOST_BYTES

SPARE = knn_merge.SPARE + 1  # Extra neighbours of each search: those that settle ties at the cut, and the text itself.
TILES = {CPU: TILE, CUDA: GPU_TILE}  # Left and right texts of a product of the exact join at most.
# Candidates that are sorted in the time in which a neighbour is merged, and a sampled pair is looked up, and counted.
# Measured beside each other: CPU time on the EPYC of hardware.py, 2026-11-23.
MERGED, LOOKED_UP, COUNTED = 0.1, 0.8, 4


def tokenize_time(run: Setting) -> Time:
    """Return the time of the worker with the most chunks to tokenize its texts."""
    size = texts_in_chunk(run.texts)
    most = math.ceil(math.ceil(run.texts / size) / run.tokenisers) * size
    return run.on_thread(min(most, run.texts) * run.sizes.tokens, "tokenise")


def encode_time(run: Setting, texts: int) -> Time:
    """Return the time of one worker to encode texts: launching the layers of each batch, and its arithmetic.

    No time if their vectors are given. All texts count as equally long: batches hold texts of similar length, so there
    is little padding.
    """
    if family_of(run.config.encoder).given:
        return Time()
    layers = math.ceil(texts / run.config.encoder_batch) * run.sizes.layers
    return run.on_device(texts * run.sizes.operations, "embed") + time_of(layers, run.constants, "layers")


def embed_time(run: Setting, left: int, right: int | None) -> Time:
    """Return the time of the largest shard to encode the left texts, and after them the right ones."""
    return encode_time(run, run.share(left)) + (Time() if right is None else encode_time(run, run.share(right)))


def search_time(run: Setting, left: int, right: int | None, *counts: int) -> Time:
    """Return the time of one search of the configured kind, by queries for so many pairs each, among these texts."""
    if run.kind == "exact":
        return join_time(run, left, right, *counts)
    return knn_time(run, left, right, run.config.search.neighbours, *counts)


def examples_time(run: Setting) -> Time:
    """Return the time to find the error examples of a round, among the pairs of one evaluated split.

    One search is asked two queries, for pairs of the highest score and for uncertain ones.
    """
    sizes, options = run.sizes, run.config.evaluation
    if not (options.splits and options.examples):
        return Time()
    return search_time(run, sizes.evaluation, sizes.evaluation_right, options.examples, options.examples)


def join_time(run: Setting, left: int, right: int | None, *counts: int) -> Time:
    """Return the time of the exact join: each pair once, shared evenly, at dim multiply-adds, and compared per query.

    Each product has a fixed cost: of two blocks, or of tiles if a block is larger. For the n least of its N pairs, a
    shard rescores n (1 + ln(N / n)) of them in float64; that only these are left open by the rounding of a rough
    product is assumed. In a symmetric pool half of the vectors travel between shards, else all left ones; transfers are
    assumed not to overlap with work. At the end the driver sorts the n least of all shards.
    """
    sizes, block = run.sizes, texts_at_once(run.constants.device, run.config.search.block)
    pairs = pairs_of(left, right) / run.shards
    tile = min(block, left / run.shards) * min(block, (right or left) / run.shards)
    travelling = left * sizes.dim * sizes.vectors / (2 if right is None else 1)
    shards = run.on_device(pairs * sizes.dim, "product") + run.on_device(len(counts) * pairs, "compare")
    # At least one, even if the pool is smaller than a block.
    shards += run.on_thread(max(1.0, pairs / min(tile, prod(TILES[run.constants.device]))), "meetings")
    rescored = sum(rescored_pairs(pairs, count) for count in counts)
    shards += run.on_thread(rescored * sizes.dim, "rescore") + run.received(travelling)
    return shards + merge_time(run, pairs_of(left, right), *counts)


def knn_time(run: Setting, left: int, right: int | None, neighbors: int, *counts: int) -> Time:
    """Return the time of a Faiss search: every left text queries every shard; the index is rebuilt in each round.

    A query is compared with all vectors of a shard's Flat index, or with nprobe / cells of them, and on its own shard
    with all centroids. One shard merges the first answers of all shards to a query, and then the nearest;
    second answers are not included: of texts that are dealt at random, fewer than one in a thousand. Of all N
    candidates n (1 + ln(N / n)) are rescored in float64 for the n least, as in the exact join, and the driver merges
    them at the same time. Queries and answers travel between shards, which is assumed not to overlap with work.
    """
    sizes, search = run.sizes, run.config.search
    stored = run.share(left if right is None else right)
    first = first_answers(run, neighbors)
    width = min(first or neighbors + SPARE, stored)
    cells = cells_of(search.index)
    if cells:
        build = build_time(run, right or left)
        query = run.on_device(run.share(left) * cells * sizes.dim, "flat")
        query += run.on_device(left * stored * min(1.0, search.nprobe / cells) * sizes.dim, "ivf")
    else:
        build, query = Time(), run.on_device(left * stored * sizes.dim, "flat")
    rescored = sum(rescored_pairs(left * neighbors, count) for count in counts)
    # All shards merge at once: each `shards` answers of width to its own left texts, counted for each query again.
    merged = len(counts) * (left * width + (left / run.shards * neighbors if first else 0))
    work = run.on_thread(rescored / run.shards * sizes.dim, "rescore") + run.on_thread(MERGED * merged, "sort")
    # A cell's number has 16 bits, or with more cells 32; those of other indexes than IVFx,Flat have a cosine, too.
    probed = (2 if cells <= SMALL else 4) + (0 if search.index.endswith(",Flat") else 4)
    travel = run.received(left * (sizes.dim * sizes.vectors + probed * min(search.nprobe, cells) + 12 * width))
    return longest(build + query + work + travel, merge_time(run, left * neighbors, *counts))


def means_time(run: Setting, left: int, right: int | None) -> Time:
    """Return the time to find the few nearest of each left text, of which the scores subtract the mean cosine."""
    return knn_time(run, left, right, NEIGHBOURS, 0) + rescored_time(run, left, NEIGHBOURS)


def rescored_time(run: Setting, texts: int, neighbors: int) -> Time:
    """Return the time to compute the cosines of each text with its nearest in float64."""
    return run.on_thread(texts / run.shards * neighbors * run.sizes.dim, "rescore")


def build_time(run: Setting, texts: int) -> Time:
    """Return the time to make an IVF index of `texts` right texts: to learn its cells, and to find the cell of each.

    In each iteration of k-means (cluster/pool/sharded_cells.py) a shard compares its part of the sample with all
    centroids, adds its texts and the sums of its cells from all shards, and receives these (8 bytes a number); the
    centroids go to the driver and to all shards (4 bytes each time). If Faiss learns the cells, one shard gets the
    whole sample, and works on its cores.
    """
    index, dim = run.config.search.index, run.sizes.dim
    cells = cells_of(index)
    sample = min(texts, max(LEAST_SAMPLE, SAMPLE_PER_CELL * cells))
    fill = run.on_device(run.share(texts) * cells * dim, "flat")
    if not shared_cells(index):
        learn = run.on_host(ITERATIONS * sample * cells * dim, "host_product")
        return learn + run.received(sample * dim * run.sizes.vectors) + fill
    own = math.ceil(sample / run.shards)
    step = run.on_device(own * cells * dim, "flat") + run.on_thread((own + cells) * dim, "rescore")
    return (step + run.received((8 + 2 * 4) * cells * dim)).times(ITERATIONS) + fill


def first_answers(run: Setting, neighbors: int) -> int:
    """Return how many neighbours of a query each shard gives in the first round; 0 where all are given in one."""
    portion = first_portion(neighbors + 1, run.shards)
    return portion.count if isinstance(portion, First) else 0


def merge_time(run: Setting, candidates: float, *counts: int) -> Time:
    """Return the time of the driver to sort the candidates of all shards, for each query at most `count` of each."""
    return run.on_thread(sum(min(candidates, run.shards * count) for count in counts), "sort")


def rescored_pairs(candidates: float, count: int) -> float:
    """Return how many of N candidates in random order are among the n least so far: n (1 + ln(N / n)), at most N."""
    return min(candidates, count * (1 + math.log(max(1.0, candidates / max(1, count)))))


def cells_of(index: str) -> int:
    """Return x of a Faiss index IVFx,...; 0 for an index without cells."""
    digits = index.partition("IVF")[2].partition(",")[0].partition("_")[0]
    return int(digits) if digits.isdigit() else 0


def train_time(run: Setting, labels: int) -> Time:
    """Return the time to train on all labels so far and on presumed non-matches, without retries.

    The shards wait meanwhile.

    A step is a forward and a backward pass (twice as much) over the texts of both sides of a worker's pairs, and the
    update of all parameters. With w workers, a ring all-reduce sends the gradients, 4 bytes for a parameter,
    2 (w - 1) / w times, assumed not to overlap with work. Then one worker encodes the texts of all labelled pairs to
    refit the scorer. Frozen layers have no backward pass and no update; their outputs are computed once, or in each
    step if they are too large to be stored (training/frozen_states.py).
    """
    sizes, recipe = run.sizes, run.config.training
    pairs = recipe.pairs(labels)
    whole = min(recipe.batch * recipe.workers, pairs)
    steps, batch = recipe.epochs * (pairs // whole), math.ceil(whole / recipe.workers)
    passes = passes_of_step(batch, run.constants.device == CUDA)
    above = (sizes.layers - run.frozen) / sizes.layers
    stored = run.frozen_states(labels) <= MOST_BYTES
    # Passes through all layers: of the trained ones three, of frozen ones one if it is in each step.
    share = above + (0 if stored else (1 - above) / 3)
    step = time_of(3 * passes * sizes.layers * share, run.constants, "layers")
    # A worker has a GPU to itself while the shards wait; on CPUs it has its own cores.
    power = 1.0 if run.constants.device == CUDA else run.power
    trained = sizes.trained_parameters(run.frozen)
    step += time_of(6 * batch * sizes.operations * share, run.constants, "train", power)
    step += time_of(trained, run.constants, "optimiser", power if run.constants.device == CUDA else 1.0)
    step += time_of(8 * trained * (1 - 1 / recipe.workers), run.constants, "transfer")
    frozen = encode_time(run, 2 * pairs).times(1 - above)
    return step.times(steps) + encode_time(run, 2 * labels) + (frozen if stored else Time())


def evaluate_time(run: Setting) -> Time:
    """Return the time to evaluate all splits, by counting all pairs or scoring evaluation sets."""
    each = count_time(run) if run.counted else estimate_time(run)
    return each.times(len(run.config.evaluation.splits))


def count_time(run: Setting) -> Time:
    """Return the time to count every pair of a split on the shards' CPUs; left vectors travel to every shard.

    The product covers all cells, twice the pairs in a symmetric task; one thread counts the pairs.
    """
    sizes = run.sizes
    right = sizes.evaluation_right or sizes.evaluation
    stored = run.share(right)
    pairs = sizes.evaluation_pairs * stored / right
    time = run.on_host(sizes.evaluation * stored * sizes.dim, "host_product") + run.on_thread(pairs, "count")
    return time + run.received(sizes.evaluation * sizes.dim * sizes.vectors)


def scored_pairs(run: Setting) -> int:
    """Return the pairs of an evaluation set: near pairs, at most --near-pairs of each band, and random ones.

    Positives are few.
    """
    options, near = run.config.evaluation, near_pairs(run)
    sampled = min(near, options.most_near_pairs * (len(options.bands) + 1))
    return sampled + min(run.sizes.evaluation_pairs - near, options.random_pairs)


def near_pairs(run: Setting) -> int:
    """Return the near pairs of a split, among which its evaluation set is drawn."""
    return min(run.sizes.evaluation_pairs, run.sizes.evaluation * run.config.evaluation.near_neighbours)


def draw_time(run: Setting) -> Time:
    """Return the time to draw an evaluation set from near pairs that are found.

    Each shard sorts the near pairs that it owns, and makes all random draws twice; the first one sorts the sample.
    """
    shards = near_pairs(run) / run.shards + 2 * run.config.evaluation.random_pairs
    return run.on_thread(shards + scored_pairs(run), "sort")


def estimate_time(run: Setting) -> Time:
    """Return the time to score an evaluation set.

    Each shard looks in the keys of all pairs for its own, asks for the left texts of these, scores them in float32
    (half the time of float64) and counts them with their bootstrap weights. Left texts are assumed to differ, up to
    all of them for each stratum.
    """
    sizes, pairs, strata = run.sizes, scored_pairs(run), len(run.config.evaluation.bands) + 2
    own = pairs * run.share(sizes.evaluation_right or sizes.evaluation) / (sizes.evaluation_right or sizes.evaluation)
    shards = run.on_thread(pairs * LOOKED_UP + own * COUNTED, "sort") + run.on_thread(own * sizes.dim / 2, "rescore")
    return shards + run.received(min(own, strata * sizes.evaluation) * sizes.dim * sizes.vectors + 8 * pairs)
