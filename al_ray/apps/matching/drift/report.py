"""What jobs.match says of drift and of pairs to label next: the one entry of this folder for the pipeline."""

from dataclasses import dataclass
from typing import Any

from al_ray.apps.matching.cutoff import Cutoff
from al_ray.apps.matching.decisions import PairDecisions
from al_ray.apps.matching.drift.measure import measure_drift
from al_ray.apps.matching.drift.suggestions import SuggestionRequest, write_suggestions
from al_ray.apps.matching.model import MatchingModel
from al_ray.apps.matching.options import MatchOptions
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.core.task import Split
from al_ray.storage.uri import StoragePath


@dataclass(frozen=True)
class DriftRequest:
    """What was asked for, and by what texts are matched."""

    options: MatchOptions
    model: MatchingModel
    cutoff: Cutoff
    decisions: PairDecisions


def report_drift(out: StoragePath, pool: ShardedPool, split: Split, request: DriftRequest) -> dict[str, Any]:
    """Measure drift, write suggestions, and return their parts of match.json, as far as the options ask for them."""
    options, model = request.options, request.model
    # The training texts of a copied model are not known.
    if not options.drift or model.run is None:
        return {}
    drift = measure_drift(pool, model, split)
    record: dict[str, Any] = {"drift": drift.record}
    if options.suggest is not None:
        suggestion = SuggestionRequest(options.suggest, model, request.cutoff, request.decisions, drift)
        record["suggested"] = write_suggestions(out, pool, split, suggestion)
    return record
