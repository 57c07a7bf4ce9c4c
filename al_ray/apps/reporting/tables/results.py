"""Tables of runs that differ only in method and seed, in the layout of the paper's Tables 1, 3, 4 and 5.

A note names the table of the paper only beside its figures: other readers need not know it.
"""

from collections.abc import Sequence

from al_ray.active_learning.method import Method
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.apps.reporting.published import PaperResults, Result, paper_results
from al_ray.apps.reporting.run_records import Setting, sizes
from al_ray.apps.reporting.tables import table
from al_ray.apps.reporting.tables.table import FIGURES, HEADS, NOTHING, SPREAD, Row, Table, counts, percent, percents
from al_ray.core.config.oracle import oracle_kind
from al_ray.core.task import SPLITS


def task_sizes(setting: Setting, tag: str) -> Table:
    """Return the sizes of the task's splits (the paper's Table 1)."""
    own, paper = sizes(max(setting.runs, key=lambda run: len(sizes(run)))), paper_results(setting.task.name)
    head = ("split", "known positives", "pairs", "one in", "stated negatives", "near negatives")
    papers = ("positives", "pairs", "stated negatives", "near negatives") if paper else ()
    rows: list[Row] = []
    for split in SPLITS:
        known = own.get(split)
        if known is None or not known["pairs"]:
            continue
        ratio = f"{known['pairs'] / known['positives']:,.0f}" if known["positives"] else NOTHING
        cells = [split, f"{known['positives']:,}", f"{known['pairs']:,}", ratio]
        cells += [counts([known.get(name)]) for name in ("stated_negatives", "near_negatives")]
        if paper:
            size = paper.sizes[split]
            cells += [f"{size.positives:,}", size.pairs]
            cells += [counts([size.stated_negatives]), counts([size.near_negatives])]
        rows.append(Row(tuple(cells)))
    notes = [
        "Known positives are the matches that the task states; there may be others.",
        "Near negatives are given if AP was estimated from a weighted sample of negatives; else all were counted.",
        *_cited(paper, 1),
    ]
    if not setting.task.counts:
        notes.append("The task folder was not found, so counts are those of the evaluations.")
    title = f"Sizes of the task {setting.task.name}"
    grey = table.last_columns((*head, *papers), len(papers))
    return Table(f"{tag}-task", title, (*head, *papers), tuple(rows), tuple(notes), paper=grey)


def results(setting: Setting, tag: str) -> Table:
    """Return AP and P@R20 after the last round of complete runs (the paper's Table 3)."""
    return _results(setting, setting.methods, f"{tag}-results", "Results by method after the last round", 3)


def stratified(setting: Setting, tag: str) -> Table | None:
    """Return the stratified methods next to the adaptive ones (the paper's Table 5); None without a stratified run."""
    names = ("stratified-match", "stratified-all", "adaptive", "uncertainty")
    methods = [method for method in setting.methods if method.strategy in names]
    if not any(STRATEGIES[method.strategy].knows_positives for method in methods):
        return None
    return _results(setting, methods, f"{tag}-stratified", "Stratified sampling, which must know all positives", 5)


def _results(setting: Setting, methods: Sequence[Method], name: str, title: str, number: int) -> Table:
    """Return AP and P@R20 of methods. number: of the paper's table."""
    paper = paper_results(setting.task.name)
    heads = ["labels", *(f"{split} {head}" for split in setting.splits for head in HEADS)]
    figures: dict[Method, list[str]] = {}
    for method in methods:
        cells = figures[method] = [counts([run.rounds[-1].labels for run in setting.of(method)])]
        for split in setting.splits:
            last = setting.evaluations(method, split)
            cells += [percents([getattr(one, figure).value for one in last]) for figure in FIGURES]
        if paper:
            printed = _printed(paper, method)
            cells += [percent(None if printed is None else getattr(printed, figure)) for figure in FIGURES]
    notes = [SPREAD] * bool(setting.splits) + [
        "Estimates from dev labels are in a table of their own."
    ] * setting.has_dev
    notes = notes or ["No run was evaluated (`RunConfig.evaluation.splits`), so there is no AP."]
    if any(not one.exact for run in setting.runs for part in run.rounds for one in part.splits.values()):
        notes.append("AP is estimated from a sample of negatives; the table of all runs has its intervals.")
    notes += _cited(paper, number)
    papers = [f"test {head}" for head in HEADS] if paper else []
    return table.method_table(setting, name, title, heads, figures, notes, papers)


def positives(setting: Setting, tag: str) -> Table:
    """Return the positives among the labels (the paper's Table 4)."""
    paper, known = paper_results(setting.task.name), setting.task.counts.get("train", {}).get("positives")
    figures: dict[Method, list[str]] = {}
    for method in setting.methods:
        last = [run.rounds[-1] for run in setting.of(method)]
        shares = percents([one.positives / one.labels for one in last if one.labels])
        figures[method] = [counts([one.positives for one in last]), shares, counts([one.labels for one in last])]
        if paper:
            printed = _printed(paper, method)
            figures[method].append(counts([None if printed is None else printed.positives]))
    notes = [SPREAD]
    if known is not None:
        notes.append(_known_words(setting, known))
    if paper:
        notes.append(f"The paper's figures (its Table 4) are for {paper.labels:,} labels.")
    heads, papers = ("positives", "% of labels", "labels"), ("positives",) if paper else ()
    return table.method_table(setting, f"{tag}-found", "Positives collected", heads, figures, notes, papers)


def _known_words(setting: Setting, known: int) -> str:
    """Return how many positives of the training pool are known. known: those that the task states."""
    if oracle_kind(setting.options.oracle).knows_positives:
        return f"The training pool has {known:,} positives."
    if not known:
        return "How many positives the training pool has is not known."
    return f"The task states {known:,} positives of the training pool; there may be others."


def _cited(paper: PaperResults | None, number: int) -> list[str]:
    """Return a note that names the paper's table, if its figures are shown."""
    return [f"The paper's figures: its Table {number}."] if paper else []


def _printed(paper: PaperResults, method: Method) -> Result | None:
    """Return the paper's result of a method, which has a retrieved seed set."""
    return paper.results.get(method.strategy) if method.seeding == "retrieval" else None
