"""How long each stage of a round takes: formulas over sizes and measured constants, each with what it assumes.

They follow the code of model/pool.py, model/join.py, model/trainer.py and cluster/pool.py, and change with it.
"""

import math
from dataclasses import dataclass, field
from itertools import accumulate

from al_ray.core.config import ClusterConfig, RunConfig
from al_ray.core.limits import refuse_beyond
from al_ray.core.speeds import CUDA, Constants, Time, longest, time_of

MOST = 10**12  # Of anything that is asked for: beyond all that exists.
SPARE = 9  # Neighbours asked for beyond those wanted (model/pool.py), and one where a text finds itself.
PASS = 8  # Texts of a training step that go through the encoder at a time on a CPU (model/training.py).
KMEANS = 25  # Rounds in which Faiss trains an IVF index
SAMPLE = (20_000, 100)  # on so many vectors, or so many a cell (model/neighbours.py).


@dataclass(frozen=True)
class Sizes:
    """What a run is about.

    texts: left texts of the training pool; right: the right ones, None where they are the same texts (symmetric).
    evaluation, evaluation_right: the same of each split that is measured.
    tokens: word pieces of a text on average, special ones included; vocabulary: those that the encoder knows.
    vectors: bytes of a number in a vector.
    """

    texts: int
    right: int | None
    evaluation: int
    evaluation_right: int | None
    dim: int = 384
    layers: int = 6
    tokens: float = 128.0
    vocabulary: int = 30522
    vectors: int = 4

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        refuse_beyond(
            (
                (self.texts, "--texts", 2, MOST),
                (self.right, "--right-texts", 1, MOST),
                (self.evaluation, "--evaluation-texts", 2, MOST),
                (self.dim, "--dim", 1, MOST),
                (self.layers, "--layers", 1, MOST),
                (self.tokens, "--tokens", 1, MOST),
                (self.vocabulary, "--vocabulary", 1, MOST),
            )
        )

    @property
    def parameters(self) -> int:
        """Of a BERT whose inner width is 4 dim: word, position and type embeddings, 12 dim^2 and 13 dim a layer."""
        return (self.vocabulary + 514) * self.dim + self.layers * (12 * self.dim**2 + 13 * self.dim)

    @property
    def operations(self) -> float:
        """Of a text's forward pass: 24 dim^2 a word piece and layer, and 4 dim tokens^2 a layer for attention."""
        return self.layers * (24 * self.dim**2 * self.tokens + 4 * self.dim * self.tokens**2)

    @property
    def pairs(self) -> int:
        """Of the training pool."""
        return pairs_of(self.texts, self.right)

    @property
    def evaluation_pairs(self) -> int:
        """Of a split that is measured."""
        return pairs_of(self.evaluation, self.evaluation_right)


def pairs_of(left: int, right: int | None) -> int:
    """N (n - 1) / 2 of one set of texts, n m of two."""
    return left * (left - 1) // 2 if right is None else left * right


@dataclass(frozen=True)
class Setting:
    """All that decides a plan; search.kind is exact or knn. counted: whether evaluation counts every pair."""

    config: RunConfig
    sizes: Sizes
    cluster: ClusterConfig
    constants: Constants
    counted: bool
    labels: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Labels after each round."""
        object.__setattr__(self, "labels", tuple(accumulate(self.config.batches)))

    @property
    def kind(self) -> str:
        """Of search: exact or knn."""
        return self.config.search.kind

    @property
    def shards(self) -> int:
        """How many."""
        return self.cluster.shards

    @property
    def cluster_share(self) -> float:
        """GPUs of a worker, or its cores where there is none."""
        cuda = self.constants.device == CUDA
        return self.cluster.gpus_per_shard if cuda else self.cluster.cpus_per_shard

    @property
    def cores(self) -> float:
        """A worker's host, in terms of the one that was measured: cores are assumed to work evenly."""
        return self.cluster.cpus_per_shard / self.constants.threads

    @property
    def power(self) -> float:
        """A worker's device, in terms of the one that was measured: its share of one GPU, or its cores."""
        return min(1.0, self.cluster.gpus_per_shard) if self.constants.device == CUDA else self.cores

    def share(self, texts: int) -> int:
        """Texts of the fullest shard: whole encoder batches are dealt out (model/pool.py)."""
        batch = self.config.encoder_batch
        return min(texts, math.ceil(math.ceil(texts / batch) / self.shards) * batch)

    def on_device(self, amount: float, name: str) -> Time:
        """Work of one worker's device."""
        return time_of(amount, self.constants, name, self.power)

    def on_host(self, amount: float, name: str) -> Time:
        """Work of one worker's cores."""
        return time_of(amount, self.constants, name, self.cores)

    def on_thread(self, amount: float, name: str) -> Time:
        """Work that one thread does, whatever there is."""
        return time_of(amount, self.constants, name)

    def received(self, size: float) -> Time:
        """Bytes from other actors; a shard alone asks nobody."""
        return time_of(size if self.shards > 1 else 0, self.constants, "transfer")


