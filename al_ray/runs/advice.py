"""Whether a run needs more labels."""

from collections.abc import Iterator

from al_ray.active_learning.outlook import outlook
from al_ray.active_learning.stopping import StopConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.runs.limits import in_force
from al_ray.runs.run_folder import bound_config, complete_rounds
from al_ray.storage.uri import StoragePath


def advice(run: StoragePath) -> Iterator[str]:
    """Yield whether more labels are worth their price; nothing before the first round of a run is complete."""
    metrics = complete_rounds(run)
    if not metrics:
        return
    planned, (_, stop) = bound_config(run).batches[len(metrics) :], in_force(run, OracleConfig(), StopConfig())
    yield from outlook(metrics, stop, planned[0] if planned else None)
