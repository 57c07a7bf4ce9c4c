"""Pairs of the texts to match that are worth labelling next."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np

from al_ray.apps.drift.folder import (
    SHEET,
    STEM,
    TABLE,
    may_hold_answers,
    read_suggested,
    use_of_suggestions,
    write_suggested,
)
from al_ray.apps.drift.measure import Drift
from al_ray.apps.drift.samples import stored_vectors
from al_ray.apps.drift.text_values import distance_to
from al_ray.apps.matching.assignment_rules import Cutoff
from al_ray.apps.matching.decisions import PairDecisions
from al_ray.apps.matching.folder import RECORD
from al_ray.apps.matching.model import MatchingModel
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.cluster.pool.sharded_retriever import PoolSearch
from al_ray.core.candidates import Candidates, Order
from al_ray.core.naming import command, option
from al_ray.core.pairs import Pairs, Rows, distinct, is_in
from al_ray.core.same_texts import rows_in
from al_ray.core.scorer import Floats
from al_ray.core.task import Split, Task
from al_ray.encoders.prompts import Side
from al_ray.oracles.people import INTERFACE
from al_ray.storage.uri import StoragePath

PAIRS_OF_TEXT = 3
"""A text is in at most as many suggested pairs, so that they show many texts."""
CANDIDATES = (10, 100)
"""Candidates for each suggested pair; the second number only if the first leaves too few pairs."""
TEXTS_AT_ONCE = 2000


@dataclass(frozen=True)
class SuggestionRequest:
    """How many pairs are wanted, by which model, and what is known: the cutoff, the labels and the drift."""

    count: int
    model: MatchingModel
    cutoff: Cutoff
    decisions: PairDecisions
    drift: Drift


def write_suggestions(out: StoragePath, pool: ShardedPool, split: Split, request: SuggestionRequest) -> dict[str, Any]:
    """Write suggested.csv and suggested.parquet, and return what match.json says of them.

    The rule: candidates are the 10 N pairs whose scores are closest to the cutoff (or, where a command has none, to the
    model's boundary; where that is infinite, those with the highest scores). Pairs with a label yes, no or unsure, and
    those with a text of dev or test, are not among them. First come candidates both of whose texts are unlike training,
    then those with one such text, then the others; within each group the closest come first, and equal ones by pair
    key. A pair is left out if one of its texts is in PAIRS_OF_TEXT suggested pairs already. If that leaves fewer than
    N, the same is done with 100 N candidates. A text is unlike training if it is farther from each sampled training
    text than UNLIKE of those are from the nearest other that is no match.

    Suggested pairs that are there may have answers, and are not replaced.
    """
    if may_hold_answers(out):
        known = (out / TABLE).exists()
        return {"kept": True} | ({"in_task_of_run": _kept_are_of_run(out, pool.task, request.model)} if known else {})
    model, labelled = request.model.model, request.decisions
    centre, source = centre_of(request)
    known = distinct(labelled.yes, labelled.no, labelled.unsure)
    search = PoolSearch(pool, split, config=replace(pool.search, kind="exact", ordered_pairs=False))
    found, distances, chosen = Candidates(known[:0], np.empty(0)), np.empty((0, 2)), known[:0]
    for factor in CANDIDATES:
        every = search.least(model, Order(centre), factor * request.count, known)
        found = _for_training(every, split, pool.task, request.model.task)
        pairs = split.space.pairs(found.keys)
        distances = _distances(pool, split, pairs, request)
        unlike = (distances > request.drift.unlike).sum(axis=1)
        chosen = select_pairs(pairs, unlike, split.space.symmetric, request.count)
        if len(chosen) == request.count or len(every) < factor * request.count:
            break
    pairs = split.space.pairs(found.keys[chosen])
    shown = found.cosines[chosen] - request.model.lowest_p
    write_suggested(out, pool.task, pairs, shown, distances[chosen])
    unlike = int((distances[chosen] > request.drift.unlike).any(axis=1).sum())
    of_run = _are_of_run(pool.task, request.model, pairs)
    return {
        "kept": False, "asked": request.count, "pairs": len(pairs), "unlike_training": unlike,
        "closest_to": source, "in_task_of_run": of_run,
    }  # fmt: skip


def centre_of(request: SuggestionRequest) -> tuple[float, str]:
    """Return the score near which a label tells most, and what it is."""
    if request.cutoff.score > -inf:
        return request.cutoff.score + request.model.lowest_p, "the cutoff"
    scorer = request.model.calibrated or request.model.model.scorer
    if scorer is not None and isfinite(scorer.boundary):
        return scorer.boundary, "the boundary"
    return inf, "the highest score"


def select_pairs(pairs: Pairs, unlike: Rows, symmetric: bool, count: int) -> Rows:
    """Return the places of `count` pairs at most, in the order in which they are chosen.

    pairs: (n, 2), the closest first. unlike: (n,) how many of their texts are unlike training; more come first. A text
    is in PAIRS_OF_TEXT pairs at most. symmetric: both columns are rows of one collection.
    """
    order = np.argsort(-unlike, kind="stable")
    times: dict[tuple[int, int], int] = {}
    chosen = list[int]()
    for place in order.tolist():
        left, right = pairs[place].tolist()
        texts = (0, left), (0 if symmetric else 1, right)
        if len(chosen) < count and all(times.get(text, 0) < PAIRS_OF_TEXT for text in texts):
            chosen.append(place)
            for text in texts:
                times[text] = times.get(text, 0) + 1
    return np.array(chosen, dtype=np.int64)


def _distances(pool: ShardedPool, split: Split, pairs: Pairs, request: SuggestionRequest) -> Floats:
    """Return the distance (n, 2) of the two texts of each pair to the nearest sampled training text."""
    if pool.task.symmetric:
        return _of_rows(pool, split, "left", pairs.ravel(), request).reshape(-1, 2)
    sides: tuple[Side, Side] = ("left", "right")
    return np.stack([_of_rows(pool, split, side, pairs[:, at], request) for at, side in enumerate(sides)], axis=1)


def _of_rows(pool: ShardedPool, split: Split, side: Side, rows: Rows, request: SuggestionRequest) -> Floats:
    """Return the distance of each of (n,) rows, which may repeat."""
    every, back = np.unique(rows, return_inverse=True)
    distances = np.empty(len(every))
    for start in range(0, len(every), TEXTS_AT_ONCE):
        here = slice(start, start + TEXTS_AT_ONCE)
        vectors = stored_vectors(pool, request.model.model, split, side, every[here])
        distances[here] = distance_to(request.drift.training, vectors)
    return distances[back]


def _for_training(found: Candidates, split: Split, task: Task, of_run: Task) -> Candidates:
    """Return the candidates without pairs that have a text of dev or test of the run's task.

    No run can be trained on these pairs, nor one on a task that grows by new texts.
    """
    if task.symmetric != of_run.symmetric:
        return found
    space = of_run.split("train").space
    rows, _ = rows_in(of_run, task, split.space.pairs(found.keys))
    fit = np.ones(len(found), dtype=np.bool_)
    for side, train in enumerate((space.left, space.right)):
        fit &= (rows[:, side] < 0) | is_in(rows[:, side], train)
    return Candidates(found.keys[fit], found.cosines[fit])


def _are_of_run(task: Task, model: MatchingModel, pairs: Pairs) -> bool:
    """Return whether all pairs belong to the train split of the model's task, so that its run takes their labels."""
    if task.symmetric != model.task.symmetric:
        return False
    rows, _ = rows_in(model.task, task, pairs)
    return bool(model.task.split("train").space.holds(rows).all())


def _kept_are_of_run(out: StoragePath, task: Task, model: MatchingModel) -> bool:
    """Return the same of the pairs of an earlier command, whose texts are those of the task."""
    left, right = ({name: row for row, name in enumerate(side.ids)} for side in (task.left, task.right))
    rows = [(left.get(one, -1), right.get(other, -1)) for one, other in read_suggested(out).ids]
    pairs = np.array(rows, dtype=np.int64).reshape(-1, 2)
    return bool((pairs >= 0).all()) and _are_of_run(task, model, pairs)


def suggestion_lines(record: Mapping[str, Any], out: StoragePath) -> Iterator[str]:
    """Yield what the command prints of the suggested pairs in match.json: how many, and how their labels are used."""
    if "suggested" not in record:
        return
    suggested, sheet = record["suggested"], out / SHEET
    if suggested["kept"]:
        yield (
            f"{out / STEM}.* was there before and may hold labels, so it was kept; for new suggestions move all of "
            f"these files away, {STEM}.page.log too, or give another `out`"
        )
        return
    yield (
        f"pairs to label next: {suggested['pairs']:,}, closest to {suggested['closest_to']}, "
        f"{suggested['unlike_training']:,} of them with a text unlike training"
    )
    if suggested["pairs"] < suggested["asked"]:
        yield (
            f"{option('suggest', suggested['asked'])} asks for more than there are: pairs without a label, "
            f"{PAIRS_OF_TEXT} of a text at most, and none with a text of dev or test"
        )
    if not isinstance(out, Path):
        yield f"people label on a local disk: copy {RECORD}, {STEM}.* and {INTERFACE} of {out} into a folder DIR there"
        out, sheet = Path("DIR"), Path("DIR") / SHEET
    yield f"label them on a page: {command('annotate', matches=out)}"
    yield f"or fill the column label of {sheet} with yes, no or unsure"
    yield f"then: {use_of_suggestions(record, out)}"
