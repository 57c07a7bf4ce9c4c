"""A run's rounds in words: their table, and the lines about one of them."""

from collections.abc import Iterator
from typing import Any

from al_ray.core.text_table import format_columns
from al_ray.metrics.round_comparison import AGREEMENT, GAIN, PREQUENTIAL
from al_ray.runs.candidate_figures import main_figures
from al_ray.runs.presumed_figures import presumed_lines
from al_ray.runs.untrained_figures import compared_with_untrained, untrained_line

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


def format_round(line: dict[str, Any]) -> str:
    """Format the metrics of a round, its comparison with the round before, what it presumed, and its warnings.

    line: what `on_round` of `al_ray.run` receives.

    Examples:
        >>> line = {name: None for name in ("average_precision", "precision_at_recall_20", "boundary")}
        >>> line |= {"round": 2, "labels": 160, "positives": 9, "batch_positives": 3, "seconds": {}, "warnings": []}
        >>> print(al_ray.format_round(line))
        round  labels  positives  AP %  P@R20 %  boundary  seconds
            2     160          9     -        -         -        -

    Raises:
        KeyError: if a field of metrics.jsonl is missing.
    """
    shown = [round_table([line]), *comparison(line), *presumed_lines(line)]
    return "\n".join([*shown, *(f"warning: {warning}" for warning in line["warnings"])])


def comparison(line: dict[str, Any]) -> Iterator[str]:
    """Yield a line about the models of this round and of the round before, if they can be compared."""
    new = f"the pairs labelled since, {line['batch_positives']:,} of them matches,"
    figures = {
        "both models agree on {}% of the labelled pairs": line.get(AGREEMENT),
        f"AP of the earlier model on {new} is {{}}%": line.get(PREQUENTIAL),
    }
    known = [words.format(f"{100 * value:.1f}") for words, value in figures.items() if value is not None]
    if (gain := line.get(GAIN)) is not None:
        value, low, high = (f"{100 * gain[end]:+.1f}" for end in ("value", "low", "high"))
        known.insert(0, f"AP {value} points (95%: {low} to {high})")
    if known:
        yield f"compared with round {line['round'] - 1}: {'; '.join(known)}"
    without = compared_with_untrained(line)
    if without is not None:
        yield without
