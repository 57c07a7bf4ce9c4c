"""What people are to label of a run's model: putative false positives (paper, A.3), or pairs of bands of score."""

from dataclasses import replace

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.apps.audit.false_positives import drawn_above, threshold_at
from al_ray.apps.audit.folder import AuditOptions, Drawn, Reached, Record, Scored
from al_ray.apps.audit.score_bands import allotted, bands, drawn_ranks
from al_ray.cluster.services import deploy_pool
from al_ray.cluster.sharded_evaluator import make_evaluator
from al_ray.cluster.sharded_retriever import PoolSearch
from al_ray.core.candidates import HIGHEST, Candidates
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.pairs import NO_KEYS, Keys
from al_ray.core.progress import OnProgress
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats, Labels, Scorer
from al_ray.core.task import Split
from al_ray.metrics.strata import EvaluationSet
from al_ray.runs.run_folder import RunFolder


def putative_drawn(
    config: RunConfig, cluster: ClusterConfig, folder: RunFolder, asked: AuditOptions, watch: OnProgress
) -> tuple[Record, Drawn]:
    """Draw putative false positives of each stratum at the threshold of a recall, shuffled."""
    split = folder.task.measurable(asked.split)
    scorer, evalset, scores = _scored_set(config, cluster, folder, asked, watch)
    assert asked.at_recall is not None
    threshold = threshold_at(scores[0], asked.at_recall)
    reached: list[Reached] = []
    keys, cosines = [NO_KEYS], [np.empty(0)]
    for stratum, found in zip(evalset.strata, scores[1:], strict=True):
        rng = generator(asked.seed, f"audit-{stratum.name}")
        wanted = asked.rand if stratum.name == "random" else asked.near
        places, above = drawn_above(found, threshold, wanted or 0, rng)
        reached.append(Reached(stratum.name, stratum.size, stratum.population, above, len(places)))
        keys.append(stratum.keys[places])
        cosines.append(found[places])
    names = tuple(stratum.name for stratum in reached for _ in range(stratum.drawn))
    pairs, above = split.space.pairs(np.concatenate(keys)), int((scores[0] >= threshold).sum())
    drawn = Drawn(pairs, names, np.full(len(pairs), -1, dtype=np.int64), np.concatenate(cosines))
    record = Record(
        asked,
        split.space.total,
        threshold=threshold,
        recall=above / len(scores[0]),
        positives=len(scores[0]),
        positives_above=above,
        strata=tuple(reached),
    )
    return _scaled(record, scorer), drawn.shuffled(generator(asked.seed, "audit-order"))


def bands_drawn(
    config: RunConfig, cluster: ClusterConfig, folder: RunFolder, asked: AuditOptions, watch: OnProgress
) -> tuple[Record, Drawn, Scored]:
    """Draw pairs from bands of score, shuffled; pairs that the run has labelled are known, and not drawn."""
    split = folder.task.split(asked.split)
    known, labels = _known(folder, split)
    total = split.space.total - len(known)
    assert asked.top is not None
    assert asked.budget is not None
    scorer, first, cosines = _first(config, cluster, folder, asked, known, watch)
    reach = len(first)
    cut = bands(reach, total)
    keys, ranks, names = [NO_KEYS], [NO_KEYS], list[str]()
    for band, count in zip(cut, allotted(asked.budget, [stop - start for start, stop in cut]), strict=True):
        rng = generator(asked.seed, f"audit-band-{band[0]}")
        if band[0] < reach:
            own = drawn_ranks(band, count, rng)
            keys.append(first.keys[own])
        else:
            keys.append(split.space.draw(count, np.sort(np.concatenate([known, first.keys])), rng))
            own = np.full(count, reach, dtype=np.int64)
        ranks.append(own)
        names += [f"{band[0] + 1}-{band[1]}"] * count
    of_rank = np.concatenate([first.cosines, [np.nan]])
    every = np.concatenate(ranks)
    drawn = Drawn(split.space.pairs(np.concatenate(keys)), tuple(names), every, of_rank[every])
    record = _scaled(Record(asked, split.space.total), scorer)
    return record, drawn.shuffled(generator(asked.seed, "audit-order")), Scored(first.cosines, cosines, labels)


def _scored_set(
    config: RunConfig, cluster: ClusterConfig, folder: RunFolder, asked: AuditOptions, watch: OnProgress
) -> tuple[Scorer | None, EvaluationSet, list[Floats]]:
    """Return the evaluation set of a split, and the cosines of its positives and of each stratum."""
    task, split = folder.task, folder.task.split(asked.split)
    with deploy_pool(config, cluster, task, folder.path, watch) as pool:
        model = folder.model(asked.round) if asked.round else pool.untrained()
        evalset = make_evaluator(config, folder, pool).evaluation_set(split)
        parts = (evalset.positives, *(stratum.keys for stratum in evalset.strata))
        return model.scorer, evalset, [pool.cosines(model, split, split.space.pairs(keys)) for keys in parts]


def _first(
    config: RunConfig, cluster: ClusterConfig, folder: RunFolder, asked: AuditOptions, known: Keys, watch: OnProgress
) -> tuple[Scorer | None, Candidates, Floats]:
    """Search the pairs of highest cosine without the sorted `known`; also return the cosines of `known`."""
    # An exact search, however the run searched: ranks must be among all pairs, not among candidates.
    config = replace(config, search=replace(config.search, kind="exact", ordered_pairs=False))
    split = folder.task.split(asked.split)
    with deploy_pool(config, cluster, folder.task, folder.path, watch) as pool:
        model = folder.model(asked.round) if asked.round else pool.untrained()
        count = min(asked.top or 0, split.space.total - len(known))
        first = PoolSearch(pool, split).least(model, HIGHEST, count, known)
        # With no pair, blocks would still be in flight when the shards end.
        of_known = pool.cosines(model, split, split.space.pairs(known)) if len(known) else np.empty(0)
        return model.scorer, first, of_known


def _known(folder: RunFolder, split: Split) -> tuple[Keys, Labels]:
    """Return the sorted keys of a split's pairs that the run's complete rounds label yes or no, and the labels.

    A run labels pairs of its training split only.
    """
    if split.name != "train":
        return NO_KEYS, np.empty(0, dtype=np.uint8)
    labelled = folder.state().labelled.decided
    keys, first = np.unique(split.space.keys(labelled.pairs), return_index=True)
    return keys, labelled.labels[first]


def _scaled(record: Record, scorer: Scorer | None) -> Record:
    return record if scorer is None else replace(record, weight=scorer.weight, bias=scorer.bias)
