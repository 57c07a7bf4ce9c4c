"""Thresholds chosen on an evaluation, and its calibration as a table and plots."""

from collections.abc import Sequence
from typing import Any

from al_ray.api.evaluation_pictures import write_plots
from al_ray.api.evaluation_values import Evaluation, Reliability, Scorer
from al_ray.api.files import StoragePath
from al_ray.api.run_reading import Run
from al_ray.api.thresholds import CHOSEN_ON, ChosenThreshold, Rule, choose_all, keep_thresholds, parse_rule
from al_ray.core.errors import BadOption
from al_ray.core.text_table import format_columns, format_probability


def parse_rules(texts: Sequence[str], split: str) -> tuple[Rule, ...]:
    """Parse the rules of --threshold-for; BadOption for a bad rule, and for any split but dev."""
    rules = tuple(map(parse_rule, texts))
    for rule in rules:
        if rule.kind == "ranked-recall":
            raise BadOption(f"--threshold-for {rule.target}: ranked pairs are those of an audit; give recall=R")
    if rules and split != CHOSEN_ON:
        raise BadOption(
            f"--threshold-for chooses on --split {CHOSEN_ON} alone, so that {split} stays unseen; give that, "
            f"or draw an audit of {split} (jobs.audit sample --by-score) and jobs.audit estimate --threshold-for"
        )
    return rules


def choose_and_write(rules: Sequence[Rule], evaluation: Evaluation, run: Run, number: int) -> list[dict[str, Any]]:
    """Choose thresholds, print them, and write them to the round's scorer.json; return them as JSON values."""
    thresholds, scorer = choose_all(rules, evaluation), run.folder.model(number).scorer
    content = keep_thresholds(thresholds, evaluation, run.folder, number)
    assert scorer is not None
    for one in thresholds:
        print(_line(one, evaluation, scorer))
    print(f"wrote {run.folder.round(number) / 'model' / 'scorer.json'}")
    return content


def _line(one: ChosenThreshold, evaluation: Evaluation, scorer: Scorer) -> str:
    if one.cosine is None or one.precision is None or one.recall is None:
        if one.rule.kind == "costs":
            return f"{one.rule}: calling no pair a match costs least; no threshold"
        most = 100 * evaluation.curve.precision.max()
        return f"{one.rule}: no threshold reaches it (the highest precision is {most:.2f}%)"
    interval = f"95%: {100 * one.precision.low:.2f} to {100 * one.precision.high:.2f}"
    return (
        f"{one.rule}: {scorer.threshold_words(one.cosine)}, precision {100 * one.precision.value:.2f}% ({interval}), "
        f"recall {100 * one.recall:.2f}%{_promise(one, evaluation)}"
    )


def _promise(one: ChosenThreshold, evaluation: Evaluation) -> str:
    """Say what is promised, and why it holds; nothing without a guarantee."""
    if one.promised is None or one.rule.guarantee is None:
        return ""
    costs = one.rule.kind == "costs"
    what = f"saves at least {one.promised:,.4g}" if costs else f"at least {100 * one.promised:g}%"
    if evaluation.exact:
        return f"; promised: {what}, as every pair was counted"
    if one.rule.kind == "recall":
        return f"; promised: {what}, as every match was counted"
    return f"; promised: {what}, with {100 * one.rule.guarantee:g}% confidence"


def print_reliability(reliability: Reliability, evaluation: Evaluation, out: StoragePath, by_scores: str) -> None:
    """Print calibration errors and the reliability table; write plots of it and of the curve beside `out`.

    by_scores: the part of their names that tells of scores other than the run's own.
    """
    print(f"calibration error: expected {reliability.error:.3g}, L2 {reliability.l2_error:.3g}")
    rows: list[tuple[str, ...]] = [("p from", "to", "pairs", "mean p", "share", "95% from", "to")]
    for row in reliability.table():
        numbers = (row.low, row.high, row.mean_p, row.share, row.share_low, row.share_high)
        low, high, *shares = (format_probability(number, 2) for number in numbers)
        rows.append((low, high, f"{row.weight:,.0f}", *shares))
    print(format_columns(rows))
    for path, kinds in write_plots(reliability, evaluation, out.parent, by_scores):
        print(f"wrote {path}{{{','.join('.' + kind for kind in kinds)}}}")
