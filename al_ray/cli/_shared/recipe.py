"""--recipe: the defaults of the options of training and scoring, under one name."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from al_ray.cli._shared.entry import value_of
from al_ray.core.config.losses import LOSSES
from al_ray.core.config.recipes import RECIPES, RecipeName
from al_ray.core.config.sections import TrainingConfig

SECTIONS = ("training", "scoring", "matcher")
FLAT = "Flat"
# Who gives one of these has chosen how to learn, or what a matcher cannot do.
CHOOSES = ("--training.", "--scoring.", "--matcher", "--search.index", "--search.ordered-pairs")


def recipe_unless_chosen(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the recipe of the paper as a default if a command line says how to learn; {} if one is to be chosen."""
    given = [argument for argument in arguments if argument.startswith(CHOOSES)]
    if value_of("--search.index", arguments) == FLAT:
        given = [argument for argument in given if not argument.startswith("--search.index")]
    return {"recipe": "paper"} if given else {}


def recipe_defaults(arguments: Sequence[str], sections: Sequence[str] = SECTIONS) -> dict[str, Any]:
    """Return the sections of the recipe that a command line names, as defaults for `parse_options`; {} without one.

    sections: those that the command has. An unknown name is left to tyro, which reports it.
    """
    recipe = RECIPES.get(cast(RecipeName, value_of("--recipe", arguments)))
    if recipe is None:
        return {}
    found = {name: recipe[name] for name in sections if name in recipe}
    loss = LOSSES.get(value_of("--training.loss", arguments) or "")
    if loss is not None and not loss.trains_head:
        plain = TrainingConfig()
        found["training"] = replace(found["training"], head=plain.head, head_start=plain.head_start)
    return found
