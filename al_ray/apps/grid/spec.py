"""A grid of runs: strategies x seeds x encoders x budgets, the names of its cells, and their dependencies."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import index
from typing import Annotated, Any

from al_ray.active_learning.config import MOST_LABELS, RunConfig
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.core.config.bounds import Between, check_bounds
from al_ray.core.config.trackers import TrackerOptions
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.naming import option
from al_ray.storage.files import read_json
from al_ray.storage.uri import StoragePath

NEEDS: Mapping[str, str] = {name: one.matches for name, one in STRATEGIES.items() if one.matches}
"""Strategy -> the strategy whose run of the same seed, encoder and budget it needs, and which therefore runs first."""


@dataclass(frozen=True)
class Axes:
    """The options that a grid varies. budgets: total labels of a run; if empty, runs keep their `first_batch`."""

    strategies: tuple[str, ...]
    seeds: tuple[int, ...]
    encoders: tuple[str, ...]
    budgets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Validate options; a range, or integers of NumPy, become a tuple of integers."""
        for name in ("seeds", "budgets"):
            object.__setattr__(self, name, tuple(map(index, getattr(self, name))))
        for name, values in vars(self).items():
            if len(set(values)) < len(values):
                raise BadOption(f"`{name}` is {','.join(map(str, values))}; give each value once")
            if not values and name != "budgets":
                raise BadOption(f"`{name}` is empty; give one value at least")
        unknown = [strategy for strategy in self.strategies if strategy not in STRATEGIES]
        if unknown:
            raise BadOption(f"`strategies` has {', '.join(unknown)}; give some of {', '.join(STRATEGIES)}")


@dataclass(frozen=True)
class Cell:
    """One run of a grid. group: its name without the seed; after: name of the cell that it depends on, if any."""

    name: str
    group: str
    config: RunConfig
    after: str | None = None

    @property
    def labels(self) -> int:
        """Return the number of labels of the run."""
        return sum(self.config.batches)

    def as_dict(self) -> dict[str, Any]:
        """Return the cell as in grid.json."""
        axes = {name: getattr(self.config, name) for name in ("strategy", "seed", "encoder")}
        return {"name": self.name, **axes, "budget": self.labels, "after": self.after}


def cells(config: RunConfig, axes: Axes, needs: Mapping[str, str] = NEEDS) -> tuple[Cell, ...]:
    """Return all runs of a grid, seed by seed: then an interrupted grid has complete seeds to compare."""
    short = dict(zip(axes.encoders, short_names(axes.encoders), strict=True))
    grid_cells: list[Cell] = []
    for encoder, budget, seed in product(axes.encoders, axes.budgets or (None,), axes.seeds):
        tail = f"-{short[encoder]}" if len(axes.encoders) > 1 else ""
        tail += f"-b{budget}" if len(axes.budgets) > 1 else ""
        base = replace(config, encoder=encoder, seed=seed)
        base = base if budget is None else replace(base, first_batch=first_batch(base, budget))
        for strategy in axes.strategies:
            before = needs.get(strategy)
            if before is not None and before not in axes.strategies:
                raise BadOption(f"{option('strategies', strategy)} learns from the runs of {before}; add {before}")
            after = None if before is None else f"{before}-s{seed}{tail}"
            run = replace(base, strategy=strategy)
            grid_cells.append(Cell(f"{strategy}-s{seed}{tail}", f"{strategy}{tail}", run, after))
    return tuple(grid_cells)


def first_batch(config: RunConfig, budget: int) -> int:
    """Return the largest first batch n_1 with which all rounds together stay within a budget of labels.

    BadOption if even n_1 = 1 exceeds it.
    """
    low, high = 0, min(budget, MOST_LABELS)
    while low < high:
        middle = (low + high + 1) // 2
        # In floats first: `replace` refuses a config with far too many labels.
        within = middle * config.growth ** (config.rounds - 1) <= budget
        if within and sum(replace(config, first_batch=middle).batches) <= budget:
            low = middle
        else:
            high = middle - 1
    if not low:
        raise BadOption(
            f"`budgets` has {budget}, which is less than {config.rounds} rounds label with a first batch of 1; "
            "give more, or fewer `rounds`, or a smaller `growth`"
        )
    return low


def phases(grid_cells: Sequence[Cell]) -> tuple[tuple[Cell, ...], ...]:
    """Group cells into phases: the dependencies of a cell are in earlier phases, so none waits with resources held."""
    depth: dict[str, int] = {}
    left = list(grid_cells)
    while left:
        ready = [cell for cell in left if cell.after is None or cell.after in depth]
        assert ready, "cells wait for each other"
        for cell in ready:
            depth[cell.name] = 0 if cell.after is None else depth[cell.after] + 1
        left = [cell for cell in left if cell.name not in depth]
    return tuple(
        tuple(cell for cell in grid_cells if depth[cell.name] == number)
        for number in range(max(depth.values(), default=-1) + 1)
    )


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return encoder names or paths as parts of a file name: the last component if these differ, else all of it.

    BadOption if they are equal even so.
    """

    def cleaned(name: str) -> str:
        return re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")

    for short in ([cleaned(name.rstrip("/").rpartition("/")[2]) for name in names], [cleaned(name) for name in names]):
        if len(set(short)) == len(names) and all(short):
            return tuple(short)
    raise BadOption(f"`encoders` {', '.join(names)} have names that are too much alike for folders; rename a folder")


@dataclass(frozen=True)
class Scheduling:
    """Scheduling of a grid. Results do not depend on it."""

    concurrent: Annotated[int | None, Between(1, 10_000)] = None
    """Maximum number of concurrent runs. Default: on a cluster all that fit, else one for every --threads cores."""
    failures: Annotated[int, Between(0, 1_000)] = 2
    """How often a failed run is restarted; it resumes after its last complete round."""

    def __post_init__(self) -> None:
        """Validate options."""
        check_bounds(self)


@dataclass(frozen=True)
class GridConfig(TrackerOptions, Scheduling):
    """Scheduling and tracking of a grid. Results do not depend on it."""


def read_grid_file(path: StoragePath) -> dict[str, Any]:
    """Return the axes and options of a grid file: TOML, or JSON as in grid.json; BadFile for anything else."""
    fix = "give a TOML file, or a grid.json"
    try:
        is_json = path.name.endswith(".json")
        content = read_json(path, (), fix) if is_json else tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadFile(f"{path} cannot be read ({error}); {fix}") from error
    if not isinstance(content, dict) or not all(
        isinstance(content.get(name, {}), dict) for name in ("axes", "options")
    ):
        raise BadFile(f"{path} has no tables axes and options; see docs/grid.md")
    unknown = sorted(set(content) - {"axes", "options", "cells", "task_digest"})
    if unknown:
        raise BadFile(f"{path} has {', '.join(unknown)}; a grid file has [axes] and [options]")
    return {name: content.get(name, {}) for name in ("axes", "options")}
