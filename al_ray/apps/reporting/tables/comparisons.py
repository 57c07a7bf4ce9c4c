"""Comparison with `static` of the same seed: paired differences, and labels needed to reach its AP (section 5.6)."""

from collections.abc import Sequence

from al_ray.active_learning.method import Method
from al_ray.apps.reporting.published import paper_results
from al_ray.apps.reporting.run_records import Run, Setting, last_evaluation
from al_ray.apps.reporting.seed_statistics import (
    Difference,
    Figure,
    LabelsToReach,
    differences,
    labels_to_reach,
    mean_interval,
)
from al_ray.apps.reporting.tables import table
from al_ray.apps.reporting.tables.table import FIGURES, HEADS, NOTHING, Table, counts, percents


def against_reference(setting: Setting, tag: str) -> Table | None:
    """Return paired differences to `static` of the same seed, at the largest label count both were evaluated at."""
    reference = setting.reference
    if reference is None or len(setting.methods) == 1 or not setting.splits:
        return None
    heads = ["at labels", *(f"{split} {head}" for split in setting.splits for head in HEADS)]
    figures: dict[Method, list[str]] = {}
    for method in setting.methods:
        if method == reference:
            continue
        cells, at = list[str](), list[Difference]()
        for split in setting.splits:
            for figure in FIGURES:
                paired = differences(setting.of(method), setting.of(reference), _at(split, figure))
                at = at or paired
                cells.append(_difference_words(paired))
        figures[method] = [counts([one.labels for one in at]), *cells]
    notes = (
        f"Percentage points: each run minus the {setting.name(reference)} run of the same seed, at the largest number "
        "of labels at which both were evaluated. Mean over seeds; in brackets, for three seeds or more the 95% "
        "interval of Student's t, for two seeds both values. The interval covers the variation between seeds, not "
        "between queries: for that see `al_ray.compare`.",
        *table.left_out(setting.of(reference, complete=False)),
    )
    title = f"Difference to {setting.name(reference)} of the same seed"
    return table.method_table(setting, f"{tag}-differences", title, heads, figures, notes)


def efficiency(setting: Setting, tag: str) -> Table | None:
    """Return the labels with which each run reaches the final AP of the reference of its seed (section 5.6)."""
    reference, paper = setting.reference, paper_results(setting.task.name)
    if reference is None or not setting.splits:
        return None
    printed = paper.efficiency if paper else None
    heads: list[str] = []
    for split in setting.splits:
        heads += [f"labels, by {split} AP", f"% of {reference.strategy}'s labels"]
    figures: dict[Method, list[str]] = {}
    for method in setting.methods:
        if method == reference:
            continue
        figures[method] = [
            word for split in setting.splits for word in _efficiency_words(setting, method, reference, split)
        ]
        if printed:
            figures[method].append(f"{printed.labels:,}" if method == Method("uncertainty") else NOTHING)
    notes = (
        f"For each seed, the AP between rounds is interpolated, and labels are counted to where it first reaches the "
        f"final AP of the {setting.name(reference)} run of that seed. ≤: the first round reaches it. Mean over seeds.",
        *(["The paper's figure: its section 5.6."] if printed else []),
        *table.left_out(setting.of(reference, complete=False)),
    )
    title = f"Labels needed to reach the final AP of {setting.name(reference)}"
    papers = ("labels, by dev AP",) if printed else ()
    return table.method_table(setting, f"{tag}-efficiency", title, heads, figures, notes, papers)


def _at(split: str, figure: str) -> Figure:
    """Return a function (run, labels) -> figure on the split of the round that ended with these labels."""

    def value(run: Run, labels: int) -> float | None:
        one = run.at(labels)
        return getattr(one.splits[split], figure).value if one is not None and split in one.splits else None

    return value


def _difference_words(paired: Sequence[Difference]) -> str:
    interval = mean_interval([100 * one.value for one in paired])
    if interval is None:
        return NOTHING
    mean, kind = interval
    return f"{mean.value:+.1f}" + ("" if kind == "one seed" else f" ({mean.low:+.1f} to {mean.high:+.1f})")


def _efficiency_words(setting: Setting, method: Method, reference: Method, split: str) -> tuple[str, str]:
    """Return the labels, and their share of the reference's, over the seeds of both."""
    ends = {run.config.seed: run.last for run in setting.of(reference) if last_evaluation(run, split)}
    pairs = [(run, end) for run in setting.of(method) if (end := ends.get(run.config.seed)) is not None]
    reached: list[tuple[LabelsToReach, int]] = []
    for run, end in pairs:
        values = [(one.labels, one.splits[split].average_precision.value) for one in run.rounds if split in one.splits]
        one = labels_to_reach(values, end.splits[split].average_precision.value)
        reached += [] if one is None else [(one, end.labels)]
    if not reached:
        return ("not reached" if pairs else NOTHING), NOTHING
    early = "≤ " if any(one.at_most for one, _ in reached) else ""
    missed = f"; not reached by {len(pairs) - len(reached)} of {len(pairs)}" if len(reached) < len(pairs) else ""
    shares = percents([one.labels / whole for one, whole in reached])
    return f"{early}{counts([one.labels for one, _ in reached])}{missed}", f"{early}{shares}"
