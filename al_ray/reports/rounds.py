"""Tables by round, or by labels: AP (4a), batches (3b), seconds of stages, what an index finds."""

from collections.abc import Sequence

from al_ray.core.runs import Method, Run, Setting, stage_seconds, stages_of
from al_ray.reports.table import NOTHING, SPREAD, Row, Table, by_method, left_out, percents, seeds


def by_labels(setting: Setting, tag: str, split: str) -> Table | None:
    """AP after every round, a row a number of labels."""
    whole = [run for run in setting.runs if not run.trouble]
    steps = sorted({one.labels for run in whole for one in run.rounds if split in one.splits})
    if not steps:
        return None
    rows: list[Row] = []
    for labels in steps:
        rows.append(Row((f"{labels:,}", *(_at(setting.of(method), split, labels) for method in setting.methods))))
    head = ("labels", *(f"{setting.name(method)} ({seeds(setting, method)})" for method in setting.methods))
    notes = (f"{SPREAD} In brackets, how many those are, or how many of them got so far.", *left_out(setting.runs))
    return Table(f"{tag}-labels-{split}", f"AP % on {split} by labels (Figure 4a)", head, tuple(rows), notes)


def batches(setting: Setting, tag: str) -> Table | None:
    """Figure 3b as numbers: the share of positives in each batch that a trained model chose, and the p it gave them."""
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
        shares = [[one.batch_positives / one.batch for one in found if one.batch] for found in of_round]
        means = [percents([one.batch_p for one in found]) for found in of_round]
        pairs = zip(shares, means, strict=True)
        figures[method] = tuple(NOTHING if not share else f"{percents(share)} at {mean}" for share, mean in pairs)
    head = ("method", "seeds", *(f"round {number}" for number in numbers))
    notes = ("a at b: a% of the batch are positives, and the model that chose it gave them a p of b% in the mean.",)
    title = "Batches: positives, and the p they were chosen at (Figure 3b)"
    return Table(f"{tag}-batches", title, head, by_method(setting, figures, len(numbers)), notes, 2)


def seconds(setting: Setting, tag: str) -> Table:
    """Mean seconds of a complete run by stage."""
    parts = {method: stage_seconds(setting.of(method)) for method in setting.methods}
    stages = stages_of(list(parts.values()))
    figures = {
        method: (*(f"{times.get(stage, 0.0):,.0f}" for stage in stages), f"{sum(times.values()):,.0f}")
        for method, times in parts.items()
        if times
    }
    notes = ("Seconds of a run on the machine that it ran on, all rounds together; mean over seeds.",)
    rows = by_method(setting, figures, len(stages) + 1)
    return Table(f"{tag}-seconds", "Time by stage", ("method", "seeds", *stages, "all"), rows, notes, 2)


def recall(setting: Setting, tag: str) -> Table | None:
    """What share of the truly nearest each round's index found; None where nobody asked an index."""
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
    return Table(f"{tag}-recall", "What the index finds of the truly nearest", head, rows, (index,), 2)


def _at(runs: Sequence[Run], split: str, labels: int) -> str:
    """The AP of those runs that were measured with so many labels."""
    found = [one for run in runs for one in [run.at(labels)] if one is not None and split in one.splits]
    words = percents([one.splits[split].average_precision.value for one in found])
    return words if len(found) in (0, len(runs)) else f"{words} ({len(found)})"
