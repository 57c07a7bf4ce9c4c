"""Thresholds that an audit promises, and what a second draw of labels would bring.

Nothing is written unless every rule can be promised: a threshold without its promise would mean something else.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from al_ray.apps.audit.calibration import parse_precision_rules
from al_ray.apps.audit.folder import Record
from al_ray.core.errors import BadOption
from al_ray.core.labels import NO, YES
from al_ray.core.naming import call, option, options_of, run_at
from al_ray.core.rng import generator
from al_ray.core.scorer import Scorer
from al_ray.metrics.audit.guarantee import MeldedLimits, Promise, cut_samples, promise
from al_ray.metrics.audit.score_bands import BandAudit
from al_ray.metrics.audit.second_draw import Outlook, outlook
from al_ray.metrics.thresholds import Rule, parse_rule

SecondDraw = Callable[[int], str]
"""Returns the call that draws this many more pairs."""
ABOUT = {
    "precision": "precision",
    "recall": "recall over all pairs",
    "ranked-recall": "share of the matches among the ranked pairs",
}


def parse_rules(texts: Sequence[str]) -> tuple[Rule, ...]:
    """Parse the rules of `threshold_for`; BadOption for one without a guarantee that is not of a precision."""
    rules = tuple(map(parse_rule, texts))
    parse_precision_rules([str(rule) for rule in rules if rule.guarantee is None])
    return rules


def choose_promised(audit: BandAudit, record: Record, rule: Rule, second_draw: SecondDraw) -> dict[str, Any]:
    """Return the threshold that a rule promises, as scorer.json holds it; BadOption if no threshold can be promised.

    promised: what is promised with the confidence `guarantee`: the target, or for costs what is saved. precision and
    recall_of_ranked: estimates at the threshold, whose intervals are about this threshold alone. second_draw: what more
    labels above the crossing would bring; None if that is little. second_draw: returns the call that draws that many.
    """
    assert rule.guarantee is not None
    rng, alpha = generator(record.asked.seed, f"audit-guarantee-{rule}"), 1 - rule.guarantee
    of_promise, of_estimate, of_outlook = rng.spawn(3)
    promised = promise(cut_samples(audit), rule, alpha, MeldedLimits(of_promise))
    at = None if promised is None else audit.at(promised.threshold, of_estimate)
    within = None if at is None or at.recall_of_reach is None else at.recall_of_reach.value
    # Where a promised threshold has an unknown recall, nobody knows what more labels would gain.
    known = at is None or within is not None
    more = outlook(audit, rule, alpha, within or 0.0, of_outlook) if rule.kind == "precision" and known else None
    if promised is None or at is None:
        raise BadOption(_refusal(audit, record, rule, second_draw, more))
    scorer, cosine = record.scorer, promised.threshold
    return {
        "rule": str(rule),
        "cosine": cosine,
        **({} if scorer is None or not scorer.matcher else {"p": scorer.shown(cosine)}),
        "logit": None if scorer is None else float(scorer.logit(np.array([cosine]))[0]),
        "precision": None if at.precision is None else at.precision.as_dict(),
        "recall": None,
        "recall_of_ranked": None if at.recall_of_reach is None else at.recall_of_reach.as_dict(),
        "split": record.asked.split,
        "pairs": audit.total,
        "source": "audit",
        "labels": int(np.isin(audit.labels, (NO, YES)).sum()),
        "guarantee": rule.guarantee,
        "promised": _promised(rule, promised),
        "second_draw": None if more is None or not more.worthwhile else vars(more),
    }


def _promised(rule: Rule, promised: Promise) -> dict[str, float]:
    return {"saving" if rule.kind == "costs" else rule.kind: promised.value}


def format_promise(content: Mapping[str, Any], scorer: Scorer | None, second_draw: SecondDraw) -> list[str]:
    """Format a promised threshold, and a second draw that would gain recall; content: as `choose_promised` returns."""
    cosine = content["cosine"]
    words = f"cosine >= {cosine:.6f}" if scorer is None else scorer.threshold_words(cosine)
    ((kind, value),) = content["promised"].items()
    sure = f"with {100 * content['guarantee']:g}% confidence"
    if kind == "saving":
        what = f"saves at least {value:,.4g} {sure}, compared with calling no pair a match"
    else:
        what = f"{ABOUT[kind]} at least {100 * value:g}% {sure}"
    estimates = {"precision": content["precision"], "matches among the ranked pairs": content["recall_of_ranked"]}
    shares = [
        f"{name} unknown" if one is None else f"{name} {100 * one['value']:.1f}%" for name, one in estimates.items()
    ]
    lines = [f"{content['rule']}: {words}; {what}; estimates there: {', '.join(shares)}"]
    more = content["second_draw"]
    if more is not None:
        lines.append(f"  {_gain(Outlook(**more), scorer)}: {second_draw(more['labels'])}")
    return lines


def _down_to(more: Outlook, scorer: Scorer | None) -> str:
    """Say where a second draw is, as the scores that users see."""
    name = "p" if scorer is not None and scorer.matcher else "scores"
    shown = more.threshold if scorer is None else scorer.shown(more.threshold)
    return f"{name} of {shown:.4f} and above"


def _gain(more: Outlook, scorer: Scorer | None) -> str:
    return (
        f"{more.labels:,} more labels at {_down_to(more, scorer)} would probably raise the share of "
        f"the ranked matches that is promised from {more.now:.2f} to {more.then:.2f}"
    )


def _refusal(audit: BandAudit, record: Record, rule: Rule, second_draw: SecondDraw, more: Outlook | None) -> str:
    """Say why no threshold is promised, and what to do about it."""
    assert rule.guarantee is not None
    labels = int(np.isin(audit.labels, (NO, YES)).sum())
    sure = option("guarantee", rule.guarantee)
    none = f"{sure}: no threshold can be promised for {rule.target} with {labels:,} labels"
    # Less than half of one percent is 0% as it is printed.
    if more is not None and more.then >= 0.005:
        return (
            f"{none}; {more.labels:,} more at {_down_to(more, record.scorer)} would probably be enough, for "
            f"{100 * more.then:.0f}% of the ranked matches: {second_draw(more.labels)}"
        )
    if rule.kind == "precision":
        return f"{none}, and the estimate reaches it nowhere or hardly; give a lower precision, or train the model on"
    if rule.kind == "recall" and audit.total > audit.reach:
        return f"{none}: {_beyond(audit, rule)}; or promise ranked-recall={rule.numbers[0]:g} of the ranked pairs"
    if rule.kind == "costs":
        return (
            f"{none}: it is not sure that any saves more than calling no pair a match; draw an audit with more labels"
        )
    return (
        f"{none}; draw an audit with a smaller `AuditConfig.top`, whose ranked pairs hold fewer unseen matches, or a "
        "larger `AuditConfig.budget`"
    )


def _beyond(audit: BandAudit, rule: Rule) -> str:
    """Say how many labels of the rest would be needed: all of them no, for as many unseen matches as recall allows.

    With n labels, all no, at most size * ln(1 / alpha) / n of the rest match.
    """
    assert rule.guarantee is not None
    rest = audit.total - audit.reach
    near = sum(part.size * part.share for part in audit.parts(0, audit.reach) if part.answered)
    found = near + float((audit.known_labels == YES).sum())
    spare, share = found * (1 - rule.numbers[0]) / rule.numbers[0], -np.log(1 - rule.guarantee)
    needed = min(rest, int(np.ceil(rest * share / spare))) if spare > 0 else rest
    return f"{rest:,} pairs are not ranked, and about {needed:,} labels of them, all no, would be needed"


def second_draw_of(run: str, path: str, record: Record, rule: Rule, last: bool) -> SecondDraw:
    """Return what returns the call of a second draw; last: whether the audited round is the run's last one."""
    names = (f"{path}-second", *(f"{path}-second-{number}" for number in range(2, 1000)))
    out = next(name for name in names if not Path(name).exists())

    def second_draw(labels: int) -> str:
        return call(
            "sample_audit", run=run_at(run), config=options_of(
                "AuditConfig", split=record.asked.split, round=None if last else record.asked.round, by_score=True,
                after=path, threshold_for=rule.target, budget=labels,
            ), out=out,
        )  # fmt: skip

    return second_draw
