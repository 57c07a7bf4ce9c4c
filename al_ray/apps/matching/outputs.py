"""From candidates to the files of a match folder: assignment, clusters with their ids, and match.json."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from al_ray.apps.matching.assignment import SAID_NO, CandidateEdges, assign
from al_ray.apps.matching.assignment_rules import Assignment, Cutoff
from al_ray.apps.matching.cascade.asking import Questions, Verdicts, choose_questions
from al_ray.apps.matching.clusters.average_linkage import TOLERANCE
from al_ray.apps.matching.clusters.clustering import Clusters, Decisions, cluster, weak_bridges
from al_ray.apps.matching.clusters.edges import Edges
from al_ray.apps.matching.clusters.figures import ClusterFigures, figures
from al_ray.apps.matching.clusters.ids import NO_ID, ClusterIds, number_clusters
from al_ray.apps.matching.clusters.nodes import Nodes
from al_ray.apps.matching.clusters.rules import ClusterRules
from al_ray.apps.matching.clusters.sources import clusters_with_two, one_of_each
from al_ray.apps.matching.decisions import PairDecisions, decided_by
from al_ray.apps.matching.folder import (
    Matches,
    cluster_sizes,
    remove_golden,
    remove_record,
    write_bridges,
    write_clusters,
    write_matches,
    write_page,
    write_record,
    write_undecided,
)
from al_ray.apps.matching.golden.fields import GoldenPlan
from al_ray.apps.matching.golden.records import ClusteredRecords
from al_ray.apps.matching.golden.writing import write_golden_records
from al_ray.apps.matching.model import MatchingModel
from al_ray.apps.matching.page.html import matches_page
from al_ray.apps.matching.page.summary import ClusterChanges, MatchSummary, best_scores, drift_figures, summarize
from al_ray.core.pairs import Keys, Mask, Pairs, Rows, is_in
from al_ray.core.scored_pairs import ScoredPairs
from al_ray.core.scorer import Floats
from al_ray.core.task import Split, Task
from al_ray.core.text import read_alike
from al_ray.storage.formulas import FormulaCells
from al_ray.storage.uri import StoragePath

TEXTS_AT_ONCE = 65_536  # Pairs whose texts are compared at a time.


@dataclass(frozen=True)
class Assigned:
    """matches: (n,) whether each candidate is a match. undecided: (k, 2) pairs that the encoder cannot tell apart."""

    matches: Mask
    undecided: Pairs


@dataclass(frozen=True)
class Matching:
    """What decides which of the candidates are matches, and which texts are one cluster.

    verdicts: what an oracle said about uncertain pairs, and which these are; None without one.
    """

    model: MatchingModel
    task: Task
    split: Split
    rule: Assignment
    cutoff: Cutoff
    rules: ClusterRules
    decisions: PairDecisions
    texts: bool = True
    escape_formulas: bool = False
    golden: GoldenPlan | None = None
    verdicts: Verdicts | None = None

    @property
    def lowest(self) -> float:
        """The lowest score of a match of the model, -inf for none."""
        return self.cutoff.score if self.verdicts is None else self.verdicts.band.cutoff

    def questions(self, candidates: ScoredPairs) -> Questions:
        """Return those of (n,) candidates about which an oracle is to be asked."""
        assert self.verdicts is not None
        edges, _ = self._edges(candidates)
        return choose_questions(edges, self.p(candidates.scores), self.verdicts.band, self.rule)

    def p(self, scores: Floats) -> Floats:
        """(n,) scores as users see them -> p of the model, a probability only if it is calibrated."""
        scorer = self.model.calibrated or self.model.model.scorer
        assert scorer is not None
        if self.model.model.matcher is not None and self.model.calibrated is None:
            return scores
        return scorer.probability(scores + self.model.lowest_p)

    def assigned(self, scored: ScoredPairs) -> Assigned:
        """Return which of (n,) candidates match, and which the encoder cannot tell apart.

        The latter are no edges of the assignment, so that they take the place of no match.
        """
        pairs, scores = scored.pairs, scored.scores
        keys = self.split.space.keys(pairs)
        edges, unclear = self._edges(scored)
        above = unclear & (scores >= self.lowest) & ~is_in(keys, self.decisions.no)
        if self.verdicts is not None:
            edges = self.verdicts.apply(keys, edges)
        return Assigned(assign(edges, self.rule, self.lowest), pairs[above][np.argsort(keys[above])])

    def _edges(self, scored: ScoredPairs) -> tuple[CandidateEdges, Mask]:
        """Return the edges that labels, rules and the model decide, and (n,) which the encoder cannot tell apart."""
        keys = self.split.space.keys(scored.pairs)
        unclear = self._unclear(scored.pairs, keys, scored.cosines)
        by = decided_by(keys, self.decisions)
        by[unclear] = SAID_NO
        return CandidateEdges(scored, self.split.space.symmetric, by), unclear

    def matches(self, candidates: ScoredPairs) -> Matches:
        """Return the matches among (n,) candidates, the best first."""
        assigned = self.assigned(candidates)
        found = candidates.at(assigned.matches)
        keys = self.split.space.keys(found.pairs)
        order = np.lexsort((keys, -found.scores))
        found, calibrated = found.at(order), self.model.calibrated
        # A scorer is fitted to scores as the search gives them; with a matcher people see p instead.
        shift = self.model.lowest_p
        shown = found.scores + shift if shift else found.scores
        probabilities = None if calibrated is None else calibrated.probability(shown)
        by_label, by_rule = (is_in(keys[order], decided) for decided in (self.decisions.yes, self.decisions.rule))
        by_oracle = None
        if self.verdicts is not None:
            by_oracle = is_in(keys[order], self.verdicts.yes) & ~by_label & ~by_rule
        return Matches(found, probabilities, by_label, by_rule, assigned.undecided, by_oracle=by_oracle)

    def _unclear(self, pairs: Pairs, keys: Keys, cosines: Floats) -> Mask:
        """Return (n,) which pairs have the cosine 1 although they read differently: the encoder cannot tell them apart.

        Those that people or a rule decided are clear.
        """
        unclear = (cosines == 1) & ~is_in(keys, self.decisions.certain)
        if self.model.model.matcher is not None:
            # It compares the texts themselves, too.
            unclear[:] = False
        places = np.flatnonzero(unclear)
        # In parts, so that few texts are in memory at a time.
        for start in range(0, len(places), TEXTS_AT_ONCE):
            here = places[start : start + TEXTS_AT_ONCE]
            left, right = self.task.texts_of(pairs[here])
            unclear[here] = [not read_alike(one, other) for one, other in zip(left, right, strict=True)]
        return unclear

    @property
    def record(self) -> dict[str, Any]:
        """Return what match.json says of how the matches were made."""
        space, cutoff, decisions = self.split.space, self.cutoff, self.decisions
        return {
            "model": model_record(self.model),
            "task_digest": self.task.digest,
            "split": self.split.name,
            "left": len(space.left),
            "right": len(space.right),
            "pairs": space.total,
            "assign": self.rule,
            "clustering": self.rules.clustering,
            "cluster_rules": self.rules.record,
            "cutoff": {
                "source": cutoff.source, "score": None if cutoff.score == -inf else cutoff.score,
                "precision": cutoff.precision, "recall": cutoff.recall,
            },
            "labelled_no": len(decisions.no), "changed_texts": decisions.changed, "unused_labels": decisions.unused,
            "overruled": decisions.overruled,
        }  # fmt: skip


def model_record(model: MatchingModel) -> dict[str, Any]:
    """Return which model matched, and why it; round and choice of a copy are None."""
    choice = None if model.choice is None else model.choice.as_dict()
    return {"run": str(model.path), "round": model.round, "digest": model.model.digest, "choice": choice}


@dataclass(frozen=True)
class ClusteredTexts:
    """The clusters of all texts: labels by node, figures, and the ids (of the nodes of the split) that stay.

    split: the bridges (b, 2) that `split_bridges` left out. parted: number of other matches between two clusters by
    `at_most_one`. twice: number of clusters that have two texts of one source, by labels.
    """

    clusters: Clusters
    figures: ClusterFigures
    ids: ClusterIds
    split: Edges
    parted: int = 0
    twice: int = 0


def cluster_texts(
    matching: Matching, matches: Matches, old_ids: Rows | None = None, next_id: int = 0
) -> ClusteredTexts:
    """Cluster the texts of one table, or of both, by their matches; rows are nodes (clusters/nodes.py).

    The similarity of a pair that is no match counts as 0, or as 1 less than a cutoff that is not above 0. Without a
    cutoff the lowest score of a match is the cutoff. old_ids: (nodes,) ids of the clusters before, NO_ID for new texts.
    """
    space, nodes = matching.split.space, Nodes(matching.task)
    edges = Edges.of(len(nodes), ScoredPairs(nodes.of(matches.pairs), matches.scores))
    keys, rules = matching.decisions, matching.rules
    yes, no, rule, certain = (nodes.of(space.pairs(one)) for one in (keys.yes, keys.no, keys.rule, keys.certain))
    labelled = Decisions(certain, no)
    lowest = matching.lowest
    if matches.by_oracle is not None:
        lowest = float(matches.scores[matches.by_oracle].min(initial=lowest))
    if lowest == -inf:
        lowest = float(matches.scores[matches.by_model].min(initial=1.0))
    missing = 0.0 if lowest > TOLERANCE else lowest - 1.0
    split = edges.where(np.zeros(len(edges.pairs), dtype=np.bool_))
    if rules.split_bridges is not None:
        split = weak_bridges(edges, labelled, rules.split_bridges)
    used, parted, twice = edges.without(split.pairs), 0, 0
    if rules.at_most_one is None:
        found = cluster(used, rules.clustering, lowest, missing, labelled)
    else:
        sources = nodes.column(rules.at_most_one)
        found = Clusters.of(used, one_of_each(used.without(no), rule, yes, sources), no)
        joined = found.labels[used.pairs]
        parted = int(np.count_nonzero(joined[:, 0] != joined[:, 1]))
        twice = clusters_with_two(found.labels, sources)
    own = nodes.inside(space)
    old = np.full(len(own), NO_ID) if old_ids is None else old_ids[own]
    ids = number_clusters(found.labels[own], old, next_id)
    shown = figures(edges, found.labels, missing, labelled)
    if rules.canonical != "score":
        shown = replace(shown, canonical=rules.canonical_rule.choose(nodes, found.labels, shown.labels))
    return ClusteredTexts(found, shown, ids, split, parted, twice)


@dataclass(frozen=True)
class Outcome:
    """All that is written: matches, clusters, and what was added to match.json.

    called: turns a text that names options into what the page shows.
    """

    matching: Matching
    matches: Matches
    candidates: ScoredPairs
    clustered: ClusteredTexts
    added: Mapping[str, Any] = field(default_factory=dict)
    called: Callable[[str], str] = str

    @property
    def record(self) -> dict[str, Any]:
        """Return the content of match.json."""
        record = self.matching.record | {"matches": len(self.matches), "by_label": int(self.matches.by_label.sum())}
        record |= {"by_rule": int(self.matches.by_rule.sum()), "undecided": len(self.matches.undecided)}
        if self.matching.verdicts is not None and self.matches.by_oracle is not None:
            record["by_oracle"] = int(self.matches.by_oracle.sum())
            record["oracle"] = dict(self.matching.verdicts.record)
        of = self.clustered.figures
        record["clusters"] = {
            "number": len(of.labels), "sizes": list(cluster_sizes(of.sizes.tolist())),
            "conflicts": len(self.clustered.clusters.conflicts), "bridges": len(of.bridges),
        }  # fmt: skip
        if self.matching.rules.split_bridges is not None:
            record["clusters"]["split_bridges"] = len(self.clustered.split.pairs)
        if self.matching.rules.at_most_one is not None:
            record["clusters"] |= {"parted": self.clustered.parted, "twice": self.clustered.twice}
        return record | dict(self.added)


def _page_summary(outcome: Outcome) -> MatchSummary:
    """Return what the page says, with the changes of clusters and the drift of match.json."""
    matching, record, clustered = outcome.matching, outcome.record, outcome.clustered
    best = best_scores(matching.task, outcome.candidates.pairs, outcome.candidates.scores)
    numbers = np.arange(len(clustered.clusters.labels))
    numbers[Nodes(matching.task).inside(matching.split.space)] = clustered.ids.ids
    shown = clustered.clusters, clustered.figures, numbers
    summary = summarize(outcome.matches, matching.task, record, best, matching.texts, shown)
    changes = record.get("changed_clusters")
    return replace(summary, changes=None if changes is None else ClusterChanges(**changes), drift=drift_figures(record))


def write_outcome(out: StoragePath, outcome: Outcome) -> dict[str, Any]:
    """Write the files of a match folder, match.json last; return its content."""
    matching, task = outcome.matching, outcome.matching.task
    cells = FormulaCells(matching.escape_formulas)
    remove_record(out)
    write_matches(out / "matches", outcome.matches, task, matching.texts, cells)
    write_undecided(out, outcome.matches, task, matching.texts, cells)
    nodes, of = Nodes(task), outcome.clustered.figures
    own, canonical = nodes.inside(matching.split.space), np.arange(len(nodes))
    canonical[of.labels] = of.canonical
    labels = outcome.clustered.clusters.labels[own]
    write_clusters(out, nodes, own, outcome.clustered.ids.ids, canonical[labels], cells)
    split = None if matching.rules.split_bridges is None else outcome.clustered.split
    write_bridges(out, nodes, split, cells)
    write_page(out, matches_page(_page_summary(outcome), outcome.called))
    record = outcome.record
    if matching.golden is None:
        remove_golden(out)
    else:
        records = ClusteredRecords(own, outcome.clustered.ids.ids, canonical[labels] == own)
        record["golden"] = write_golden_records(out, nodes, matching.golden, records, cells)
    record |= {"formula_cells": 0 if cells.escape else cells.count}
    write_record(out, record)
    return record
