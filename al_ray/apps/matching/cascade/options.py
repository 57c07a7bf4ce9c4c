"""Options of match for an oracle that decides about uncertain pairs."""

from dataclasses import dataclass, field
from typing import Annotated

from al_ray.core.config.bounds import Between, Group
from al_ray.core.config.oracle import ORACLES, OracleConfig, oracle_name
from al_ray.core.errors import BadOption
from al_ray.core.naming import option
from al_ray.storage.uri import StoragePath

CASCADE = Group("oracle")
KINDS = ("llm", "model", "function")
"""The kinds of oracles that answer at once. People label matches by `al_ray.sample_matches`."""


@dataclass(frozen=True, kw_only=True)
class CascadeOptions:
    """Who decides about uncertain pairs in place of the model, which pairs are uncertain, and how many are asked."""

    oracle: Annotated[str | None, CASCADE] = None
    """Who decides about uncertain pairs: llm (a language model; docs/llm.md), model:PATH (a cross-encoder trained by
    the command train or augment), or module:function such as judge:label (your function). Default: nobody, so the model
    decides about all pairs (docs/match.md). Not with --into."""
    oracle_low: Annotated[float | None, CASCADE, Between(-2, 2)] = None
    """Lowest score of an uncertain pair; pairs below are no matches. Default: the score at which the model's p is
    0.2."""
    oracle_high: Annotated[float | None, CASCADE, Between(-2, 2)] = None
    """Lowest score of a sure match, which is not asked. Default: the threshold that was stored for a precision, one
    with a guarantee before others; without one the score at which the model's p is 0.8."""
    oracle_budget: Annotated[int, CASCADE, Between(0, 1_000_000)] = 100
    """Most pairs that are asked, those first whose answer is most likely to change the result. The model decides about
    the others, by the cutoff."""
    oracle_answers: Annotated[StoragePath | None, CASCADE] = None
    """Folder of the answers. No answer that is there is bought again, also for other tables with the same pairs of
    texts. Default: the folder `oracle` in that of the matches."""
    oracle_dry_run: Annotated[bool, CASCADE] = False
    """Print how many pairs would be asked and what that would cost at most; buy nothing and write no matches."""
    oracle_options: OracleConfig = field(default_factory=OracleConfig)
    """Calls of the oracle: their size and rate, retries, and what all answers in their folder may cost."""

    def check_oracle(self) -> None:
        """Raise BadOption for an oracle that cannot decide here, and for options that nobody would read."""
        plain, llm = CascadeOptions(), self.oracle_options.llm
        if self.oracle is None:
            for name in ("oracle_low", "oracle_high", "oracle_budget", "oracle_answers", "oracle_dry_run"):
                if getattr(self, name) != getattr(plain, name):
                    raise BadOption(f"`{name}` goes with `oracle`; add it, such as `oracle='llm'`, or leave it out")
            return
        name = oracle_name(self.oracle)
        if name not in KINDS:
            by_people = name is not None and ORACLES[name].people
            people = " (people label matches that `al_ray.sample_matches` draws)" * by_people
            raise BadOption(
                f"{option('oracle', self.oracle)} cannot decide about uncertain pairs; give llm, model:PATH, or "
                f"module:function{people}"
            )
        if llm.examples or llm.check_with:
            raise BadOption(
                "examples and check_with of LlmConfig need the labels of a run; leave them out of the options of a "
                "match"
            )
        if self.oracle_low is not None and self.oracle_high is not None and self.oracle_low >= self.oracle_high:
            raise BadOption(
                f"{option('oracle_low', self.oracle_low)} is not below {option('oracle_high', self.oracle_high)}, so "
                "no pair is uncertain; give a lower `oracle_low`"
            )

    @property
    def shows_costs(self) -> bool:
        """Whether nothing is bought, and what it would cost is shown."""
        return self.oracle_dry_run or self.oracle_options.llm.dry_run
