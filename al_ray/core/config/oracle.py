"""Options of the oracle: the words that name one, and how a Python function is called for labels."""

from dataclasses import dataclass
from typing import Annotated

from al_ray.core.config.bounds import Between, Lifted, check_bounds

MODEL = "model:"
"""Before the path of a cross-encoder that is the oracle."""
# Seconds: no wait between tries is longer, however often a call has failed.
LONGEST_WAIT = 60.0


@dataclass(frozen=True)
class OracleConfig:
    """Calls of `--oracle module:function`: their size and rate, retries, and what labels may cost."""

    pairs_per_call: Annotated[int, Between(1, 1_000_000)] = 16
    """Pairs per call of --oracle module:function; answers are stored before the next call."""
    calls_per_minute: Annotated[float | None, Between(0.001, 1e6)] = None
    """Maximum rate of calls; no limit when not given."""
    retries: Annotated[int, Between(0, 100)] = 5
    """How often a pair is asked again after a failed call or an unreadable answer, before the run stops."""
    retry_seconds: Annotated[float, Between(0, LONGEST_WAIT)] = 1.0
    """Longest wait after a failed call, in seconds; it doubles with every failure of the same pairs, up to 60 s."""
    call_timeout: Annotated[float, Between(0.001, 1e6)] = 120.0
    """Seconds after which a call counts as failed."""
    # Costs are kept in the run folder (limits.json, runs/limits.py) and hold until another value is given.
    cost_per_pair: Annotated[float | None, Between(0, 1e9)] = None
    """Cost of asking one pair, in any currency, if the function does not return a cost. Default: as before, else 0."""
    max_cost: Annotated[float | Lifted | None, Between(1e-9, 1e12)] = None
    """Stop before a call that would raise the total cost of the run's labels above this. It holds in later sessions
    too: give a higher value to go on, or none to lift it. Default: as before, else no limit."""

    def __post_init__(self) -> None:
        """Raise BadOption for a value out of bounds."""
        check_bounds(self)


def names_oracle(word: str) -> bool:
    """Return whether a word is simulated, file, model:PATH or module:function."""
    if word.startswith(MODEL):
        return bool(word.removeprefix(MODEL).strip()) and "\0" not in word
    module, _, function = word.partition(":")
    dotted = all(part.isidentifier() for part in module.split("."))
    return word in ("simulated", "file") or (dotted and function.isidentifier())
