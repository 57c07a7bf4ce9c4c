"""Sample the pairs that people label: putative false positives (paper, A.3), or pairs of bands of score."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.apps.audit.folder import AuditFolder, AuditOptions, Record, StratumCounts
from al_ray.apps.audit.labels import read_labels
from al_ray.cluster.measurement import deploy_measured
from al_ray.cluster.pool.sharded_evaluator import make_evaluator
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.cluster.score_sample import BandDraw, draw_by_score
from al_ray.cluster.token_store import pool_folder
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.labels import NO, YES, Model
from al_ray.core.pairs import NO_KEYS, Keys
from al_ray.core.progress import OnProgress
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats, Labels, Scorer
from al_ray.core.task import Split
from al_ray.metrics.audit.drawn_pairs import BandScores, DrawnPairs
from al_ray.metrics.audit.false_positives import draw_above, threshold_at
from al_ray.metrics.strata import EvaluationSet
from al_ray.runs.run_folder import RunFolder
from al_ray.search.vector_files import DIGITS, TRAINED, UNTRAINED, vector_folder

logger = logging.getLogger(__name__)


def sample_false_positives(
    config: RunConfig, cluster: ClusterConfig, folder: RunFolder, options: AuditOptions, watch: OnProgress
) -> tuple[Record, DrawnPairs]:
    """Draw putative false positives of each stratum at the threshold of a recall, shuffled."""
    split = folder.task.with_positives(options.split)
    scorer, evalset, scores = _scored_set(config, cluster, folder, options, watch)
    assert options.at_recall is not None
    threshold = threshold_at(scores[0], options.at_recall)
    strata: list[StratumCounts] = []
    keys, cosines = [NO_KEYS], [np.empty(0)]
    for stratum, own in zip(evalset.strata, scores[1:], strict=True):
        rng = generator(options.seed, f"audit-{stratum.name}")
        count = options.rand if stratum.name == "random" else options.near
        rows, above = draw_above(own, threshold, count or 0, rng)
        strata.append(StratumCounts(stratum.name, stratum.size, stratum.population, above, len(rows)))
        keys.append(stratum.keys[rows])
        cosines.append(own[rows])
    names = tuple(stratum.name for stratum in strata for _ in range(stratum.drawn))
    pairs, above = split.space.pairs(np.concatenate(keys)), int((scores[0] >= threshold).sum())
    sheet = DrawnPairs(pairs, names, np.full(len(pairs), -1, dtype=np.int64), np.concatenate(cosines))
    counts = threshold, above / len(scores[0]), len(scores[0]), above, tuple(strata)
    record = _record(options, split, scorer, *counts)
    return record, sheet.shuffled(generator(options.seed, "audit-order"))


def sample_bands(
    config: RunConfig, cluster: ClusterConfig, folder: RunFolder, options: AuditOptions, watch: OnProgress
) -> tuple[Record, DrawnPairs, BandScores]:
    """Draw pairs from bands of score, shuffled; pairs that the run has labelled are known, and not drawn."""
    split = folder.task.split(options.split)
    assert options.top is not None
    assert options.budget is not None
    with _deploy_pool(config, cluster, folder, options, watch) as (pool, model):
        known = known_labels(folder, split)
        draw = BandDraw(options.answers or options.budget, options.top, options.seed, measure=options.of)
        if options.after:
            known = _united(known, drawn_labels(Path(options.after), split))
            # More pairs are known at every further draw, so that each has chances of its own.
            draw = replace(draw, number=len(known[0]), second=True)
        drawn, scores = draw_by_score(pool, model, split, known, draw)
    return _record(options, split, model.scorer), drawn, scores


def _scored_set(
    config: RunConfig, cluster: ClusterConfig, folder: RunFolder, options: AuditOptions, watch: OnProgress
) -> tuple[Scorer | None, EvaluationSet, list[Floats]]:
    """Return the evaluation set of a split, and the cosines of its positives and of each stratum."""
    split = folder.task.split(options.split)
    with _deploy_pool(config, cluster, folder, options, watch) as (pool, model):
        evalset = make_evaluator(config, folder, pool).evaluation_set(split)
        parts = (evalset.positives, *(stratum.keys for stratum in evalset.strata))
        return model.scorer, evalset, [pool.scores(model, split, split.space.pairs(keys)) for keys in parts]


@contextmanager
def _deploy_pool(
    config: RunConfig, cluster: ClusterConfig, folder: RunFolder, options: AuditOptions, watch: OnProgress
) -> Iterator[tuple[ShardedPool, Model]]:
    """Start the shards of a run's pool, with the vectors that the run stored; also give the model that is audited."""
    cluster = with_stored_vectors(config, cluster, folder, options)
    with deploy_measured(config, cluster, folder.task, folder.path, watch) as pool:
        yield pool, folder.model(options.round) if options.round else pool.untrained()


