"""Tables of runs that differ only in method and seed, in the paper's layout: Tables 1, 3, 4 and 5."""

from collections.abc import Sequence

from al_ray.active_learning.method import Method
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.apps.reporting.published import paper_results
from al_ray.apps.reporting.run_records import Run, Setting, last_evaluation, sizes
from al_ray.apps.reporting.tables.table import (
    FIGURES,
    HEADS,
    NOTHING,
    SPREAD,
    Columns,
    Row,
    Table,
    by_method,
    counts,
    percent,
    percents,
)
from al_ray.core.task import SPLITS


def task_sizes(setting: Setting, tag: str) -> Table:
    """Return the sizes of the task's splits (Table 1)."""
    own, paper = sizes(max(setting.runs, key=lambda run: len(sizes(run)))), paper_results(setting.task.name)
    columns = Columns(
        ("positives", "pairs", "one in", "stated negatives", "near negatives"),
        ("positives", "pairs", "stated negatives", "near negatives") if paper else (),
    )
    rows: list[Row] = []
    for split in SPLITS:
        if split not in own:
            continue
        known = own[split]
        ratio = f"{known['pairs'] / known['positives']:,.0f}" if known["positives"] else NOTHING
        others = [_counted(known.get(name)) for name in ("stated_negatives", "near_negatives")]
        printed: tuple[str, ...] = ()
        if paper:
            size = paper.sizes[split]
            negatives = size.stated_negatives, size.near_negatives
            printed = f"{size.positives:,}", size.pairs, *map(_counted, negatives)
        rows.append(Row((split, f"{known['positives']:,}", f"{known['pairs']:,}", ratio, *others, *printed)))
    notes = ["Near negatives are given if AP was estimated from a weighted sample of negatives; else all were counted."]
    if not setting.task.counts:
        notes.append("The task folder was not found, so counts are those of the evaluations.")
    title = f"Sizes of the task {setting.task.name} (Table 1)"
    return Table(f"{tag}-task", title, ("split", *columns.head), tuple(rows), tuple(notes), paper=columns.grey(1))


def results(setting: Setting, tag: str) -> Table:
    """Return AP and P@R20 after the last round of complete runs (Table 3)."""
    return _results(setting, setting.methods, f"{tag}-results", "Results by method after the last round (Table 3)")


def stratified(setting: Setting, tag: str) -> Table | None:
    """Return the stratified methods next to the adaptive ones (Table 5); None without a stratified run."""
    names = ("stratified-match", "stratified-all", "adaptive", "uncertainty")
    methods = [method for method in setting.methods if method.strategy in names]
    if not any(STRATEGIES[method.strategy].knows_positives for method in methods):
        return None
    return _results(
        setting, methods, f"{tag}-stratified", "Stratified sampling, which must know all positives (Table 5)"
    )


def _results(setting: Setting, methods: Sequence[Method], name: str, title: str) -> Table:
    paper = paper_results(setting.task.name)
    heads = tuple(f"{split} {head}" for split in setting.splits for head in HEADS)
    columns = Columns(("labels", *heads), tuple(f"test {head}" for head in HEADS) if paper else ())
    figures: dict[Method, tuple[str, ...]] = {}
    for method in methods:
        runs = setting.of(method)
        cells = [counts([run.rounds[-1].labels for run in runs])]
        cells += [percents(_values(runs, split, figure)) for split in setting.splits for figure in FIGURES]
        if paper:
            printed = paper.results.get(method.strategy) if method.seeding == "retrieval" else None
            cells += [percent(None if printed is None else getattr(printed, figure)) for figure in FIGURES]
        figures[method] = tuple(cells)
    notes = [SPREAD] if setting.splits else ["No run was evaluated (--evaluation.splits), so there is no AP."]
    if any(not one.exact for run in setting.runs for part in run.rounds for one in part.splits.values()):
        notes.append(
            "AP is estimated from a sample of negatives (appendix A.2); the table of all runs has its intervals."
        )
    rows = by_method(setting, figures, len(columns.head), methods)
    return Table(name, title, ("method", "seeds", *columns.head), rows, tuple(notes), 2, columns.grey(2))


def positives(setting: Setting, tag: str) -> Table:
    """Return the positives among the labels (Table 4)."""
    paper, known = paper_results(setting.task.name), setting.task.counts.get("train", {}).get("positives")
    columns = Columns(("positives", "% of labels", "labels"), ("positives",) if paper else ())
    figures: dict[Method, tuple[str, ...]] = {}
    for method in setting.methods:
        last = [run.rounds[-1] for run in setting.of(method)]
        cells = [counts([one.positives for one in last])]
        cells.append(percents([one.positives / one.labels for one in last if one.labels]))
        cells.append(counts([one.labels for one in last]))
        if paper:
            printed = paper.results.get(method.strategy) if method.seeding == "retrieval" else None
            cells.append(NOTHING if printed is None or printed.positives is None else f"{printed.positives:,}")
        figures[method] = tuple(cells)
    notes = [SPREAD]
    if known is not None:
        notes.append(f"The training pool has {known:,} positives.")
    if paper:
        notes.append(f"The paper's figures are for {paper.labels:,} labels.")
    rows = by_method(setting, figures, len(columns.head))
    head = ("method", "seeds", *columns.head)
    return Table(f"{tag}-found", "Positives collected (Table 4)", head, rows, tuple(notes), 2, columns.grey(2))


def _counted(number: int | None) -> str:
    return NOTHING if number is None else f"{number:,}"


def _values(runs: Sequence[Run], split: str, figure: str) -> list[float]:
    """Return a figure of the last round of each run that was evaluated on the split."""
    last = [one for run in runs if (one := last_evaluation(run, split)) is not None]
    return [getattr(one, figure).value for one in last]
