"""The estimate of an audit by score, as lines of text and as JSON.

No figure is called recall that is not one over all pairs of the split. Of the matches among the ranked and the known
pairs the share above a threshold is estimated well. How many match beyond them is bounded by the labels drawn there,
mostly loosely, and unknown if there are none.
"""

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from al_ray.apps.audit.calibration import format_bins
from al_ray.apps.audit.folder import Record
from al_ray.apps.audit.printout import Result, count_answers, percent
from al_ray.core.labels import YES
from al_ray.core.scorer import Floats, Scorer
from al_ray.core.text_table import format_columns
from al_ray.metrics.audit.label_errors import TwoAnswers, with_errors
from al_ray.metrics.audit.ranking_quality import average_precision
from al_ray.metrics.audit.recalibration import reliability_bins
from al_ray.metrics.audit.score_bands import AtThreshold, BandAudit
from al_ray.metrics.average_precision import Estimate

UNKNOWN = "unknown"
FIGURES = {
    "precision": "precision",
    "recall_of_reach": "share of the matches in these",
    "recall": "recall over all pairs",
}


def format_bands(
    audit: BandAudit,
    record: Record,
    cosines: Floats,
    thresholds: Sequence[float],
    rng: np.random.Generator,
    calibrated: Scorer | None = None,
    answers: TwoAnswers | None = None,
) -> Result:
    """Format the estimate from labels of bands of score; (n,) cosines of the drawn pairs.

    calibrated: gives the probability at a threshold, if w and b were fitted to drawn pairs. answers: of two people, if
    figures are to be given with their errors, too.
    """
    scorer, counts = record.scorer, count_answers(audit.labels)
    known = {"known_pairs": len(audit.known_labels), "known_matches": int((audit.known_labels == YES).sum())}
    # Streams of their own, so that the figures at the thresholds depend on nothing else that is printed.
    of_bands, of_bins, of_ranking, of_errors = rng.spawn(4)
    table, figures, measured = threshold_table(audit, scorer, thresholds, rng, calibrated)
    matches = [audit.matches_in(band, of_bands) for band in audit.bands]
    content: dict[str, Any] = {
        **counts,
        **known,
        "total_pairs": record.total_pairs,
        "bands": _bands_as_dicts(audit, matches),
        "thresholds": figures,
    }
    lines = [_band_table(audit, matches), "", table, *beyond_lines(audit, matches)]
    if answers is not None:
        own, content["with_errors"] = _with_errors(audit, scorer, measured, answers, of_errors)
        lines += own
    of_reach, over_all = (average_precision(audit, cosines, of_ranking, everything) for everything in (False, True))
    content["average_precision"] = {
        "of_reach": None if of_reach is None else of_reach.as_dict(),
        "over_all": None if over_all is None else over_all.as_dict(),
    }
    lines.append(f"average precision of these pairs: {percent(of_reach)}; over all pairs: {_range(over_all)}")
    if counts["unsure"] or counts["open"]:
        lines.append(f"pairs not counted: {counts['unsure']:,} unsure, {counts['open']:,} not answered")
    if known["known_pairs"]:
        lines.append(
            f"{known['known_pairs']:,} pairs {labelled_words(audit)}, {known['known_matches']:,} of them matches, "
            "count too"
        )
    lines += _advice(audit, measured)
    if scorer is not None and scorer.weight > 0:
        bins = reliability_bins(audit.without_known, scorer, cosines, of_bins)
        content["reliability"] = [row.as_dict() for row in bins]
        lines += ["", "how often pairs match, by the score of the trained model:", format_bins("score", bins)]
    return lines, content


def _band_table(audit: BandAudit, matches: Sequence[Estimate | None]) -> str:
    rows: list[tuple[str, ...]] = [("pairs by score", "answered", "yes", "share of matches", "matches (95%)")]
    for (start, stop), number in zip(audit.bands, matches, strict=True):
        part = audit.part((start, stop), (start, stop))
        share = f"{part.share:.1%}" if part.answered else UNKNOWN
        rows.append(
            (f"{start + 1:,} to {stop:,}", f"{part.answered:,}", f"{part.matches:,}", share, count_words(number))
        )
    return format_columns(rows)


def _bands_as_dicts(audit: BandAudit, matches: Sequence[Estimate | None]) -> list[dict[str, Any]]:
    bands: list[dict[str, Any]] = []
    for (start, stop), number in zip(audit.bands, matches, strict=True):
        part = audit.part((start, stop), (start, stop))
        counts = {"from": start + 1, "to": stop, "answered": part.answered, "matches": part.matches}
        bands.append({**counts, "matches_in_all": None if number is None else number.as_dict()})
    return bands


