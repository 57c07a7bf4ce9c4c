"""The paper's figures for runs that differ only in method and seed: learning curves (Figures 4a, 4b, 3a), calibration
by round (3b), precision-recall curves, time by stage and index recall. A function returns None if nothing can be drawn.
"""

from matplotlib.ticker import LogLocator, PercentFormatter

from al_ray.active_learning.method import Method
from al_ray.apps.reporting.plots import learning_curves as curves
from al_ray.apps.reporting.plots.learning_curves import LOOKS, Drawing, Level, Picture, Plot, look
from al_ray.apps.reporting.plots.style import INK, PALETTE
from al_ray.apps.reporting.run_records import Setting, SplitEvaluation, stage_seconds, stages_of
from al_ray.apps.reporting.seed_statistics import spread

LEAST = 1e-8  # Smaller values of p and precision are drawn at this value.


def average_precision(setting: Setting, split: str, name: str) -> Picture | None:
    """Return AP on a split over labels, the final AP of the reference (Figure 4a), and that without labels."""
    reference = setting.evaluations(setting.reference, split) if setting.reference else []
    untrained = [run.untrained[split] for run in setting.runs if split in run.untrained]
    if not untrained:
        # Of runs with a matcher an earlier version wrote AP of the cosine alone.
        found = (run.last.candidates.get(split) for run in setting.runs if run.last is not None)
        untrained = [one.cosine if one.untrained is None else one.untrained for one in found if one]
    final, alone = spread([one.average_precision.value for one in reference]), spread(untrained)
    levels = [Level("final AP of static", final.mean, LOOKS["static"][0])] if final is not None else []
    if alone is not None:
        levels.append(Level("no labels: the untrained encoder", alone.mean, INK))
    plot = Plot(name, f"Average precision (AP) on {split}", f"AP on {split}")
    return curves.lines(plot, setting, setting.methods, _ap(split), levels)


def seeding(setting: Setting, split: str, name: str) -> Picture | None:
    """Return AP of the methods that were run with both kinds of seed set, retrieved and stated (Figure 3a)."""
    both = [
        method
        for method in setting.methods
        if {Method(method.strategy, kind, method.once) for kind in ("retrieval", "stated")} <= set(setting.methods)
    ]
    if not both:
        return None
    plot = Plot(name, f"AP on {split} with a retrieved or a stated seed set", f"AP on {split}")
    return curves.lines(plot, setting, both, _ap(split))


def positives(setting: Setting, name: str) -> Picture | None:
    """Return the number of positives collected so far (Figure 4b)."""
    plot = Plot(name, "Number of positives collected", "positives collected", percent=False)
    return curves.lines(plot, setting, setting.methods, lambda one: one.positives)


def positive_share(setting: Setting, name: str) -> Picture | None:
    """Return the share of positives among the labels so far (Figure 4b)."""
    plot = Plot(name, "Share of positives among the labels", "share of positives")
    return curves.lines(plot, setting, setting.methods, lambda one: one.positives / one.labels if one.labels else None)


def batch_calibration(setting: Setting, name: str) -> Picture | None:
    """Return the share of positives in each batch by round, and the mean p that the model gave it (Figure 3b)."""
    mean = f"mean {setting.name_of_p}"
    title = f"Calibration of batches: share of positives and {mean}"
    plot = Plot(name, title, "share of positives in the batch", by_round=True)
    drawing = Drawing("round", plot.ylabel)
    for method in setting.methods:
        runs, words = setting.of(method), setting.name(method)
        share = curves.series(runs, plot, lambda one: one.batch_share)
        p = curves.series(runs, plot, lambda one: one.batch_p)
        if share:
            curves.draw(drawing.axes, share, method, words)
            means = [one.mean for one in p.values()]
            drawing.axes.plot(list(p), means, ":", color=look(method)[0], label=f"{mean} of {words}")
            ends = curves.describe(share, True), curves.describe(p, True)
            drawing.descriptions.append(f"{words}: {ends[0]}; {mean} {ends[1]}")
    plot.scale(drawing.axes)
    return drawing.picture(name, title, f"{title}, by round")


