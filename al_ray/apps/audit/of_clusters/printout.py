"""The sample and the estimate of an audit of clusters, as lines of text and as JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from al_ray.apps.audit.of_clusters.drawing import MOST_OUTSIDE, RecordDraw
from al_ray.apps.audit.of_clusters.folder import ClusterRecord
from al_ray.apps.audit.of_clusters.sampling import ClusterSample, LabelledClusters
from al_ray.apps.audit.printout import Result, count_answers, format_waiting, percent
from al_ray.core.labels import NO, OPEN, YES
from al_ray.core.naming import call
from al_ray.core.text_table import format_columns
from al_ray.metrics.average_precision import Estimate

KINDS = {"direct": "with a match of their own", "implied": "that only other matches imply"}
NO_CANDIDATES = (
    "recall is unknown: no pair between two clusters is known; give `candidates`, matches with a lower cutoff"
)


def format_cluster_sample(sample: ClusterSample, out: Path) -> list[str]:
    """Format the report of `sample`."""
    record = sample.record
    lines = [] if sample.written else [f"{out} holds this audit already; nothing was changed"]
    drawn = sum(one.drawn for one in record.classes)
    lines += [_counts(record), f"{drawn:,} records are drawn, by the sizes of their clusters"]
    if not _candidates(record):
        lines.append(NO_CANDIDATES)
    if sample.known:
        lines.append(f"{sample.known:,} of their pairs had labels, which count")
    if not sample.waiting:
        return [*lines, f"there is nothing to label; continue: {call('estimate_audit', audit=out)}"]
    return [*lines, *format_waiting(out, sample.waiting)]


def format_cluster_figures(audit: LabelledClusters) -> Result:
    """Format the estimates of precision, recall and F1 of clusters."""
    record, figures, draws = audit.record, audit.figures, audit.drawn.draws
    pairs = sorted({pair for one in draws for pair in one.pairs})
    answers = count_answers(np.array([audit.labels.get(pair, OPEN) for pair in pairs], dtype=np.uint8))
    of_kinds = {
        "direct": figures.direct_precision,
        "implied": figures.implied_precision,
        "pairs": figures.pair_precision,
    }
    labelled = {kind: _labelled(audit, draws, kind) for kind in of_kinds}
    rows: list[tuple[str, ...]] = [("pairs in one cluster", "all", "labelled", "yes", "share right (95%)")]
    for kind, share in of_kinds.items():
        numbers = (f"{number:,}" for number in (record.total[kind], *labelled[kind]))
        rows.append((KINDS.get(kind, "all"), *numbers, percent(share)))
    quality = {
        "pairs": (figures.pair_precision, figures.pair_recall, figures.pair_f1),
        "B-cubed": (figures.b_cubed_precision, figures.b_cubed_recall, figures.b_cubed_f1),
    }
    table: list[tuple[str, ...]] = [("clusters", "precision (95%)", "recall among candidates (95%)", "F1 (95%)")]
    table += [(name, *map(percent, of)) for name, of in quality.items()]
    lines = [_counts(record), format_columns(rows), "", format_columns(table), _recall_line(record)]
    if answers["unsure"] or answers["open"]:
        lines.append(f"pairs not counted: {answers['unsure']:,} unsure, {answers['open']:,} not answered")
    content: dict[str, Any] = {
        **answers,
        "records": record.records,
        "clusters": record.delivered,
        "candidates": _candidates(record),
        "in_clusters": {
            kind: {"all": record.total[kind], "labelled": labelled[kind][0], "yes": labelled[kind][1],
                   "precision": _as_dict(share)}
            for kind, share in of_kinds.items()
        },
        "pairs": _named(quality["pairs"]),
        "b_cubed": _named(quality["B-cubed"]),
    }  # fmt: skip
    return lines, content


def _counts(record: ClusterRecord) -> str:
    total = record.total
    return (
        f"{record.records:,} records, {record.delivered:,} clusters of two or more with {total['pairs']:,} pairs: "
        f"{total['direct']:,} {KINDS['direct']}, {total['implied']:,} {KINDS['implied']}"
    )


def _candidates(record: ClusterRecord) -> int:
    """Return how many candidates all records have, a pair from each side."""
    return round(sum(one.candidates for one in record.classes))


def _recall_line(record: ClusterRecord) -> str:
    if not _candidates(record):
        return NO_CANDIDATES
    return (
        f"recall is among the pairs in one cluster and the candidates, the {MOST_OUTSIDE} best pairs of each record "
        "with other clusters that match knows; matches beyond them are not counted, so the recall of all is at most "
        "as high"
    )


def _labelled(audit: LabelledClusters, draws: Sequence[RecordDraw], kind: str) -> tuple[int, int]:
    """Return how many distinct pairs of a kind have yes or no, and how many yes."""
    kinds = ("direct", "implied") if kind == "pairs" else (kind,)
    pairs = {
        (min(one.row, other), max(one.row, other)) for one in draws for name in kinds for other in getattr(one, name)
    }
    labels = [audit.labels.get(pair) for pair in pairs]
    return labels.count(YES) + labels.count(NO), labels.count(YES)


def _as_dict(share: Estimate | None) -> dict[str, float] | None:
    return None if share is None else share.as_dict()


def _named(figures: Sequence[Estimate | None]) -> dict[str, Any]:
    return dict(zip(("precision", "recall", "f1"), map(_as_dict, figures), strict=True))
