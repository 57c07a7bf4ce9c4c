"""An augmentation on Ray, stage by stage from wherever its folder is: sampler, cross-encoder, silver, students."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from al_ray.apps.augmentation.folder import AugmentFolder
from al_ray.apps.augmentation.options import BINS, AugmentConfig, Gold, Line, Scored, Silver
from al_ray.apps.augmentation.samplers import sampled, wanted
from al_ray.apps.augmentation.student import StudentSpec, StudentTrainer
from al_ray.apps.cross_encoder.sharded_scorer import (
    CrossEncoderJob,
    ShardedPairScorer,
    deploy_scorer,
    train_on_texts,
)
from al_ray.apps.mining.miners import balance_bins, most_uncertain
from al_ray.cluster.actors import deploy, get_results, stream_results
from al_ray.cluster.training_group import model_of
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import Model
from al_ray.core.pairs import PairSpace, as_pairs
from al_ray.core.progress import OnProgress
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats, sigmoid
from al_ray.core.task import Corpus, Split
from al_ray.datasets.task_folder import sealed
from al_ray.encoders.cross_encoder import Texts

CROSS, UNTRAINED, GOLD, AUGMENTED, SAME_STEPS = "cross-encoder", "untrained", "gold", "augmented", "same-steps"


@dataclass(frozen=True)
class AugmentationJob:
    """What all stages need: the folder, options and pairs, the cluster, and who hears of progress."""

    folder: AugmentFolder
    config: AugmentConfig
    gold: Gold
    cluster: ClusterConfig
    watch: OnProgress

    @property
    def learnt(self) -> Texts:
        """The texts of the gold pairs to learn from."""
        return self.texts(self.gold.train)

    def texts(self, scored: Scored) -> Texts:
        """The texts of pairs."""
        known = self.gold.pool.texts
        return [(known[left], known[right]) for left, right in scored.pairs.tolist()]

    def steps(self, pairs: int) -> int:
        """A student's steps on so many pairs; a last partial batch is dropped."""
        return self.config.epochs * (pairs // min(self.config.batch, pairs))


def augmented(desk: AugmentationJob) -> list[Line]:
    """All of it; the figures of the cross-encoder and of every student, which the folder then holds, too."""
    found = unlabelled(desk)
    scorer = PairTexts([*found.texts, *(pair for scored in desk.gold.measured.values() for pair in desk.texts(scored))])
    bench = CrossEncoderJob(desk.folder.cross, desk.config.teaching, scorer.task, desk.cluster, desk.watch)
    train_on_texts(bench, desk.learnt, desk.gold.train.scores)
    with deploy_scorer(bench) as shards:
        silver = labelled(desk, found, lambda texts: sigmoid(scorer.scores(shards, texts)))
        rho = {
            split: spearman(scorer.scores(shards, desk.texts(scored)), scored.scores)
            for split, scored in desk.gold.measured.items()
        }
    teaching = desk.config.teaching
    lines = [Line(CROSS, len(desk.gold.train), 0, teaching.steps(len(desk.gold.train)), rho), *students(desk, silver)]
    desk.folder.keep_results(desk.gold, lines)
    return lines


def unlabelled(desk: AugmentationJob) -> Silver:
    """The sampler's pairs, drawn unless they are there."""
    found = desk.folder.unlabelled()
    if found is None:
        found = sampled(desk.config, desk.gold)
        if not len(found):
            raise BadOption(
                f"--sampler {desk.config.sampler} finds no pair that is not gold; give another, or a larger --per-text"
            )
        desk.folder.keep_unlabelled(found)
    return found


def labelled(desk: AugmentationJob, found: Silver, score: Callable[[Texts], Floats]) -> Silver:
    """The silver pairs with the cross-encoder's scores, balanced if that is asked."""
    silver = desk.folder.silver()
    if silver is None:
        silver = Silver(found.texts, found.sources, found.similarities, found.ranks, score(found.texts))
        if desk.config.sampler == "uncertainty":
            silver = silver.select(most_uncertain(silver.scores, wanted(desk.config, desk.gold)))
        if desk.config.most_per_bin is not None:
            rng = generator(desk.config.seed, "balance")
            silver = silver.select(balance_bins(silver.scores, desk.config.most_per_bin, BINS, rng))
        desk.folder.keep_silver(silver)
    return silver


def students(desk: AugmentationJob, silver: Silver) -> Iterator[Line]:
    """A line of each student, trained unless it is there."""
    gold, own = desk.learnt, desk.gold.train.scores
    both = [*gold, *silver.texts], np.concatenate([own, silver.scores])
    pool = desk.gold.pool
    known = [pool.texts[row] for row in np.union1d(pool.queries, pool.candidates).tolist()]
    planned = [(GOLD, (gold, own), desk.steps(len(gold))), (AUGMENTED, both, desk.steps(len(both[0])))]
    if desk.config.same_steps:
        planned.append((SAME_STEPS, (gold, own), desk.steps(len(both[0]))))
    with deployed_student(desk) as actor:
        yield Line(UNTRAINED, 0, 0, 0, measured(desk, actor, None, known))
        for name, (texts, scores), steps in planned:
            folder = str(desk.folder.student(name))
            stream = actor.train.options(num_returns="streaming").remote(known, texts, scores, folder, steps)
            model = model_of(
                stream_results(stream), lambda step, name=name: desk.watch(f"train {name}", step.step, step.steps)
            )
            yield Line(name, len(gold), len(texts) - len(gold), steps, measured(desk, actor, model, known))


@contextmanager
def deployed_student(desk: AugmentationJob) -> Iterator[Any]:
    """One actor that trains students; it ends with the context."""
    config, cluster = desk.config, desk.cluster
    spec = StudentSpec(
        config.encoding, config.learning, config.seed, config.fresh_layers, config.words, cluster.device,
        cluster.checkpoint_seconds,
    )  # fmt: skip
    with deploy(StudentTrainer, [spec], cluster) as (actor,):
        yield actor


def measured(desk: AugmentationJob, actor: Any, model: Model | None, known: Sequence[str]) -> dict[str, float]:
    """What Spearman's rho a student has on every split."""
    splits = desk.gold.measured
    calls = [actor.cosines.remote(model, desk.texts(scored), known) for scored in splits.values()]
    return {
        split: spearman(cosines, scored.scores)
        for (split, scored), cosines in zip(splits.items(), get_results(calls), strict=True)
    }


def spearman(ones: Floats, others: Floats) -> float:
    """Return Spearman's rank correlation of two (n,) scores, ties by average ranks; NaN where a side is constant."""
    if np.isnan(ones).any() or np.isnan(others).any():
        raise BadFile("a score is not a number (NaN), and has no rank; train the model again")
    if np.ptp(ones) == 0 or np.ptp(others) == 0:
        return float("nan")
    return float(stats.spearmanr(ones, others).statistic)  # pyright: ignore[reportAttributeAccessIssue]


class PairTexts:
    """Pairs of texts for a scorer of a task's pairs: a task of all of these texts against each other, in this order."""

    def __init__(self, pairs: Texts) -> None:
        """All pairs that will be scored."""
        self.rows = {text: row for row, text in enumerate(dict.fromkeys(text for pair in pairs for text in pair))}
        corpus = Corpus(tuple(map(str, range(len(self.rows)))), tuple(self.rows))
        self.task = sealed("silver", False, corpus, corpus, {})
        every, nothing = np.arange(len(corpus)), np.empty((0, 2), dtype=np.int64)
        self.split = Split("silver", PairSpace(every, every, len(corpus), False), nothing, nothing)

    def scores(self, shards: ShardedPairScorer, pairs: Texts) -> Floats:
        """(n,) pairs -> (n,) logits."""
        left, right = ([self.rows[pair[side]] for pair in pairs] for side in (0, 1))
        return shards.scores(self.split, as_pairs(left, right))