def tokenised(run: Setting) -> Time:
    """Every text once, by one worker however many there are; grows with the word pieces of all texts."""
    sizes = run.sizes
    texts = sizes.texts + (sizes.right or 0)
    texts += len(run.config.evaluation.splits) * (sizes.evaluation + (sizes.evaluation_right or 0))
    return run.on_thread(texts * sizes.tokens, "tokenise")


def encoded(run: Setting, texts: int) -> Time:
    """Texts through the encoder of one worker: each batch starts its layers, then arithmetic, at `operations` a text.

    Texts are taken to be of one length: batches are of like length, so little is padding.
    """
    batches = math.ceil(texts / run.config.encoder_batch)
    return run.on_device(texts * run.sizes.operations, "embed") + time_of(
        batches * run.sizes.layers, run.constants, "layers"
    )


def embedded(run: Setting, left: int, right: int | None) -> Time:
    """The texts of both sides, as long as the fullest shard works; the right side after the left."""
    return encoded(run, run.share(left)) + (Time() if right is None else encoded(run, run.share(right)))


def searched(run: Setting, count: int) -> Time:
    """The `count` pairs of least cost of the training pool, by either kind."""
    sizes = run.sizes
    if run.kind == "exact":
        return joined(run, count)
    return neighbours(run, sizes.texts, sizes.right, run.config.search.neighbours, count)


def joined(run: Setting, count: int) -> Time:
    """The exact join: every pair of the pool once, dealt evenly; a cosine costs dim multiply-adds and a comparison.

    Blocks meet two at a time, and each meeting costs something whatever its size. A shard looks at n (1 + ln(N / n)) of
    its N pairs again, in float64, for the n wanted. Vectors of a symmetric pool travel half way round, of two sides all
    left ones pass by; that is not taken to overlap. The driver merges what they found beside them, n/4 at a time.
    """
    sizes, block, pairs = run.sizes, run.config.search.block, run.sizes.pairs / run.shards
    again = looked_at_again(pairs, count)
    passing = sizes.texts * sizes.dim * sizes.vectors / (2 if sizes.right is None else 1)
    shards = run.on_device(pairs * sizes.dim, "product") + run.on_device(pairs, "compare")
    # At least one: of a pool that is smaller than a block, too.
    shards += run.on_thread(max(1.0, pairs / block**2), "meetings")
    shards += run.on_thread(again * sizes.dim, "rescore") + run.received(passing)
    return longest(shards, merged(run, run.sizes.pairs, count))


def neighbours(run: Setting, left: int, right: int | None, wanted: int, count: int) -> Time:
    """Faiss: every left text asks every shard; the index is made anew under the round's weights, learnt by one shard.

    A query meets all vectors of a shard's Flat index, or nprobe / cells of them after all cells' centres. The answers,
    `wanted` + 9 a query and shard, are merged by one shard for each query. Of all N candidates n (1 + ln(N / n)) are
    looked at again, in float64, for the n wanted, as in the exact join; the driver merges these beside the shards, n/4
    new ones at a time. Queries and answers travel; that is not taken to overlap.
    """
    sizes, search = run.sizes, run.config.search
    held = run.share(left if right is None else right)
    width = min(wanted + SPARE, held)
    cells = cells_of(search.index)
    if cells:
        sample = min(right or left, max(SAMPLE[0], SAMPLE[1] * cells))
        build = run.on_device((KMEANS * sample + held) * cells * sizes.dim, "flat")
        met = run.on_device(left * cells * sizes.dim, "flat")
        met += run.on_device(left * held * min(1.0, search.nprobe / cells) * sizes.dim, "ivf")
    else:
        build, met = Time(), run.on_device(left * held * sizes.dim, "flat")
    again = looked_at_again(left * wanted, count)
    work = run.on_thread(again / run.shards * sizes.dim, "rescore") + run.on_thread(left * width, "sort")
    travel = run.received(left * (sizes.dim * sizes.vectors + width * 12))
    return longest(build + met + work + travel, merged(run, left * wanted, count))


