"""Methods against `static` of the same seed: paired differences, and the labels needed for its last AP (5.6)."""

from collections.abc import Sequence

from al_ray.core.published import published
from al_ray.core.runs import Method, Run, Setting, measured
from al_ray.core.spreads import Difference, Figure, Reached, differences, labels_to_reach, mean_interval
from al_ray.reports.table import FIGURES, HEADS, NOTHING, Columns, Table, by_method, counts, left_out, percents


def against_reference(setting: Setting, tag: str) -> Table | None:
    """Paired differences against `static` of the same seed, at the most labels that both were measured at."""
    reference = setting.reference
    if reference is None or len(setting.methods) == 1 or not setting.splits:
        return None
    heads = tuple(f"{split} {head}" for split in setting.splits for head in HEADS)
    figures: dict[Method, tuple[str, ...]] = {}
    for method in setting.methods:
        if method == reference:
            continue
        cells, at = list[str](), list[Difference]()
        for split in setting.splits:
            for figure in FIGURES:
                found = differences(setting.of(method), setting.of(reference), _at(split, figure))
                at = at or found
                cells.append(_difference_words(found))
        figures[method] = (counts([one.labels for one in at]), *cells)
    methods = [method for method in setting.methods if method != reference]
    rows = by_method(setting, figures, 1 + len(heads), methods)
    notes = (
        f"Percentage points: each run less the {setting.name(reference)} run of the same seed, at the most labels at "
        "which both were measured. Mean over the seeds of both; in brackets, of three seeds or more, the 95% interval "
        "of Student's t, and of two seeds, both. It tells of seeds, not of questions: see jobs.evaluate --against.",
        *left_out(setting.of(reference, complete=False)),
    )
    title = f"Differences against {setting.name(reference)} of the same seed"
    return Table(f"{tag}-differences", title, ("method", "seeds", "at labels", *heads), rows, notes, 2)


def efficiency(setting: Setting, tag: str) -> Table | None:
    """5.6: labels with which each run reaches the final AP of the reference of its seed."""
    reference, paper = setting.reference, published(setting.task.name)
    if reference is None or not setting.splits:
        return None
    printed = paper.efficiency if paper else None
    columns = Columns(
        tuple(head for split in setting.splits for head in (f"labels, by {split} AP", f"of {reference.strategy}'s, %")),
        ("labels, by dev AP",) if printed else (),
    )
    figures: dict[Method, tuple[str, ...]] = {}
    methods = [method for method in setting.methods if method != reference]
    for method in methods:
        cells = [word for split in setting.splits for word in _efficiency_words(setting, method, reference, split)]
        if printed:
            cells.append(f"{printed.labels:,}" if method == Method("uncertainty") else NOTHING)
        figures[method] = tuple(cells)
    notes = (
        f"Of each seed, where the straight lines between its rounds first meet the last AP of the "
        f"{setting.name(reference)} run of that seed; ≤: its first round is above it already. Mean over seeds.",
        *left_out(setting.of(reference, complete=False)),
    )
    rows = by_method(setting, figures, len(columns.head), methods)
    title = f"Labels needed for the final AP of {setting.name(reference)} (data efficiency, 5.6)"
    head = ("method", "seeds", *columns.head)
    return Table(f"{tag}-efficiency", title, head, rows, notes, 2, columns.grey(2))


def _at(split: str, figure: str) -> Figure:
    """A figure of a run's round with so many labels."""

    def value(run: Run, labels: int) -> float | None:
        one = run.at(labels)
        return getattr(one.splits[split], figure).value if one is not None and split in one.splits else None

    return value


def _difference_words(found: Sequence[Difference]) -> str:
    made = mean_interval([100 * one.value for one in found])
    if made is None:
        return NOTHING
    mean, kind = made
    return f"{mean.value:+.1f}" + ("" if kind == "one seed" else f" ({mean.low:+.1f} to {mean.high:+.1f})")


def _efficiency_words(setting: Setting, method: Method, reference: Method, split: str) -> tuple[str, str]:
    """Labels and their share of the reference's, over the seeds of both."""
    ends = {run.config.seed: run for run in setting.of(reference) if measured(run, split)}
    found: list[tuple[Reached | None, int]] = []
    for run in setting.of(method):
        end = ends.get(run.config.seed)
        if end is not None and end.last is not None:
            target = end.last.splits[split].average_precision.value
            points = [
                (one.labels, one.splits[split].average_precision.value) for one in run.rounds if split in one.splits
            ]
            found.append((labels_to_reach(points, target), end.last.labels))
    reached = [(one, whole) for one, whole in found if one is not None]
    if not reached:
        return ("not reached" if found else NOTHING), NOTHING
    early = "≤ " if any(one.at_most for one, _ in reached) else ""
    missed = f"; not reached by {len(found) - len(reached)} of {len(found)}" if len(reached) < len(found) else ""
    shares = percents([one.labels / whole for one, whole in reached])
    return f"{early}{counts([one.labels for one, _ in reached])}{missed}", f"{early}{shares}"
