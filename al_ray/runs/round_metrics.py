"""Metrics of a round: those of the main split, and the comparison with the round before."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from al_ray.active_learning.strategies import STRATEGIES
from al_ray.core.config.serialization import fits
from al_ray.core.errors import BadFile
from al_ray.core.labels import UNSURE, YES, State
from al_ray.core.pairs import PairSpace, distinct
from al_ray.core.scorer import Scorer
from al_ray.metrics.bootstrap import Replicates
from al_ray.metrics.error_examples import main_split
from al_ray.metrics.evaluation import Evaluation
from al_ray.metrics.round_comparison import (
    AGREEMENT,
    GAIN,
    INTERVAL,
    PREQUENTIAL,
    agreement,
    look_up,
    prequential_average_precision,
)
from al_ray.runs.candidate_figures import candidate_figures
from al_ray.runs.ledger import Ledger
from al_ray.runs.presumed_figures import presumed_by_training, presumed_figures
from al_ray.storage.pair_cosines import read_fitted
from al_ray.storage.uri import StoragePath

FIGURES = {
    **dict.fromkeys(("round", "labels", "positives"), int),
    **dict.fromkeys(("average_precision", "precision_at_recall_20", "boundary"), float | None),
    "seconds": dict,
}
"""The fields of a line of metrics.jsonl that jobs read, with their types."""


def read_lines(folder: StoragePath) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl of a run folder; BadFile if one is not that of its round."""
    if not (path := folder / "metrics.jsonl").exists():
        return []
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError, RecursionError) as error:
        raise BadFile(f"{path} cannot be read ({error}); restore it") from error
    for number, line in enumerate(lines, start=1):
        if not _has_figures(line) or line["round"] != number:
            raise BadFile(f"{path}:{number} is not the line of round {number}; restore it")
    return lines


def _has_figures(line: Any) -> bool:
    typed = isinstance(line, dict) and all(name in line and fits(line[name], kind) for name, kind in FIGURES.items())
    try:
        candidate_figures(line if typed else {})
        presumed_figures(line if typed else {})
        presumed_by_training(line if typed else {})
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return False
    return typed and all(fits(seconds, float) for seconds in line["seconds"].values())


def figures_of(state: State, space: PairSpace) -> dict[str, int]:
    """Return the number of a round, how many labels and positives there are, and positives and unsure of its batch.

    space: of the pool. `unlabelled` is how many of its pairs have no label; unsure is one.
    """
    labels = state.labelled.labels[state.labelled.rounds == state.round]
    return {
        "round": state.round,
        "labels": len(state.labelled),
        "positives": state.labelled.positives,
        "unlabelled": space.total - len(distinct(space.keys(state.labelled.pairs))),
        "batch_positives": int((labels == YES).sum()),
        "batch_unsure": int((labels == UNSURE).sum()),
    }


def content_of(evaluation: Evaluation) -> dict[str, Any]:
    """Return what record.json has of an evaluation: with its curve, and with bootstrap replicates of AP over queries.

    A later round is compared with these replicate by replicate.
    """
    over = evaluation.over_queries
    replicates = [] if over is None else [round(value, 7) for value in over.values.tolist()]
    # JSON has no NaN: replicates without a positive are None.
    replicates = [value if np.isfinite(value) else None for value in replicates]
    return {**evaluation.as_dict(), "curve": evaluation.curve.as_dict(), "replicates": replicates}


def gain_over(before: Mapping[str, Any], evaluations: Mapping[str, Evaluation]) -> dict[str, Any]:
    """Return AP of the main split less that of the round before, with its 95% interval by a paired bootstrap.

    before: the evaluations of that round, as record.json has them. None if either was not evaluated, if fewer than
    FEWEST_QUERIES have a match, or if an earlier version has written no replicates. The interval is over queries, and
    does not cover the sampling of pairs.
    """
    split = main_split(evaluations)
    one = None if split is None else evaluations[split].over_queries
    other = before.get(split or "")
    if one is None or other is None or not (earlier := other.get("replicates")):
        return {GAIN: None}
    values = np.array([np.nan if value is None else value for value in earlier])
    interval = (one - Replicates(other["average_precision"]["value"], values)).interval
    return {GAIN: None if interval is None else interval.as_dict()}


def headline(evaluations: Mapping[str, Evaluation]) -> dict[str, Any]:
    """Return the metrics of dev if it was evaluated, else of the first split, else nulls.

    The interval of AP is over queries, and does not cover the sampling of pairs. It is null if few queries have a
    match.
    """
    split = main_split(evaluations)
    if split is None:
        names = "average_precision", INTERVAL, "precision_at_recall_20", "calibration_error"
        return dict.fromkeys(names)
    first = evaluations[split]
    interval = None if first.over_queries is None else first.over_queries.interval
    return {
        "average_precision": first.average_precision.value,
        INTERVAL: None if interval is None else interval.as_dict(),
        "precision_at_recall_20": first.precision_at_recall_20.value,
        "calibration_error": first.calibration_error,
    }


def compare_with_round_before(ledger: Ledger, state: State, before: Scorer | None) -> dict[str, float | None]:
    """Compare the models of a round and of the round before, by cosines that the run has stored.

    before: the scorer of the round before, None in the first round. Figures that need a cosine that is not stored, as
    in a round whose pairs no model chose, are None.
    """
    batch, labelled = ledger.batch(state.round), state.labelled
    assert batch is not None
    assert state.model is not None
    if before is None or state.model.scorer is None:
        return {AGREEMENT: None, PREQUENTIAL: None}
    keys = ledger.space.keys
    strategy = STRATEGIES.get(batch.source)
    chosen_by_model = strategy is not None and strategy.uses_model
    cosines = batch.cosines if chosen_by_model else np.full(len(batch.pairs), np.nan)
    new = labelled.pairs[(labelled.rounds == state.round) & (labelled.labels != UNSURE)]
    labels = labelled.labels[(labelled.rounds == state.round) & (labelled.labels != UNSURE)]
    earlier, earlier_cosines = read_fitted(ledger.round(state.round - 1))
    fitted, now = read_fitted(ledger.round(state.round))
    known = np.concatenate([keys(batch.pairs), keys(earlier)])
    known, first = np.unique(known, return_index=True)
    then = look_up(keys(fitted), known, np.concatenate([cosines, earlier_cosines])[first])
    return {
        AGREEMENT: agreement(then, before.boundary, now, state.model.scorer.boundary),
        PREQUENTIAL: prequential_average_precision(look_up(keys(new), keys(batch.pairs), cosines), labels),
    }
