"""What an audit until a width has drawn and will cost, and what its looks show, as lines of text and as JSON."""

from collections.abc import Sequence
from math import isnan
from typing import Any

from al_ray.apps.audit.folder import STEM
from al_ray.apps.audit.printout import Result, count_answers, percent
from al_ray.apps.audit.until_width.folder import LookResult, WidthAudit
from al_ray.core.labels import OPEN
from al_ray.core.naming import call, command
from al_ray.core.text_table import format_columns
from al_ray.metrics.audit.looks import AT_THRESHOLD, Forecast

NAMES = {
    "precision": "precision",
    "ranked-recall": "share of the matches among the ranked pairs",
    "recall": "recall over all pairs",
    "average-precision": "average precision of the ranked pairs",
}


def format_width_sample(audit: WidthAudit, exists: bool) -> list[str]:
    """Format the report of `sample`: what is wanted, what it will probably cost, and where people answer."""
    lines = [f"{audit.path} holds this audit already; nothing was changed"] if exists else []
    sizes = ", ".join(f"{look.stop:,}" for look in audit.looks)
    lines += [
        f"{_goal_words(audit)}: wanted is a 95% interval at most {_points(audit.goal.width)} wide",
        f"looks after {sizes} labels",
    ]
    if audit.complete:
        # Labels say more than the model.
        return [*lines, *_next_lines(audit, audit.results())]
    source = "as if every second pair matched" if audit.record.scorer is None else "by the scores of the model"
    return [*lines, f"{_forecast_words(audit.forecast(0), 0)} ({source})", *_where(audit, 0)]


def format_looks(audit: WidthAudit) -> Result:
    """Format the estimates at the complete looks, and what to do next; also as JSON values."""
    goal, results = audit.goal, audit.results()
    rows: list[tuple[str, ...]] = [("look", "labels", f"{goal.measure} (95% over all looks)", "width")]
    for result in results:
        found = result.estimate
        width = "unknown" if found is None else _points(found.high - found.low)
        rows.append((str(result.look.number), f"{result.look.stop:,}", percent(found), width))
    lines = [f"{_goal_words(audit)}: wanted is a 95% interval at most {_points(goal.width)} wide"]
    lines += [format_columns(rows)] if results else []
    lines += _next_lines(audit, results)
    counts = count_answers(audit.labels)
    if counts["unsure"]:
        lines.append(f"pairs not counted: {counts['unsure']:,} unsure")
    content: dict[str, Any] = {
        **counts,
        "of": goal.measure,
        "until_width": goal.width,
        "threshold": goal.threshold if goal.measure in AT_THRESHOLD else None,
        "confidence_of_each": goal.confidence,
        "looks": [
            {
                "labels": result.look.stop,
                "narrow": result.narrow,
                "estimate": None if result.estimate is None else result.estimate.as_dict(),
            }
            for result in results
        ],
        "reached": bool(results) and results[-1].narrow,
    }
    return lines, content


def learnt(audit: WidthAudit) -> list[str]:
    """Return what the page says: the width at the last complete look, the one wanted, and labels probably left.

    Not the estimate, by which people might label.
    """
    results = audit.results()
    if not results:
        return [
            f"{_forecast_words(audit.forecast(0), 0)}; wanted is an interval at most {_points(audit.goal.width)} wide"
        ]
    return _progress(audit, results)


def _next_lines(audit: WidthAudit, results: Sequence[LookResult]) -> list[str]:
    """Say whether it is narrow enough, and otherwise which sheet is next."""
    if not results:
        return _where(audit, 0)
    lines = _progress(audit, results)
    if results[-1].narrow or len(results) == len(audit.looks):
        return lines
    return [*lines, *_where(audit, len(results))]


def _progress(audit: WidthAudit, results: Sequence[LookResult]) -> list[str]:
    last, width = results[-1], audit.goal.width
    found = last.estimate
    now = "unknown" if found is None else _points(found.high - found.low)
    words = f"after {last.look.stop:,} labels the interval is {now} wide, wanted are {_points(width)}"
    if last.narrow:
        return [f"{words}: no more labels are needed"]
    if len(results) == len(audit.looks):
        return [
            f"{words}: all {last.look.stop:,} pairs are labelled; the interval holds, and for a narrower one draw "
            "another audit with a larger `AuditConfig.budget` and another `out`"
        ]
    return [words, _forecast_words(audit.forecast(len(results)), last.look.stop)]


def _forecast_words(found: Forecast, done: int) -> str:
    """Say how many labels are probably left after the first `done`."""
    more = " more" if done else ""
    if found.probable is None:
        width = "unknown" if isnan(found.width) else f"about {_points(found.width)}"
        enough = f"{len(found.reached)} of {len(found.labels)} simulations"
        return (
            f"probably not reached with {found.most - done:,}{more} labels (reached in {enough}): then the width is "
            f"{width}; a larger `AuditConfig.budget` or `AuditConfig.until_width` needs another `out`"
        )
    low, high = found.reached[0], found.reached[-1] if len(found.reached) == len(found.labels) else None
    to = f"over {found.most - done:,}" if high is None else f"{high - done:,}"
    spread = "in all simulations" if low == high else f"{low - done:,} to {to} in simulations"
    return f"probably {found.probable - done:,}{more} labels until then: {spread}"


def _where(audit: WidthAudit, done: int) -> list[str]:
    """Say where the pairs of the next look are labelled."""
    look = audit.looks[done]
    left = int((audit.labels[look.start : look.stop] == OPEN).sum())
    sheet = look.folder / STEM
    return [
        f"look {look.number}: {left:,} pairs wait for an answer",
        f"  on a page, which goes on from look to look: {command('annotate', audit=audit.path)}",
        f"  or in a spreadsheet: fill the column label of {sheet}.csv with yes, no or unsure; save it as CSV (UTF-8)",
        f"  or in Label Studio: import {sheet}.json, and save its JSON export in {look.folder}",
        f"then: {call('estimate_audit', audit=audit.path)}",
    ]


def _goal_words(audit: WidthAudit) -> str:
    asked, goal, scorer = audit.record.asked, audit.goal, audit.record.scorer
    at = ""
    if goal.measure in AT_THRESHOLD and scorer is not None:
        at = f" at {scorer.threshold_words(goal.threshold)}"
    return f"{asked.split}, round {asked.round}: {NAMES[goal.measure]}{at}"


def _points(width: float) -> str:
    return f"{100 * width:.1f} points"
