"""The options of jobs.evaluate."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from al_ray.cli._shared.entry import PathOrUri
from al_ray.core.config.bounds import Between, check_bounds
from al_ray.core.config.cluster import ClusterConfig


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure a round of a run, or scores made elsewhere."""

    run: PathOrUri | None = None
    """Run folder, or the folder of a cross-encoder (jobs.train)."""
    against: PathOrUri | None = None
    """Another run of the same task: the difference in average precision, on the same pairs."""
    split: Literal["train", "dev", "test"] = "dev"
    """Split to measure on. Choose by dev; look at test at the end."""
    round: int | None = None
    """Round to measure, of both runs; 0 is the untrained encoder, the last complete one when not given."""
    exact: bool = False
    """Count every pair, however many there are."""
    estimate: bool = False
    """Weight a sample of the negatives (paper, A.2), however few there are; neither: by --evaluation.exact-pairs."""
    random_pairs: int | None = None
    """With an estimate: random negatives to weight, instead of as many as the run's --evaluation.random-pairs."""
    scores: Path | None = None
    """Parquet file with columns `score` and `stratum` (positive, near or random); see --heuristic for others."""
    total_pairs: Annotated[int | None, Between(1, 2**62)] = None
    """With --scores: how many pairs there are in all, positives included."""
    heuristic: bool = False
    """Measure stated pairs alone: MAP, MRR and a-F1 of questions and their candidates, accuracy and F1 of a symmetric
    task. A file has columns `score` (a logit), `query` and `label` (0 or 1)."""
    threshold_for: tuple[str, ...] = ()
    """Choose thresholds on dev, each by a rule: precision=0.9 recall=0.5 costs=10,1 (of a miss, of a false alarm). They
    are kept in the round's scorer.json."""
    out: PathOrUri | None = None
    """JSON file; in the run folder (of the round, when one is given) when not given."""
    cluster: tyro.conf.OmitArgPrefixes[ClusterConfig] = field(default_factory=ClusterConfig)

    def __post_init__(self) -> None:
        """Raise BadOption for a value out of bounds."""
        check_bounds(self)
