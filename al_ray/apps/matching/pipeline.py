"""From a model and texts to matches and clusters in a folder: all texts at once, or new ones into known ones."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.apps.matching.clusters.ids import NO_ID
from al_ray.apps.matching.cutoff import Cutoff, choose_assignment, choose_cutoff
from al_ray.apps.matching.decisions import known_decisions
from al_ray.apps.matching.drift.measure import drift_lines
from al_ray.apps.matching.drift.report import DriftRequest, report_drift
from al_ray.apps.matching.folder import (
    Matches,
    in_new_matches,
    refuse_other,
    remove_changes,
    remove_record,
    write_changes,
    write_matches,
)
from al_ray.apps.matching.incremental.growth import NEW, GrownTask, grow
from al_ray.apps.matching.incremental.merging import best_of_texts, merge, plan_requery
from al_ray.apps.matching.incremental.rectangle import RectangleSearch, rectangles
from al_ray.apps.matching.incremental.state import (
    MatchState,
    ScoredPairs,
    read_state,
    refuse_added,
    remove_older,
    remove_state,
    task_name,
    write_state,
)
from al_ray.apps.matching.model import MatchingModel, model_of, refuse_one_side
from al_ray.apps.matching.options import MatchOptions, MatchSearchConfig
from al_ray.apps.matching.outputs import ClusteredTexts, Matching, Outcome, cluster_texts, model_record, write_outcome
from al_ray.apps.matching.search import CURE, cosines_of, find_candidates, refuse_search
from al_ray.apps.matching.summary import summary_lines
from al_ray.apps.matching.texts import is_task, read_arrived, read_texts, refuse_unlike, table_record, task_folder
from al_ray.cluster.services import deploy_pool
from al_ray.cluster.session import session
from al_ray.core.candidates import Candidates
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import EvaluationConfig, ScoringConfig
from al_ray.core.errors import BadOption
from al_ray.core.progress import OnProgress
from al_ray.core.task import Task
from al_ray.datasets.task_folder import write_task
from al_ray.datasets.tsv import Report
from al_ray.runs.place import refuse_inside
from al_ray.storage.formulas import FormulaCells
from al_ray.storage.lock import locked
from al_ray.storage.uri import StoragePath, storage_path
from al_ray.training.saved_model import input_digest

NO_CLUSTERS = np.empty(0, dtype=np.int64)


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
        yield from self.report.lines()
        yield from summary_lines(self.record, self.task.symmetric)
        yield from drift_lines(self.record)


def match_texts(
    options: MatchOptions, model: MatchingModel, out: StoragePath, cluster_config: ClusterConfig, watch: OnProgress
) -> MatchResult:
    """Match texts by a model, and write matches and clusters into a folder.

    The model's run decides the encoder, its maximum length and prompts. All pairs of texts are compared. Rerun the same
    command after a stop; matches of other texts or of another model are not replaced.
    """
    if model.run is not None:
        refuse_inside(out, storage_path(model.config.task))
    elif options.suggest is not None:
        raise BadOption(
            f"--suggest prefers texts unlike training, and {model.path} is a copy of a model, whose training texts are "
            "not known; give --model RUN, or leave out --suggest"
        )
    task, report = read_texts(options, model)
    split = task.split(options.split or "train")
    made_from = input_digest([model.model.digest, task.digest, split.name])
    refuse_other(out, made_from)
    refuse_added(out, made_from, task)
    rule = choose_assignment(options, task.symmetric)
    cutoff = choose_cutoff(options, model, rule)
    refuse_search(options.search, model.model, task, split, rule)
    if task.symmetric:
        refuse_one_side(model)
    decisions = known_decisions(model, task, split.space)
    written = options.texts, options.escape_formulas
    matching = Matching(model, task, split, rule, cutoff, options.clusters or "components", decisions, *written)
    with locked(out) as out, session(cluster_config, trainers=0):
        refuse_other(out, made_from)
        number = refuse_added(out, made_from, task)
        place = task_folder(options, task, out)
        config = replace(_searched(model.config, options.search), task=str(place))
        with deploy_pool(config, cluster_config, task, out, watch, known=out / "vectors") as pool:
            found = find_candidates(pool, split, model.model, cutoff, rule, decisions, model.config.seed)
            candidates = found.candidates
            pairs = split.space.pairs(candidates.keys)
            kept = matching.assigned(pairs, candidates.cosines)
            cosines = cosines_of(pool, split, model.model, Candidates(candidates.keys[kept], candidates.cosines[kept]))
            drift = report_drift(out, pool, split, DriftRequest(options, model, cutoff, decisions))
        matches = matching.matches(pairs[kept], candidates.cosines[kept], cosines)
        clustered = cluster_texts(matching, matches) if task.symmetric else None
        scored = ScoredPairs(pairs, candidates.cosines)
        about = None
        if not is_task(options) and options.search.kind != "knn":
            about = _about(matching) | {"table": table_record(options, model), "made_from": made_from}
        _write_first(out, number, matching, scored, clustered, about)
        added = {"made_from": made_from, "search": found.search} | drift
        record = write_outcome(out, Outcome(matching, matches, scored, clustered, added))
    return MatchResult(task, matches, record, report)


def match_into(
    options: MatchOptions, out: StoragePath, cluster_config: ClusterConfig, watch: OnProgress
) -> MatchResult:
    """Match new texts with those of a match folder and with each other, and write the matches of all of them there.

    The result is that of matching all texts at once, but for the last digits of scores. Texts with a known id replace
    the known ones; `complete`: known texts that are not in the tables are removed. Known texts are not encoded again,
    and pairs of known texts are not compared again. Rerun the same command after a stop.
    """
    with locked(out) as out:
        state, known = read_state(out)
        model = model_of(state.about["model"], out)
        refuse_unlike(options, state.about)
        arrived, report = read_arrived(options, state.about["table"], model.config.max_length, known.symmetric)
        grown = grow(known, arrived, options.complete)
        if known.symmetric and len(grown.task.left) < 2:
            raise BadOption("--complete: one text would be left, and a pair needs two; give a table of more rows")
        split = grown.task.split("train")
        decisions = known_decisions(model, grown.task, split.space)
        rules = state.about["rules"]
        score = rules["cutoff"]["score"]
        cutoff = Cutoff(**(rules["cutoff"] | {"score": -inf if score is None else score, "count": options.most}))
        matching = Matching(
            model, grown.task, split, rules["assign"], cutoff, rules["clusters"], decisions, options.texts,
            options.escape_formulas,
        )  # fmt: skip
        scored = _search_again(matching, state, known, grown, out, cluster_config, watch)
        kept = matching.assigned(scored.pairs, scored.scores)
        # The score is the cosine: models with other scores are refused.
        matches = matching.matches(scored.pairs[kept], scored.scores[kept], scored.scores[kept])
        return _renew(matching, matches, scored, state, grown, out, report)


def _write_first(
    out: StoragePath,
    number: int,
    matching: Matching,
    scored: ScoredPairs,
    clustered: ClusteredTexts | None,
    about: dict[str, Any] | None,
) -> None:
    """Write the state of all texts matched at once, if there is one (about), instead of state `number`."""
    remove_record(out)
    remove_changes(out)
    if about is None:
        remove_state(out)
        return
    ids, following = (NO_CLUSTERS, 0) if clustered is None else (clustered.ids.ids, clustered.ids.next_id)
    labelled = _labelled(matching)
    # Beside the state that is there, which holds until this one is complete.
    state = MatchState(number + 1, task_name(matching.task), scored, *labelled, ids, following, about)
    write_state(out, state)
    if number:
        remove_older(out, state)


def _search_again(
    matching: Matching,
    state: MatchState,
    known: Task,
    grown: GrownTask,
    out: StoragePath,
    cluster: ClusterConfig,
    watch: OnProgress,
) -> ScoredPairs:
    """Return the candidates of all texts: known ones that still hold, and those of texts that are searched again."""
    space = matching.split.space
    labelled = space.pairs(matching.decisions.yes), space.pairs(matching.decisions.no)
    best = matching.rule in ("best", "mutual")
    requery = plan_requery(state, (len(known.left), len(known.right)), grown, *labelled, best)
    found = list[ScoredPairs]()
    parts = rectangles(grown.task, requery)
    if parts:
        with session(cluster, trainers=0):
            config, model = _searched(matching.model.config, MatchSearchConfig()), matching.model.model
            search = RectangleSearch(config, cluster, model, out / "work", out / "vectors")
            rules = matching.cutoff, matching.rule, matching.decisions
            found = [search.find(grown.task, rows, *rules, watch) for rows in parts]
    scored, cutoff = merge(requery.kept, *found), matching.cutoff
    if best:
        # As when all texts are matched at once, --most is no limit of these.
        return best_of_texts(scored, space, (len(grown.task.left), len(grown.task.right)), matching.decisions.yes)
    if np.count_nonzero(scored.scores >= cutoff.score) > cutoff.count:
        raise BadOption(f"more than {cutoff.count:,} pairs are above the cutoff ({cutoff.source}); {CURE}")
    return scored


def _renew(
    matching: Matching,
    matches: Matches,
    scored: ScoredPairs,
    state: MatchState,
    grown: GrownTask,
    out: StoragePath,
    report: Report,
) -> MatchResult:
    """Write the new state, then the files that are made of it. If the same command runs again, the state stays."""
    task, clustered, changes = grown.task, None, None
    if task.symmetric:
        # A text that was changed was in a cluster, too.
        rows = grown.by_id["left"]
        old = np.where(rows == NEW, NO_ID, state.clusters[rows])
        clustered = cluster_texts(matching, matches, old, state.next_cluster)
        # An id is gone, too, if all texts of its cluster were removed.
        gone = np.setdiff1d(state.clusters, clustered.ids.ids)
        changes = replace(clustered.ids, gone=gone)
    place = task_name(task)
    new_matches = int(grown.has_new(matches.pairs).sum())
    about = dict(state.about) | {"texts": asdict(grown.counts), "new_matches": new_matches, "arrived": grown.arrived}
    if changes is not None:
        about["clusters"] = {name: len(getattr(changes, name)) for name in ("new", "gone", "splits", "merges")}
    ids, following = (NO_CLUSTERS, 0) if clustered is None else (clustered.ids.ids, clustered.ids.next_id)
    # Earlier versions kept counts without this digest.
    is_rerun = state.about.get("arrived", grown.arrived if "texts" in state.about else None) == grown.arrived
    if place != state.task or not is_rerun or not _same_labels(matching, state):
        write_task(task, out / place, {"command": "match", "into": str(out)})
        remove_record(out)
        # Before the state: from the new state alone they cannot be found.
        _write_new(out, matching, matches, grown.has_new(matches.pairs))
        if changes is not None:
            write_changes(out, changes)
        state = MatchState(state.number + 1, place, scored, *_labelled(matching), ids, following, about)
        write_state(out, state)
    elif (new := in_new_matches(out, matches, task)) is not None:
        # --no-texts and --escape-formulas can be others than before.
        remove_record(out)
        _write_new(out, matching, matches, new)
    added = {name: state.about[name] for name in ("made_from", "texts", "new_matches") if name in state.about}
    if "clusters" in state.about:
        added["changed_clusters"] = state.about["clusters"]
    record = write_outcome(out, Outcome(matching, matches, scored, clustered, added))
    remove_older(out, state)
    return MatchResult(task, matches, record, report)


def _write_new(out: StoragePath, matching: Matching, matches: Matches, new: np.ndarray) -> None:
    cells = FormulaCells(matching.escape_formulas)
    write_matches(out / "new_matches", matches, matching.task, matching.texts, cells, new)


def _same_labels(matching: Matching, state: MatchState) -> bool:
    return all(
        np.array_equal(one, other) for one, other in zip(_labelled(matching), (state.yes, state.no), strict=True)
    )


def _labelled(matching: Matching) -> tuple[np.ndarray, np.ndarray]:
    space, decisions = matching.split.space, matching.decisions
    return space.pairs(decisions.yes), space.pairs(decisions.no)


def _about(matching: Matching) -> dict[str, Any]:
    """Return the model and the rules by which new texts are matched."""
    cutoff = asdict(matching.cutoff)
    return {
        "model": model_record(matching.model),
        "rules": {
            "assign": matching.rule, "clusters": matching.clustering,
            "cutoff": cutoff | {"score": None if cutoff["score"] == -inf else cutoff["score"]},
        },
    }  # fmt: skip


def _searched(config: RunConfig, options: MatchSearchConfig) -> RunConfig:
    """Return the options of the pool, searched as the options of matching say, however the run searched."""
    search = replace(config.search, **asdict(options))
    return replace(config, search=search, evaluation=replace(EvaluationConfig(), splits=()), scoring=ScoringConfig(0.0))
