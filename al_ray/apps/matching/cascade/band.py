"""Which scores are uncertain: from the options, what is stored with the model, and its p."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from al_ray.apps.matching.assignment_rules import Cutoff
from al_ray.apps.matching.model import MatchingModel
from al_ray.apps.matching.options import MatchOptions
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.naming import Code, option
from al_ray.core.scorer import Scorer
from al_ray.metrics.thresholds import parse_rule

LOW, HIGH = 0.2, 0.8
"""p of the model at the borders that nothing else gives: nearer to 0 and 1 an oracle that errs is wrong more often than
the model (docs/match.md)."""


@dataclass(frozen=True)
class Band:
    """Scores, as users see them: pairs at `high` or above are matches of the model, and those below `low` are none.

    In between an oracle is asked; the model decides about the rest there: a match has at least the score `cutoff`.
    sources: what gave low and high.
    """

    low: float
    high: float
    cutoff: float
    sources: tuple[str, str]


def choose_band(options: MatchOptions, model: MatchingModel, cutoff: Cutoff) -> Band | None:
    """Return the band of uncertain scores; None without an oracle.

    A border that no option gives is moved to the cutoff if that lies beyond it. Without a cutoff, of a rule of best
    edges, `low` takes its place. BadOption for a cutoff beyond a border that was given, and for a border that the model
    cannot give.
    """
    if options.oracle is None:
        return None
    if options.best is not None:
        raise BadOption("`best=N` has no cutoff that an oracle could be asked around; leave out `best`, or `oracle`")
    if options.search.kind != "exact":
        raise BadOption("`oracle` asks about the pairs of exact search; leave out `search.kind`, or `oracle`")
    low, low_source = options.oracle_low, "`oracle_low`"
    high, high_source = options.oracle_high, "`oracle_high`"
    if high is None:
        high, high_source = _stored_precision(model) or _at(HIGH, model, "oracle_high")
        high = max(high, cutoff.score)
    if low is None:
        low, low_source = _at(LOW, model, "oracle_low")
        low = min(low, cutoff.score) if cutoff.score > -inf else low
    if low >= high:
        raise BadOption(
            f"no score is uncertain: {low_source} is {low:.4g}, and {high_source} is {high:.4g}; give "
            "`oracle_low=S` and `oracle_high=S`"
        )
    if cutoff.score > -inf and not low <= cutoff.score <= high:
        raise BadOption(
            f"the cutoff {cutoff.score:.4g} ({cutoff.source}) is not among the uncertain scores {low:.4g} to "
            f"{high:.4g}; give other `oracle_low` and `oracle_high`, or another cutoff"
        )
    return Band(low, high, max(low, cutoff.score), (low_source, high_source))


def _stored_precision(model: MatchingModel) -> tuple[float, str] | None:
    """Return the stored threshold of the highest precision, those with a guarantee first; None if there is none."""
    stored = [(parse_rule(name), one) for name, one in model.thresholds.items() if name.startswith("precision=")]
    # Of a rule that no threshold satisfies there is none.
    found = [(rule, one) for rule, one in stored if one.get("cosine") is not None]
    if not found:
        return None
    rule, chosen = max(found, key=lambda pair: (pair[0].guarantee is not None, pair[0].numbers))
    return _score_in(chosen, model), f"the stored threshold of {rule}"


def _score_in(stored: Mapping[str, Any], model: MatchingModel) -> float:
    score = stored.get("cosine")
    if not isinstance(score, int | float):
        raise BadFile(f"{model.path} has a threshold whose cosine is not a number; choose it again")
    return float(score) - model.lowest_p


def _at(p: float, model: MatchingModel, name: str) -> tuple[float, str]:
    """Return the score at which the model has this p, a probability only if it is calibrated."""
    scorer = model.calibrated or model.model.scorer
    assert scorer is not None
    if model.model.matcher is not None and model.calibrated is None:
        return p, f"p = {p:g}"
    score = scorer.score_at(p) if _rises(scorer) else inf
    if not isfinite(score):
        raise BadOption(
            f"{model.path} has no score at which its p is {p:g} ({scorer.outcome}); give {option(name, Code('S'))}"
        )
    shown = score - model.lowest_p
    # Only candidates of a matcher match, and those of the least score have p = 0.
    return max(shown, 0.0) if model.model.matcher is not None else shown, f"p = {p:g}"


def _rises(scorer: Scorer) -> bool:
    return scorer.matcher or scorer.weight > 0