def reliability(setting: Setting, split: str, name: str) -> Picture | None:
    """Return the share of positives over mean p after the last round of the first seed, by half decades of the odds."""
    drawing = Drawing("predicted p", f"share of positives on {split}")
    for method in setting.methods:
        tables = [one.reliability for one in setting.evaluations(method, split)]
        points = [(max(row.mean_p, LEAST), row.share) for row in next(filter(None, tables), ()) if row.share > 0]
        if points:
            (colour, marker), words = look(method), setting.name(method)
            p, share = zip(*points, strict=True)
            drawing.axes.plot(p, share, color=colour, marker=marker, label=words)
            drawing.descriptions.append(f"{words}: {100 * share[-1]:.0f}% positive at p = {p[-1]:.2g}")
    drawing.axes.plot([LEAST, 1], [LEAST, 1], color="#8c8c8c", linewidth=1, linestyle="--", label="calibrated")
    drawing.axes.set(xscale="log", yscale="log")
    title = f"Calibration on {split} after the last round, first seed"
    return drawing.picture(name, title, title)


def precision_recall(setting: Setting, split: str, name: str) -> Picture | None:
    """Return precision over recall after the last round, a line for each complete run."""
    drawing = Drawing("recall", f"precision on {split}")
    axes, least = drawing.axes, 0.5
    for method in setting.methods:
        measured = [one for one in setting.evaluations(method, split) if one.recall]
        for place, one in enumerate(measured):
            # A step: each threshold's precision is counted for the recall that it adds (Eq. 6).
            recall, precision = (0.0, *one.recall), (one.precision[0], *one.precision)
            label = None if place else setting.name(method)
            axes.step(recall, precision, where="pre", color=look(method)[0], linewidth=1.4, label=label)
            least = min(least, *one.precision)
        if measured:
            words = f"{setting.name(method)}: {100 * _precision_at(measured[0], 0.5):.2g}% at 50% recall"
            drawing.descriptions.append(words)
    axes.set(yscale="log", xlim=(0, 1), ylim=(max(least, LEAST) / 1.5, 1.1))
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.yaxis.set_major_locator(LogLocator(numticks=99))
    title = f"Precision-recall curve on {split} after the last round"
    return drawing.picture(name, title, title)


def time_by_stage(setting: Setting, name: str) -> Picture | None:
    """Return the mean hours (or minutes) of a complete run by stage, a bar for each method."""
    rows = [(setting.name(method), stage_seconds(setting.of(method))) for method in reversed(setting.methods)]
    rows = [(word, seconds) for word, seconds in rows if seconds]
    if not rows:
        return None
    unit, length = ("hours", 3600) if max(sum(seconds.values()) for _, seconds in rows) > 3600 else ("minutes", 60)
    drawing = Drawing(f"{unit} of a run", "")
    ends = [0.0] * len(rows)
    for place, stage in enumerate(stages_of([seconds for _, seconds in rows])):
        wide = [seconds.get(stage, 0.0) / length for _, seconds in rows]
        drawing.axes.barh(
            range(len(rows)), wide, left=ends, height=0.6, color=PALETTE[place % len(PALETTE)], label=stage
        )
        ends = [end + more for end, more in zip(ends, wide, strict=True)]
    drawing.axes.set_yticks(range(len(rows)), [word for word, _ in rows])
    drawing.axes.grid(visible=False, axis="y")
    drawing.descriptions = [f"{word}: {sum(seconds.values()) / length:.3g} {unit}" for word, seconds in rows[::-1]]
    return drawing.picture(name, "Time by stage", f"Mean {unit} of a run")


def index_recall(setting: Setting, name: str) -> Picture | None:
    """Return the recall of each round's index against an exact search; None also if all of it is 1."""
    if not {one.index_recall for run in setting.runs for one in run.rounds} - {None, 1.0}:
        return None
    plot = Plot(name, "Recall of the index against an exact search", "recall", by_round=True)
    return curves.lines(plot, setting, setting.methods, lambda one: one.index_recall)


def _ap(split: str) -> curves.Value:
    return lambda one: one.splits[split].average_precision.value if split in one.splits else None


def _precision_at(one: SplitEvaluation, recall: float) -> float:
    return next(p for r, p in zip(one.recall, one.precision, strict=True) if r >= recall)
