"""An evaluation against what it stands on: a plain loop over sampled pairs, and the products of an exact count."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from al_ray.cluster.actors import gathered
from al_ray.cluster.evaluator import PoolEvaluator
from al_ray.cluster.session import session
from al_ray.core.config import ClusterConfig, EvaluationConfig, RunConfig, SearchConfig, generator
from al_ray.core.estimate import asked_of
from al_ray.core.evalset import EvaluationSet, stratified
from al_ray.core.limits import refuse_beyond
from al_ray.core.pairs import NO_KEYS, Pairs, is_in
from al_ray.data.evaluation_sets import EvaluationSets
from al_ray.data.synthetic import LEAST
from al_ray.model.encoder import Vectors
from al_ray.model.neighbours import sample_size, set_threads
from jobs.bench_figures import Figure, seconds
from jobs.bench_memory import MB, resident
from jobs.bench_search import multiply
from jobs.bench_vectors import Given, given_pool

logger = logging.getLogger(__name__)

PEAK = Path("/proc/self/clear_refs")  # A 5 in it makes what a process has now its peak.


@dataclass(frozen=True)
class Evaluate:
    """An evaluation against what it stands on: a plain loop over sampled pairs, the plain products of a count."""

    texts: int = 130_000
    """Of the pool whose sampled pairs are scored, in clusters of eight; four and four of them match."""
    pairs: int = 23_000_000
    """Sampled pairs: the near ones, the rest random."""
    neighbours: int = 100
    """Near pairs are those of a text with so many neighbours."""
    index: str = "IVF1000,Flat"
    """Index that finds these; it looks into 10 cells."""
    looped: int = 500_000
    """Of these pairs so many, spread over all, go through the plain loop, whose time is scaled."""
    exact_texts: int = 30_000
    """Of the pool that is counted."""
    thresholds: int = 2_000
    """At which it is counted, from 1 down to the median cosine of random pairs."""
    width: int = 384
    """Dimensions of a vector."""
    threads: int = 2
    """Threads of either side; the loop has one."""
    repeats: int = 3
    """Runs of each, in turn; the medians of their ratios count."""
    out: Path | None = None
    """JSON file with the figures."""

    def figures(self) -> list[Figure]:
        """Of sampled pairs and of the exact count; each says what it is in its function below."""
        refuse_beyond((
            (self.texts, "--texts", LEAST, 10_000_000),
            (self.pairs, "--pairs", 1, 1_000_000_000),
            (self.neighbours, "--neighbours", 1, 10_000),
            (self.looped, "--looped", 1, 1_000_000_000),
            (self.exact_texts, "--exact-texts", LEAST, 1_000_000),
            (self.thresholds, "--thresholds", 2, 10_000_000),
            (self.width, "--width", 2, 10_000),
            (self.threads, "--threads", 1, 1_024),
            (self.repeats, "--repeats", 1, 10_000),
        ))  # fmt: skip
        # Before any work, what else cannot be.
        sample_size(self.index, self.width)
        torch.set_num_threads(self.threads)
        set_threads(self.threads)
        with session(ClusterConfig()):
            return [*sampled(self), *counted(self)]


def sampled(asked: Evaluate) -> Iterator[Figure]:
    """The evaluation of a model by a sample, on one shard through Ray, from a model's vectors to AP and its intervals.

    scoring_vs_loop = time of `loop` over as many pairs / its time. scoring_mb: MB of 2^20 bytes that the driver and the
    shard have at most meanwhile, imports and all, less their vectors.
    """
    config = SearchConfig(index=asked.index)
    with given_pool(asked.texts, asked.width, config, asked.threads, 0, matched=True) as given:
        model, evalset = given.fresh(0), evaluation_set(asked, given)
        run = RunConfig(task=given.pool.task.name, evaluation=EvaluationConfig(mode="estimate"))
        evaluator = PoolEvaluator(given.pool, given.pool.task, run, EvaluationSets([]))
        evaluator.sets[given.split.name] = evalset
        pairs = given.split.space.pairs(np.sort(np.concatenate([one.keys for one in evalset.strata])))
        slice_ = pairs[:: max(1, len(pairs) // asked.looped)]
        (shard,), ratios, peaks = given.pool.shards, list[float](), list[float]()
        for _ in range(asked.repeats + 1):
            PEAK.write_text("5")
            gathered(shard.__ray_call__.remote(lambda _: PEAK.write_text("5")))
            ours = seconds(lambda: evaluator.evaluate(model, given.split.name))
            both = resident("VmHWM") + gathered(shard.__ray_call__.remote(lambda _: resident("VmHWM")))
            peaks.append(both - 2 * given.vectors.nbytes / MB)
            plain = loop(given.vectors, given.split.positives, slice_) * len(pairs) / len(slice_)
            ratios.append(plain / ours)
            logger.info("%d pairs: evaluation %.1f s, loop %.1f s, %.0f MB", len(pairs), ours, plain, peaks[-1])
    # The first run warms up.
    yield Figure("scoring_vs_loop", tuple(ratios[1:]), "at least 20")
    yield Figure("scoring_mb", (max(peaks),), "at most 4,096")


def evaluation_set(asked: Evaluate, given: Given) -> EvaluationSet:
    """Near pairs by an index of the same vectors, and random ones, so many together."""
    split = given.split
    near = given.search.near(given.fresh(0), asked.neighbours)
    others = max(0, asked.pairs - int((~is_in(near, split.positive_keys)).sum()))
    return stratified(split, {"near": near}, None, others, generator(0, "bench-evaluation"))


def loop(vectors: Vectors, positives: Pairs, negatives: Pairs) -> float:
    """Seconds of what one would write at first: a product for each pair, a sort of all, and AP by one pass.

    vectors go into a dictionary by text before the watch starts, and the pairs into a list.
    """
    of_text = dict(enumerate(vectors))
    # The positives are not scored besides, in the favour of the loop: the first pairs are taken for them.
    pairs, labels = negatives.tolist(), np.zeros(len(negatives))
    labels[: min(len(positives), len(labels))] = 1

    def scored() -> float:
        scores = np.array([np.dot(of_text[left], of_text[right]) for left, right in pairs])
        true = labels[np.argsort(-scores)]
        return float((np.cumsum(true) / np.arange(1, len(true) + 1) * true).sum() / true.sum())

    return seconds(scored)


def counted(asked: Evaluate) -> Iterator[Figure]:
    """The exact count of a pool on one shard, through Ray.

    exact_vs_matmul = time of the same blocks' products by torch.mm, and nothing else / its time.
    """
    with given_pool(asked.exact_texts, asked.width, SearchConfig(), asked.threads, 0, matched=True) as given:
        model, blocks, split = given.fresh(0), given.blocks(), given.split
        drawn = split.space.draw(min(10_000, split.space.total), NO_KEYS, generator(0, "bench-median"))
        median = float(np.median(given.pool.cosines(model, split, split.space.pairs(drawn))))
        wanted, ratios = asked_of(split, np.linspace(median, 1.0, asked.thresholds)), list[float]()
        for _ in range(asked.repeats + 1):
            product = seconds(lambda: multiply(blocks))
            ours = seconds(lambda: given.pool.count(model, split, wanted))
            logger.info("products %.2f s, exact count %.2f s", product, ours)
            ratios.append(product / ours)
    yield Figure("exact_vs_matmul", tuple(ratios[1:]), "at least 0.50")
