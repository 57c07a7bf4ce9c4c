"""The options of jobs.audit."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from al_ray.core.config import ClusterConfig
from al_ray.core.errors import BadOption
from al_ray.core.limits import refuse_beyond

MOST = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Draw pairs to label."""

    run: Path
    """Run folder."""
    split: Literal["train", "dev", "test"] = "dev"
    """Split whose pairs to draw."""
    round: int | None = None
    """Round whose model is audited; 0 is the untrained encoder, the last complete one when not given."""
    at_recall: float | None = None
    """The threshold is the first at which this share of the known positives is found; 0.2 when not given."""
    near: int | None = None
    """Putative false positives to draw from the near negatives; 50 when not given."""
    rand: int | None = None
    """And from the random negatives; 50 when not given."""
    by_score: bool = False
    """Draw from bands of score instead: no match need be known."""
    budget: int | None = None
    """With --by-score: pairs to draw in all; 300 when not given."""
    top: int | None = None
    """With --by-score: so many pairs of highest score are ranked one by one, and thresholds may lie anywhere among
    them; all others are one band. 100,000 when not given."""
    seed: int = 0
    """Names every draw of the audit."""
    out: Path | None = None
    """Audit folder; RUN/audit-SPLIT or RUN/audit-SPLIT-by-score when not given."""
    cluster: Annotated[ClusterConfig, tyro.conf.arg(name="")] = field(default_factory=ClusterConfig)

    def __post_init__(self) -> None:
        """Refuse what cannot be, before any work."""
        mine, others = (self.budget, self.top), (self.at_recall, self.near, self.rand)
        if any(value is not None for value in (others if self.by_score else mine)):
            raise BadOption(
                "--at-recall, --near and --rand go without --by-score; leave them out"
                if self.by_score
                else "--budget and --top go with --by-score; add it, or leave them out"
            )
        refuse_beyond((
            (self.near, "--near", 0, MOST), (self.rand, "--rand", 0, MOST), (self.budget, "--budget", 1, MOST),
            (self.top, "--top", 1, 10 * MOST), (self.at_recall, "--at-recall", 1e-9, 1),
            (self.seed, "--seed", 0, 2**63 - 1),
        ))  # fmt: skip
        if (self.near, self.rand) == (0, 0):
            raise BadOption("--near and --rand are both 0; draw a pair of one at least")


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Say what the labels say."""

    labels: Path | None = None
    """The sheet, filled in, or the JSON export of Label Studio; both files of the audit folder when not given."""
    audit: Path | None = None
    """The folder that sample wrote; the folder of --labels when not given."""
    at_cosine: tuple[float, ...] = ()
    """Of an audit by score: cosines to measure at; ends of bands and the model's boundary when nothing is given."""
    at_p: tuple[float, ...] = ()
    """Likewise, as probabilities by the model's scorer."""
    out: Path | None = None
    """JSON file; estimate.json in the audit folder when not given."""
