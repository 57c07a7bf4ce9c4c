"""One text for each value of a table, whichever program wrote it and in whichever format.

A program writes a date, a time or a truth value into CSV or JSON as text, each program in its own way, and into Parquet
or Arrow as a typed value. So what looks like such a value is spelled in one way, cell by cell: the file's format and
the other rows of the column decide nothing. Numbers and all other texts stay as they are written.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

# Arrow creates these functions at import, where type checkers cannot see them.
compute: Any = pyarrow.compute
MOMENT = re.compile(
    r"(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2})(:\d{2})?(?:\.(\d{1,9}))? ?(Z|UTC|([+-])(\d{2}):?(\d{2}))?", re.ASCII
)
CLOCK = re.compile(r"(\d{2}:\d{2}:\d{2})\.(\d{1,9})", re.ASCII)
TRUTH = ("True", "False", "TRUE", "FALSE")
# Of all cells, those that Python looks at: it takes a hundred times as long as Arrow.
SPELLED = (
    r"^(\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}[0-9:.]{0,13} ?(Z|UTC|[+-]\d{2}:?\d{2})?|\d{2}:\d{2}:\d{2}\.\d+"
    r"|True|False|TRUE|FALSE)$"
)
MIDNIGHT = ":00"


def canonical_cells(column: pa.LargeStringArray) -> pa.LargeStringArray:
    """(n,) trimmed cells -> the same with one spelling of dates, times and truth values (`canonical_cell`)."""
    found = compute.match_substring_regex(column, SPELLED).fill_null(False)
    if not (places := np.flatnonzero(found.to_numpy(zero_copy_only=False))).size:
        return column
    texts = [canonical_cell(text) for text in column.take(pa.array(places)).to_pylist()]
    return compute.replace_with_mask(column, found, pa.array(texts, pa.large_string()))


def canonical_cell(text: str) -> str:
    """Return the one spelling of a date, a time or a truth value; any other text as it is.

    True, TRUE -> true. 2024-03-01T05:06 -> 2024-03-01 05:06:00. 2024-03-01 00:00:00.0 -> 2024-03-01, as a program that
    knows only times writes dates. 2024-03-01 05:06:00+01:00 -> 2024-03-01 04:06:00+00:00, the same moment. Zeros at the
    end of a fraction of a second are left out.
    """
    if text in TRUTH:
        return text.lower()
    if clock := CLOCK.fullmatch(text):
        return clock[1] + _fraction(clock[2])
    moment = MOMENT.fullmatch(text)
    if moment is None:
        return text
    day, minutes, seconds, fraction, zone, sign, hours, rest = moment.groups()
    if fraction and not seconds:
        return text
    try:
        time = datetime.fromisoformat(f"{day} {minutes}{seconds or MIDNIGHT}").replace(tzinfo=UTC)
        if sign:
            offset = timedelta(hours=int(hours), minutes=int(rest))
            time = time - offset if sign == "+" else time + offset
    except (ValueError, OverflowError):
        # No such day or time: then it is some other text.
        return text
    spelled = f"{time:%H:%M:%S}{_fraction(fraction or '')}"
    # Not by strftime: its years have four digits on some systems only.
    date = time.date().isoformat()
    if zone:
        return f"{date} {spelled}+00:00"
    return date if spelled == "00:00:00" else f"{date} {spelled}"


def _fraction(digits: str) -> str:
    digits = digits.rstrip("0")
    return f".{digits}" if digits else ""


def json_cell(name: str, value: Any) -> str | None:
    """Return the text of a value of a JSON object: of a list, the texts of its values joined by a space.

    ValueError for a list within a list, or an object.
    """
    if value is None or type(value) is str:
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return None if value != value else repr(value)
    if isinstance(value, list):
        if any(isinstance(one, list) for one in value):
            raise ValueError(f"its {name!r} has lists within a list, not texts")
        cells = (cell.strip() for one in value if (cell := json_cell(name, one)) is not None)
        return " ".join(canonical_cell(cell) for cell in cells if cell)
    raise ValueError(f"its {name!r} is a {type(value).__name__}, not text")
