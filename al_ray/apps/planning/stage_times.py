"""Time of each stage of a round: how its work grows with texts, pairs, labels and dimensions, over a speed.

Left out is what is small beside it: merging and sorting of answers, cosines in float64, starts of processes. A run
that is there says how much longer a stage takes (planned_and_used.stage_factors).
"""

import math

from al_ray.apps.planning.hardware import CUDA, Time, time_of
from al_ray.apps.planning.setting import Setting
from al_ray.apps.planning.sizes import pairs_of
from al_ray.core.chunks import texts_in_chunk
from al_ray.core.config.encoder import family_of
from al_ray.search import knn_merge
from al_ray.search.dense_texts import MOST, SAMPLED, SHARE
from al_ray.search.faiss_index import LEAST_SAMPLE, SAMPLE_PER_CELL
from al_ray.search.kmeans import ITERATIONS, shared_cells
from al_ray.search.knn_rounds import First, first_portion
from al_ray.search.lexical.weights import ADDITIONS
from al_ray.training.bi_encoder import passes_of_step
from al_ray.training.frozen_states import MOST_BYTES

SPARE = knn_merge.SPARE + 1  # Extra neighbours of each search: those that settle ties at the cut, and the text itself.
SHARED = 5
"""3-grams with a weight that two texts share, on average over all pairs: 2 on Amazon-Google and febrl4, 5 on WikiQA, 12
on Abt-Buy (counted on 2026-11-28)."""
COMPARISONS = 25
"""Comparisons of a pair: 24 of Abt-Buy's three fields, 15 of a task of one text."""
LEARNT = 200
"""Candidates whose p is computed in the time in which the learner takes in a label."""


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


def search_time(run: Setting, left: int, right: int | None) -> Time:
    """Return the time of one search of the configured kind among these texts."""
    if run.kind == "exact":
        return join_time(run, left, right)
    return knn_time(run, left, right, run.config.search.neighbours)


def join_time(run: Setting, left: int, right: int | None) -> Time:
    """Return the time of the exact join: each pair once, shared evenly, at dim multiply-adds.

    In a symmetric pool half of the vectors travel between shards, else all left ones; transfers are assumed not to
    overlap with work.
    """
    sizes = run.sizes
    travelling = left * sizes.dim * sizes.vectors / (2 if right is None else 1)
    return run.on_device(pairs_of(left, right) / run.shards * sizes.dim, "exact") + run.received(travelling)


def knn_time(run: Setting, left: int, right: int | None, neighbors: int) -> Time:
    """Return the time of a Faiss search: every left text queries every shard; the index is rebuilt in each round.

    A query is compared with all vectors of a shard's Flat index, or with nprobe / cells of them, and on its own shard
    with all centroids. Queries and answers travel between shards, which is assumed not to overlap with work.
    """
    sizes, search = run.sizes, run.config.search
    stored = run.share(left if right is None else right)
    cells = cells_of(search.index)
    if cells:
        work = build_time(run, right or left) + run.on_device(run.share(left) * cells * sizes.dim, "flat")
        work += run.on_device(left * stored * min(1.0, search.nprobe / cells) * sizes.dim, "ivf")
    else:
        work = run.on_device(left * stored * sizes.dim, "flat")
    width = min(first_answers(run, neighbors) or neighbors + SPARE, stored)
    return work + run.received(left * (sizes.dim * sizes.vectors + 12 * width))


def build_time(run: Setting, texts: int) -> Time:
    """Return the time to make an IVF index of `texts` right texts: to learn its cells, and to find the cell of each.

    In each iteration of k-means a shard compares its part of the sample with all centroids, and sums (8 bytes a number)
    and centroids (4 bytes, twice) travel. If Faiss learns the cells, one shard gets the whole sample.
    """
    index, dim = run.config.search.index, run.sizes.dim
    cells, shared = cells_of(index), shared_cells(index)
    sample = min(texts, max(LEAST_SAMPLE, SAMPLE_PER_CELL * cells))
    own = math.ceil(sample / run.shards) if shared else sample
    travelling = ITERATIONS * (8 + 2 * 4) * cells * dim if shared else sample * dim * run.sizes.vectors
    return run.on_device((ITERATIONS * own + run.share(texts)) * cells * dim, "flat") + run.received(travelling)


def first_answers(run: Setting, neighbors: int) -> int:
    """Return how many neighbours of a query each shard gives in the first round; 0 where all are given in one."""
    portion = first_portion(neighbors + 1, run.shards)
    return portion.count if isinstance(portion, First) else 0


