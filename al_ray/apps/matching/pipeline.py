"""From a model and texts to matches and clusters in a folder."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from al_ray.apps.matching.assignment import SAID_YES, CandidateEdges, assign
from al_ray.apps.matching.clusters.average_linkage import TOLERANCE
from al_ray.apps.matching.clusters.clustering import Clusters, Decisions, Edges, cluster
from al_ray.apps.matching.clusters.figures import ClusterFigures, figures
from al_ray.apps.matching.cutoff import Cutoff, choose_assignment, choose_cutoff
from al_ray.apps.matching.decisions import PairDecisions, decided_by, known_decisions
from al_ray.apps.matching.folder import (
    Matches,
    cluster_sizes,
    refuse_other,
    remove_record,
    write_clusters,
    write_matches,
    write_page,
    write_record,
)
from al_ray.apps.matching.model import MatchingModel
from al_ray.apps.matching.options import Assignment, MatchOptions
from al_ray.apps.matching.page.html import matches_page
from al_ray.apps.matching.page.summary import best_scores, summarize
from al_ray.apps.matching.search import cosines_of, find_candidates
from al_ray.apps.matching.texts import read_texts, task_folder
from al_ray.cluster.services import deploy_pool
from al_ray.cluster.session import session
from al_ray.core.candidates import Candidates
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import EvaluationConfig, ScoringConfig
from al_ray.core.errors import BadOption
from al_ray.core.progress import OnProgress
from al_ray.core.scorer import Floats
from al_ray.core.task import Split, Task
from al_ray.datasets.tsv import Report
from al_ray.runs.place import refuse_inside
from al_ray.storage.lock import locked
from al_ray.storage.uri import StoragePath, storage_path
from al_ray.training.saved_model import input_digest


@dataclass(frozen=True)
class MatchResult:
    """What was matched and how: the matches, the task of the texts, and match.json as a value."""

    task: Task
    matches: Matches
    record: dict[str, Any]
    report: Report

    @property
    def summary(self) -> Iterator[str]:
        """Yield the lines that the command prints."""
        record = self.record
        yield from self.report.lines()
        sides = f"{record['left']:,} texts" + ("" if self.task.symmetric else f" x {record['right']:,} texts")
        yield f"{sides}, {record['pairs']:,} pairs, all of them compared"
        yield f"cutoff: {record['cutoff']['source']}" + _score_of(record["cutoff"])
        by_label = f", {record['by_label']:,} of them by their labels" if record["by_label"] else ""
        yield f"matches: {record['matches']:,} ({record['assign']}{by_label})"
        if record["labelled_no"]:
            yield f"pairs labelled no, which are no matches: {record['labelled_no']:,}"
        if record["changed_texts"]:
            yield f"labels that are not used, as a text has changed since: {record['changed_texts']:,}"
        if record["unused_labels"]:
            sides = "one set" if self.task.symmetric else "two sets"
            yield f"labels that are not used, as they are not of {sides} of texts: {record['unused_labels']:,}"
        if "clusters" in record:
            sizes = ", ".join(f"{count:,} of {size}" for size, count in record["clusters"]["sizes"])
            yield f"clusters of two or more texts: {record['clusters']['number']:,}" + (f" ({sizes})" if sizes else "")
            if record["clusters"]["conflicts"]:
                yield f"pairs labelled no that are in one cluster: {record['clusters']['conflicts']:,}"


def _score_of(cutoff: dict[str, Any]) -> str:
    return "" if cutoff["score"] is None else f", score {cutoff['score']:.4f}"


def match_texts(
    options: MatchOptions, model: MatchingModel, out: StoragePath, cluster_config: ClusterConfig, watch: OnProgress
) -> MatchResult:
    """Match texts by a model, and write matches and clusters into a folder.

    The model's run decides the encoder, its maximum length and prompts. All pairs of texts are compared. Rerun the same
    command after a stop; matches of other texts or of another model are not replaced.
    """
    refuse_inside(out, storage_path(model.config.task))
    task, report = read_texts(options, model)
    split = task.split(options.split or "train")
    made_from = input_digest([model.model.digest, task.digest, split.name])
    refuse_other(out, made_from)
    rule = choose_assignment(options, task.symmetric)
    cutoff = choose_cutoff(options, model, rule)
    if task.symmetric:
        _refuse_one_side(model)
    decisions = known_decisions(model, task, split.space)
    # All pairs are compared, also where the run searched by an approximate index.
    search = replace(model.config.search, kind="exact", index="Flat")
    plain = replace(
        model.config, search=search, evaluation=replace(EvaluationConfig(), splits=()), scoring=ScoringConfig(0.0)
    )
    with locked(out) as out, session(cluster_config):
        refuse_other(out, made_from)
        config = replace(plain, task=str(task_folder(options, task, out)))
        with deploy_pool(config, cluster_config, task, out, watch) as pool:
            candidates = find_candidates(pool, split, model.model, cutoff, rule, decisions)
            best = best_scores(task, split.space.pairs(candidates.keys), candidates.cosines)
            kept = _assigned(candidates.keys, candidates.cosines, split, rule, cutoff, decisions)
            candidates = Candidates(candidates.keys[kept], candidates.cosines[kept])
            cosines = cosines_of(pool, split, model.model, candidates)
        matches = _ranked(candidates, cosines, split, model, decisions)
        record = _record(options, model, task, split, rule, cutoff)
        record |= {
            "made_from": made_from, "matches": len(matches), "by_label": int(matches.by_label.sum()),
            "labelled_no": len(decisions.no), "changed_texts": decisions.changed,
            "unused_labels": decisions.unused,
        }  # fmt: skip
        remove_record(out)
        write_matches(out, matches, task, options.texts)
        clustered = None
        if task.symmetric:
            clustered = cluster_matches(matches, task, split, options, cutoff, decisions)
            record["clusters"] = _write_clusters(out, task, split, *clustered)
        write_page(out, matches_page(summarize(matches, task, record, best, options.texts, clustered)))
        write_record(out, record)
    return MatchResult(task, matches, record, report)


def _refuse_one_side(model: MatchingModel) -> None:
    """Raise BadOption for a model that can only match two sets of texts."""
    if model.model.scorer is not None and model.model.scorer.neighbourhood:
        raise BadOption(
            f"the scores of {model.run} compare left texts with right ones (jobs.run --scoring.neighbourhood), so it "
            "matches two sides; give --right"
        )
    if model.config.prompt_right is not None:
        raise BadOption(
            f"{model.run} has a prompt for right texts (jobs.run --prompt-right), so it matches two sides; give --right"
        )


def _assigned(
    keys: np.ndarray, scores: np.ndarray, split: Split, rule: Assignment, cutoff: Cutoff, decisions: PairDecisions
) -> np.ndarray:
    """(n,) candidates -> (n,) whether each is a match."""
    pairs = split.space.pairs(keys)
    edges = CandidateEdges(pairs[:, 0], pairs[:, 1], scores, split.space.symmetric, decided_by(keys, decisions))
    return assign(edges, rule, cutoff.score)


def _ranked(
    candidates: Candidates, cosines: Floats, split: Split, model: MatchingModel, decisions: PairDecisions
) -> Matches:
    """Return candidates with their scores, and their (n,) cosines, as matches, the best first."""
    order = np.lexsort((candidates.keys, -candidates.cosines))
    keys, scores = candidates.keys[order], candidates.cosines[order]
    probabilities = None if model.calibrated is None else model.calibrated.probability(scores)
    by_label = decided_by(keys, decisions) == SAID_YES
    return Matches(split.space.pairs(keys), scores, cosines[order], probabilities, by_label)


def _record(
    options: MatchOptions, model: MatchingModel, task: Task, split: Split, rule: Assignment, cutoff: Cutoff
) -> dict[str, Any]:
    """Return what match.json says of how the matches were made."""
    return {
        "model": {"run": str(model.run), "round": model.round, "digest": model.model.digest},
        "task_digest": task.digest,
        "split": split.name,
        "left": len(split.space.left),
        "right": len(split.space.right),
        "pairs": split.space.total,
        "assign": rule,
        "clustering": options.clusters,
        "cutoff": {
            "source": cutoff.source, "score": None if cutoff.score == -inf else cutoff.score,
            "precision": cutoff.precision, "recall": cutoff.recall,
        },
    }  # fmt: skip


def _write_clusters(out: StoragePath, task: Task, split: Split, found: Clusters, of: ClusterFigures) -> dict[str, Any]:
    """Write the clusters of one collection, and return their counts."""
    rows = split.space.left
    labels = found.labels[rows]
    canonical = np.arange(len(task.left))
    canonical[of.labels] = of.canonical
    write_clusters(out, task, rows, labels, canonical[labels])
    return {
        "number": len(of.labels), "sizes": list(cluster_sizes(of.sizes.tolist())), "conflicts": len(found.conflicts),
        "bridges": len(of.bridges),
    }  # fmt: skip


def cluster_matches(
    matches: Matches, task: Task, split: Split, options: MatchOptions, cutoff: Cutoff, decisions: PairDecisions
) -> tuple[Clusters, ClusterFigures]:
    """Cluster the texts of one collection by their matches.

    The similarity of a pair that is no match counts as 0, or as 1 less than a cutoff that is not above 0. Without a
    cutoff the lowest score of a match is the cutoff.
    """
    edges = Edges.of(len(task.left), matches.pairs, matches.scores)
    labelled = Decisions(split.space.pairs(decisions.yes), split.space.pairs(decisions.no))
    lowest = float(matches.scores[~matches.by_label].min(initial=1.0)) if cutoff.score == -inf else cutoff.score
    missing = 0.0 if lowest > TOLERANCE else lowest - 1.0
    found = cluster(edges, options.clusters, lowest, missing, labelled)
    return found, figures(edges, found.labels, missing, labelled)
