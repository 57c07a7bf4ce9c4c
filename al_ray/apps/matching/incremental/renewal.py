"""The writing of a match folder: its state, and the files that are made of it."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from al_ray.apps.matching.clusters.ids import NO_ID
from al_ray.apps.matching.clusters.nodes import Nodes
from al_ray.apps.matching.folder import (
    Matches,
    in_new_matches,
    remove_changes,
    remove_record,
    write_changes,
    write_matches,
)
from al_ray.apps.matching.incremental.growth import NEW, GrownTask
from al_ray.apps.matching.incremental.state import (
    MatchState,
    digest_of_cells,
    remove_older,
    remove_state,
    task_name,
    write_state,
)
from al_ray.apps.matching.outputs import ClusteredTexts, Matching, Outcome, write_outcome
from al_ray.core.scored_pairs import ScoredPairs
from al_ray.core.task import Task
from al_ray.datasets.task_folder import write_task
from al_ray.storage.formulas import FormulaCells
from al_ray.storage.uri import StoragePath


def write_first(
    out: StoragePath,
    number: int,
    matching: Matching,
    scored: ScoredPairs,
    clustered: ClusteredTexts,
    about: dict[str, Any] | None,
) -> None:
    """Write the state of all texts matched at once, if there is one (about), instead of state `number`."""
    remove_record(out)
    remove_changes(out)
    if about is None:
        remove_state(out)
        return
    labelled = _labelled(matching)
    # Beside the state that is there, which holds until this one is complete.
    ids = clustered.ids
    state = MatchState(number + 1, task_name(matching.task), scored, *labelled, ids.ids, ids.next_id, about)
    write_state(out, state, matching.task)
    if number:
        remove_older(out, state)


def renew(out: StoragePath, made: Outcome, state: MatchState, grown: GrownTask) -> dict[str, Any]:
    """Write the new state, then the files that are made of it; return match.json.

    If the same command runs again, the state stays.
    """
    task, matching, matches = grown.task, made.matching, made.matches
    # An id is gone, too, if all texts of its cluster were removed.
    changes = replace(made.clustered.ids, gone=np.setdiff1d(state.clusters, made.clustered.ids.ids))
    place, kept = task_name(task), holds(state, matching)
    new_matches = int(grown.has_new(matches.pairs).sum())
    about = dict(state.about) | {"texts": asdict(grown.counts), "new_matches": new_matches, "arrived": grown.arrived}
    about |= cells_of(matching)
    about["clusters"] = {name: len(getattr(changes, name)) for name in ("new", "gone", "splits", "merges")}
    # Earlier versions kept counts without this digest.
    is_rerun = state.about.get("arrived", grown.arrived if "texts" in state.about else None) == grown.arrived
    if not kept or not is_rerun:
        write_task(task, out / place, {"command": "match", "into": str(out)})
        remove_record(out)
        # Before the state: from the new state alone they cannot be found.
        _write_new(out, matching, matches, grown.has_new(matches.pairs))
        write_changes(out, changes)
        ids = made.clustered.ids
        state = MatchState(state.number + 1, place, made.candidates, *_labelled(matching), ids.ids, ids.next_id, about)
        write_state(out, state, matching.task)
    elif (new := in_new_matches(out, matches, task)) is not None:
        # --no-texts and --escape-formulas can be others than before.
        remove_record(out)
        _write_new(out, matching, matches, new)
    added = {name: state.about[name] for name in ("made_from", "texts", "new_matches") if name in state.about}
    if "clusters" in state.about:
        added["changed_clusters"] = state.about["clusters"]
    record = write_outcome(out, replace(made, added=added | dict(made.added)))
    remove_older(out, state)
    return record


def old_clusters(state: MatchState, known: Task, grown: GrownTask) -> np.ndarray:
    """Return the (nodes,) ids of the clusters in which the texts were, NO_ID for a new id."""
    nodes = Nodes(known)
    rows = [grown.by_id["left"]]
    if not known.symmetric:
        right = grown.by_id["right"]
        rows.append(np.where(right == NEW, NEW, right + nodes.first_right))
    before = np.concatenate(rows)
    if len(state.clusters) != len(nodes):
        # Earlier versions made no clusters of two tables.
        return np.full(len(before), NO_ID)
    # A text that was changed was in a cluster, too.
    return np.where(before == NEW, NO_ID, state.clusters[before])


def _write_new(out: StoragePath, matching: Matching, matches: Matches, new: np.ndarray) -> None:
    cells = FormulaCells(matching.escape_formulas)
    write_matches(out / "new_matches", matches, matching.task, matching.texts, cells, new)


def holds(state: MatchState, matching: Matching) -> bool:
    """Return whether the candidates of a state are those of its texts and labels now."""
    pairs = zip(_labelled(matching), (state.yes, state.no), strict=True)
    same = task_name(matching.task) == state.task and all(np.array_equal(one, other) for one, other in pairs)
    return same and state.about.get("cells") == cells_of(matching).get("cells")


def cells_of(matching: Matching) -> dict[str, str]:
    """Return what a state says of the cells of its texts; {} without a matcher, which alone compares them."""
    return {} if matching.model.model.matcher is None else {"cells": digest_of_cells(matching.task)}


def _labelled(matching: Matching) -> tuple[np.ndarray, np.ndarray]:
    space, decisions = matching.split.space, matching.decisions
    return space.pairs(decisions.certain), space.pairs(decisions.no)
