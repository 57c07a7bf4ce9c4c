"""Bounds of numeric options, written in the type of the field: `rounds: Annotated[int, Between(1, 10_000)] = 4`."""

from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, cast, get_type_hints

from al_ray.core.errors import BadOption


@dataclass(frozen=True)
class Between:
    """The lowest and the highest value of an option; None, or "none" for a limit, is always allowed."""

    low: float
    high: float

    def check(self, value: float | str | None, name: str) -> None:
        """Raise BadOption for a value beyond the bounds or not a number. name: of the option, with dots."""
        if isinstance(value, int | float) and not self.low <= value <= self.high:
            limit = f"at most {self.high:,.15g}" if value > self.high else f"at least {self.low:,.15g}"
            raise BadOption(f"`{name}` is {value}; give {limit}")


@dataclass(frozen=True)
class Group:
    """The heading of --help under which a single option stands; without one it is among the first options."""

    name: str


@dataclass(frozen=True)
class Rare:
    """The mark of an option that few people need: of the pages of help, only --help all shows it."""


RARE = Rare()
Lifted = Literal["none"]
"""The value of a limit that lifts the one of an earlier session."""
Seed = Annotated[int, Between(0, 2**63 - 1)]


@cache
def annotations(kind: Any) -> dict[str, tuple[Any, ...]]:
    """Return the metadata of the Annotated type of each field of a dataclass."""
    hints = get_type_hints(kind, include_extras=True)
    return {f.name: getattr(hints[f.name], "__metadata__", ()) for f in fields(kind)}


def check_bounds(config: Any, prefix: str = "") -> None:
    """Raise BadOption for a field that is not within its bounds or is not a number.

    Fields that are dataclasses are checked with their name as the prefix: training.epochs.
    """
    for name, extras in annotations(config.__class__).items():
        value: Any = getattr(config, name)
        if is_dataclass(value):
            check_bounds(cast(Any, value), f"{prefix}{name}.")
            continue
        for bound in extras:
            if isinstance(bound, Between):
                bound.check(value, f"{prefix}{name}")
