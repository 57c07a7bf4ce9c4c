"""Compare evaluation with a plain loop over sampled pairs, and with the products of an exact count."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import torch

from al_ray.active_learning.config import RunConfig
from al_ray.cluster.pool.sharded_evaluator import PoolEvaluator
from al_ray.cluster.pool.sharded_strata import store_evaluation_set
from al_ray.cluster.session import session
from al_ray.cluster.workers import get_results
from al_ray.core.config.bounds import Between, check_bounds
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import EvaluationConfig, SearchConfig
from al_ray.core.pairs import NO_KEYS, Pairs
from al_ray.core.rng import generator
from al_ray.core.vectors import Vectors
from al_ray.datasets.synthetic import LEAST
from al_ray.metrics.estimator import request_counts
from al_ray.metrics.strata import make_evaluation_set
from al_ray.runs.evaluation_sets import EvaluationSets, StoredSet
from al_ray.search.faiss_index import sample_size, set_threads
from benchmarks.memory import MB, resident
from benchmarks.searching import multiply
from benchmarks.synthetic_vectors import SyntheticPool, synthetic_pool
from benchmarks.timing import Figure, seconds

logger = logging.getLogger(__name__)
ESTIMATE = EvaluationConfig(mode="estimate")
PEAK = Path("/proc/self/clear_refs")  # Writing 5 resets the peak of a process to its memory now.


@dataclass(frozen=True)
class Evaluate:
    """Compare evaluation with a plain loop over sampled pairs, and with the products of an exact count."""

    texts: Annotated[int, Between(LEAST, 10_000_000)] = 130_000
    """Texts of the pool whose sampled pairs are scored, in clusters of eight; four and four of them match."""
    pairs: Annotated[int, Between(1, 1_000_000_000)] = 23_000_000
    """Sampled pairs: near pairs, and random ones for the rest."""
    neighbours: Annotated[int, Between(1, 10_000)] = 100
    """Near pairs are those of a text with this many neighbours."""
    index: str = "IVF1000,Flat"
    """Index that finds the neighbours, with 10 cells searched."""
    looped: Annotated[int, Between(1, 1_000_000_000)] = 500_000
    """Evenly spaced pairs that the plain loop scores; its time is scaled to all pairs."""
    exact_texts: Annotated[int, Between(LEAST, 1_000_000)] = 30_000
    """Texts of the pool that is counted exactly."""
    thresholds: Annotated[int, Between(2, 10_000_000)] = 2_000
    """Thresholds of the count, from 1 down to the median cosine of random pairs."""
    width: Annotated[int, Between(2, 10_000)] = 384
    """Dimensions of a vector."""
    threads: Annotated[int, Between(1, 1_024)] = 2
    """Threads of each side; the loop has one."""
    repeats: Annotated[int, Between(1, 10_000)] = 3
    """Runs of each, in turn; the median of the ratios is reported."""
    out: Path | None = None
    """JSON file for the figures."""

    def figures(self) -> list[Figure]:
        """Measure sampled evaluation and the exact count; the functions below define their figures."""
        check_bounds(self)
        # Fail early if the index is not available.
        sample_size(self.index, self.width)
        torch.set_num_threads(self.threads)
        set_threads(self.threads)
        with session(ClusterConfig()):
            return [*measure_sampled(self), *measure_exact(self)]


def measure_sampled(options: Evaluate) -> Iterator[Figure]:
    """Measure a sampled evaluation on one shard, through Ray, from the vectors of a model to AP and its intervals.

    scoring_vs_loop = time of `loop` over as many pairs / time of the evaluation. scoring_mb: peak MB of 2^20 bytes of
    the driver and the shard together, imports included, minus their vectors.
    """
    config = SearchConfig(index=options.index)
    with synthetic_pool(options.texts, options.width, config, options.threads, 0, matched=True) as synthetic:
        model, run = synthetic.fresh(0), RunConfig(task=synthetic.pool.task.name, evaluation=ESTIMATE)
        with TemporaryDirectory() as folder:
            stored = evaluation_set(options, synthetic, EvaluationSets([Path(folder)]))
            evaluator = PoolEvaluator(
                synthetic.pool, synthetic.pool.task, run, EvaluationSets([]), {synthetic.split.name: stored}
            )
            # The shards read the pairs now, once.
            evaluator.make_sets([synthetic.split.name])
            evalset = stored.read_for(synthetic.split)
        pairs = synthetic.split.space.pairs(np.sort(np.concatenate([one.keys for one in evalset.strata])))
        slice_ = pairs[:: max(1, len(pairs) // options.looped)]
        (shard,), ratios, peaks = synthetic.pool.shards, list[float](), list[float]()
        for _ in range(options.repeats + 1):
            PEAK.write_text("5")
            get_results(shard.__ray_call__.remote(lambda _: PEAK.write_text("5")))
            ours = seconds(lambda: evaluator.evaluate(model, synthetic.split.name))
            both = resident("VmHWM") + get_results(shard.__ray_call__.remote(lambda _: resident("VmHWM")))
            peaks.append(both - 2 * synthetic.vectors.nbytes / MB)
            plain = loop(synthetic.vectors, synthetic.split.positives, slice_) * len(pairs) / len(slice_)
            ratios.append(plain / ours)
            logger.info("%d pairs: evaluation %.1f s, loop %.1f s, %.0f MB", len(pairs), ours, plain, peaks[-1])
    # The first run is a warm-up.
    yield Figure("scoring_vs_loop", tuple(ratios[1:]), "at least 20")
    yield Figure("scoring_mb", (max(peaks),), "at most 4,096")


def evaluation_set(options: Evaluate, synthetic: SyntheticPool, sets: EvaluationSets) -> StoredSet:
    """Sample `pairs` pairs, near ones by an index of the same vectors and random ones, and store them."""
    split = synthetic.split
    config = EvaluationConfig(near_neighbours=options.neighbours, random_pairs=1)

    def stored(step: str) -> StoredSet:
        found = sets.find(made_from(step))
        assert found is not None
        return found

    def made_from(step: str) -> dict[str, str]:
        return {"split": split.name, "step": step}

    place = sets.new_place(made_from("near"))
    store_evaluation_set(synthetic.search, synthetic.fresh(0), config, place, made_from("near"))
    near = stored("near").read_for(split).strata[0].keys
    every = make_evaluation_set(split, {"near": near}, None, max(0, options.pairs - len(near)), seed=0)
    sets.write(every, made_from("all"))
    return stored("all")


def loop(vectors: Vectors, positives: Pairs, negatives: Pairs) -> float:
    """Return the seconds of the obvious program: a product for each pair, a sort of all, and AP in one pass.

    Before timing starts, vectors are put into a dictionary by text, and pairs into a list.
    """
    of_text = dict(enumerate(vectors))
    # In favour of the loop, positives are not scored in addition: the first pairs count as positives.
    pairs, labels = negatives.tolist(), np.zeros(len(negatives))
    labels[: min(len(positives), len(labels))] = 1

    def scored() -> float:
        scores = np.array([np.dot(of_text[left], of_text[right]) for left, right in pairs])
        true = labels[np.argsort(-scores)]
        return float((np.cumsum(true) / np.arange(1, len(true) + 1) * true).sum() / true.sum())

    return seconds(scored)


def measure_exact(options: Evaluate) -> Iterator[Figure]:
    """Measure the exact count of a pool on one shard, through Ray.

    exact_vs_matmul = time of only the products of the same blocks by torch.mm / time of the count.
    """
    with synthetic_pool(
        options.exact_texts, options.width, SearchConfig(), options.threads, 0, matched=True
    ) as synthetic:
        model, blocks, split = synthetic.fresh(0), synthetic.blocks(), synthetic.split
        keys = split.space.draw(min(10_000, split.space.total), NO_KEYS, generator(0, "bench-median"))
        median = float(np.median(synthetic.pool.scores(model, split, split.space.pairs(keys))))
        request, ratios = request_counts(split, np.linspace(median, 1.0, options.thresholds)), list[float]()
        for _ in range(options.repeats + 1):
            product = seconds(lambda: multiply(blocks))
            ours = seconds(lambda: synthetic.pool.count_negatives(model, split, request))
            logger.info("products %.2f s, exact count %.2f s", product, ours)
            ratios.append(product / ours)
    yield Figure("exact_vs_matmul", tuple(ratios[1:]), "at least 0.50")
