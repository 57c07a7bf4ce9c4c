"""Options that a new run sets once: --matcher auto, and candidates of dense texts.

--matcher auto is on where the task keeps several fields, and off where each text is one; it is stored as on or off.
"""

import logging
from dataclasses import replace
from typing import TypeVar

from al_ray.active_learning.config import RunConfig
from al_ray.core.config.encoder import family_of
from al_ray.core.config.sections import MORE
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.core.task import Task
from al_ray.datasets.field_types import field_pairs
from al_ray.runs.run_folder import bound_config
from al_ray.storage.uri import StoragePath

logger = logging.getLogger(__name__)
Config = TypeVar("Config", bound=RunConfig)


def without_auto(config: RunConfig, task: Task, folder: StoragePath) -> RunConfig:
    """Return the config of a run with every `auto` replaced. BadOption if the choice and other options do not fit.

    folder: of the run. A run keeps the matcher, or none, with which it chose its first pairs, and its dense texts.
    """
    stored = None
    asked = config.matcher == "auto" or (config.matcher == "on" and config.candidates.more_of_dense == "auto")
    if asked and (folder / "round-001").exists() and (folder / "config.json").is_file():
        stored = bound_config(folder)
    config = with_matcher_chosen(config, task, stored)
    if family_of(config.encoder).given and config.trains_encoder:
        raise BadOption(
            f"{option('encoder', config.encoder)}: vectors that are given cannot be trained; give `matcher='on'` "
            "without `encoder_every`, so that a matcher learns (docs/vectors.md)"
        )
    return with_dense_chosen(config, stored).settled(task.split("train").space.total)


def with_dense_chosen(config: RunConfig, stored: RunConfig | None) -> RunConfig:
    """Return the config of a matcher with a number in place of --candidates.more-of-dense auto. stored: as below.

    What an al_ray without that option began has auto: nothing was stored, and its dense texts stay those of before.
    """
    if config.matcher != "on" or config.candidates.more_of_dense != "auto":
        return config
    more = MORE if stored is None else stored.candidates.more_of_dense
    return replace(config, candidates=replace(config.candidates, more_of_dense=more))


def with_matcher_chosen(config: Config, task: Task, stored: RunConfig | None) -> Config:
    """Return the config with --matcher on or off in place of auto, and log which and why. BadOption as above.

    stored: the options with which the folder's work began, if it has begun; their choice holds.
    """
    if config.matcher != "auto":
        return config
    if stored is not None and stored.matcher != "auto":
        choice, reason = stored.matcher, "as this folder began"
        others = f"{option('matcher', 'off' if choice == 'on' else 'on')} needs another `out`"
    else:
        fields = field_pairs(task.left, task.right)
        given = family_of(config.encoder).given
        choice = "on" if len(fields) > 1 or given else "off"
        shown = ", ".join(f"{field.name} ({field.type})" for field in fields)
        reason, others = (
            (
                f"because the texts of both sides have {len(fields)} fields: {shown}",
                "`matcher='off'` trains the encoder",
            )
            if choice == "on" and not given
            else ("because vectors that are given cannot be trained", "another encoder can be")
            if given
            else (_without_fields(task, shown), "`matcher='on'` compares the whole texts")
        )
    logger.info("`matcher='auto'` is %s, %s; %s", choice, reason, others)
    try:
        return replace(config, matcher=choice)
    except BadOption as error:
        raise BadOption(f"`matcher='auto'` is {choice} here, {reason}. {error}, or give `matcher='off'`") from error


def _without_fields(task: Task, shown: str) -> str:
    """Return why a task has no fields to compare. shown: the only one that both sides have, or ""."""
    if shown:
        return f"because the texts of both sides have one field: {shown}"
    if task.left.fields is not None and task.right.fields is not None:
        return "because the two sides do not have the same fields"
    return "because each text is one column"
