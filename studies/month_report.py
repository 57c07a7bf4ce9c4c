"""Figures of a simulated month: the columns of its rows, the table of weeks, and the picture."""

from collections.abc import Sequence

from al_ray.apps.reporting.plots.style import PALETTE, files_of, legend_below, panel
from al_ray.core.text_table import format_columns
from benchmarks.row_file import Row

FIXED, RELABELLED = "fixed", "relabelled"
COUNTS = ("true", "found", "right")
"""Pairs of a day's new rows with all rows up to that day: that match, that were found, and that are both."""
COLUMNS = ("options", "seed", "arm", "day", "rows", "abbreviated", "round", "labels", *COUNTS, "drift")
"""options: digest of all options but the seed. abbreviated: rows of the new source. round: whose model matched. labels:
bought since day 0. drift: figures that the night of the week warned of."""


def ratio(rows: Sequence[Row], of: str) -> float:
    """Return precision (of = "found") or recall (of = "true") over all pairs of the days; NaN without a pair."""
    total = sum(int(row[of]) for row in rows)
    return sum(int(row["right"]) for row in rows) / total if total else float("nan")


def format_weeks(rows: Sequence[Row]) -> str:
    """Format a line for each week and arm, over all seeds: precision and recall in percent."""
    table: list[tuple[str, ...]] = [
        ("days", "arm", "abbreviated %", "drift", "labels", "true", "found", "precision %", "recall %")
    ]
    for first in range(1, max(int(row["day"]) for row in rows) + 1, 7):
        for arm in (FIXED, RELABELLED):
            own = [row for row in rows if row["arm"] == arm and first <= int(row["day"]) < first + 7]
            new = sum(int(row["abbreviated"]) for row in own) / sum(int(row["rows"]) for row in own)
            counts = [f"{sum(int(row[name]) for row in own):,}" for name in ("true", "found")]
            figures = [f"{100 * ratio(own, of):.1f}" for of in ("found", "true")]
            warned = max(int(row["drift"]) for row in own)
            labels = max(int(row["labels"]) for row in own)
            days = f"{first}-{max(int(row['day']) for row in own)}"
            table.append((days, arm, f"{100 * new:.0f}", str(warned), str(labels), *counts, *figures))
    return format_columns(table)


def draw(rows: Sequence[Row]) -> dict[str, bytes]:
    """Plot precision and recall by day over all seeds, without and with relabelling: kind -> content."""
    figure, axes = panel("day", "%")
    days = sorted({int(row["day"]) for row in rows})
    for color, (name, of) in zip(PALETTE, (("recall", "true"), ("precision", "found")), strict=False):
        for arm, line in ((FIXED, "--"), (RELABELLED, "-")):
            by_day = [[row for row in rows if row["arm"] == arm and int(row["day"]) == day] for day in days]
            values = [100 * ratio(own, of) for own in by_day]
            axes.plot(days, values, line, color=color, label=f"{name}, {arm}", marker="o", markersize=2.5)
    rounds = {int(row["round"]): int(row["day"]) for row in reversed(rows) if row["arm"] == RELABELLED}
    for number, day in rounds.items():
        if number:
            axes.axvline(day - 0.5, color="0.6", linewidth=0.8)
    axes.set_ylim(0, 100)
    legend_below(figure, axes)
    return files_of(figure)
