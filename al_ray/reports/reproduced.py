"""The paper's tables that no grid alone can give: concatenation models (Tables 2 and 6), differences by question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from al_ray.core.metrics import Estimate
from al_ray.core.published import published
from al_ray.core.runs import STRATEGIES, Facts, Method
from al_ray.reports.table import NOTHING, Row, Table, percent, percents

COSINE = "CosineBERT"
HEURISTIC = {True: ("accuracy", "f1"), False: ("clean_map", "a_f1")}
"""By whether a task is symmetric: the figures of stated pairs that the paper prints (Table 2)."""
NAMES = {"accuracy": "accuracy %", "f1": "F1 %", "clean_map": "c-MAP %", "a_f1": "a-F1 %"}


@dataclass(frozen=True)
class Judged:
    """What a model is worth on test. model: COSINE, or the encoder of a concatenation model; data: a strategy.

    heuristic: figures of stated pairs by name, "{name}_at_half" or plain; less: its AP less that of the bi-encoder of
    the same labels and seed, over questions; None where it is that, or was not compared.
    """

    model: str
    data: str
    seed: int
    precision_at_recall_20: Estimate
    average_precision: Estimate
    heuristic: Mapping[str, float | None]
    less: Estimate | None = None


@dataclass(frozen=True)
class Less:
    """AP of a method's run less that of the reference's of the same seed, with ends over questions or samples."""

    method: str
    seed: int
    value: float
    interval: Estimate | None


def stated_models(task: Facts, symmetric: bool, judged: Sequence[Judged]) -> Table:
    """Table 2: models of the stated pairs, by stated test pairs and by all pairs."""
    names = HEURISTIC[symmetric]
    rows: list[Row] = []
    for model in sorted({one.model for one in judged}, key=lambda model: (model == COSINE, model)):
        own = [one for one in judged if one.model == model]
        heuristic = (percents([one.heuristic[name] for one in own]) for name in names)
        rows.append(Row((model, str(len(own)), *heuristic, *_all_pairs(own))))
    paper = published(task.name)
    for model, printed in paper.stated.items() if paper else ():
        figures = *printed.heuristic, printed.result.precision_at_recall_20, printed.result.average_precision
        rows.append(Row((f"{model} (paper)", "3", *map(percent, figures)), broken=True))
    head = ("model", "seeds", *(NAMES[name] for name in names), "test P@R20 %", "test AP %")
    notes = ("Trained on the stated pairs alone. Thresholds of accuracy and F1 are those of p = 1/2.", SAMPLED)
    return Table("table2", "Models of stated pairs (Table 2)", head, tuple(rows), notes, 2)


SAMPLED = (
    "Of one seed and a weighted sample of pairs, the ends of AP's 95% interval are in brackets; else ± is of seeds."
)


def other_models(task: Facts, judged: Sequence[Judged]) -> Table:
    """Table 6: a concatenation model on the labels that each strategy collected, beside the bi-encoder."""
    others = sorted({one.model for one in judged} - {COSINE})
    paper = published(task.name)
    collected = paper.collected if paper else {}
    head = ["data", "seeds", f"{COSINE} P@R20 %", "AP %"]
    for model in others:
        head += [f"{model} P@R20 %", "AP %", f"less {COSINE}, points"]
    ours = len(head)
    head += ["cosine AP %", "concat AP %"] if collected else []
    rows: list[Row] = []
    for data in (name for name in STRATEGIES if any(one.data == name for one in judged)):
        of_data = [one for one in judged if one.data == data]
        cells = [Method(data).words(), str(len({one.seed for one in of_data}))]
        for model in (COSINE, *others):
            own = [one for one in of_data if one.model == model]
            cells += _all_pairs(own)
            if model != COSINE:
                cells.append("; ".join(_difference(one.less) for one in own) or NOTHING)
        if paper and collected:
            found = collected.get(data)
            cells += [percent(paper.results[data].average_precision)]
            cells += [percent(None if found is None else found.average_precision)]
        rows.append(Row(tuple(cells)))
    notes = (
        "(oracle) knows every positive. Differences are of the same sampled pairs, with "
        "their 95% interval over questions, or over samples where a task has none; one a seed.",
        SAMPLED,
    )
    grey = frozenset(range(ours, len(head)))
    return Table("table6", "Another model on the collected labels (Table 6)", tuple(head), tuple(rows), notes, 2, grey)


def less_reference(reference: str, found: Sequence[Less]) -> Table | None:
    """AP less that of the reference's run of the same seed, question by question; None without another method."""
    if not found:
        return None
    seeds = sorted({one.seed for one in found})
    rows: list[Row] = []
    for method in dict.fromkeys(one.method for one in found):
        own = {one.seed: one for one in found if one.method == method}
        cells = [_difference(own[seed].interval, own[seed].value) if seed in own else NOTHING for seed in seeds]
        rows.append(Row((method, *cells)))
    notes = (
        "Percentage points of test AP after the last round; in brackets the 95% interval of a bootstrap over "
        "questions (over sampled pairs where a task has no questions of its own), the same for both runs.",
    )
    head = ("method", *(f"seed {seed}" for seed in seeds))
    return Table("less", f"AP less that of {reference}, paired", head, tuple(rows), notes)


def _all_pairs(judged: Sequence[Judged]) -> tuple[str, str]:
    """P@R20 and AP; of one seed with the ends of AP where it was estimated."""
    precision = percents([one.precision_at_recall_20.value for one in judged])
    average = percents([one.average_precision.value for one in judged])
    if len(judged) == 1:
        ends = judged[0].average_precision
        average += "" if ends.low == ends.high else f" ({percent(ends.low)} to {percent(ends.high)})"
    return precision, average


def _difference(interval: Estimate | None, value: float | None = None) -> str:
    middle = value if value is not None else interval.value if interval is not None else None
    if middle is None:
        return NOTHING
    ends = "" if interval is None else f" ({100 * interval.low:+.1f} to {100 * interval.high:+.1f})"
    return f"{100 * middle:+.1f}{ends}"
