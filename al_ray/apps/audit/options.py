"""The options of an audit."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from al_ray.core.config.bounds import Between, Seed, check_bounds
from al_ray.core.errors import BadOption
from al_ray.metrics.audit.looks import Measure
from al_ray.metrics.handover import RoundName

MOST = 1_000_000
BUDGET, ANSWERS = 300, 6000
"""Pairs for people, and for a language model, when not given."""
MATCH_BUDGET = 100
"""Matches to draw when not given."""
SECOND_BUDGET = 100
"""Pairs of a second draw when not given."""
WIDTH_BUDGET = 1000
"""The most pairs of an audit until a width when not given."""


@dataclass(frozen=True, kw_only=True)
class AuditConfig:
    """The pairs that an audit draws."""

    split: Literal["train", "dev", "test"] = "dev"
    """Split whose pairs to draw."""
    round: RoundName = None
    """Round whose model is audited; 0 is the untrained encoder, last the last complete one. Default: last."""
    at_recall: Annotated[float | None, Between(1e-9, 1)] = None
    """The threshold is the highest with this recall of known positives; 0.2 when not given."""
    near: Annotated[int | None, Between(0, MOST)] = None
    """Putative errors to draw from the near negatives; 50 when not given."""
    rand: Annotated[int | None, Between(0, MOST)] = None
    """Putative errors to draw from the random negatives; 50 when not given."""
    by_score: bool = False
    """Draw from bands of score instead, which needs no known match."""
    budget: Annotated[int | None, Between(1, MOST)] = None
    """With --by-score: total number of pairs to draw; 300 when not given. With --after or --matches: 100."""
    top: Annotated[int | None, Between(1, 10 * MOST)] = None
    """With --by-score: number of pairs of highest score that are ranked one by one, and among which thresholds can lie;
    all others are one band. 100,000 when not given."""
    after: Path | None = None
    """With --by-score: an audit of the same round whose labels left a precision open. All pairs of this one are drawn
    from those without a label above the score down to which the estimate reaches it; its labels count, too."""
    threshold_for: str | None = None
    """With --after: the rule of the threshold, such as precision=0.9."""
    oracle: Literal["llm"] | None = None
    """With --by-score: llm has a language model answer many pairs (docs/llm.md), and people --budget of them. Figures
    stay valid however often the model is wrong, and are narrower the better it is."""
    answers: Annotated[int | None, Between(1, MOST)] = None
    """With --oracle llm: number of pairs that the model answers; 6,000 when not given."""
    until_width: Annotated[float | None, Between(0.001, 1)] = None
    """With --by-score: label until the 95% interval of --of is at most so wide, from 0 to 1 (0.1: ten points), with
    looks that are fixed in advance (docs/audit.md). --budget is then the most labels; 1,000 when not given."""
    of: Measure | None = None
    """With --until-width: precision, ranked-recall (of the matches among the ranked pairs) or recall at the model's
    boundary, or average-precision of the ranked pairs; precision when not given."""
    seed: Seed = 0
    """Random seed."""

    def __post_init__(self) -> None:
        """Validate options."""
        mine, others = (self.budget, self.top), (self.at_recall, self.near, self.rand)
        if (self.after is None) != (self.threshold_for is None):
            raise BadOption("`after` and `threshold_for` go together; give both, or neither")
        if self.after is not None and (self.top is not None or not self.by_score):
            raise BadOption("`after` goes with `by_score=True` and without `top`, which it chooses itself")
        if self.until_width is not None and (self.after is not None or not self.by_score):
            raise BadOption(
                "`until_width` goes with `by_score=True` and without `after`; add the one, or leave out both"
            )
        if self.of is not None and self.until_width is None:
            raise BadOption("`of` goes with `until_width`; give the width, or leave it out")
        if any(value is not None for value in (others if self.by_score else mine)):
            raise BadOption(
                "`at_recall`, `near` and `rand` go without `by_score=True`; leave them out"
                if self.by_score
                else "`budget` and `top` go with `by_score=True`; add it, or leave them out"
            )
        if self.oracle is not None and (not self.by_score or self.after is not None):
            raise BadOption(
                "`oracle` goes with `by_score=True` and without `after`: add the one, and leave out the other"
            )
        if self.oracle is not None and self.until_width is not None:
            raise BadOption("`until_width` and `oracle` do not go together; leave out one of them")
        if self.answers is not None and self.oracle is None:
            raise BadOption("`answers` goes with `oracle='llm'`; add it, or leave it out")
        check_bounds(self)
        if (self.near, self.rand) == (0, 0):
            raise BadOption("`near` and `rand` are both 0; draw at least one pair of one of them")
