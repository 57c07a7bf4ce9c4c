"""--recipe auto: the recipe for a kind of task, by its texts and the encoder (docs/recipes.md)."""

import logging
from dataclasses import replace
from typing import TypeVar

from al_ray.active_learning.config import RunConfig
from al_ray.core.config.encoder import family_of
from al_ray.core.config.recipes import RECIPES, RecipeName, TaskKind, recipe_for
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.datasets.field_types import field_pairs
from al_ray.datasets.task_folder import read_sides
from al_ray.encoders.modules import find_file
from al_ray.encoders.pretrained import RANDOM_BERT, folder_of
from al_ray.runs.run_state import bound_config
from al_ray.storage.uri import StoragePath, storage_path

logger = logging.getLogger(__name__)
Config = TypeVar("Config", bound=RunConfig)
DECIDED = ("training", "scoring", "matcher")
"""What a recipe decides."""


def with_recipe_chosen(config: Config, folder: StoragePath | None = None) -> Config:
    """Return a config with the options of the recipe for its task, and log which and why.

    folder: of the run; one that has begun keeps the options with which it began.
    """
    if folder is not None and (folder / "round-001").exists() and (folder / "config.json").is_file():
        stored = bound_config(folder)
        return replace(config, **{name: getattr(stored, name) for name in DECIDED})
    task = storage_path(str(config.task))
    if not (task / "task.json").is_file():
        # The reader of the task reports what is wrong with it.
        return config
    name, reason = recipe_of(task, config.encoder)
    others = ", ".join(other for other in RECIPES if other != name)
    logger.info("recipe %s: %s; others by `recipe`: %s (docs/recipes.md)", name, reason, others)
    return replace(config, **RECIPES[name])


def say_of_fields(config: RunConfig) -> None:
    """Log that there is a recipe for texts with fields, where a run trains the encoder on such texts."""
    task = storage_path(str(config.task))
    if config.matcher == "off" and (task / "task.json").is_file():
        name, reason = recipe_of(task, RANDOM_BERT)
        if name == "records":
            logger.info("the encoder is trained; %s, and `recipe='records'` compares these (docs/recipes.md)", reason)


def recipe_of(task: StoragePath, encoder: str) -> tuple[RecipeName, str]:
    """Return the recipe for a task folder and an encoder, and why."""
    left, right = read_sides(task)
    fields = len(field_pairs(left, right))
    # Files of the encoder are looked for where they decide something.
    asked = fields < 2
    return recipe_for(TaskKind(right is left, fields, asked and compares_texts(encoder)))


def compares_texts(encoder: str) -> bool:
    """Return whether an encoder was trained to compare texts: one that has the modules of sentence-transformers.

    BadOption if its files cannot be had here.
    """
    if not family_of(encoder).pretrained or encoder == RANDOM_BERT:
        return False
    try:
        return find_file(folder_of(encoder), "modules.json") is not None
    except (OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise BadOption(
            f"{option('encoder', encoder)}: its files, by which the recipe for these texts is chosen, cannot be had "
            f"here ({reason}); give a folder with safetensors, a hub name, or all-MiniLM-L6-v2; or, if only workers "
            "have them, `recipe='tuned'` or `recipe='paper'`"
        ) from error
