"""The command plan: python -m jobs.plan --texts 1000000 --dim 384 --gpus 8

--measure measures the speeds of this machine (a minute or two). Speeds that nobody has measured are marked.
"""

import sys
from dataclasses import dataclass
from typing import Annotated

import al_ray
from al_ray.cli._shared.blocks import Block
from al_ray.cli._shared.called import as_called
from al_ray.cli._shared.entry import parse_options
from al_ray.cli._shared.recipe import recipe_defaults, recipe_unless_chosen

# Nothing of a plan depends on them.
WITHOUT = (
    *("search.least_recall", "search.ordered_pairs", "training.worst_loss", "training.tries", "most_unknown"),
    *("choose_ahead", "candidates.presumed", "candidates.least_recall"),
)


@dataclass(frozen=True, kw_only=True)
class PlanCommand:
    """Memory, time and cost of a run, before anything starts. Sizes are numbers of texts."""

    plan: Annotated[al_ray.PlanOptions, Block(without=WITHOUT, merged=True)]
    """The options of the run, and the sizes of its task."""


OPTIONS = PlanCommand


def main() -> None:
    """Parse the options, measure or read speeds, and print the plan."""
    arguments = sys.argv[1:]
    description = "Memory, time and cost of a run, before anything starts."
    defaults = recipe_defaults(arguments) or recipe_unless_chosen(arguments)
    # Before al_ray.plan is looked up, which imports torch: help needs none.
    options = parse_options(OPTIONS, "plan", description, arguments, defaults)
    print(as_called(str(al_ray.plan(options.plan))))
