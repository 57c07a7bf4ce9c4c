"""A run on its workers: those of this process, or actors of Ray. What a run decides is in running/run.py."""

from contextlib import AbstractContextManager
from dataclasses import dataclass

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.ports import Oracle
from al_ray.cluster.pool.score_fit import check_scoring
from al_ray.cluster.pool.sharded_retriever import check_example_cells, check_index_kind
from al_ray.cluster.services import RayRunServices, deploy_services
from al_ray.cluster.session import session
from al_ray.cluster.trial import Trial
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.progress import OnProgress
from al_ray.core.task import Task
from al_ray.oracles.registry import OracleRequest
from al_ray.running.run import OnRound, RunSpec, run_on
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.uri import StoragePath

PATIENCE = 60.0  # Seconds that a restarted trial waits for the run's lock while its former process ends.


@dataclass(frozen=True)
class RunWorkers:
    """The Workers of a run. trial: the run's part of a grid, if any."""

    cluster: ClusterConfig
    trial: Trial | None = None

    def check_task_fits(self, config: RunConfig, task: Task) -> None:
        """Raise BadOption if shards cannot search the task as the options say."""
        check_index_kind(config.search, task)
        check_example_cells(config, task)
        check_scoring(config.scoring, task)

    def session(self, trainers: int) -> AbstractContextManager[None]:
        """Provide workers in this process, or by Ray."""
        return session(self.cluster, trainers)

    def deploy(
        self, config: RunConfig, request: OracleRequest, oracle: Oracle, dev: Oracle | None
    ) -> AbstractContextManager[RayRunServices]:
        """Start the workers of a run."""
        return deploy_services(config, self.cluster, request.journal, oracle, request.watch, self.trial, dev)


def run(work: RunSpec, out: StoragePath, watch: OnProgress, on_round: OnRound, trial: Trial | None = None) -> RunFolder:
    """Run to the end, as run_on does. trial: the run's part of a grid, if any."""
    patience = 0.0 if trial is None else PATIENCE
    return run_on(RunWorkers(work.cluster, trial), work, out, watch, on_round, patience)
