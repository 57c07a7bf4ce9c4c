"""Learning curves from labels of drawn dev pairs: a line for each run, in the band of its 95% intervals."""

from al_ray.apps.reporting.plots.learning_curves import Drawing, Picture, Plot, describe, draw
from al_ray.apps.reporting.run_records import Run, Setting
from al_ray.apps.reporting.seed_statistics import Spread


def dev_average_precision(setting: Setting, name: str) -> Picture | None:
    """Return AP of the ranked dev pairs over labels, as estimated; None without an estimate."""
    plot = Plot(name, "AP of the dev pairs of highest score, estimated from dev labels", "AP of the ranked dev pairs")
    drawing = Drawing("labels", plot.ylabel)
    for method in setting.methods:
        runs = setting.of(method, complete=None)
        for run in runs:
            points = _points(run)
            if points:
                words = setting.name(method) + f", seed {run.config.seed}" * (len(runs) > 1)
                draw(drawing.axes, points, method, words, not run.trouble)
                drawing.descriptions.append(f"{words}: {describe(points, plot.percent)}")
    plot.scale(drawing.axes)
    return drawing.picture(plot.name, plot.title, f"{plot.title}, over labels; the bands are 95% intervals")


def _points(run: Run) -> dict[int, Spread]:
    """Return labels -> the estimate, as the statistics of one number whose ends are those of its interval."""
    known = {one.labels: one.dev.average_precision for one in run.rounds if one.dev is not None}
    return {x: Spread(1, one.value, one.low, one.high, 0.0) for x, one in known.items() if one is not None}
