"""The writing of a match folder: its state, and the files that are made of it."""

from dataclasses import replace
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
from al_ray.apps.matching.incremental.about import Arrival, ClusterCounts, StateAbout
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
    about: StateAbout | None,
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
    before, arrival = state.about.arrival, Arrival(grown.counts, new_matches, grown.arrived, ClusterCounts.of(changes))
    about = replace(state.about, cells=cells_of(matching), arrival=arrival)
    # Earlier versions kept counts without this digest.
    is_rerun = before is not None and before.arrived in (None, grown.arrived)
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
    about, added = state.about, dict[str, Any]()
    if about.made_from is not None:
        added["made_from"] = about.made_from
    if about.arrival is not None:
        added |= about.arrival.changes
        if about.arrival.clusters is not None:
            added["changed_clusters"] = about.arrival.changed_clusters
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
    return same and state.about.cells == cells_of(matching)


def cells_of(matching: Matching) -> str | None:
    """Return the digest of the cells of the texts; None without a matcher, which alone compares them."""
    return None if matching.model.model.matcher is None else digest_of_cells(matching.task)


def _labelled(matching: Matching) -> tuple[np.ndarray, np.ndarray]:
    space, decisions = matching.split.space, matching.decisions
    return space.pairs(decisions.certain), space.pairs(decisions.no)
