"""The paper's tables that need more than a grid: cross-encoders (Tables 2 and 6), and paired differences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from al_ray.active_learning.method import Method
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.apps.reporting.published import paper_results
from al_ray.apps.reporting.run_records import TaskSummary
from al_ray.apps.reporting.tables.table import NOTHING, Row, Table, last_columns, percent, percents
from al_ray.metrics.average_precision import Estimate

COSINE = "CosineBERT"
HEURISTIC = {True: ("accuracy", "f1"), False: ("clean_map", "a_f1")}
"""Whether the task is symmetric -> the metrics on stated pairs that the paper prints (Table 2)."""
NAMES = {"accuracy": "accuracy %", "f1": "F1 %", "clean_map": "c-MAP %", "a_f1": "a-F1 %"}


@dataclass(frozen=True)
class ModelResult:
    """Evaluation of a model on test.

    model: COSINE, or the encoder of a cross-encoder. data: the strategy that collected its labels. heuristic: name ->
    metric on stated pairs. less: its AP minus that of the bi-encoder with the same labels and seed, with a 95% interval
    over queries; None for the bi-encoder itself, or without a comparison.
    """

    model: str
    data: str
    seed: int
    precision_at_recall_20: Estimate
    average_precision: Estimate
    heuristic: Mapping[str, float | None]
    less: Estimate | None = None


@dataclass(frozen=True)
class ApDifference:
    """AP of a run minus that of the reference run of the same seed, with a 95% interval over queries or samples."""

    method: str
    seed: int
    value: float
    interval: Estimate | None


def stated_models(task: TaskSummary, symmetric: bool, models: Sequence[ModelResult]) -> Table:
    """Return models trained on the stated pairs, evaluated on stated test pairs and on all pairs (Table 2)."""
    names = HEURISTIC[symmetric]
    rows: list[Row] = []
    for model in sorted({one.model for one in models}, key=lambda model: (model == COSINE, model)):
        own = [one for one in models if one.model == model]
        heuristic = (percents([one.heuristic[name] for one in own]) for name in names)
        rows.append(Row((model, str(len(own)), *heuristic, *_all_pairs(own))))
    paper = paper_results(task.name)
    for model, printed in paper.stated.items() if paper else ():
        figures = *printed.heuristic, printed.result.precision_at_recall_20, printed.result.average_precision
        rows.append(Row((f"{model} (paper)", "3", *map(percent, figures)), broken=True))
    head = ("model", "seeds", *(NAMES[name] for name in names), "test P@R20 %", "test AP %")
    notes = ("Trained on the stated pairs only. Accuracy and F1 use the threshold p = 1/2.", SAMPLED)
    return Table("table2", "Models trained on the stated pairs (Table 2)", head, tuple(rows), notes, 2)


SAMPLED = "± is the standard deviation over seeds. With one seed, an estimated AP has its 95% interval in brackets."


def other_models(task: TaskSummary, models: Sequence[ModelResult]) -> Table:
    """Return cross-encoders on the labels that each strategy collected, next to the bi-encoder (Table 6)."""
    others = sorted({one.model for one in models} - {COSINE})
    paper = paper_results(task.name)
    collected = paper.collected if paper else {}
    head = ["data", "seeds", f"{COSINE} P@R20 %", "AP %"]
    for model in others:
        head += [f"{model} P@R20 %", "AP %", f"minus {COSINE}, points"]
    papers = [f"{COSINE} AP %", "CONCATBERT AP %"] if collected else []
    rows: list[Row] = []
    for data in sorted({one.data for one in models}, key=lambda name: (STRATEGIES[name].rank, name)):
        of_data = [one for one in models if one.data == data]
        cells = [Method(data).words(), str(len({one.seed for one in of_data}))]
        for model in (COSINE, *others):
            own = [one for one in of_data if one.model == model]
            cells += _all_pairs(own)
            if model != COSINE:
                cells.append("; ".join(_difference(one.less) for one in own) or NOTHING)
        if paper and collected:
            printed = paper.results[data], collected.get(data)
            cells += [percent(None if one is None else one.average_precision) for one in printed]
        rows.append(Row(tuple(cells)))
    notes = (
        "(oracle): a strategy that knows every positive. Differences are on the same sampled pairs, one for each seed, "
        "with the 95% interval over queries (over samples if the task has no queries).",
        SAMPLED,
    )
    title, head = "Cross-encoders trained on the collected labels (Table 6)", [*head, *papers]
    return Table("table6", title, tuple(head), tuple(rows), notes, 2, last_columns(head, len(papers)))


def paired_differences(reference: str, pairs: Sequence[ApDifference]) -> Table | None:
    """Return AP minus that of the reference run of the same seed, paired by query; None without another method."""
    if not pairs:
        return None
    seeds = sorted({one.seed for one in pairs})
    rows: list[Row] = []
    for method in dict.fromkeys(one.method for one in pairs):
        own = {one.seed: one for one in pairs if one.method == method}
        cells = [_difference(own[seed].interval, own[seed].value) if seed in own else NOTHING for seed in seeds]
        rows.append(Row((method, *cells)))
    notes = (
        "Percentage points of test AP after the last round; in brackets the 95% interval of a bootstrap over queries "
        "(over sampled pairs if the task has no queries), with the same resamples for both runs.",
    )
    head = ("method", *(f"seed {seed}" for seed in seeds))
    return Table("less", f"AP minus that of {reference}, paired by query", head, tuple(rows), notes)


def _all_pairs(models: Sequence[ModelResult]) -> tuple[str, str]:
    """Return P@R20 and AP; for one seed, AP with its interval if it was estimated."""
    precision = percents([one.precision_at_recall_20.value for one in models])
    average = percents([one.average_precision.value for one in models])
    if len(models) == 1:
        ends = models[0].average_precision
        average += "" if ends.low == ends.high else f" ({percent(ends.low)} to {percent(ends.high)})"
    return precision, average


def _difference(interval: Estimate | None, value: float | None = None) -> str:
    middle = value if value is not None else interval.value if interval is not None else None
    if middle is None:
        return NOTHING
    ends = "" if interval is None else f" ({100 * interval.low:+.1f} to {100 * interval.high:+.1f})"
    return f"{100 * middle:+.1f}{ends}"
