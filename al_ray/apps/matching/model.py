"""The model that matches: the last model of a run, its calibrated scores, and the labels of the run."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any

from al_ray.active_learning.config import RunConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import Model
from al_ray.core.scorer import Scorer
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_about, read_task
from al_ray.encoders.cnn import is_cnn
from al_ray.runs.run_folder import RunFolder, bound_config, last_round
from al_ray.storage.files import read_json
from al_ray.storage.uri import StoragePath, storage_path
from al_ray.training.saved_model import SCORER, calibrated_scorer


@dataclass(frozen=True)
class MatchingModel:
    """The model of a complete round of a run.

    calibrated: the scorer whose p is a probability, None if w and b were not fitted or checked on drawn pairs.
    thresholds: those that were chosen and stored with the model, by their rule, such as "precision=0.9".
    """

    run: StoragePath
    config: RunConfig
    round: int
    model: Model
    calibrated: Scorer | None
    thresholds: Mapping[str, Mapping[str, Any]]

    @cached_property
    def task(self) -> Task:
        """Read the task of the run."""
        return read_task(storage_path(self.config.task))

    @cached_property
    def folder(self) -> RunFolder:
        """Open the run folder for reading."""
        return RunFolder(self.run, self.task)

    @property
    def table_options(self) -> Mapping[str, Any]:
        """Return the options by which the tables of the task were read; {} if it was made of no tables of texts."""
        return table_options(self.config)


def match_command(run: RunFolder) -> str | None:
    """Return the command that matches tables by the last model of a run, FILE and DIR left to fill in.

    None if the run has no model, or one that cannot match.
    """
    config = bound_config(run.path)
    if not run.last or is_cnn(config.encoder):
        return None
    model = run.model(run.last)
    assert model.scorer is not None
    # Between two tables mutual best matches need no cutoff.
    side = " --at-boundary" if isfinite(model.scorer.boundary) else " --best N"
    if not run.task.symmetric or needs_two_sides(model, config):
        side = " --right FILE"
    columns = "" if table_options(config) else " --text-columns NAME"
    return f"python -m jobs.match --model {shlex.quote(str(run.path))} --left FILE{side}{columns} --out DIR"


def table_options(config: RunConfig) -> Mapping[str, Any]:
    """Return the options by which the tables of a run's task were read; {} if it was made of no tables of texts."""
    provenance = read_about(storage_path(config.task)).get("provenance", {})
    of_texts = provenance.get("command") == "prepare pairs" and provenance.get("source") is None
    return provenance if of_texts else {}


def needs_two_sides(model: Model, config: RunConfig) -> bool:
    """Return whether a model treats left and right texts in different ways, so that it cannot match one table."""
    return bool(model.scorer is not None and model.scorer.neighbourhood) or config.prompt_right is not None


def open_model(run: StoragePath, number: int | None = None) -> MatchingModel:
    """Open the model of a complete round of a run, the last by default; BadOption or BadFile if it cannot match."""
    config, last = bound_config(run), last_round(run)
    if number is not None and number > last:
        raise BadOption(f"{run} has no complete round {number}; restore it, or match all texts with another --out")
    last = last if number is None else number
    if not last:
        raise BadOption(f"{run} has no complete round, and so no model; run it first (jobs.run)")
    if is_cnn(config.encoder):
        raise BadOption(
            f"{run} has the encoder {config.encoder}, whose vocabulary is that of its task; match with another"
        )
    folder = RunFolder(run, read_task(storage_path(config.task)))
    folder.refuse_lost(last)
    model, path = folder.model(last), folder.round(last) / "model"
    assert model.scorer is not None
    scorer, calibrated_on = calibrated_scorer(path, model.scorer)
    thresholds = read_json(path / SCORER, []).get("thresholds", [])
    try:
        by_rule = {str(one["rule"]): one for one in thresholds}
    except (KeyError, TypeError) as error:
        raise BadFile(f"{path / SCORER}: the field thresholds is not a list of thresholds; restore it") from error
    opened = MatchingModel(run, config, last, model, None if calibrated_on is None else scorer, by_rule)
    vars(opened)["task"], vars(opened)["folder"] = folder.task, folder
    return opened