def threshold_table(
    audit: BandAudit,
    scorer: Scorer | None,
    thresholds: Sequence[float],
    rng: np.random.Generator,
    calibrated: Scorer | None,
) -> tuple[str, list[dict[str, Any]], list[AtThreshold]]:
    """Return the table of thresholds, its rows as JSON values, and the estimates at those that ranked pairs reach."""
    within = audit.reach + len(audit.known_labels)
    # The score of a matcher is p, so that one column has both.
    matched = scorer is not None and scorer.matcher
    rows: list[tuple[str, ...]] = [
        (
            *(("p",) if matched else ("cosine", "score")),
            *(() if calibrated is None else ("probability",)),
            *("pairs", "precision (95%)"),
            *(f"share of the matches in these {within:,} (95%)", "recall over all pairs (95%)"),
        )
    ]
    figures: list[dict[str, Any]] = []
    measured: list[AtThreshold] = []
    for threshold in sorted(set(thresholds), reverse=True):
        score = None if scorer is None else float(scorer.probability(np.array(threshold)))
        at_boundary = scorer is not None and threshold == scorer.boundary
        if audit.reaches(threshold):
            at = audit.at(threshold, rng)
            measured.append(at)
            cells = (f"{at.pairs:,}", percent(at.precision), percent(at.recall_of_reach), _range(at.recall))
        else:
            at, cells = None, (f"over {audit.reach:,}", UNKNOWN, UNKNOWN, UNKNOWN)
        cosine = {"cosine": None} if matched else {}
        p = None if calibrated is None else float(calibrated.probability(np.array(threshold)))
        known = {} if p is None else {"probability": p}
        figures.append({**_as_dict(threshold, at), **cosine, "score": score, **known, "boundary": at_boundary})
        shown = threshold if scorer is None else scorer.shown(threshold)
        words = (f"{'boundary ' if at_boundary else ''}{shown:.4f}", "-" if score is None else f"{score:.3f}")
        rows.append((*words[: 1 if matched else 2], *(() if p is None else (f"{p:.3f}",)), *cells))
    return format_columns(rows), figures, measured


def labelled_words(audit: BandAudit) -> str:
    """Say who labelled the pairs that were known before."""
    return "labelled by the run or an earlier audit" if audit.uniform else "labelled by the run"


def beyond_lines(audit: BandAudit, matches: Sequence[Estimate | None]) -> list[str]:
    """Say which pairs the table is about, and what is known of the matches among the others."""
    known, rest = len(audit.known_labels), audit.total - audit.reach
    these = f"these {audit.reach + known:,}: the {audit.reach:,} pairs of highest score"
    lines = [f"{these} and {known:,} {labelled_words(audit)}" if known else these]
    if not rest:
        return [*lines, "these are all pairs"]
    part, number = audit.part((audit.reach, audit.total), (audit.reach, audit.total)), matches[-1]
    if number is None:
        return [*lines, f"beyond: {rest:,} pairs, none of them labelled; how many of them match is unknown"]
    drawn = f"beyond: {rest:,} pairs, of which {part.answered:,} were drawn and labelled, {part.matches:,} yes; "
    if not part.matches:
        return [*lines, f"{drawn}at most {number.high:,.0f} of them match (95%)"]
    return [*lines, f"{drawn}{number.low:,.0f} to {number.high:,.0f} of them match (95%)"]


def _with_errors(
    audit: BandAudit,
    scorer: Scorer | None,
    measured: Sequence[AtThreshold],
    answers: TwoAnswers,
    rng: np.random.Generator,
) -> tuple[list[str], dict[str, Any]]:
    """Format each interval at a threshold beside that with the errors of people; also as JSON values."""
    wrong, thresholds = float(answers.rate[0]), list[dict[str, Any]]()
    lines = [
        f"two people answered {answers.pairs:,} pairs alike in {answers.alike:,}, so about {wrong:.1%} of the labels "
        "are wrong; with such errors (95%, but recall over all pairs 90% in the worst simulation):"
    ]
    for at in measured:
        found = with_errors(audit, at.threshold, answers, rng)
        shares = [(name, getattr(found, name), getattr(at, name)) for name in FIGURES]
        both = (f"{FIGURES[name]} {_range(new)} instead of {_range(old)}" for name, new, old in shares if new and old)
        words = f"cosine >= {at.threshold:.4f}" if scorer is None else scorer.threshold_words(at.threshold)
        lines.append(f"  {words}: {', '.join(both) or UNKNOWN}")
        figures = {name: None if new is None else new.as_dict() for name, new, _ in shares}
        thresholds.append({"cosine": at.threshold if isfinite(at.threshold) else None, **figures})
    return lines, {"pairs": answers.pairs, "alike": answers.alike, "wrong": wrong, "thresholds": thresholds}


def _advice(audit: BandAudit, measured: Sequence[AtThreshold]) -> list[str]:
    """Advise how many further labels would bound recall."""
    if audit.total == audit.reach:
        return []
    least = [at.labels_for_half for at in measured if at.labels_for_half is not None]
    few = "a few labels of the pairs beyond hardly bound recall"
    if not least:
        return [few]
    if not min(least):
        return []
    return [
        f"{few}; about {min(least):,} labels of them, all no, would show a recall of half at one of these thresholds"
    ]


def _as_dict(threshold: float, at: AtThreshold | None) -> dict[str, Any]:
    cosine = threshold if isfinite(threshold) else None
    if at is None:
        return {"cosine": cosine, "pairs": None, **dict.fromkeys(FIGURES), "labels_for_half": None}
    figures = {name: getattr(at, name) for name in ("precision", "recall", "recall_of_reach")}
    estimates = {name: None if value is None else value.as_dict() for name, value in figures.items()}
    return {"cosine": cosine, "pairs": at.pairs, **estimates, "labels_for_half": at.labels_for_half}


def _range(number: Estimate | None) -> str:
    """Format the ends of a share without its value, which says nothing where the interval is wide."""
    if number is None:
        return UNKNOWN
    low = 100 * number.low
    return f"{low:.{2 if low < 10 else 3}g}% to {100 * number.high:.3g}%"


def count_words(number: Estimate | None) -> str:
    """Format a number of matches with its interval."""
    return UNKNOWN if number is None else f"{number.value:,.0f} ({number.low:,.0f} to {number.high:,.0f})"
