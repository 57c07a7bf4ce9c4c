"""The sample and the estimate of an audit of matches, as lines of text and as JSON."""

from math import floor
from pathlib import Path
from typing import Any

from al_ray.apps.audit.folder import MatchRecord
from al_ray.apps.audit.matches import LabelledMatches
from al_ray.apps.audit.printout import Result, count_answers, format_waiting, percent
from al_ray.apps.matching.assignment_rules import ASSIGNMENTS
from al_ray.core.naming import option
from al_ray.core.text_table import format_columns
from al_ray.metrics.audit.match_precision import with_right


def format_match_sample(record: MatchRecord, out: Path, exists: bool) -> list[str]:
    """Format the report of `sample`."""
    lines = [f"{out} holds this audit already; nothing was changed"] if exists else []
    count, bands = sum(band.drawn for band in record.bands), len(record.bands)
    drawn = f"all {count:,}" if count == record.by_model else f"{count:,}"
    source = f"{bands} bands of score" if bands > 1 else "one band of score"
    return [
        *lines,
        f"{_counts(record)}; drawn of those of the model: {drawn}, from {source}",
        *format_waiting(out, count),
    ]


def format_match_precision(audit: LabelledMatches) -> Result:
    """Format the estimate of the precision of matches from the labels of some of them."""
    record, counts, cumulative = audit.record, count_answers(audit.labels), audit.cumulative
    precision = cumulative[-1]
    every = None if precision is None else with_right(precision, record.by_model, record.by_label)
    lines = [_counts(record), _band_table(audit)]
    lines.append(f"precision of the {record.by_model:,} matches of the model: {percent(precision)}")
    if record.by_label:
        lines.append(f"with the {record.by_label:,} labelled yes, which count as right: {percent(every)}")
    silent = [band for band, of in zip(record.bands, audit.answers, strict=True) if not of.answered]
    if silent:
        lines.append(
            f"unknown, as no answer is yes or no among the matches {silent[0].start + 1:,} to {silent[0].stop:,}"
        )
    if counts["unsure"] or counts["open"]:
        lines.append(f"pairs not counted: {counts['unsure']:,} unsure, {counts['open']:,} not answered")
    if ASSIGNMENTS[record.rule].together:
        rule = option("MatchOptions.assign", record.rule)
        lines.append(f"with another cutoff {rule} may choose other pairs; the last column is of these")
    content: dict[str, Any] = {
        **counts,
        "by_model": record.by_model,
        "by_label": record.by_label,
        "precision": None if precision is None else precision.as_dict(),
        "precision_with_labelled": None if every is None else every.as_dict(),
        "bands": _bands_as_dicts(audit),
    }
    return lines, content


def _counts(record: MatchRecord) -> str:
    every = record.by_model + record.by_label
    return f"{every:,} matches: {record.by_model:,} decided by the model, {record.by_label:,} by labels"


def _band_table(audit: LabelledMatches) -> str:
    rows: list[tuple[str, ...]] = [
        (
            *("matches by score", "score from", "drawn", "answered", "yes"),
            *("share right (95%)", "precision from this score (95%)"),
        )
    ]
    for band, of, share, above in zip(audit.record.bands, audit.answers, audit.shares, audit.cumulative, strict=True):
        places = f"{band.start + 1:,} to {band.stop:,}"
        numbers = (f"{number:,}" for number in (band.drawn, of.answered, of.yes))
        rows.append((places, _cutoff(band.lowest_score), *numbers, percent(share), percent(above)))
    return format_columns(rows)


def _cutoff(score: float) -> str:
    """Format a score, rounded down, so that as a cutoff it keeps the match that has it."""
    return f"{floor(1e6 * score) / 1e6:.6f}"


def _bands_as_dicts(audit: LabelledMatches) -> list[dict[str, Any]]:
    return [
        {
            "from": band.start + 1, "to": band.stop, "lowest_score": band.lowest_score, "drawn": band.drawn,
            "answered": of.answered, "yes": of.yes, "share": None if share is None else share.as_dict(),
            "precision_from_this_score": None if above is None else above.as_dict(),
        }
        for band, of, share, above in zip(
            audit.record.bands, audit.answers, audit.shares, audit.cumulative, strict=True
        )
    ]  # fmt: skip
