"""Tables by round or by number of labels: AP (Figure 4a), batches (Figure 3b), seconds by stage, index recall."""

from collections.abc import Sequence

from al_ray.active_learning.method import Method
from al_ray.apps.reporting.run_records import Run, Setting, stage_seconds, stages_of
from al_ray.apps.reporting.tables.table import NOTHING, SPREAD, Row, Table, by_method, left_out, percents, seeds


def by_labels(setting: Setting, tag: str, split: str) -> Table | None:
    """Return AP after every round, a row for each number of labels; None without an evaluation on the split."""
    complete = [run for run in setting.runs if not run.trouble]
    steps = sorted({one.labels for run in complete for one in run.rounds if split in one.splits})
    if not steps:
        return None
    rows: list[Row] = []
    for labels in steps:
        rows.append(Row((f"{labels:,}", *(_at(setting.of(method), split, labels) for method in setting.methods))))
    head = ("labels", *(f"{setting.name(method)} ({seeds(setting, method)})" for method in setting.methods))
    brackets = "In brackets: the number of these runs, or of those with an evaluation at that number of labels."
    notes = (f"{SPREAD} {brackets}", *left_out(setting.runs))
    return Table(f"{tag}-labels-{split}", f"AP % on {split} by number of labels (Figure 4a)", head, tuple(rows), notes)


def batches(setting: Setting, tag: str) -> Table | None:
    """Return the share of positives in each batch that a trained model chose, and its mean p (Figure 3b as numbers)."""
    numbers = sorted({one.number for run in setting.runs for one in run.rounds if one.batch_p is not None})
    if not numbers:
        return None
    figures: dict[Method, tuple[str, ...]] = {}
    for method in setting.methods:
        of_round = [
            [
                one
                for run in setting.of(method)
                for one in run.rounds
                if one.number == number and one.batch_p is not None
            ]
            for number in numbers
        ]
        shares = [[one.batch_positives / one.batch for one in batch if one.batch] for batch in of_round]
        means = [percents([one.batch_p for one in batch]) for batch in of_round]
        pairs = zip(shares, means, strict=True)
        figures[method] = tuple(NOTHING if not share else f"{percents(share)} at {mean}" for share, mean in pairs)
    head = ("method", "seeds", *(f"round {number}" for number in numbers))
    notes = ("a at b: a% of the pairs in the batch are positive; the model that chose them gave them a mean p of b%.",)
    title = "Calibration of batches: positives % at mean p % (Figure 3b)"
    return Table(f"{tag}-batches", title, head, by_method(setting, figures, len(numbers)), notes, 2)


def seconds(setting: Setting, tag: str) -> Table:
    """Return the mean seconds of a complete run by stage."""
    parts = {method: stage_seconds(setting.of(method)) for method in setting.methods}
    stages = stages_of(list(parts.values()))
    figures = {
        method: (*(f"{times.get(stage, 0.0):,.0f}" for stage in stages), f"{sum(times.values()):,.0f}")
        for method, times in parts.items()
        if times
    }
    notes = ("Seconds of a run, all rounds together, on the machine that it ran on; mean over seeds.",)
    rows = by_method(setting, figures, len(stages) + 1)
    return Table(f"{tag}-seconds", "Time by stage", ("method", "seeds", *stages, "total"), rows, notes, 2)


def recall(setting: Setting, tag: str) -> Table | None:
    """Return the recall of each round's index against an exact search; None if it was not measured."""
    numbers = sorted({one.number for run in setting.runs for one in run.rounds if one.index_recall is not None})
    if not numbers:
        return None
    figures: dict[Method, tuple[str, ...]] = {}
    for method in setting.methods:
        known = [one for run in setting.of(method) for one in run.rounds if one.index_recall is not None]
        figures[method] = tuple(percents([one.index_recall for one in known if one.number == n]) for n in numbers)
    index = f"Search {setting.options.search.kind}, index {setting.options.search.index}. {SPREAD}"
    head = ("method", "seeds", *(f"round {number}, %" for number in numbers))
    rows = by_method(setting, figures, len(numbers))
    return Table(f"{tag}-recall", "Recall of the index against an exact search", head, rows, (index,), 2)


def _at(runs: Sequence[Run], split: str, labels: int) -> str:
    """Return the AP of the runs that were evaluated with so many labels, and their number if it is not all."""
    rounds = [one for run in runs for one in [run.at(labels)] if one is not None and split in one.splits]
    words = percents([one.splits[split].average_precision.value for one in rounds])
    return words if len(rounds) in (0, len(runs)) else f"{words} ({len(rounds)})"
