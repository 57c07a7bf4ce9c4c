"""Tables by round or by number of labels: AP (Figure 4a), batches (Figure 3b), seconds by stage, index recall."""

from collections.abc import Sequence

from al_ray.active_learning.method import Method
from al_ray.apps.reporting.run_records import Run, Setting, stage_seconds, stages_of
from al_ray.apps.reporting.tables.table import NOTHING, SPREAD, Row, Table, left_out, method_table, percents, seeds


def by_labels(setting: Setting, tag: str, split: str) -> Table | None:
    """Return AP after every round, a row for each number of labels; None without an evaluation on the split."""
    complete = [run for run in setting.runs if not run.trouble]
    steps = sorted({one.labels for run in complete for one in run.rounds if split in one.splits})
    if not steps:
        return None
    rows = [Row((f"{n:,}", *(_at(setting.of(method), split, n) for method in setting.methods))) for n in steps]
    if any(split in run.untrained for run in complete):
        rows.insert(0, Row(("0", *(_untrained(setting.of(method), split) for method in setting.methods))))
    head = ("labels", *(f"{setting.name(method)} ({seeds(setting, method)})" for method in setting.methods))
    brackets = "In brackets: the number of these runs, or of those with an evaluation at that number of labels."
    notes = (f"{SPREAD} {brackets}", *left_out(setting.runs))
    return Table(f"{tag}-labels-{split}", f"AP % on {split} by number of labels", head, tuple(rows), notes)


def batches(setting: Setting, tag: str) -> Table | None:
    """Return the share of positives in each batch that a trained model chose, and its mean p (Figure 3b as numbers)."""
    numbers = sorted({one.number for run in setting.runs for one in run.rounds if one.batch_p is not None})
    if not numbers:
        return None
    figures: dict[Method, list[str]] = {}
    for method in setting.methods:
        figures[method] = []
        known = [one for run in setting.of(method) for one in run.rounds if one.batch_p is not None]
        for number in numbers:
            batch = [one for one in known if one.number == number]
            shares = [one.batch_share for one in batch]
            cell = f"{percents(shares)} at {percents([one.batch_p for one in batch])}" if shares else NOTHING
            figures[method].append(cell)
    heads = [f"round {number}" for number in numbers]
    name = setting.name_of_p
    notes = (
        f"a at b: a% of the pairs in the batch are positive; the model that chose them gave them a mean {name} of b%. "
        "Pairs labelled unsure are left out of both.",
    )
    title = f"Calibration of batches: positives % at mean {name} %"
    return method_table(setting, f"{tag}-batches", title, heads, figures, notes)


def seconds(setting: Setting, tag: str) -> Table:
    """Return the mean seconds of a complete run by stage."""
    parts = {method: stage_seconds(setting.of(method)) for method in setting.methods}
    stages = stages_of(list(parts.values()))
    figures: dict[Method, list[str]] = {}
    for method, times in parts.items():
        numbers = [*(times.get(stage, 0.0) for stage in stages), sum(times.values())]
        figures[method] = [f"{number:,.0f}" if times else NOTHING for number in numbers]
    notes = ("Seconds of a run, all rounds together, on the machine that it ran on; mean over seeds.",)
    return method_table(setting, f"{tag}-seconds", "Time by stage", [*stages, "total"], figures, notes)


def recall(setting: Setting, tag: str) -> Table | None:
    """Return the recall of each round's index against an exact search; None if it was not measured."""
    numbers = sorted({one.number for run in setting.runs for one in run.rounds if one.index_recall is not None})
    if not numbers:
        return None
    figures: dict[Method, list[str]] = {}
    for method in setting.methods:
        known = [one for run in setting.of(method) for one in run.rounds if one.index_recall is not None]
        figures[method] = [percents([one.index_recall for one in known if one.number == n]) for n in numbers]
    index = f"Search {setting.options.search.kind}, index {setting.options.search.index}. {SPREAD}"
    heads, title = [f"round {number}, %" for number in numbers], "Recall of the index against an exact search"
    return method_table(setting, f"{tag}-recall", title, heads, figures, [index])


def stability(setting: Setting, tag: str) -> Table | None:
    """Return what each round says of the model before it, on labelled pairs; None if no round can say it."""
    compared = [one for run in setting.runs for one in run.rounds if (one.agreement, one.prequential) != (None, None)]
    numbers = sorted({one.number for one in compared})
    if not numbers:
        return None
    figures: dict[Method, list[str]] = {}
    for method in setting.methods:
        rounds = [one for run in setting.of(method, complete=None) for one in run.rounds]
        known = {number: [one for one in rounds if one.number == number] for number in numbers}
        agreements = (percents([one.agreement for one in ones if one.agreement is not None]) for ones in known.values())
        precisions = (
            percents([one.prequential for one in ones if one.prequential is not None]) for ones in known.values()
        )
        figures[method] = [f"{first}; {second}" for first, second in zip(agreements, precisions, strict=True)]
    heads = [f"round {number}" for number in numbers]
    notes = (
        "a; b: the models of this round and of the round before agree on a% of the labelled pairs; the earlier model "
        "ranks the pairs that were labelled in this round, whose labels it did not know, with an AP of b%. A strategy "
        "chose these pairs, so this is no estimate over all pairs; it falls when the model became worse, and "
        "also when the pairs became harder or fewer of them match.",
    )
    title = "Compared with the round before: agreement %; AP % on new labels (prequential)"
    return method_table(setting, f"{tag}-stability", title, heads, figures, notes)


def _untrained(runs: Sequence[Run], split: str) -> str:
    """Return AP without labels of the runs that measured it, and their count if not all did."""
    known = [run.untrained[split] for run in runs if split in run.untrained]
    words = percents(known) if known else NOTHING
    return words if len(known) in (0, len(runs)) else f"{words} ({len(known)})"


def _at(runs: Sequence[Run], split: str, labels: int) -> str:
    """Return AP of the runs that were evaluated at this number of labels, and their count if not all were."""
    rounds = [one for run in runs for one in [run.at(labels)] if one is not None and split in one.splits]
    words = percents([one.splits[split].average_precision.value for one in rounds])
    return words if len(rounds) in (0, len(runs)) else f"{words} ({len(rounds)})"
