"""Figures of a load test, by arithmetic alone: rates, percentiles, and what each part takes of a request."""

import math
from collections.abc import Mapping, Sequence

PERCENTS = (50, 95, 99)
WHOLE = "request"
"""Name of a whole request among its parts."""


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the least value that `percent` of 100 values do not exceed; NaN of none."""
    if not values:
        return math.nan
    return sorted(values)[max(1, math.ceil(percent * len(values) / 100)) - 1]


def shares(whole: float, parts: Mapping[str, float], rest: str) -> dict[str, float]:
    """Return the share of each part in the whole, and under the name `rest` what they leave of it.

    The rest is below 0 if the parts, which are measured one by one, take longer than the whole.
    """
    found = {name: part / whole for name, part in parts.items()}
    return {**found, rest: 1 - sum(found.values())}


def summary(milliseconds: Sequence[float], seconds: float) -> dict[str, float]:
    """Return requests a second, and the percentiles of their milliseconds."""
    found = {f"p{percent}": percentile(milliseconds, percent) for percent in PERCENTS}
    return {"requests_per_second": len(milliseconds) / seconds, **found}
