"""Augmentation on Ray in resumable stages: sample pairs, train the cross-encoder, label pairs, train students."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from al_ray.apps.cross_encoder.sharded_scorer import CrossEncoderJob, ShardedPairScorer, deploy_scorer, train_on_texts
from al_ray.apps.papers.augmentation.folder import AugmentFolder
from al_ray.apps.papers.augmentation.options import BINS, AugmentConfig, Gold, Line, Scored, Silver
from al_ray.apps.papers.augmentation.samplers import sample_pairs
from al_ray.apps.papers.augmentation.student import StudentSpec, StudentTrainer
from al_ray.apps.papers.mining.miners import balance_bins, most_uncertain
from al_ray.cluster.training_group import model_of, training_events
from al_ray.cluster.workers import deploy, get_results
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import BadOption
from al_ray.core.labels import Model
from al_ray.core.naming import option
from al_ray.core.pairs import PairSpace, as_pairs
from al_ray.core.progress import OnProgress
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats, check_no_nan, sigmoid
from al_ray.core.task import Corpus, Split
from al_ray.datasets.task_folder import sealed
from al_ray.encoders.cross_encoder import Texts

CROSS, UNTRAINED, GOLD, AUGMENTED, SAME_STEPS = "cross-encoder", "untrained", "gold", "augmented", "same-steps"


@dataclass(frozen=True)
class AugmentationJob:
    """What all stages need. watch: callback that receives progress."""

    folder: AugmentFolder
    config: AugmentConfig
    gold: Gold
    cluster: ClusterConfig
    watch: OnProgress

    def texts(self, scored: Scored) -> Texts:
        """Return the texts of pairs."""
        texts = self.gold.pool.texts
        return [(texts[left], texts[right]) for left, right in scored.pairs.tolist()]

    def steps(self, pairs: int) -> int:
        """Return the number of a student's steps on `pairs` pairs; a last partial batch is dropped."""
        return self.config.epochs * (pairs // min(self.config.batch, pairs))


def augmented(job: AugmentationJob) -> list[Line]:
    """Run all stages that are not done, write the results of the cross-encoder and of all students, and return them."""
    sampled, gold = _sample(job), job.gold.train
    scorer = PairTexts([*sampled.texts, *(pair for scored in job.gold.measured.values() for pair in job.texts(scored))])
    teaching = job.config.teaching
    cross_encoder = CrossEncoderJob(job.folder.cross, teaching, scorer.task, job.cluster, job.watch)
    train_on_texts(cross_encoder, job.texts(gold), gold.scores)
    with deploy_scorer(cross_encoder) as shards:
        silver = _label(job, sampled, lambda texts: sigmoid(scorer.scores(shards, texts)))
        rho = {
            split: spearman(scorer.scores(shards, job.texts(scored)), scored.scores)
            for split, scored in job.gold.measured.items()
        }
    lines = [Line(CROSS, len(gold), 0, teaching.steps(len(gold)), rho), *train_students(job, silver)]
    job.folder.write_results(job.gold, lines)
    return lines


def _sample(job: AugmentationJob) -> Silver:
    """Return the stored pairs of the sampler, or sample and store them."""
    silver = job.folder.read("unlabelled")
    if silver is None:
        silver = sample_pairs(job.config, job.gold)
        if not len(silver):
            name = option("sampler", job.config.sampler)
            raise BadOption(f"{name} finds no pair that is not gold; give another, or a larger `per_text`")
        job.folder.write("unlabelled", silver)
    return silver


def _label(job: AugmentationJob, sampled: Silver, score: Callable[[Texts], Floats]) -> Silver:
    """Return the stored silver pairs, or label the sampled pairs, select among them and store them."""
    silver, config = job.folder.read("silver"), job.config
    if silver is None:
        silver = replace(sampled, scores=score(sampled.texts))
        if config.sampler == "uncertainty":
            silver = silver.select(most_uncertain(silver.scores, config.per_text * len(job.gold.pool.queries)))
        if config.most_per_bin is not None:
            rng = generator(config.seed, "balance")
            silver = silver.select(balance_bins(silver.scores, config.most_per_bin, BINS, rng))
        job.folder.write("silver", silver)
    return silver


def train_students(job: AugmentationJob, silver: Silver) -> Iterator[Line]:
    """Train each student unless the folder has it, and yield its results."""
    gold, own, known = job.texts(job.gold.train), job.gold.train.scores, job.gold.pool.members
    both = [*gold, *silver.texts], np.concatenate([own, silver.scores])
    trainings = [(GOLD, (gold, own), job.steps(len(gold))), (AUGMENTED, both, job.steps(len(both[0])))]
    if job.config.same_steps:
        trainings.append((SAME_STEPS, (gold, own), job.steps(len(both[0]))))
    config, cluster = job.config, job.cluster
    spec = StudentSpec(
        config.encoding, config.learning, config.seed, config.fresh_layers, config.words, cluster.device,
        cluster.checkpoint_seconds,
    )  # fmt: skip
    with deploy(StudentTrainer, [spec], cluster) as (actor,):
        yield Line(UNTRAINED, 0, 0, 0, evaluate_student(job, actor, None, known))
        for name, (texts, scores), steps in trainings:
            folder = str(job.folder.student(name))
            train = actor.train.options(num_returns="streaming")
            begin = partial(train.remote, known, texts, scores, folder, steps)
            model = model_of(
                training_events(begin), lambda step, name=name: job.watch(f"train {name}", step.step, step.steps)
            )
            rho = evaluate_student(job, actor, model, known)
            yield Line(name, len(gold), len(texts) - len(gold), steps, rho)


def evaluate_student(job: AugmentationJob, actor: Any, model: Model | None, known: Sequence[str]) -> dict[str, float]:
    """Return Spearman's rho of a student on every split."""
    splits = job.gold.measured
    calls = [actor.cosines.remote(model, job.texts(scored), known) for scored in splits.values()]
    return {
        split: spearman(cosines, scored.scores)
        for (split, scored), cosines in zip(splits.items(), get_results(calls), strict=True)
    }


def spearman(ones: Floats, others: Floats) -> float:
    """Return Spearman's rank correlation of two (n,) scores, with average ranks for ties; NaN if a side is constant."""
    check_no_nan(ones)
    check_no_nan(others)
    if np.ptp(ones) == 0 or np.ptp(others) == 0:
        return float("nan")
    return float(stats.spearmanr(ones, others).statistic)  # pyright: ignore[reportAttributeAccessIssue]


class PairTexts:
    """Scores pairs of texts by a scorer of a task's pairs: makes a task whose two sides are all texts."""

    def __init__(self, pairs: Texts) -> None:
        """pairs: all pairs that will be scored."""
        self.rows = {text: row for row, text in enumerate(dict.fromkeys(text for pair in pairs for text in pair))}
        corpus = Corpus(tuple(map(str, range(len(self.rows)))), tuple(self.rows))
        self.task = sealed("silver", False, corpus, corpus, {})
        rows, no_pairs = np.arange(len(corpus)), np.empty((0, 2), dtype=np.int64)
        self.split = Split("silver", PairSpace(rows, rows, len(corpus), False), no_pairs, no_pairs)

    def scores(self, shards: ShardedPairScorer, pairs: Texts) -> Floats:
        """(n,) pairs -> (n,) logits."""
        left, right = ([self.rows[pair[side]] for pair in pairs] for side in (0, 1))
        return shards.scores(self.split, as_pairs(left, right))
