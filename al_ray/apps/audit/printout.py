"""Results of jobs.audit, as lines of text and as JSON; those of bands of score are in band_printout.py."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from al_ray.apps.audit.folder import STEM, Record
from al_ray.core.labels import NO, OPEN, UNSURE, YES
from al_ray.core.naming import call, command
from al_ray.core.scorer import Labels
from al_ray.core.text_table import format_columns
from al_ray.metrics.audit.false_positives import FalsePositiveSample, corrected_precision, error_share, matching_share
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
        return [*lines, f"there is nothing to label; continue: {call('estimate_audit', audit=out)}"]
    return [*lines, *format_waiting(out, count)]


def format_waiting(out: Path, count: int) -> list[str]:
    """Say how people label the pairs of an audit."""
    return [
        f"{count:,} pairs wait for an answer",
        f"  on a page: {command('annotate', audit=out)}",
        f"  or in a spreadsheet: fill the column label of {out / STEM}.csv with yes, no or unsure; "
        "save it as CSV (UTF-8)",
        f"  or in Label Studio: import {out / STEM}.json with the interface label-studio.xml beside it, and save "
        f"its JSON export as {out / EXPORT} or under its own name there",
        f"then: {call('estimate_audit', audit=out)}",
    ]


def format_false_positives(
    record: Record, strata: Sequence[FalsePositiveSample], labels: Labels, rng: np.random.Generator
) -> Result:
    """Format the estimate from labels of putative false positives (A.3)."""
    positives = record.positives_above
    assert positives is not None
    imputed = positives / (positives + sum(stratum.extent.weight * stratum.above for stratum in strata))
    rows: list[tuple[str, ...]] = [
        ("stratum", "reach it", "each stands for", "no", "yes", "unsure or open", "p, share of errors (95%)")
    ]
    of_strata: list[dict[str, Any]] = []
    for stratum in strata:
        share, weight = error_share(stratum, rng), stratum.extent.weight
        of_strata.append({**asdict(stratum), "weight": weight, "p": share.as_dict()})
        counts = (f"{n:,}" for n in (stratum.errors, stratum.matches, stratum.silent))
        silent = (
            "no answer: 1 as imputed, 0 to 1 in the intervals" if stratum.above else "none of the sample reaches it"
        )
        cell = percent(share) if stratum.answered else silent
        rows.append((stratum.extent.name, f"{stratum.above:,}", f"{weight:,.1f}", *counts, cell))
    precision, matching = corrected_precision(positives, strata, rng), matching_share(positives, strata, rng)
    content: dict[str, Any] = {
        **count_answers(labels),
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
        f"corrected precision (Eq. 14)     {percent(precision)}",
        f"share of pairs there that match  {percent(matching)}",
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


def count_answers(labels: Labels) -> dict[str, int]:
    """Return how many labels are yes, no, unsure and open."""
    names = {"yes": YES, "no": NO, "unsure": UNSURE, "open": OPEN}
    return {name: int((labels == label).sum()) for name, label in names.items()}


def _threshold_line(record: Record) -> str:
    options = record.asked
    threshold, scorer = record.threshold or 0.0, record.scorer
    words = f"cosine {threshold:.4f}"
    if scorer is not None and scorer.matcher:
        words = scorer.threshold_words(threshold)
    return (
        f"{options.split}, round {options.round}: {words}, which {record.positives_above:,} of "
        f"{record.positives:,} known positives reach, recall {100 * (record.recall or 0):.1f}%"
    )


def percent(number: Estimate | None) -> str:
    """Format a share with its interval."""
    if number is None:
        return "unknown"
    return f"{100 * number.value:.1f}% ({100 * number.low:.1f} to {100 * number.high:.1f})"
