"""Of the presumed non-matches of a matcher, how many match: `candidates.presumed` of metrics.jsonl and record.json.

number    of candidates that were drawn as non-matches
share     of them that match, as far as it is known; null if it is not known
counted   whether all matches of the pool are known, so that the share is exact; else it is an estimate
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

PRESUMED = "presumed"
MOST = 0.01
"""Share of matches among presumed non-matches above which a run warns."""


@dataclass(frozen=True)
class PresumedFigures:
    """How many non-matches were presumed, which share of them match in [0, 1], and whether that was counted."""

    number: int
    share: float | None
    counted: bool

    def as_dict(self) -> dict[str, Any]:
        """Return the dict that JSON files hold."""
        return asdict(self)

    def words(self) -> str:
        """Return a sentence on them."""
        drawn = f"presumed non-matches: {self.number:,}"
        if self.share is None:
            return f"{drawn}; how many of them match is not known before labels of both kinds are there"
        if self.counted:
            return f"{drawn}, of which {100 * self.share:.2g}% match (all matches of the task are known)"
        return f"{drawn}, of which about {100 * self.share:.2g}% match (p >= 0.5 by a matcher of the labels alone)"

    def warning(self) -> str | None:
        """Return what to do if more than MOST of them match; else None."""
        if self.share is None or self.share <= MOST:
            return None
        return (
            f"{'' if self.counted else 'about '}{100 * self.share:.2g}% of the presumed non-matches match, more than "
            f"{MOST:.0%}: the matcher learns that these matches are none; give fewer or none (jobs.run "
            "--candidates.presumed)"
        )


def presumed_figures(line: Mapping[str, Any]) -> PresumedFigures | None:
    """Return the figures of a line of metrics.jsonl, or of record.json; None if no non-matches were presumed.

    ValueError, TypeError, KeyError or AttributeError if they are no such figures.
    """
    content = line.get("candidates", {}).get(PRESUMED)
    if content is None:
        return None
    share = None if content["share"] is None else float(content["share"])
    if share is not None and not 0 <= share <= 1:
        raise ValueError(f"{share} is no share")
    return PresumedFigures(int(content["number"]), share, bool(content["counted"]))


def presumed_lines(line: Mapping[str, Any]) -> list[str]:
    """Return a sentence on the presumed non-matches of a round; nothing without any."""
    figures = presumed_figures(line)
    return [] if figures is None else [figures.words()]


def presumed_warnings(candidates: Mapping[str, Any]) -> list[str]:
    """Return the warning of a round whose `candidates` are given; nothing without one."""
    figures = presumed_figures({"candidates": candidates})
    return [] if figures is None or (warning := figures.warning()) is None else [warning]
