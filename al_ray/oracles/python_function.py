"""A user's Python function as the oracle.

    def label(left: list[str], right: list[str]) -> Sequence[answer]

returns an answer to each pair (left[i], right[i]): 1 or 0, True or False, None (unsure), or a word of pair_labels.py
such as "yes", "no", "match" or "unsure"; or (answer, confidence) with a confidence in 0..1. A function that knows the
cost of the call returns Reply(answers, cost).
"""

import inspect
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from al_ray.core.config.oracle import OracleConfig
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.oracles.calls import Outcome
from al_ray.oracles.replies import SHORT, ServiceFailed, Texts

Function = Callable[[list[str], list[str]], object]


class FunctionService:
    """A Python function that is called with left and right texts (replies.py: Service)."""

    fix, charges_by_pair = "fix the function or wait for its service", True

    def __init__(self, oracle: str, config: OracleConfig, earlier: float | None = None) -> None:
        """Load `oracle`, module:function, or raise BadOption; earlier: the highest cost of a pair so far, if any."""
        self.name, self.place, self.config = oracle, option("oracle", oracle), config
        self.function = function_of(oracle)
        # Expected cost of a pair: --cost-per-pair, or what one cost earlier; or more once a call cost more.
        known = earlier if config.cost_per_pair is None else config.cost_per_pair
        self.price, self.priced = known or 0.0, known is not None

    def ask(self, left: list[str], right: list[str]) -> object:
        """Call the function."""
        return self.function(left, right)

    def expected_cost(self, pairs: Sequence[Texts]) -> float:
        """Return the expected cost of a call: the same for each pair."""
        return len(pairs) * self.price

    def charge(self, cost: float | None, pairs: int) -> float:
        """Return what a call cost: --cost-per-pair each unless the function said a cost, which is then expected.

        ServiceFailed if neither is given, and --max-cost is.
        """
        if cost is None and self.config.cost_per_pair is None and isinstance(self.config.max_cost, int | float):
            raise ServiceFailed("it returned no cost, and `max_cost` needs it; give `cost_per_pair`, 0 if it is free")
        if cost is None:
            cost = pairs * (self.config.cost_per_pair or 0.0)
        self.price, self.priced = max(self.price, cost / pairs), True
        return cost

    def expire(self, pairs: Sequence[Texts], cost: float) -> None:
        """Do nothing: what a call cost is known from the ledger alone."""

    def seconds_between(self, pairs: Sequence[Texts]) -> float:
        """Return the seconds between calls that --calls-per-minute asks for."""
        return 0.0 if self.config.calls_per_minute is None else 60 / self.config.calls_per_minute


def function_of(oracle: str) -> Function:
    """Import the function that module:function names, from the current folder or installed; BadOption if that fails."""
    name, _, function = oracle.partition(":")
    current = str(Path.cwd())
    if not {"", current} & set(sys.path):
        sys.path.insert(0, current)
    with Outcome() as module:
        module.value = import_module(name)
    error, place = module.error, option("oracle", oracle)
    # The module itself is missing, not a module that it imports.
    if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
        raise BadOption(
            f"{place}: there is no module {error.name} in {current}, nor installed; change to its folder first"
        )
    if error is not None:
        raise BadOption(f"{place}: {name} fails when imported: {type(error).__name__}: {error}; fix it") from error
    value, fix = getattr(module.value, function, None), f"define: def {function}(left, right)"
    if not callable(value) or inspect.iscoroutinefunction(value):
        what = "none" if value is None else "async" if callable(value) else f"{SHORT.repr(value)}, no function"
        raise BadOption(f"{place}: {function} of {getattr(module.value, '__file__', name)} is {what}; {fix}")
    with Outcome() as fit:
        inspect.signature(value).bind([], [])
    # A ValueError comes from functions in C that do not state their parameters.
    if isinstance(fit.error, TypeError):
        raise BadOption(f"{place}: {function} does not take two lists of texts ({fit.error}); {fix}")
    return value