def cells_of(index: str) -> int:
    """Return x of a Faiss index IVFx,...; 0 for an index without cells."""
    digits = index.partition("IVF")[2].partition(",")[0].partition("_")[0]
    return int(digits) if digits.isdigit() else 0


def train_time(run: Setting, labels: int) -> Time:
    """Return the time to train on all labels so far and on presumed non-matches, without retries.

    A step is a forward and a backward pass (twice as much) over the texts of both sides of a worker's pairs. With w
    workers, a ring all-reduce sends the gradients, 4 bytes for a parameter, 2 (w - 1) / w times, assumed not to overlap
    with work. Then one worker encodes the texts of all labelled pairs to refit the scorer. Frozen layers have no
    backward pass; their outputs are computed once, or in each step if they are too large to be stored
    (training/frozen_states.py).
    """
    sizes, recipe, cuda = run.sizes, run.config.training, run.constants.device == CUDA
    pairs = recipe.pairs(labels)
    whole = min(recipe.batch * recipe.workers, pairs)
    steps, batch = recipe.epochs * (pairs // whole), math.ceil(whole / recipe.workers)
    above = (sizes.layers - run.frozen) / sizes.layers
    stored = run.frozen_states(labels) <= MOST_BYTES
    # Passes through all layers: of the trained ones three, of frozen ones one if it is in each step.
    share = above + (0 if stored else (1 - above) / 3)
    step = time_of(3 * passes_of_step(batch, cuda) * sizes.layers * share, run.constants, "layers")
    # A worker has a GPU to itself while the shards wait; on CPUs it has its own cores.
    step += time_of(6 * batch * sizes.operations * share, run.constants, "train", 1.0 if cuda else run.power)
    sent = 8 * sizes.trained_parameters(run.frozen) * (1 - 1 / recipe.workers)
    step += time_of(sent, run.constants, "transfer")
    frozen = encode_time(run, 2 * pairs).times(1 - above)
    return step.times(steps) + encode_time(run, 2 * labels) + (frozen if stored else Time())


def evaluate_time(run: Setting) -> Time:
    """Return the time to evaluate all splits, by counting all pairs or scoring evaluation sets.

    Right texts are shared by the shards, to which the vectors of left ones travel, for an evaluation set at most those
    of each stratum.
    """
    sizes, options = run.sizes, run.config.evaluation
    right = sizes.evaluation_right or sizes.evaluation
    share, asked = run.share(right) / right, sizes.evaluation
    if run.counted:
        work = run.on_host(sizes.evaluation_pairs * share, "count")
    else:
        own = scored_pairs(run) * share
        work, asked = run.on_thread(own, "sampled"), min(own, (len(options.bands) + 2) * asked)
    return (work + run.received(asked * sizes.dim * sizes.vectors)).times(len(options.splits))


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


def candidate_pairs(run: Setting, left: int, right: int | None) -> int:
    """Return how many candidates of a matcher there are at most: the nearest of each text by two ways."""
    options = run.config.candidates
    of_right = 0 if right is None else 2 * right * options.of_right
    of_dense = math.ceil(SHARE * left) * options.dense(right is None)
    return min(left * (options.cosine + options.trigrams) + of_right + of_dense, pairs_of(left, right))


def candidates_time(run: Setting, left: int, right: int | None) -> Time:
    """Return the time to find and compare the candidates of a split, whose texts are embedded.

    The nearest of the left texts and, of two sets of texts, of the right ones, by cosine and by 3-grams; then more of
    dense texts, and of a sample that says how many of them there are.
    """
    options, others = run.config.candidates, left if right is None else right
    time, dense = Time(), options.dense(right is None)
    if dense:
        share = SHARE if options.more_of_dense == 0 else MOST
        few = math.ceil(share * left) + (0 if options.more_of_dense == 0 else math.ceil(share * min(left, SAMPLED)))
        time += knn_time(run, few, others, dense)
    for texts, other in [(left, right)] if right is None else [(left, right), (right, left)]:
        time += knn_time(run, texts, other, options.cosine)
        each = min(ADDITIONS, SHARED * (texts if other is None else other))
        time += run.on_host(run.share(texts) * each, "grams")
    return time + run.on_host(candidate_pairs(run, left, right) / run.shards * COMPARISONS, "comparisons")


def ranking_time(run: Setting, left: int, right: int | None) -> Time:
    """Return the time to compute p of the candidates of a split."""
    return run.on_host(candidate_pairs(run, left, right) / run.shards, "trees")


def learning_time(run: Setting, labels: int) -> Time:
    """Return the time in which the driver learns a matcher from all labels so far, in one thread."""
    return run.on_thread(labels * LEARNT, "trees")
