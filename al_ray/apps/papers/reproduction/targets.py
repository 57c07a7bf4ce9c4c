"""The paper's tables and figures, and what each needs: runs of grids, and cross-encoders trained on their labels."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.apps.grid.spec import NEEDS, Axes
from al_ray.core.labels import STATED

Target = Literal["table2", "table3", "table4", "table5", "table6", "figure3", "figure4"]
REFERENCE = "uncertainty"
"""The method that all others are compared with, query by query."""


@dataclass(frozen=True)
class Needs:
    """Requirements of a table or figure.

    title: what it shows. strategies: of runs with a retrieved seed set; seeded: of runs with a seed set of stated
    pairs (section 5.7); budgets: whether strategies that select all pairs at once are trained at every budget; concat:
    strategies on whose labels a cross-encoder is trained.
    """

    title: str
    strategies: tuple[str, ...] = ()
    seeded: tuple[str, ...] = ()
    budgets: bool = False
    concat: tuple[str, ...] = ()


TARGETS: Mapping[Target, Needs] = {
    "table2": Needs("models trained on the stated pairs", ("stated",), concat=("stated",)),
    "table3": Needs("results by strategy", ("random", "stated", "static", "adaptive", "uncertainty")),
    "table4": Needs("positives collected", ("random", "static", "adaptive", "uncertainty")),
    "table5": Needs("stratified sampling", ("stratified-match", "stratified-all", "adaptive", "uncertainty")),
    "table6": Needs(
        "cross-encoders trained on the collected labels",
        ("stated", "static", "stratified-match", "uncertainty"),
        concat=("stated", "static", "stratified-match", "uncertainty"),
    ),
    "figure3": Needs("seed sets, and calibration of batches", ("uncertainty",), seeded=("uncertainty",)),
    "figure4": Needs("average precision and positives by number of labels", ("static", "uncertainty"), budgets=True),
}


@dataclass(frozen=True)
class Part:
    """A grid that a target needs. name: of its folder; strategies: those that the target shows."""

    name: str
    config: RunConfig
    strategies: tuple[str, ...]


def parts(target: Target, config: RunConfig) -> tuple[Part, ...]:
    """Return the grids of a target. config: the options that its runs have in common.

    Runs with other options are in another grid, so that targets share runs.
    """
    needs = TARGETS[target]
    apart = needs.budgets and not config.train_every_budget
    plain = tuple(one for one in needs.strategies if STRATEGIES[one].uses_model or not apart)
    once = tuple(one for one in needs.strategies if one not in plain)
    grids = (
        Part("grid", config, plain),
        Part("grid-every-budget", replace(config, train_every_budget=True), once),
        Part("grid-stated-seed", replace(config, seeding="stated"), needs.seeded),
    )
    return tuple(part for part in grids if part.strategies)


def extended_axes(part: Part, seeds: tuple[int, ...], there: Axes | None) -> Axes:
    """Return the axes of a part's grid: its strategies, their dependencies, and what the folder already has."""
    strategies: list[str] = list(there.strategies) if there else []
    for strategy in part.strategies:
        strategies += [NEEDS[strategy], strategy] if strategy in NEEDS else [strategy]
    known = there.seeds if there else ()
    return Axes(tuple(dict.fromkeys(strategies)), tuple(dict.fromkeys((*known, *seeds))), (part.config.encoder,))


def labels_of(strategy: str, run: str) -> str:
    """Return the --labels option of jobs.train for a strategy: its run folder, or `stated`."""
    return STATED if STRATEGIES[strategy].takes_all_stated else run
