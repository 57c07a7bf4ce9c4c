"""Tables and sentences of the page: how the matches were made, score bands, sizes of clusters, drift."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from al_ray.apps.matching.assignment_rules import ASSIGNMENTS
from al_ray.apps.matching.page.bands import Band
from al_ray.apps.matching.page.clusters import SizeGroup
from al_ray.apps.matching.page.summary import DriftFigures, MatchSummary, ShownBand
from al_ray.apps.matching.summary import compared
from al_ray.apps.reporting.tables.table import NOTHING, Row, Table, percent

CLUSTERINGS = {
    "components": "texts that a chain of matches connects",
    "average": "average linkage, by the mean score of all pairs between two groups",
}


def facts(summary: MatchSummary, named: Callable[[str], str]) -> list[tuple[str, str]]:
    """Return how the matches were made, as names and words.

    named: turns a text that names options into what is shown.
    """
    record = summary.record
    model, cutoff = record["model"], record["cutoff"]
    lowest = "no lowest score" if cutoff["score"] is None else f"score {cutoff['score']:.4f}"
    found = [
        ("Model", f"{model['run']}, round {model['round']}"),
        ("Cutoff", f"{lowest} ({named(cutoff['source'])})"),
        ("Search", compared(record)),
        ("Rule", f"{record['assign']}: {ASSIGNMENTS[record['assign']].summary}"),
    ]
    for name, of in (("precision", "pairs above the cutoff"), ("recall", "pairs that match")):
        if cutoff[name] is not None:
            found.append((f"Estimated {name}", f"{estimate(cutoff[name])} of all {of}"))
    if summary.probability is None:
        words = "not calibrated, so a score says nothing about how often a pair matches"
    else:
        words = f"{percent(summary.probability)}% on average, of the matches of the model"
    found.append(("Probability", words))
    if summary.clusters is not None:
        found.append(("Clusters", f"{record['clustering']}: {CLUSTERINGS[record['clustering']]}"))
    return [*found, ("Labels", "; ".join(_labels(record)))]


def _labels(record: Mapping[str, Any]) -> Iterator[str]:
    yield f"{record['by_label']:,} matches were labelled yes; {record['labelled_no']:,} pairs were labelled no"
    for name, words in (
        ("changed_texts", "are not used, because a text has changed since"),
        ("unused_labels", "are not used, because the run had another number of tables"),
    ):
        if record[name]:
            yield f"{record[name]:,} {words}"


def estimate(value: Mapping[str, float] | float) -> str:
    """Return an estimated share in percent, with its interval if it has one."""
    if not isinstance(value, Mapping):
        return f"{percent(value)}%"
    interval = f" (95%: {percent(value['low'])} to {percent(value['high'])})" * (value["low"] < value["high"])
    return f"{percent(value['value'])}%{interval}"


def name_of(band: Band) -> str:
    """Return the scores of a band as words."""
    digits = max(len(f"{edge:g}".partition(".")[2]) for edge in (band.low or 0.0, band.high))
    # Spaces that do not break: a narrow column would have three lines.
    words = f"below {band.high:.{digits}f}" if band.low is None else f"{band.low:.{digits}f} to {band.high:.{digits}f}"
    return words.replace(" ", "\xa0")


def band_table(bands: Sequence[ShownBand]) -> Table:
    """Return the table of score bands, the highest first."""
    every = [shown.band for shown in bands]
    total, calibrated = sum(map(len, every)), any(band.probability is not None for band in every)
    rows = [
        Row(
            (
                *(name_of(band), f"{len(band):,}", percent(len(band) / total), f"{band.end:,}", f"{band.by_label:,}"),
                *([percent(band.probability)] if calibrated else []),
            )
        )
        for band in every
    ]
    head = ("score", "matches", "% of all", "cumulative", "by label", *["mean p %"] * calibrated)
    notes = ["A band includes its lower score. Cumulative: matches with at least this score."]
    if any(band.low is None for band in every):
        notes.append("Pairs labelled yes are matches, whatever their score.")
    if calibrated:
        notes.append("Mean p: calibrated probability of the model's matches, which says how many of them are right.")
    return Table("bands", "Number of matches in each band", head, tuple(rows), tuple(notes))


def size_table(sizes: Sequence[SizeGroup]) -> Table:
    """Return the table of the sizes of clusters."""
    rows = (Row((_range(group), f"{group.clusters:,}", f"{group.texts:,}", f"{group.cohesion:.3f}")) for group in sizes)
    note = (
        "Cohesion: mean score over all pairs of a cluster, where a pair that is no match counts as 0 (or as 1 less "
        "than a cutoff that is not above 0)."
    )
    head = ("size", "clusters", "texts", "mean cohesion")
    return Table("sizes", "Sizes of clusters", head, tuple(rows), (note,))


def _range(group: SizeGroup) -> str:
    return f"{group.low:,}" if group.low == group.high else f"{group.low:,} to {group.high:,}"


def drift_table(drift: DriftFigures) -> Table:
    """Return the table of figures of the texts in training and now."""
    rows = (Row((one.name, _number(one.training), _number(one.new))) for one in drift.figures)
    return Table("drift-figures", "Texts of the training and texts matched now", ("", "training", "now"), tuple(rows))


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.4g}"