def with_stored_vectors(
    config: RunConfig, cluster: ClusterConfig, folder: RunFolder, options: AuditOptions
) -> ClusterConfig:
    """Return the cluster options with keep_vectors if the run folder holds the audited model's vectors.

    They are used only if they are of this model: otherwise the store would replace them.
    """
    if cluster.keep_vectors:
        return cluster
    stored = vector_folder(pool_folder(folder.task, config.encoding, folder.path))
    # A matcher stands on the vectors of an encoder that is not trained, unless the run says otherwise.
    trained = options.model and config.trains_encoder
    name = f"{TRAINED}-{options.model[:DIGITS]}" if trained else UNTRAINED
    if not any(stored.glob(f"{name}-*.npy")):
        return cluster
    logger.info("the vectors that the run stored are used (`keep_vectors=True`)")
    return replace(cluster, keep_vectors=True)


def known_labels(folder: RunFolder, split: Split) -> tuple[Keys, Labels]:
    """Return the sorted keys of a split's pairs that the run labels yes or no, and the labels.

    Of train those of all rounds, an open one too; of dev the drawn ones (--dev-labels). Other splits have none. If
    both (a, b) and (b, a) were labelled (--search.ordered-pairs), the later label is used.
    """
    if split.name == "test":
        return NO_KEYS, np.empty(0, dtype=np.uint8)
    ledger = folder.ledger if split.name == "train" else folder.dev_labels.ledger
    labelled = ledger.labelled().decided
    keys, last = np.unique(split.space.keys(labelled.pairs)[::-1], return_index=True)
    return keys, labelled.labels[::-1][last]


def drawn_labels(path: Path, split: Split) -> tuple[Keys, Labels]:
    """Return keys (n,) and labels (n,) of the pairs that an audit by score drew, and those that it was drawn after.

    Pairs without yes or no are left out, as if they had not been drawn.
    """
    audit = AuditFolder(path)
    codes, ids, drawn = audit.key()
    labels = read_labels(path, None, codes, ids)
    decided = np.isin(labels, (NO, YES))
    own = split.space.keys(drawn.pairs[decided]), labels[decided]
    after = audit.record().asked.after
    return _united(own, drawn_labels(Path(after), split)) if after else own


def _united(first: tuple[Keys, Labels], second: tuple[Keys, Labels]) -> tuple[Keys, Labels]:
    """Return sorted keys of both, each with its label, that of the first if both have one."""
    keys, at = np.unique(np.concatenate([first[0], second[0]]), return_index=True)
    return keys, np.concatenate([first[1], second[1]])[at]


def _record(options: AuditOptions, split: Split, scorer: Scorer | None, *counts: Any) -> Record:
    """Return a record with what it has of the scorer."""
    weight, bias = (None, None) if scorer is None else (scorer.weight, scorer.bias)
    record = Record(options, split.space.total, weight, bias, *counts)
    return replace(record, matcher=scorer is not None and scorer.matcher)
