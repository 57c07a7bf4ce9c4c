"""Of presumed non-matches, how many match.

`candidates.presumed` of metrics.jsonl and record.json has those of a matcher, and `presumed` those of a training.

number    of pairs that were drawn as non-matches
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

    def words(self, by: "Learner") -> str:
        """Return a sentence on them."""
        drawn = f"{by.pairs}: {self.number:,}"
        if self.share is None:
            return f"{drawn}; how many of them match is not known before labels of both kinds are there"
        if self.counted:
            return f"{drawn}, of which {100 * self.share:.2g}% match (all matches of the task are known)"
        return f"{drawn}, of which about {100 * self.share:.2g}% match (p >= 0.5 by {by.estimate})"

    def warning(self, by: "Learner") -> str | None:
        """Return what to do if more than MOST of them match; else None."""
        if self.share is None or self.share <= MOST:
            return None
        return (
            f"{'' if self.counted else 'about '}{100 * self.share:.2g}% of the {by.pairs} match, more than {MOST:.0%}: "
            f"{by.name} learns that these matches are none; give fewer or none (`{by.option}`)"
        )


@dataclass(frozen=True)
class Learner:
    """What learns from presumed non-matches: its name, what they are called, what estimates matches, its option."""

    name: str
    pairs: str
    estimate: str
    option: str


OF_MATCHER = Learner(
    "the matcher", "presumed non-matches", "a matcher of the labels alone", "RunConfig.candidates.presumed"
)
OF_TRAINING = Learner(
    "the encoder",
    "presumed non-matches of the training",
    "the cosine before it, fitted to the labels alone",
    "RunConfig.training.presumed",
)


def presumed_figures(line: Mapping[str, Any]) -> PresumedFigures | None:
    """Return the figures of a matcher in a line of metrics.jsonl, or of record.json; None if there are none.

    ValueError, TypeError, KeyError or AttributeError if they are no such figures.
    """
    return _figures(line.get("candidates", {}).get(PRESUMED))


def presumed_by_training(line: Mapping[str, Any]) -> PresumedFigures | None:
    """Return the figures of a training, as `presumed_figures` does those of a matcher."""
    return _figures(line.get(PRESUMED))


def _figures(content: Any) -> PresumedFigures | None:
    if content is None:
        return None
    share = None if content["share"] is None else float(content["share"])
    if share is not None and not 0 <= share <= 1:
        raise ValueError(f"{share} is no share")
    return PresumedFigures(int(content["number"]), share, bool(content["counted"]))


def _of_both(line: Mapping[str, Any]) -> list[tuple[PresumedFigures, Learner]]:
    both = (presumed_figures(line), OF_MATCHER), (presumed_by_training(line), OF_TRAINING)
    return [(figures, by) for figures, by in both if figures is not None]


def presumed_lines(line: Mapping[str, Any]) -> list[str]:
    """Return a sentence on the presumed non-matches of a round, for each that has some."""
    return [figures.words(by) for figures, by in _of_both(line)]


def presumed_warnings(line: Mapping[str, Any]) -> list[str]:
    """Return the warnings of a round about its presumed non-matches; nothing without one."""
    return [warning for figures, by in _of_both(line) if (warning := figures.warning(by)) is not None]
