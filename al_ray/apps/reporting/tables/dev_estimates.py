"""Estimates of each round's model from labels of drawn dev pairs, a row for each round of each run."""

from al_ray.apps.reporting.dev_estimates import Interval
from al_ray.apps.reporting.run_records import Run, Setting
from al_ray.apps.reporting.tables.table import NOTHING, Row, Table, estimate_words, percent

HEAD = (
    *("run", "method", "round", "labels", "dev labels", "ranked pairs", "AP % of ranked", "AP % over all"),
    *("precision % at boundary", "recall % of ranked at boundary", "recall % over all at boundary"),
)
NOTES = (
    "Estimated from labels of dev pairs that were drawn after each round (`RunConfig.dev_labels`); in brackets the 95% "
    "interval. Dev labels: those of all rounds so far.",
    "Of ranked: among the pairs of highest score, whose number is given, and the pairs that were labelled before. "
    "Over all: among all pairs of dev, of which a few labels say little; only an interval is given where no labelled "
    "pair of low score matches. At the boundary: of the pairs that the model calls matches.",
)


def dev_estimates(setting: Setting, tag: str) -> Table | None:
    """Return the estimates of all runs, incomplete ones included; None if no run has any."""
    runs = [run for method in setting.methods for run in setting.of(method, complete=None)]
    rows = [Row(cells, bool(run.trouble)) for run in runs for cells in _rows(setting, run)]
    if not rows:
        return None
    return Table(f"{tag}-dev-labels", "Estimates from dev labels, by round", HEAD, tuple(rows), NOTES, words=2)


def dev_words(setting: Setting) -> str:
    """Return what estimates from dev labels say of average precision, in a sentence."""
    words = "No split was evaluated over all its pairs; average precision is estimated from labels of drawn dev pairs"
    known = [(one.number, one.dev) for run in setting.runs for one in run.rounds if one.dev is not None]
    number, dev = known[-1]
    if len(setting.runs) > 1 or dev.average_precision is None:
        return f"{words}: see the table by round."
    over_all = dev.average_precision_over_all
    beyond = "" if over_all is None else f", and {percent(over_all.low)}% to {percent(over_all.high)}% among all pairs"
    return (
        f"{words}. After round {number}, with {dev.labels:,} dev labels, it is {percent(dev.average_precision.value)}% "
        f"({percent(dev.average_precision.low)}% to {percent(dev.average_precision.high)}%) among the {dev.ranked:,} "
        f"pairs of highest score{beyond}."
    )


def _rows(setting: Setting, run: Run) -> list[tuple[str, ...]]:
    """Return the cells of each round that has estimates."""
    return [
        (
            *(run.name, setting.name(run.method), str(one.number), f"{one.labels:,}"),
            *(f"{dev.labels:,}", f"{dev.ranked:,}", estimate_words(dev.average_precision)),
            _words(dev.average_precision_over_all),
            *(estimate_words(dev.precision), estimate_words(dev.recall), _words(dev.recall_over_all)),
        )
        for one in run.rounds
        if (dev := one.dev) is not None
    ]


def _words(one: Interval | None) -> str:
    """Return a figure over all pairs: its interval, after its value if that is known."""
    if one is None:
        return NOTHING
    interval = f"{percent(one.low)} to {percent(one.high)}"
    return interval if one.value is None else f"{percent(one.value)} ({interval})"
