"""Tables as plain text."""

from collections.abc import Sequence
from math import floor, log10


def format_columns(rows: Sequence[Sequence[str]]) -> str:
    """Format rows of cells as lines of text; columns are aligned right, two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def format_probability(p: float, digits: int) -> str:
    """Return p with `digits` significant digits; above 0.99 those of 1 - p, because 0.9997 and 0.9999 differ."""
    if not 0.99 < p < 1:
        return f"{p:.{digits}g}"
    return f"{p:.{digits - 1 - floor(log10(1 - p))}f}"
