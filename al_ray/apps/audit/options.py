"""The options of jobs.audit."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import tyro

from al_ray.core.config.bounds import Between, Seed, check_bounds
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import BadOption

MOST = 1_000_000
MATCH_BUDGET = 100
"""Matches to draw when not given."""


@dataclass(frozen=True, kw_only=True)
class AuditConfig:
    """The pairs that an audit draws."""

    split: Literal["train", "dev", "test"] = "dev"
    """Split whose pairs to draw."""
    round: int | None = None
    """Round whose model is audited; 0 is the untrained encoder, the last complete one when not given."""
    at_recall: Annotated[float | None, Between(1e-9, 1)] = None
    """The threshold is the highest with this recall of known positives; 0.2 when not given."""
    near: Annotated[int | None, Between(0, MOST)] = None
    """Putative false positives to draw from the near negatives; 50 when not given."""
    rand: Annotated[int | None, Between(0, MOST)] = None
    """Putative false positives to draw from the random negatives; 50 when not given."""
    by_score: bool = False
    """Draw from bands of score instead, which needs no known match."""
    budget: Annotated[int | None, Between(1, MOST)] = None
    """With --by-score: total number of pairs to draw; 300 when not given. With --matches: 100."""
    top: Annotated[int | None, Between(1, 10 * MOST)] = None
    """With --by-score: number of pairs of highest score that are ranked one by one, and among which thresholds can lie;
    all others are one band. 100,000 when not given."""
    seed: Seed = 0
    """Random seed."""

    def __post_init__(self) -> None:
        """Validate options."""
        mine, others = (self.budget, self.top), (self.at_recall, self.near, self.rand)
        if any(value is not None for value in (others if self.by_score else mine)):
            raise BadOption(
                "--at-recall, --near and --rand go without --by-score; leave them out"
                if self.by_score
                else "--budget and --top go with --by-score; add it, or leave them out"
            )
        check_bounds(self)
        if (self.near, self.rand) == (0, 0):
            raise BadOption("--near and --rand are both 0; draw at least one pair of one of them")


@dataclass(frozen=True, kw_only=True)
class Sample(AuditConfig):
    """Draw pairs to label."""

    UNUSED: ClassVar[tuple[str, ...]] = ("cluster.checkpoint_seconds",)

    run: Path | None = None
    """Run folder, whose model is audited."""
    matches: Path | None = None
    """Folder that jobs.match wrote, in place of --run: draw from its matches. Goes with --budget, --seed and --out."""
    out: Path | None = None
    """Audit folder; RUN/audit-SPLIT, RUN/audit-SPLIT-by-score or MATCHES/audit when not given."""
    cluster: tyro.conf.OmitArgPrefixes[ClusterConfig] = field(default_factory=ClusterConfig)

    def __post_init__(self) -> None:
        """Validate options."""
        if (self.run is None) == (self.matches is None):
            raise BadOption("give --run, to audit a model, or --matches, to audit what jobs.match wrote")
        if self.matches is None:
            super().__post_init__()
            return
        check_bounds(self)
        plain = AuditConfig()
        names = ("split", "round", "at_recall", "near", "rand", "by_score", "top")
        others = [name for name in names if getattr(self, name) != getattr(plain, name)]
        if others:
            raise BadOption(f"--{others[0].replace('_', '-')} goes with --run; leave it out with --matches")


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Estimate precision from the labels."""

    labels: Path | None = None
    """The sheet, filled in, or the JSON export of Label Studio; both files of the audit folder when not given."""
    audit: Path | None = None
    """The folder that sample wrote; the folder of --labels when not given."""
    at_cosine: tuple[float, ...] = ()
    """For an audit by score: thresholds as cosines; the ends of bands and the model's boundary when not given."""
    at_p: tuple[float, ...] = ()
    """For an audit by score: thresholds as scores p = sigmoid(w * cosine + b) of the model."""
    threshold_for: tuple[str, ...] = ()
    """For an audit by score: precision=P chooses the lowest threshold of this precision, and writes it to the round's
    scorer.json."""
    update_scorer: bool = False
    """For an audit by score: fit w and b to the labels, and write them with their reliability to the round's
    scorer.json. load_model uses them; the run does not."""
    run: Path | None = None
    """With --threshold-for or --update-scorer: the run that was audited; the folder that the audit lies in when not
    given."""
    out: Path | None = None
    """JSON file; estimate.json in the audit folder when not given."""
