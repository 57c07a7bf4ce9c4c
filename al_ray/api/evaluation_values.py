"""The values that evaluations return, without what computes them."""

from al_ray.core.scorer import Scorer
from al_ray.metrics.average_precision import Estimate
from al_ray.metrics.bootstrap import FEWEST_QUERIES
from al_ray.metrics.calibration import Reliability
from al_ray.metrics.evaluation import Comparison, Evaluation

__all__ = ["FEWEST_QUERIES", "Comparison", "Estimate", "Evaluation", "Reliability", "Scorer"]
