"""A grid of runs: strategies x seeds x encoders x budgets as values, their names, and which must wait for which."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, get_args

from al_ray.core.config import MOST_LABELS, RunConfig, Strategy
from al_ray.core.errors import BadOption
from al_ray.core.limits import refuse_beyond

NEEDS: Mapping[str, str] = {"stratified-match": "uncertainty"}
"""Strategies that learn from another one's run of the same seed, encoder and budget, which goes before."""


@dataclass(frozen=True)
class Axes:
    """What a grid varies. budgets: total labels of a run; without one all runs have the rounds they were told."""

    strategies: tuple[str, ...]
    seeds: tuple[int, ...]
    encoders: tuple[str, ...]
    budgets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be, before any work."""
        named: tuple[tuple[str, Sequence[Any]], ...] = (
            ("--strategies", self.strategies),
            ("--seeds", self.seeds),
            ("--encoders", self.encoders),
            ("--budgets", self.budgets),
        )
        for name, values in named:
            if len(set(values)) < len(values):
                raise BadOption(f"{name} is {','.join(map(str, values))}; give each value once")
            if not values and name != "--budgets":
                raise BadOption(f"{name} is empty; give one value at least")
        unknown = [strategy for strategy in self.strategies if strategy not in get_args(Strategy)]
        if unknown:
            raise BadOption(f"--strategies has {', '.join(unknown)}; give some of {', '.join(get_args(Strategy))}")


@dataclass(frozen=True)
class Cell:
    """One run of a grid. group: its name without the seed; after: the name of the cell that goes before it, if any."""

    name: str
    group: str
    config: RunConfig
    after: str | None = None

    @property
    def labels(self) -> int:
        """The labels that it may buy."""
        return sum(self.config.batches)

    def as_dict(self) -> dict[str, Any]:
        """The cell as grid.json holds it."""
        return {
            "name": self.name,
            "strategy": self.config.strategy,
            "seed": self.config.seed,
            "encoder": self.config.encoder,
            "budget": self.labels,
            "after": self.after,
        }


def cells(config: RunConfig, axes: Axes, needs: Mapping[str, str] = NEEDS) -> tuple[Cell, ...]:
    """All runs of a grid, seed by seed, so that what is done of one that is broken off can be compared."""
    short = dict(zip(axes.encoders, shortened(axes.encoders), strict=True))
    made: list[Cell] = []
    for encoder, budget, seed in product(axes.encoders, axes.budgets or (None,), axes.seeds):
        tail = f"-{short[encoder]}" if len(axes.encoders) > 1 else ""
        tail += f"-b{budget}" if len(axes.budgets) > 1 else ""
        told = replace(config, encoder=encoder, seed=seed)
        told = told if budget is None else replace(told, first_batch=first_batch(told, budget))
        for strategy in axes.strategies:
            before = needs.get(strategy)
            if before is not None and before not in axes.strategies:
                raise BadOption(f"--strategies {strategy} learns from the runs of {before}; add {before}")
            after = None if before is None else f"{before}-s{seed}{tail}"
            # The config's own type is a Literal, which Axes has checked.
            run: RunConfig = replace(told, strategy=strategy)  # pyright: ignore[reportArgumentType]
            made.append(Cell(f"{strategy}-s{seed}{tail}", f"{strategy}{tail}", run, after))
    return tuple(made)


def first_batch(config: RunConfig, budget: int) -> int:
    """n_1: the largest first batch with which the rounds of a config do not exceed a budget of labels."""
    low, high = 0, min(budget, MOST_LABELS)
    while low < high:
        middle = (low + high + 1) // 2
        # In floats first: what is far beyond is refused as an option.
        within = middle * config.growth ** (config.rounds - 1) <= budget
        if within and sum(replace(config, first_batch=middle).batches) <= budget:
            low = middle
        else:
            high = middle - 1
    if not low:
        raise BadOption(
            f"--budgets has {budget}, which is less than {config.rounds} rounds buy with a first label of 1; "
            "give more, or fewer --rounds, or a smaller --growth"
        )
    return low


def phases(made: Sequence[Cell]) -> tuple[tuple[Cell, ...], ...]:
    """The cells in parts, each after the cells that its own ones go after: none waits while it holds a place."""
    depth: dict[str, int] = {}
    left = list(made)
    while left:
        ready = [cell for cell in left if cell.after is None or cell.after in depth]
        assert ready, "cells wait for each other"
        for cell in ready:
            depth[cell.name] = 0 if cell.after is None else depth[cell.after] + 1
        left = [cell for cell in left if cell.name not in depth]
    return tuple(
        tuple(cell for cell in made if depth[cell.name] == number)
        for number in range(max(depth.values(), default=-1) + 1)
    )


def shortened(names: Sequence[str]) -> tuple[str, ...]:
    """Names of encoders or their paths as parts of a file's name: the last word where that is enough, else all."""

    def worded(name: str) -> str:
        return re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")

    for found in ([worded(name.rstrip("/").rpartition("/")[2]) for name in names], [worded(name) for name in names]):
        if len(set(found)) == len(names) and all(found):
            return tuple(found)
    raise BadOption(f"--encoders {', '.join(names)} have names that are too much alike for folders; rename a folder")


@dataclass(frozen=True)
class GridConfig:
    """How a grid is worked through. No result depends on it."""

    concurrent: int | None = None
    """Runs at a time. When not given: on a cluster all that have room, else one for every --threads cores."""
    failures: int = 2
    """A run that fails, or whose process dies, is started again so often; it goes on after its last complete round."""

    mlflow: str | None = None
    """URI of an MLflow tracking server, such as http://127.0.0.1:5000: a run a cell, tagged with its configuration."""
    wandb: str | None = None
    """Project of Weights & Biases: a run a cell, grouped by configuration; WANDB_API_KEY names the account."""

    def __post_init__(self) -> None:
        """Refuse what cannot be, before any work."""
        refuse_beyond(((self.concurrent, "--concurrent", 1, 10_000), (self.failures, "--failures", 0, 1_000)))
