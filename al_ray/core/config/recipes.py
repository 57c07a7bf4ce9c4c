"""Recipes: values of many options under one name, for --recipe, and for programs by al_ray.recipe."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from al_ray.core.config.sections import ScoringConfig, TrainingConfig
from al_ray.core.errors import BadOption

RecipeName = Literal["paper", "gentle", "tuned", "records"]
RecipeChoice = Literal["auto", "paper", "gentle", "tuned", "records"]
Recipe = Mapping[str, Any]
"""Sections and options of RunConfig by name."""

OF_PAPER: Recipe = MappingProxyType({"training": TrainingConfig(), "scoring": ScoringConfig()})
"""Every number of Mussmann, Jia and Liang (2020) and of their program."""
GENTLE: Recipe = MappingProxyType(
    {"training": TrainingConfig(head_start="refit", l2_sp=3000), "scoring": ScoringConfig()}
)
"""The training of the paper, which starts from a fitted head and is pulled back to what the encoder knew."""
TUNED: Recipe = MappingProxyType(
    {
        "training": TrainingConfig(
            epochs=3, batch=32, learning_rate=5e-5, head_rate=1e3, bias_correction=True, frozen_layers="half",
            head="cosine", head_start="refit",
        ),
        "scoring": ScoringConfig("auto"),
    }
)  # fmt: skip
"""Chosen on folds of the train questions of WikiQA (docs/recipes.md)."""
RECORDS: Recipe = MappingProxyType({"training": TrainingConfig(), "scoring": ScoringConfig(), "matcher": "on"})
"""For records with fields, and labels of people: the encoder stays as it is, and a matcher learns (docs/matcher.md)."""
RECIPES: Mapping[RecipeName, Recipe] = MappingProxyType(
    {"paper": OF_PAPER, "gentle": GENTLE, "tuned": TUNED, "records": RECORDS}
)


def recipe(name: RecipeName) -> dict[str, Any]:
    """Return the sections and options of a recipe, for a RunConfig: what `jobs.run --recipe` gives.

    name: "paper", every number of Mussmann, Jia and Liang (2020), which are the defaults of RunConfig; "tuned",
    with more average precision on WikiQA while labels are few (docs/recipes.md); or "records", with a matcher of fields
    in place of a trained encoder (docs/matcher.md). With a loss that uses no head (docs/losses.md)
    replace head by "batch-norm" and head_start by "fixed".

    Examples:
        >>> config = al_ray.RunConfig(task=str(folder / "task"), **al_ray.recipe("tuned"))
        >>> config.training.head, config.scoring.neighbourhood
        ('cosine', 'auto')

    Raises:
        BadOption: if there is no such recipe.
    """
    if name not in RECIPES:
        raise BadOption(f"there is no recipe {name!r}; give one of {', '.join(RECIPES)}")
    return dict(RECIPES[name])


@dataclass(frozen=True)
class TaskKind:
    """What decides a recipe. fields: that both sides have. compared: the encoder was trained to compare texts."""

    symmetric: bool
    fields: int
    compared: bool


def recipe_for(kind: TaskKind) -> tuple[RecipeName, str]:
    """Return the recipe for a kind of task, and why (docs/recipes.md, By kind of task)."""
    if kind.fields > 1:
        return "records", f"the texts have {kind.fields} fields"
    texts = "one set of texts of one column" if kind.symmetric else "two sets of texts without two fields in common"
    if not kind.compared:
        return "paper", f"{texts}, and an encoder that was not trained to compare texts"
    return "gentle" if kind.symmetric else "tuned", f"{texts}, and an encoder that was trained to compare texts"


@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """The recipe of a command."""

    HEADING: ClassVar[str] = "recipe"

    recipe: RecipeChoice = "auto"
    """Defaults of the options of training and scoring, each of which can be given beside it. paper: every number of
    Mussmann, Jia and Liang (2020). gentle: keeps what the encoder knows of one set of texts. tuned: more AP on WikiQA
    while labels are few (docs/recipes.md).
    records: --matcher on (docs/matcher.md). auto: one of these by the kind of task, and the command says which; paper
    where an option says how to learn: --training.…, --scoring.…, --matcher, or what a matcher cannot do.
    `--recipe tuned --help all` shows the values of tuned."""
