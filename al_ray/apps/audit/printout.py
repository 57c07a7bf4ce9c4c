"""Results of jobs.audit, as lines of text and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from al_ray.apps.audit.false_positives import FalsePositiveSample, corrected_precision, error_share, matching_share
from al_ray.apps.audit.folder import STEM, Record
from al_ray.apps.audit.score_bands import AtThreshold, BandAudit
from al_ray.core.labels import NO, OPEN, UNSURE, YES
from al_ray.core.scorer import Labels
from al_ray.core.text_table import format_columns
from al_ray.metrics.average_precision import Estimate
from al_ray.oracles.answer_files import EXPORT

Result = tuple[list[str], dict[str, Any]]
"""The lines to print, and the content of estimate.json."""


def format_sample(record: Record, out: Path, count: int, exists: bool) -> list[str]:
    """Format the report of `sample`."""
    lines = [f"{out} holds this audit already; nothing was changed"] if exists else []
    if record.threshold is not None:
        lines.append(_threshold_line(record))
    counts = {"near": record.asked.near, "random": record.asked.rand}
    for stratum in record.strata:
        few = stratum.drawn < (counts[stratum.name] or 0)
        lines.append(
            f"{stratum.name}: {stratum.above:,} of {stratum.size:,} sampled negatives reach it, putative errors; "
            + (f"drawn are all {stratum.drawn:,}" if few and stratum.drawn else f"{stratum.drawn:,} are drawn")
        )
    if not count:
        return [*lines, f"there is nothing to label; continue: python -m jobs.audit estimate --audit {out}"]
    return [
        *lines,
        f"{count:,} pairs wait for an answer",
        f"  in a spreadsheet: fill the column label of {out / STEM}.csv with yes, no or unsure; save it as CSV (UTF-8)",
        f"  or in Label Studio: import {out / STEM}.json with the interface label-studio.xml beside it, and save "
        f"its JSON export as {out / EXPORT} or under its own name there",
        f"then: python -m jobs.audit estimate --audit {out}",
    ]


def format_false_positives(
    record: Record, strata: Sequence[FalsePositiveSample], labels: Labels, rng: np.random.Generator
) -> Result:
    """Format the estimate from labels of putative false positives (A.3)."""
    positives = record.positives_above
    assert positives is not None
    imputed = positives / (positives + sum(stratum.extent.weight * stratum.above for stratum in strata))
    rows: list[tuple[str, ...]] = [
        ("stratum", "reach it", "each stands for", "no", "yes", "silent", "p, share of errors (95%)")
    ]
    of_strata: list[dict[str, Any]] = []
    for stratum in strata:
        share, weight = error_share(stratum, rng), stratum.extent.weight
        of_strata.append({**asdict(stratum), "weight": weight, "p": share.as_dict()})
        counts = (f"{n:,}" for n in (stratum.errors, stratum.matches, stratum.silent))
        silent = (
            "no answer: 1 as imputed, 0 to 1 in the intervals" if stratum.above else "none of the sample reaches it"
        )
        cell = _percent(share) if stratum.answered else silent
        rows.append((stratum.extent.name, f"{stratum.above:,}", f"{weight:,.1f}", *counts, cell))
    precision, matching = corrected_precision(positives, strata, rng), matching_share(positives, strata, rng)
    content: dict[str, Any] = {
        **_count_answers(labels),
        **{name: getattr(record, name) for name in ("threshold", "recall", "positives", "positives_above")},
        "strata": of_strata,
        "imputed_precision": imputed,
        "corrected_precision": precision.as_dict(),
        "matching_share": matching.as_dict(),
    }
    lines = [
        _threshold_line(record),
        format_columns(rows),
        f"precision by imputed labels      {100 * imputed:.1f}%",
        f"corrected precision (Eq. 14)     {_percent(precision)}",
        f"share of pairs there that match  {_percent(matching)}",
    ]
    if any(stratum.silent for stratum in strata):
        low, high = (
            corrected_precision(positives, [s.settled(match) for s in strata], rng).value for match in (False, True)
        )
        content["if_silent_are"] = {"errors": low, "matches": high}
        lines.append(
            f"unsure or not answered: {sum(s.silent for s in strata):,}; the corrected precision would be "
            f"{100 * low:.1f}% if none of them matched, {100 * high:.1f}% if all did"
        )
    return lines, content


def format_bands(audit: BandAudit, record: Record, thresholds: Sequence[float], rng: np.random.Generator) -> Result:
    """Format the estimate from labels of bands of score."""
    scorer, counts = record.scorer, _count_answers(audit.labels)
    measured = [audit.at(threshold, rng) for threshold in sorted(set(thresholds), reverse=True)]
    known = {"known_pairs": len(audit.known_labels), "known_matches": int((audit.known_labels == YES).sum())}
    rows, bands = [("pairs by score", "answered", "yes", "share of matches")], list[dict[str, int]]()
    for start, stop in audit.bands:
        part = audit.part((start, stop), (start, stop))
        bands.append({"from": start + 1, "to": stop, "answered": part.answered, "matches": part.matches})
        cells = (f"{part.answered:,}", f"{part.matches:,}", _or_none(part.share, "{:.1%}"))
        rows.append((f"{start + 1:,} to {stop:,}", *cells))
    table = [
        ("cosine", "p", "pairs", "precision (95%)", f"recall in the first {audit.reach:,}", "recall in all, at least")
    ]
    figures: list[dict[str, Any]] = []
    for at in measured:
        p = None if scorer is None else float(scorer.probability(np.array(at.threshold)))
        figures.append(_as_dict(at, p))
        cells = (_percent(at.precision), _percent(at.recall_of_reach))
        least = "-" if at.recall is None else f"{100 * at.recall.low:.2g}%"
        table.append((f"{at.threshold:.4f}", _or_none(p, "{:.3f}"), f"{at.pairs:,}", *cells, least))
    content = {**counts, **known, "total_pairs": record.total_pairs, "bands": bands, "thresholds": figures}
    lines = [format_columns(rows), "", format_columns(table)]
    if counts["unsure"] or counts["open"]:
        lines.append(f"{counts['unsure']:,} pairs are unsure and {counts['open']:,} not answered; they are not counted")
    if known["known_pairs"]:
        lines.append(
            f"{known['known_pairs']:,} pairs labelled by the run, {known['known_matches']:,} of them matches, count too"
        )
    return [*lines, *_advice(audit, measured)], content


def _advice(audit: BandAudit, measured: Sequence[AtThreshold]) -> list[str]:
    """Advise how many further labels would bound recall."""
    rest = audit.total - audit.reach
    if not rest:
        return []
    least = [at.labels_for_half for at in measured if at.labels_for_half is not None]
    few = f"{rest:,} pairs are below the first {audit.reach:,}; a few labels of them hardly bound recall"
    if not least:
        return [few]
    if not min(least):
        return []
    return [
        f"{few}; about {min(least):,} labels of them, all no, would show a recall of half at one of these thresholds"
    ]


def _as_dict(at: AtThreshold, p: float | None) -> dict[str, Any]:
    figures = {name: getattr(at, name) for name in ("precision", "recall", "recall_of_reach")}
    estimates = {name: None if value is None else value.as_dict() for name, value in figures.items()}
    cosine = at.threshold if isfinite(at.threshold) else None
    return {"cosine": cosine, "p": p, "pairs": at.pairs, **estimates, "labels_for_half": at.labels_for_half}


def _count_answers(labels: Labels) -> dict[str, int]:
    names = {"yes": YES, "no": NO, "unsure": UNSURE, "open": OPEN}
    return {name: int((labels == label).sum()) for name, label in names.items()}


def _threshold_line(record: Record) -> str:
    options = record.asked
    return (
        f"{options.split}, round {options.round}: cosine {record.threshold:.4f}, which {record.positives_above:,} of "
        f"{record.positives:,} known positives reach, recall {100 * (record.recall or 0):.1f}%"
    )


def _percent(number: Estimate | None) -> str:
    if number is None:
        return "-"
    return f"{100 * number.value:.1f}% ({100 * number.low:.1f} to {100 * number.high:.1f})"


def _or_none(value: float | None, form: str) -> str:
    return "-" if value is None or np.isnan(value) else form.format(value)
