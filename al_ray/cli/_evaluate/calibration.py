"""What `jobs.evaluate --run` says of p: the reliability table and pictures, and thresholds that are chosen by it."""

from collections.abc import Sequence
from typing import Any

from al_ray.apps.reporting.plots.evaluation_plots import precision_recall_plot, reliability_plot
from al_ray.core.errors import BadOption
from al_ray.core.text_table import format_columns
from al_ray.metrics.calibration import Reliability
from al_ray.metrics.evaluation import Evaluation
from al_ray.metrics.thresholds import CHOSEN_ON, ChosenThreshold, Rule, choose_thresholds, parse_rule
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.files import write_pictures
from al_ray.storage.uri import StoragePath


def rules_of(words: Sequence[str], split: str) -> tuple[Rule, ...]:
    """The rules of --threshold-for; BadOption for one that says nothing, and for choosing on any split but dev."""
    rules = tuple(map(parse_rule, words))
    if rules and split != CHOSEN_ON:
        raise BadOption(
            f"--threshold-for chooses on --split {CHOSEN_ON} alone: what {split} chose, {split} cannot judge"
        )
    return rules


def thresholds(rules: Sequence[Rule], made: Evaluation, folder: RunFolder, number: int) -> list[dict[str, Any]]:
    """Choose, print, and keep in the round's scorer.json; as JSON holds them."""
    scorer, found = folder.model(number).scorer, choose_thresholds(rules, made)
    assert scorer is not None
    assert made.reliability is not None
    content = [one.as_dict(scorer, made) for one in found]
    about = {"split": made.split, "pairs": made.total_pairs, **made.reliability.as_dict()}
    folder.keep_calibration(number, about, content)
    for one in found:
        print(_line(one, made))
    print(f"kept in {folder.round(number) / 'model' / 'scorer.json'}")
    return content


def _line(one: ChosenThreshold, made: Evaluation) -> str:
    if one.cosine is None or one.precision is None or one.recall is None:
        if one.rule.kind == "costs":
            return f"{one.rule}: calling no pair a match costs least; no threshold"
        return f"{one.rule}: no threshold reaches it (the highest precision is {100 * made.curve.precision.max():.2f}%)"
    ends = f"95%: {100 * one.precision.low:.2f} to {100 * one.precision.high:.2f}"
    return (
        f"{one.rule}: cosine >= {one.cosine:.6f}, precision {100 * one.precision.value:.2f}% ({ends}), "
        f"recall {100 * one.recall:.2f}%"
    )


def told(summed: Reliability, made: Evaluation, out: StoragePath) -> None:
    """Print the errors and the table; draw it, and the curve, beside the evaluation's file."""
    print(f"calibration error: expected {summed.error:.3g}, L2 {summed.l2_error:.3g}")
    rows: list[tuple[str, ...]] = [("p from", "to", "pairs", "mean p", "share", "95% from", "to")]
    for row in summed.table():
        shares = (f"{number:.2g}" for number in (row.mean_p, row.share, row.share_low, row.share_high))
        rows.append((f"{row.low:.2g}", f"{row.high:.2g}", f"{row.weight:,.0f}", *shares))
    print(format_columns(rows))
    pictures = {
        "reliability": reliability_plot(summed.table()),
        "precision-recall": precision_recall_plot({made.split: made.curve}),
    }
    for name, files in pictures.items():
        write_pictures(out.parent / f"{name}-{made.split}", files)
        print(f"wrote {out.parent / f'{name}-{made.split}'}{{{','.join('.' + kind for kind in files)}}}")
