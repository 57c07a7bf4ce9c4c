"""The table of a run's rounds, which its commands print and the page of labels shows."""

from typing import Any

from al_ray.core.text_table import format_columns
from al_ray.runs.candidate_figures import main_figures
from al_ray.runs.untrained_figures import untrained_line

NEIGHBOURHOOD = "neighbourhood"


def round_table(lines: list[dict[str, Any]]) -> str:
    """Format a row for each of these rounds, which are one or all of a run.

    With the neighbourhood of its scores, or AP of the cosine alone, if a round has it.
    Before the first one stands what the encoder is worth without labels, if that was measured.

    AP is that of the model that ranks pairs: of the matcher, if the run has one. The encoder is not trained beside it,
    so that its cosine is that of the untrained encoder in every round.
    """
    compared = any(line.get(NEIGHBOURHOOD) for line in lines)
    cosines = [main_figures(line) for line in lines]
    beside = any(cosines)
    rows: list[tuple[str, ...]] = [
        (
            *("round", "labels", "positives", "AP %", *(("cosine AP %",) if beside else ()), "P@R20 %"),
            *(*(("a",) if compared else ()), "boundary", "seconds"),
        )
    ]
    untrained = untrained_line(lines[0]) if lines and lines[0]["round"] == 1 else None
    if untrained is not None:
        lines, cosines = [{**untrained, "positives": 0, "boundary": None, "seconds": {}}, *lines], [None, *cosines]
    for line, cosine in zip(lines, cosines, strict=True):
        counts = [f"{line[name]:,}" for name in ("round", "labels", "positives")]
        shares = [
            "-" if line[name] is None else f"{100 * line[name]:.1f}"
            for name in ("average_precision", "precision_at_recall_20")
        ]
        if beside:
            shares.insert(1, "-" if cosine is None else f"{100 * cosine.cosine:.1f}")
        boundary = "-" if line["boundary"] is None else f"{line['boundary']:.3f}"
        # A version that had such scores did not write it.
        number = [f"{line[NEIGHBOURHOOD]:g}" if NEIGHBOURHOOD in line else "-"] if compared else []
        seconds = f"{sum(line['seconds'].values()):.0f}" if line["seconds"] else "-"
        rows.append((*counts, *shares, *number, boundary, seconds))
    return format_columns(rows)
