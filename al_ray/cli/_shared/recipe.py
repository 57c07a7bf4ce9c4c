"""--recipe: the defaults of the options of training and scoring, under one name."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from al_ray.cli._shared.entry import value_of
from al_ray.core.config.losses import WITHOUT_HEAD
from al_ray.core.config.recipes import RECIPES, RecipeName
from al_ray.core.config.sections import TrainingConfig

SECTIONS = ("training", "scoring", "matcher")
# Who gives one of these has chosen how to learn, or what a matcher cannot do.
CHOOSES = ("--training.", "--scoring.", "--matcher", "--encoder-every", "--search.index", "--search.ordered-pairs")


def is_chosen(arguments: Sequence[str]) -> bool:
    """Return whether a command line says how to learn, so that no recipe is chosen by the kind of task."""
    return any(argument.startswith(CHOOSES) for argument in arguments)


def recipe_defaults(arguments: Sequence[str], sections: Sequence[str] = SECTIONS) -> dict[str, Any]:
    """Return the sections of the recipe that a command line names, as defaults for `parse_options`; {} without one.

    sections: those that the command has. An unknown name is left to tyro, which reports it.
    """
    recipe = RECIPES.get(cast(RecipeName, value_of("--recipe", arguments)))
    if recipe is None:
        return {}
    found = {name: recipe[name] for name in sections if name in recipe}
    if value_of("--training.loss", arguments) in WITHOUT_HEAD:
        plain = TrainingConfig()
        found["training"] = replace(found["training"], head=plain.head, head_start=plain.head_start)
    return found
