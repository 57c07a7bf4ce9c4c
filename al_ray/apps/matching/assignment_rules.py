"""The rules by which candidate edges become matches: what other modules depend on; assignment.py applies them.

To add a rule, add an entry to ASSIGNMENTS here and its function to CHOOSERS in assignment.py: help, search, errors, the
page of matches and the tests of every rule read these.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal


@dataclass(frozen=True)
class AssignmentRule:
    """A rule of `assign`.

    summary: a few words for --help and the page. of_best: only the best edges of a text can be matches, so that none
    but these are searched, and no cutoff is needed. of_right: the best edges of right texts decide, too, which a search
    by neighbours does not find between two sides. together: matches depend on each other, so that with a higher cutoff
    other edges may be matches.
    """

    summary: str
    of_best: bool = False
    of_right: bool = False
    together: bool = False


ASSIGNMENTS: Mapping[str, AssignmentRule] = {
    "all": AssignmentRule("every pair above the cutoff"),
    "best": AssignmentRule("the best match of each left text, or, of one table, of either text", of_best=True),
    "mutual": AssignmentRule("pairs whose two texts are each the best match of the other", of_best=True, of_right=True),
    "one-to-one": AssignmentRule(
        "the highest sum of scores, less the cutoff, with at most one match for each text", together=True
    ),
}
"""All rules by name, in the order of --help."""

if TYPE_CHECKING:
    Assignment = str
else:
    # A type checker cannot read a Literal made at run time; MatchOptions refuses unknown names.
    Assignment = Literal[tuple(ASSIGNMENTS)]


@dataclass(frozen=True)
class Cutoff:
    """The lowest score of a match, -inf for none, and the most pairs; source: the option or rule that gave it."""

    score: float
    count: int
    source: str
    precision: Any = None
    recall: Any = None
