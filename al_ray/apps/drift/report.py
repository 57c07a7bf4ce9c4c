"""What a match says of drift and of pairs to label next: the one entry of this folder for a match."""

from typing import Any

from al_ray.apps.drift.measure import measure_drift
from al_ray.apps.drift.suggestions import SuggestionRequest, write_suggestions
from al_ray.apps.matching.options import MatchOptions
from al_ray.apps.matching.outputs import Matching
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.storage.uri import StoragePath


def report_drift(out: StoragePath, pool: ShardedPool, options: MatchOptions, matching: Matching) -> dict[str, Any]:
    """Measure drift, write suggestions, and return their parts of match.json, as far as the options ask for them."""
    model = matching.model
    # The training texts of a copied model are not known.
    if not options.drift or model.run is None:
        return {}
    drift = measure_drift(pool, model, matching.split)
    record: dict[str, Any] = {"drift": drift.record}
    if options.suggest is not None:
        suggestion = SuggestionRequest(options.suggest, model, matching.cutoff, matching.decisions, drift)
        record["suggested"] = write_suggestions(out, pool, matching.split, suggestion)
    return record
