"""Which comparisons matter: a bar for each of those that change the p of a matcher most."""

from collections.abc import Sequence
from statistics import fmean
from textwrap import fill

from al_ray.active_learning.method import Method
from al_ray.apps.reporting.plots.learning_curves import Drawing, Picture, look
from al_ray.apps.reporting.run_records import Setting
from al_ray.matcher.wording import name_in_words
from al_ray.runs.importance import Importance

BARS = 12
WIDE = 44  # Characters of a line of a name.


def importance(setting: Setting, method: Method, name: str) -> Picture | None:
    """Return the mean size of what each comparison adds to p after the last round; None without a matcher.

    The mean is over the labelled pairs of a run, and then over the complete runs of the method; without one, over all.
    """
    runs = setting.of(method) or setting.of(method, complete=False)
    found = [run.last.importance for run in runs if run.last is not None and run.last.importance is not None]
    if not found:
        return None
    most = largest(found)[:BARS]
    drawing = Drawing("mean change of p", "")
    drawing.figure.set_size_inches(6.4, 1.0 + 0.36 * len(most))
    places = range(len(most))
    drawing.axes.barh(places, [adds for _, adds in most], height=0.62, color=look(method)[0])
    drawing.axes.set_yticks(places, [fill(words, WIDE) for words, _ in most], fontsize=8)
    for label in drawing.axes.get_yticklabels():
        # A dollar sign in the name of a user's column begins no formula.
        label.set_parse_math(False)
    drawing.axes.invert_yaxis()
    drawing.axes.grid(visible=False, axis="y")
    drawing.descriptions = [f"{words}: {adds:.3f}" for words, adds in most]
    title = f"Which comparisons matter: {setting.name(method)}"
    pairs = " and ".join(f"{count:,}" for count in sorted({one.pairs for one in found}))
    words = f"Mean size of what each comparison adds to p or takes from it, over {pairs} labelled pairs, last round"
    return drawing.picture(name, title, words)


def largest(found: Sequence[Importance]) -> list[tuple[str, float]]:
    """Return the comparisons in plain words and what each changes p by, a mean over runs; the largest first.

    A comparison that the matcher of a run lacks changes nothing there.
    """
    adds = [dict(zip(one.names, one.adds, strict=True)) for one in found]
    names = dict.fromkeys(name for one in adds for name in one)
    means = {name: fmean(one.get(name, 0.0) for one in adds) for name in names}
    return [(name_in_words(name), mean) for name, mean in sorted(means.items(), key=lambda item: (-item[1], item[0]))]
