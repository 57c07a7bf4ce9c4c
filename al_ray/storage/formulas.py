"""Cells of CSV files that a spreadsheet takes for formulas, and runs."""

from typing import Any

import pyarrow as pa
import pyarrow.compute

# Its functions are made as it is imported, so type checkers do not know them.
compute: Any = pyarrow.compute

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of such a cell."""
PATTERN = "^[" + "".join(f"\\x{{{ord(sign):x}}}" for sign in FORMULA) + "]"


class FormulaCells:
    """Counts the cells of tables that are formulas in a spreadsheet, and on request puts a quote before them."""

    def __init__(self, escape: bool) -> None:
        """escape: put a quote before such a cell, which then is another text than that of the table."""
        self.escape, self.count = escape, 0

    def checked(self, table: pa.Table) -> pa.Table:
        """Return the table to write."""
        for number, field in enumerate(table.schema):
            if pa.types.is_string(field.type):
                column = table.column(number)
                formula = compute.match_substring_regex(column, PATTERN)
                self.count += compute.sum(formula).as_py() or 0
                if self.escape:
                    quoted = compute.binary_join_element_wise("'", column, "")
                    table = table.set_column(number, field, compute.if_else(formula, quoted, column))
        return table


def formula_advice(count: int, written: str) -> str | None:
    """Return what people who open the written files in a spreadsheet should know; None without formulas in them."""
    if not count:
        return None
    cells = f"{count:,} cell{'s' * (count > 1)} of {written}"
    return f"a spreadsheet would run {cells} as formulas; `escape_formulas` puts a quote before them"
