"""Runs on an MLflow tracking server: their options as parameters, the metrics of each round, and the last model.

mlflow.json in a run folder has the id of its MLflow run. The server is asked which rounds and which model that run has:
nothing is written twice, and a session writes what an earlier one could not.
"""

import importlib.util
import logging
import os
import time
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any

from al_ray.active_learning.config import RunConfig
from al_ray.core.config.serialization import as_dict
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.runs.run_folder import RunFolder
from al_ray.runs.run_state import at_its_end, bound_config
from al_ray.runs.trackers.port import Track, figures_after
from al_ray.storage.download import fetched
from al_ray.storage.files import read_json, write_json
from al_ray.storage.uri import check_no_secrets

EXPERIMENT, FILE, MODEL_ROUND = "al_ray", "mlflow.json", "model_round"
CREDENTIALS = "remove it, and set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
INSTALL = "pip install --constraint constraints.txt '.[mlflow]' in the checkout"
# The client's own defaults retry for minutes, and print addresses on stdout.
CLIENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
MOST_PARAMETERS = 100  # In one call to the server.
logger = logging.getLogger(__name__)


def tracking(uri: str) -> Track:
    """Return the function that writes runs to the tracking server of a URI.

    It warns when the server fails, because a run must not end by that. BadOption if the URI has a password, the
    package is missing or the server does not answer now.
    """
    # databricks://scope:prefix names where secrets are, and holds none.
    if not uri.startswith("databricks:"):
        check_no_secrets(uri, "`mlflow` ", CREDENTIALS)
    require_package("`mlflow`", "mlflow", INSTALL)
    for name, value in CLIENT.items():
        os.environ.setdefault(name, value)
    # By name, because the package belongs to an extra.
    mlflow = import_module("mlflow")
    errors = mlflow.exceptions.MlflowException, OSError
    try:
        client = mlflow.MlflowClient(uri)
        client.search_experiments(max_results=1)
    except errors as error:
        raise BadOption(
            f"{option('mlflow', uri)}: no tracking server answers there ({_short(error)}); start one"
        ) from error

    def track(folder: RunFolder, group: str) -> None:
        try:
            _write(client, folder)
        except errors as error:
            logger.warning("`mlflow`: %s; the next round, or the same command, writes what is missing", _short(error))

    return track


def require_package(option: str, package: str, install: str) -> None:
    """Raise BadOption for an option whose package, of an extra, is not installed."""
    if importlib.util.find_spec(package) is None:
        raise BadOption(f"{option} needs the package {package}, which is not installed: {install}")


def parameters(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return all options by their dotted names, such as training.epochs."""
    flat: dict[str, str] = {}
    for name, value in config.items():
        nested = isinstance(value, dict)
        flat |= parameters(value, f"{prefix}{name}.") if nested else {f"{prefix}{name}": str(value)}
    return flat


def tags_of(config: RunConfig) -> dict[str, str]:
    """Return the tags of a run, by which runs can be grouped."""
    axes = {name: str(getattr(config, name)) for name in ("strategy", "seed", "encoder")}
    return {**axes, "budget": str(sum(config.batches))}


def _write(client: Any, folder: RunFolder) -> None:
    """Write what the MLflow run of a run folder lacks."""
    lines = folder.complete_rounds()
    if not lines:
        return
    config, entities, now = bound_config(folder.path), import_module("mlflow.entities"), int(time.time() * 1000)
    run = _run_of(client, folder, config)
    log = partial(client.log_batch, run.info.run_id)
    options = parameters({**as_dict(config), "task_digest": folder.task.digest})
    unset = [entities.Param(name, value) for name, value in options.items() if name not in run.data.params]
    for first in range(0, len(unset), MOST_PARAMETERS):
        log(params=unset[first : first + MOST_PARAMETERS])
    # MLflow never changes a parameter, and a resumed run may have more rounds or other batch sizes.
    changed = {name: value for name, value in options.items() if run.data.params.get(name, value) != value}
    for name, value in {**tags_of(config), **changed}.items():
        if run.data.tags.get(name) != value:
            client.set_tag(run.info.run_id, name, value)
    logged = int(run.data.metrics.get("round", 0))
    for labels, figures in figures_after(lines, logged):
        log(metrics=[entities.Metric(name, value, now, labels) for name, value in figures.items()])
    if at_its_end(folder.path, config) and run.data.tags.get(MODEL_ROUND) != str(folder.last):
        client.log_artifacts(run.info.run_id, str(fetched(folder.round(folder.last) / "model")), "model")
        client.set_tag(run.info.run_id, MODEL_ROUND, str(folder.last))
        client.set_terminated(run.info.run_id)


def _run_of(client: Any, folder: RunFolder, config: RunConfig) -> Any:
    """Return the MLflow run of a run folder; a new one if it has none, or none that this server has."""
    path, experiment = folder.path / FILE, client.get_experiment_by_name(EXPERIMENT)
    at = client.create_experiment(EXPERIMENT) if experiment is None else experiment.experiment_id
    if path.exists():
        runs = client.search_runs([at], f"attributes.run_id = '{read_json(path, ['run_id'])['run_id']}'")
        if runs:
            return runs[0]
    run = client.create_run(at, run_name=folder.path.name, tags=tags_of(config))
    write_json(path, {"run_id": run.info.run_id})
    return run


def _short(error: Exception) -> str:
    """Return the message of an error of the client, without the client's own advice."""
    return " ".join(str(error).split())[:200]
