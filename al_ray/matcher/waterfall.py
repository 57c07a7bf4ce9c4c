"""What each comparison adds to the p of a pair, as pages show it: bars from the base to p, a waterfall."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from al_ray.matcher.explanation import Explanation
from al_ray.matcher.wording import name_in_words, value_in_words

SHOWN = 8
"""Comparisons that have a bar of their own; the others share one."""


@dataclass(frozen=True)
class Bar:
    """One step on the way from the base to p. adds: to p. left, width: of the bar, in percent of the axis.

    value: in words; "" for the comparisons that share a bar.
    """

    name: str
    value: str
    adds: float
    left: float
    width: float


@dataclass(frozen=True)
class Waterfall:
    """The bars of a match, the strongest comparison first. base, p: the ends; start, end: of these on the axis, in %.

    The axis is that of p, from 0 to 1, or wider where the bars leave it.
    """

    base: float
    p: float
    start: float
    end: float
    bars: tuple[Bar, ...]


def waterfall(explanation: Explanation) -> Waterfall:
    """Return the bars of a match; each begins where the one before ends, and the last ends at p."""
    steps, level, edges = list(_steps(explanation)), explanation.base, [explanation.base]
    for *_, adds in steps:
        level += adds
        edges.append(level)
    low, high = min(0.0, *edges), max(1.0, *edges)

    def place(value: float) -> float:
        return 100 * (value - low) / (high - low)

    bars = (
        Bar(name, value, adds, place(min(ends)), place(max(ends)) - place(min(ends)))
        for (name, value, adds), ends in zip(steps, pairwise(edges), strict=True)
    )
    return Waterfall(explanation.base, explanation.p, place(explanation.base), place(edges[-1]), tuple(bars))


def _steps(explanation: Explanation) -> Iterator[tuple[str, str, float]]:
    """Yield the name, the value and what it adds of each bar."""
    parts = explanation.parts
    # One that is left would need as much room as the bar that it shares.
    shown = len(parts) if len(parts) <= SHOWN + 1 else SHOWN
    for part in parts[:shown]:
        yield name_in_words(part.name), value_in_words(part.name, part.value), part.adds
    if parts[shown:]:
        yield f"{len(parts) - shown} other comparisons", "", sum(part.adds for part in parts[shown:])
