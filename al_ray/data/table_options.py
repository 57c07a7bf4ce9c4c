"""Options that say how a user's tables are read."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from al_ray.data.rows import BadRows
from al_ray.data.tablefiles import Format, Reading


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How tables are read."""

    format: Format = "auto"
    """Of every table; by their extensions (.csv .tsv .tab .jsonl .ndjson .parquet .pq) when auto."""
    delimiter: str | None = None
    """What parts the columns of CSV and TSV files; a comma or a tab, by extension, when not given."""
    quoting: Literal["standard", "none"] = "standard"
    """none: in CSV and TSV files a quote is a letter."""
    encoding: str = "utf-8"
    """Of CSV, TSV and JSON lines; a byte-order mark is no letter."""
    header: bool = True
    """--no-header: CSV and TSV files begin with a row, and columns are numbers from 0."""
    bad_rows: BadRows = "fail"
    """What to do with a bad row: fail at its line, or skip, count and list it."""

    @cached_property
    def reading(self) -> Reading:
        """The same as a value."""
        delimiter = "\t" if self.delimiter in ("tab", "\\t") else self.delimiter
        return Reading(self.format, delimiter, self.quoting, self.encoding, self.header)
