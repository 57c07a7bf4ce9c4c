"""Figures as JSON files store them, checked: a number that is not finite could not be plotted."""

import math
from collections.abc import Mapping
from typing import Any

from al_ray.metrics.average_precision import Estimate


def finite(value: Any) -> float:
    """Return the value as a finite float; ValueError if it is none."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value} is not a finite number")
    return number


def finite_or_none(value: Any) -> float | None:
    """Return the value as a finite float, and None as it is."""
    return None if value is None else finite(value)


def estimate_of(content: Mapping[str, Any]) -> Estimate:
    """Return the estimate in an object with value, low and high."""
    return Estimate(finite(content["value"]), finite(content["low"]), finite(content["high"]))
