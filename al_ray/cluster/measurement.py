"""Evaluate rounds of finished runs, make evaluation sets, and score and evaluate labelled pairs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.cluster.pool.score_fit import fit_to_scores
from al_ray.cluster.pool.sharded_evaluator import PoolEvaluator, make_evaluator
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.cluster.services import deploy_pool
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import ScoringConfig
from al_ray.core.pairs import Pairs
from al_ray.core.progress import OnProgress
from al_ray.core.scorer import Floats, Scorer
from al_ray.core.task import Split, Task
from al_ray.core.two_stage_score import ranking_logit
from al_ray.metrics.average_precision import StratumSummary
from al_ray.metrics.evaluation import Evaluation
from al_ray.metrics.labelled_pairs import LabelledScores
from al_ray.metrics.labelled_pairs import evaluate_labelled_pairs as metrics_of_pairs
from al_ray.runs.evaluation_sets import EvaluationSets, StoredSet
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.uri import StoragePath, storage_path

# The split on which best thresholds are chosen.
CHOSEN_ON = "dev"


@contextmanager
def deploy_measured(
    config: RunConfig, cluster: ClusterConfig, task: Task, out: StoragePath, watch: OnProgress
) -> Iterator[ShardedPool]:
    """Start the shards of a run to measure it; tokens unknown to its encoder are logged and never an error."""
    with deploy_pool(replace(config, most_unknown=1.0), cluster, task, out, watch) as pool:
        yield pool


def evaluate_round(
    config: RunConfig, cluster: ClusterConfig, folder: RunFolder, split: str, number: int, watch: OnProgress
) -> Evaluation:
    """Evaluate a complete round of a run, or the untrained encoder (round 0), on a split."""
    return evaluate_rounds([(config, folder, number)], cluster, split, watch)[0]


def evaluate_rounds(
    rounds: Sequence[tuple[RunConfig, RunFolder, int]], cluster: ClusterConfig, split: str, watch: OnProgress
) -> list[Evaluation]:
    """Evaluate rounds of runs of one task on the same pairs, with the options of the first run, to compare them.

    A model whose scores are not those of its config is fitted to these first; nothing is written.
    """
    evaluations: list[Evaluation] = []
    sets: Mapping[str, StoredSet] = {}
    first, _, _ = rounds[0]
    for config, folder, number in rounds:
        task = folder.task
        task.measurable(split)
        with deploy_measured(config, cluster, task, folder.path, watch) as pool:
            model = folder.model(number) if number else pool.untrained()
            if model.scorer is not None and not _ranks_as(config.scoring, model.scorer):
                weight, both = config.scoring.weight, config.scoring.both_sides
                assert weight is not None
                labelled = folder.ledger.labelled(number).decided
                model, _, _ = fit_to_scores(pool, folder.round(number), model, labelled, weight, both)
            evaluator = make_evaluator(first, folder, pool, sets)
            if len(rounds) > 1 and not sets and not first.evaluation.counts_all(task.split(split).space.total):
                sets = {split: evaluator.stored_set(task.split(split))}
                evaluator = make_evaluator(first, folder, pool, sets)
            evaluations.append(evaluator.evaluate(model, split, compared=len(rounds) > 1))
    return evaluations


def _ranks_as(scoring: ScoringConfig, scorer: Scorer) -> bool:
    """Whether a scorer is of the scores that options ask for; auto asks for those that a round chose."""
    if scoring.weight is None:
        return True
    return scoring.weight == scorer.neighbourhood and (not scoring.weight or scoring.both_sides == scorer.both_sides)


def make_evaluation_sets(
    config: RunConfig, cluster: ClusterConfig, task: Task, splits: Iterable[str], watch: OnProgress
) -> Iterator[tuple[Split, tuple[StratumSummary, ...]]]:
    """Make the evaluation sets of a task's splits that are missing, in the task's folder; yield the sizes of all."""
    folder = storage_path(config.task)
    with deploy_measured(config, cluster, task, folder / "evaluation", watch) as pool:
        evaluator = PoolEvaluator(pool, task, config, EvaluationSets([folder]))
        for split in splits:
            measured = task.measurable(split)
            yield measured, evaluator.summaries(measured)


def score_stated_pairs(
    config: RunConfig, cluster: ClusterConfig, folder: RunFolder, splits: Iterable[str], number: int, watch: OnProgress
) -> dict[str, LabelledScores]:
    """Score the stated pairs of splits: logits by a complete round, cosines by the untrained encoder (round 0).

    The query of a pair is its left text. In a two-sided task, the candidates of a question are those stated with it.
    """
    with deploy_measured(config, cluster, folder.task, folder.path, watch) as pool:
        model = folder.model(number) if number else pool.untrained()

        def score(split: Split, pairs: Pairs) -> Floats:
            cosines = pool.scores(model, split, pairs)
            return cosines if model.scorer is None else ranking_logit(model.scorer, cosines)

        return score_stated(map(folder.task.stating, splits), score)


def score_stated(splits: Iterable[Split], score: Callable[[Split, Pairs], Floats]) -> dict[str, LabelledScores]:
    """Score the stated pairs of splits; `score` maps (n, 2) pairs of a split to (n,) scores."""
    scored: dict[str, LabelledScores] = {}
    for split in splits:
        pairs = np.concatenate([split.positives, split.stated_negatives])
        labels = np.repeat(np.array([1, 0], dtype=np.uint8), [len(split.positives), len(split.stated_negatives)])
        scored[split.name] = LabelledScores(score(split, pairs), labels, pairs[:, 0])
    return scored


def evaluate_labelled_pairs(
    config: RunConfig, cluster: ClusterConfig, folder: RunFolder, split: str, number: int, watch: OnProgress
) -> dict[str, Any]:
    """Evaluate a round on the labelled pairs of a split alone; thresholds are chosen on dev if it has labels."""
    scored = score_stated_pairs(config, cluster, folder, splits_to_score(folder.task, split), number, watch)
    # The untrained encoder gives cosines, none of which means p = 1/2.
    content = labelled_pair_metrics(scored, split, folder.task, 0.0 if number else None)
    return {"split": split, "round": number, **content}


def splits_to_score(task: Task, split: str) -> list[str]:
    """Return the split, and dev if it has labelled pairs, on which thresholds are chosen."""
    dev = task.splits.get(CHOSEN_ON)
    labelled = dev is not None and bool(len(dev.positives) + len(dev.stated_negatives))
    return list(dict.fromkeys([split, CHOSEN_ON] if labelled else [split]))


def labelled_pair_metrics(
    scored: Mapping[str, LabelledScores], split: str, task: Task, zero: float | None
) -> dict[str, Any]:
    """Compute the metrics of a split's labelled pairs; zero: the score where p = 1/2."""
    content = metrics_of_pairs(scored[split], scored.get(CHOSEN_ON), not task.symmetric, zero)
    return {"split": split, **content, "thresholds_chosen_on": CHOSEN_ON if CHOSEN_ON in scored else None}