def merged(run: Setting, candidates: float, count: int) -> Time:
    """What the driver sorts: the n it has and those that come, n/4 of these at a time."""
    return run.on_thread(looked_at_again(candidates, count) / max(1, count // 4) * 1.25 * count, "sort")


def looked_at_again(candidates: float, count: int) -> float:
    """How many of N candidates that come in no order are among the n least so far: n (1 + ln(N / n)), N at most."""
    return min(candidates, count * (1 + math.log(max(1.0, candidates / max(1, count)))))


def cells_of(index: str) -> int:
    """X of a Faiss index IVFx,...; 0 for one without cells."""
    digits = index.partition("IVF")[2].partition(",")[0].partition("_")[0]
    return int(digits) if digits.isdigit() else 0


def trained(run: Setting, labels: int) -> Time:
    """From the pre-trained weights on all labels so far, one try, by the training's workers; the shards wait.

    A step is a forward and a backward pass (twice as much) of the 2 batch texts of a worker, and the optimiser's move
    of all parameters. Each of several receives their gradients, 4 bytes a parameter, in w - 1 of w parts twice (a
    ring's all-reduce); that is not taken to overlap. After it the labelled pairs' texts, at most two a pair, are
    encoded once more for the refit, by one.
    """
    sizes, recipe = run.sizes, run.config.training
    whole = min(recipe.batch * recipe.workers, labels)
    steps, batch = recipe.epochs * (labels // whole), math.ceil(whole / recipe.workers)
    passes = 2 if run.constants.device == CUDA else 2 * math.ceil(batch / PASS)
    step = time_of(3 * passes * sizes.layers, run.constants, "layers")
    # A worker has a GPU to itself while the shards wait; on CPUs it has its own cores.
    power = 1.0 if run.constants.device == CUDA else run.power
    step += time_of(6 * batch * sizes.operations, run.constants, "train", power)
    step += time_of(sizes.parameters, run.constants, "optimiser", power if run.constants.device == CUDA else 1.0)
    step += time_of(8 * sizes.parameters * (1 - 1 / recipe.workers), run.constants, "transfer")
    return step.times(steps) + encoded(run, 2 * labels)


def measured_splits(run: Setting) -> Time:
    """AP of every split that is measured: all pairs counted, or an evaluation set scored."""
    each = counted_pairs(run) if run.counted else estimated_pairs(run)
    return each.times(len(run.config.evaluation.splits))


def counted_pairs(run: Setting) -> Time:
    """Every pair of a split, by the shards' CPUs; vectors of the left texts travel to every shard.

    The product is made of all cells, twice the pairs where these are unordered; one thread tallies each pair.
    """
    sizes = run.sizes
    right = sizes.evaluation_right or sizes.evaluation
    held = run.share(right)
    pairs = sizes.evaluation_pairs * held / right
    time = run.on_host(sizes.evaluation * held * sizes.dim, "host_product") + run.on_thread(pairs, "count")
    return time + run.received(sizes.evaluation * sizes.dim * sizes.vectors)


def scored_pairs(run: Setting) -> int:
    """Of an evaluation set: near pairs of every left text and random ones; positives are taken to be few."""
    asked = run.config.evaluation
    pairs = run.sizes.evaluation_pairs
    near = min(pairs, run.sizes.evaluation * asked.near_neighbours)
    return near + min(pairs - near, asked.random_pairs)


def estimated_pairs(run: Setting) -> Time:
    """Every pair of an evaluation set: the driver sorts them, each shard looks for its own and scores these."""
    sizes, pairs = run.sizes, scored_pairs(run)
    right = sizes.evaluation_right or sizes.evaluation
    own = pairs * run.share(right) / right
    shards = run.on_thread(pairs, "sort") + run.on_thread(own * sizes.dim, "rescore")
    return run.on_thread(pairs, "sort") + shards + run.received(sizes.evaluation * sizes.dim * sizes.vectors)
