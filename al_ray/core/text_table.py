"""Tables as plain text."""

from collections.abc import Sequence


def format_columns(rows: Sequence[Sequence[str]]) -> str:
    """Format rows of cells as lines of text; columns are aligned right, two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
