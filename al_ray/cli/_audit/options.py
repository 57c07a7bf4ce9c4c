"""The options of jobs.audit: one class for each subcommand."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

import tyro

from al_ray.apps.audit.options import AuditConfig
from al_ray.cli._shared.entry import PathOrUri
from al_ray.core.config.bounds import Between, check_bounds
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import BadOption
from al_ray.metrics.thresholds import LEAST_GUARANTEE, MOST_GUARANTEE


@dataclass(frozen=True, kw_only=True)
class Sample(AuditConfig):
    """Draw pairs to label."""

    UNUSED: ClassVar[tuple[str, ...]] = ("cluster.checkpoint_seconds",)

    run: PathOrUri | None = None
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
        names = ("split", "round", "at_recall", "near", "rand", "by_score", "top", "after", "threshold_for")
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
    """For an audit by score: thresholds as probabilities, if the round is calibrated (--update-scorer); else as scores
    p = sigmoid(w * cosine + b) of the model, or p of its matcher."""
    threshold_for: tuple[str, ...] = ()
    """For an audit by score: precision=P chooses the lowest threshold of this precision, and writes it to the round's
    scorer.json. With --guarantee also recall=R, ranked-recall=R (of the matches among the ranked pairs) and
    costs=MISS,ALARM."""
    guarantee: Annotated[float | None, Between(LEAST_GUARANTEE, MOST_GUARANTEE)] = None
    """With --threshold-for: the confidence with which the threshold keeps its rule in truth, such as 0.95, although it
    is chosen after a look at the labels (docs/guarantees.md). If none can be promised, nothing is written."""
    update_scorer: bool = False
    """For an audit by score: fit w and b to the labels, and write them with their reliability to the round's
    scorer.json. load_model uses them; the run does not."""
    run: PathOrUri | None = None
    """With --threshold-for or --update-scorer: the run that was audited; the folder that the audit lies in when not
    given."""
    out: Path | None = None
    """JSON file; estimate.json in the audit folder when not given."""

    def __post_init__(self) -> None:
        """Raise BadOption for a value out of bounds."""
        check_bounds(self)
