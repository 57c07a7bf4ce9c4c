"""The paper's tables and figures as what each needs: runs of a grid, and concatenation models of their labels."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from al_ray.core.config import RunConfig
from al_ray.core.grid import NEEDS, Axes
from al_ray.core.supervised import STATED

Target = Literal["table2", "table3", "table4", "table5", "table6", "figure3", "figure4"]
REFERENCE = "uncertainty"
"""The method that all others are held against, question by question."""


@dataclass(frozen=True)
class Needs:
    """What a table or figure is made of.

    strategies: of runs seeded by retrieval; seeded: of runs seeded by stated pairs (5.7); budgets: whether those that
    buy at once are trained at every budget; concat: whose labels a concatenation model is trained on.
    """

    strategies: tuple[str, ...] = ()
    seeded: tuple[str, ...] = ()
    budgets: bool = False
    concat: tuple[str, ...] = ()


TARGETS: Mapping[Target, Needs] = {
    "table2": Needs(("stated",), concat=("stated",)),
    "table3": Needs(("random", "stated", "static", "adaptive", "uncertainty")),
    "table4": Needs(("random", "static", "adaptive", "uncertainty")),
    "table5": Needs(("stratified-match", "stratified-all", "adaptive", "uncertainty")),
    "table6": Needs(
        ("stated", "static", "stratified-match", "uncertainty"),
        concat=("stated", "static", "stratified-match", "uncertainty"),
    ),
    "figure3": Needs(("uncertainty",), seeded=("uncertainty",)),
    "figure4": Needs(("static", "uncertainty"), budgets=True),
}


@dataclass(frozen=True)
class Part:
    """A grid that a target needs. name: of its folder; strategies: those of its runs that the target shows."""

    name: str
    config: RunConfig
    strategies: tuple[str, ...]


def parts(target: Target, config: RunConfig) -> tuple[Part, ...]:
    """The grids of a target, given the options that its runs have in common.

    Runs of other options are in a grid of their own, so what one target bought serves the next.
    """
    needs = TARGETS[target]
    apart = needs.budgets and not config.train_every_budget
    plain = tuple(one for one in needs.strategies if not (apart and one not in (REFERENCE, "adaptive")))
    once = tuple(one for one in needs.strategies if one not in plain)
    found = (
        Part("grid", config, plain),
        Part("grid-every-budget", replace(config, train_every_budget=True), once),
        Part("grid-stated-seed", replace(config, seeding="stated"), needs.seeded),
    )
    return tuple(part for part in found if part.strategies)


def grown(part: Part, seeds: tuple[int, ...], there: Axes | None) -> Axes:
    """The axes of a part's grid: what it shows, what that waits for, and all that the folder has already."""
    wanted: list[str] = list(there.strategies) if there else []
    for strategy in part.strategies:
        wanted += [NEEDS[strategy], strategy] if strategy in NEEDS else [strategy]
    known = there.seeds if there else ()
    return Axes(tuple(dict.fromkeys(wanted)), tuple(dict.fromkeys((*known, *seeds))), (part.config.encoder,))


def labels_of(strategy: str, run: str) -> str:
    """What jobs.train --labels says for the labels of a strategy: those of its run, but for the stated ones."""
    return STATED if strategy == "stated" else run
