"""Options of the command evaluate."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from al_ray.cli._shared.blocks import SearchCluster
from al_ray.cli._shared.option_types import Guarantee, PathOrUri, RoundName
from al_ray.core.config.bounds import RARE, Between, Group, check_bounds
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import Sides

SCORES = Group("scores")


@dataclass(frozen=True, kw_only=True)
class EvaluateCommand:
    """Evaluate a round of a run, or your own scores."""

    run: PathOrUri | None = None
    """Run folder, or the folder of a cross-encoder (command train)."""
    split: Literal["train", "dev", "test"] | None = None
    """With --run: split to evaluate. Tune on dev; measure test once, at the end. Default: dev."""
    against: PathOrUri | None = None
    """Another run of the same task: the difference in average precision, on the same pairs."""
    round: RoundName = None
    """Round to evaluate, of both runs; 0 is the untrained encoder, last the last complete one. Default: last."""
    neighbourhood: Annotated[float | None, Between(0, 1)] = None
    """Rank by scores with this number instead of the run's own, from 0 to 1; 0 is the cosine (docs/neighbourhood.md). w
    and b are fitted again; no file of the run is replaced. With --against it holds for --run alone."""
    neighbourhood_sides: Sides | None = None
    """With --neighbourhood: subtract the means of left texts alone, or those of both texts of a pair. Default: as the
    run does."""
    exact: bool = False
    """Count every pair, however many there are."""
    estimate: bool = False
    """Estimate from a weighted sample of the negatives (paper, A.2), however few there are. Without --exact and
    --estimate, the run's --evaluation.exact-pairs decides."""
    random_pairs: int | None = None
    """With an estimate: size of the random stratum. Default: the run's --evaluation.random-pairs."""
    threshold_for: tuple[str, ...] = ()
    """Choose thresholds on dev, each by a rule: precision=0.9 recall=0.5 costs=10,1 (of a miss, of a false alarm). They
    are written to the round's scorer.json."""
    guarantee: Annotated[Guarantee, RARE] = None
    """With --threshold-for: the confidence with which the threshold keeps its rule among all pairs of the split, such
    as 0.95, where negatives are sampled (docs/guarantees.md). If none can be promised, nothing is written."""
    out: PathOrUri | None = None
    """JSON file. Default: a file in the run folder, or with --round in the folder of the round."""
    scores: Annotated[Path | None, SCORES] = None
    """Parquet file with columns `score` and `stratum` (positive, near or random), instead of --run."""
    total_pairs: Annotated[int | None, SCORES, Between(1, 2**62)] = None
    """With --scores: total number of pairs, positives included."""
    heuristic: bool = False
    """Evaluate stated pairs alone: MAP, MRR and a-F1 of questions and their candidates, accuracy and F1 of a symmetric
    task. With --scores, the file has columns `score` (a logit), `query` and `label` (0 or 1)."""
    cluster: SearchCluster = field(default_factory=ClusterConfig)

    @property
    def measured(self) -> str:
        """Return the split that is given, or the default."""
        return self.split or "dev"

    def __post_init__(self) -> None:
        """Raise BadOption for a value out of bounds."""
        check_bounds(self)
