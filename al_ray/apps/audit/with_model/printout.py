"""The results of an audit that a language model and people label, as lines of text and as JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from al_ray.apps.audit.band_printout import (
    UNKNOWN,
    beyond_lines,
    count_words,
    labelled_words,
    threshold_table,
)
from al_ray.apps.audit.folder import FirstSample, Record
from al_ray.apps.audit.printout import Result, count_answers, format_waiting
from al_ray.core.labels import NO, YES
from al_ray.core.scorer import Labels, Scorer
from al_ray.core.text_table import format_columns
from al_ray.metrics.audit.answer_cells import Cell, cells_of
from al_ray.metrics.audit.score_bands import BandAudit

ROWS = "no, unsure or none", "yes"
"""The cells, as `cells_of` gives them."""


def format_two_samples(record: Record, first: FirstSample, out: Path, exists: bool, cost: float) -> list[str]:
    """Format the report of `sample`; cost: of all requests so far."""
    counts, people = count_answers(first.answers), sum(code != "" for code in first.codes)
    answers = ", ".join(f"{counts[word]:,} {word}" for word in ("yes", "no", "unsure"))
    unread = f", {counts['open']:,} without a readable answer" if counts["open"] else ""
    lines = [f"{out} holds this audit already; nothing was changed"] if exists else []
    price = f" for {cost:,.6g}" if cost else ""
    lines += [
        f"{record.asked.oracle} answered {len(first.answers):,} pairs: {answers}{unread}{price}",
        f"people answer {people:,} of these; no figure takes an answer of the model for right",
    ]
    return [*lines, *format_waiting(out, people)]


def format_cells(
    audit: BandAudit,
    record: Record,
    people: Labels,
    thresholds: Sequence[float],
    rng: np.random.Generator,
    calibrated: Scorer | None = None,
) -> Result:
    """Format the estimate from both samples; people: (k,) labels of the pairs that they were asked."""
    assert audit.model is not None
    name, counts = record.asked.oracle, count_answers(people)
    known = {"known_pairs": len(audit.known_labels), "known_matches": int((audit.known_labels == YES).sum())}
    # A stream of its own, so that the figures at the thresholds depend on nothing else that is printed.
    (of_bands,) = rng.spawn(1)
    matches = [audit.matches_in(band, of_bands) for band in audit.bands]
    table, figures, _ = threshold_table(audit, record.scorer, thresholds, rng, calibrated)
    heading = ("pairs by score", f"{name} says", "pairs", "people answered", "yes", "share of matches", "matches (95%)")
    rows: list[tuple[str, ...]] = [heading]
    bands: list[dict[str, Any]] = []
    for (start, stop), number in zip(audit.bands, matches, strict=True):
        cells = _cells(audit, start, stop)
        for row, (words, cell) in enumerate(zip(ROWS, cells, strict=True)):
            share = f"{cell.matches / cell.answered:.1%}" if cell.answered else UNKNOWN
            place = (f"{start + 1:,} to {stop:,}", count_words(number)) if not row else ("", "")
            middle = (words, f"{cell.drawn:,}", f"{cell.answered:,}", f"{cell.matches:,}", share)
            rows.append((place[0], *middle, place[1]))
        of_cells = {
            words: {"drawn": cell.drawn, "answered": cell.answered, "matches": cell.matches}
            for words, cell in zip(("other", "yes"), cells, strict=True)
        }
        in_all = None if number is None else number.as_dict()
        bands.append({"from": start + 1, "to": stop, "cells": of_cells, "matches_in_all": in_all})
    content = {
        **counts,
        **known,
        "total_pairs": record.total_pairs,
        "model_answers": count_answers(audit.model),
        "bands": bands,
        "thresholds": figures,
    }
    lines = [format_columns(rows), "", table, *beyond_lines(audit, matches), _agreement(audit, name)]
    if counts["unsure"] or counts["open"]:
        lines.append(f"pairs not counted: {counts['unsure']:,} unsure, {counts['open']:,} not answered by people")
    if known["known_pairs"]:
        lines.append(
            f"{known['known_pairs']:,} pairs {labelled_words(audit)}, {known['known_matches']:,} of them matches, "
            "count too"
        )
    return lines, content


def _cells(audit: BandAudit, start: int, stop: int) -> tuple[Cell, Cell]:
    assert audit.model is not None
    own = (audit.ranks >= start) & (audit.ranks < stop)
    return cells_of(audit.model[own], audit.labels[own])


def _agreement(audit: BandAudit, name: str) -> str:
    """Say how often people and the model agree on the pairs that both called yes or no."""
    assert audit.model is not None
    both = np.isin(audit.labels, (NO, YES)) & np.isin(audit.model, (NO, YES))
    alike = int((audit.labels == audit.model)[both].sum())
    return f"people and {name} agree on {alike:,} of {int(both.sum()):,} pairs to which both said yes or no"
