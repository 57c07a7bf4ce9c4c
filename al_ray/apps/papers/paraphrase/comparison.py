"""Compare evaluated paraphrase models: a table, and a curve over a numeric option."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from al_ray.apps.papers.paraphrase.folder import ParaphraseFolder
from al_ray.apps.reporting.seed_statistics import Spread, spread
from al_ray.core.config.serialization import as_dict
from al_ray.core.errors import BadOption
from al_ray.core.naming import option

METRICS = {
    "precision_at_1": "P@1",
    "precision_at_10": "P@10",
    "mean_reciprocal_rank": "MRR",
    "recall": "recall of the index",
}
PLOTTED = ("P@1", "P@10", "MRR")
Spreads = dict[str, Spread]
"""The name of a metric -> its spread over the models of one setting, in percent."""


def compared(folders: Sequence[ParaphraseFolder], split: str) -> tuple[list[str], dict[tuple[Any, ...], Spreads]]:
    """Return the options in which the models differ, seeds aside, and the metrics of each of their settings.

    BadOption for models of several tasks or kinds of index, and for two of the same options and seed.
    """
    options = [as_dict(folder.config()) for folder in folders]
    figures = [folder.evaluation(split) for folder in folders]
    for what, of in (
        ("task", [folder.task_digest() for folder in folders]),
        ("index", [one["index"]["index"] for one in figures]),
    ):
        if len(set(of)) > 1:
            several = ", ".join(sorted(set(of)))
            raise BadOption(f"`runs` were measured with more than one {what} ({several}): their figures do not compare")
    names = [name for name in options[0] if name not in ("seed", "task") and len({one[name] for one in options}) > 1]
    by_setting: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = defaultdict(dict)
    for folder, one, measured in zip(folders, options, figures, strict=True):
        seeds = by_setting[tuple(one[name] for name in names)]
        if one["seed"] in seeds:
            raise BadOption(f"`runs`: {folder.path} is the second one of its options and seed; give it once")
        seeds[one["seed"]] = {**measured, "recall": measured["index"]["recall"]}
    return names, {setting: _of_setting(by_setting[setting].values()) for setting in sorted(by_setting)}


def _of_setting(figures: Collection[Mapping[str, Any]]) -> Spreads:
    """Return the spreads of the models of one setting."""
    spreads = {name: spread([100 * one[key] for one in figures]) for key, name in METRICS.items()}
    return {name: one for name, one in spreads.items() if one is not None}


def row(setting: tuple[Any, ...], of: Spreads) -> tuple[str, ...]:
    """Format a row of the table."""
    cells = [
        f"{one.mean:.2f}" + (f" ({one.low:.2f} to {one.high:.2f})" if one.count > 1 else "") for one in of.values()
    ]
    return (*map(str, setting), str(of["MRR"].count), *cells)


def points(names: Sequence[str], spreads: Mapping[tuple[Any, ...], Spreads], by: str) -> dict[str, dict[float, Spread]]:
    """Return metric -> value of the option `by` -> spread; BadOption if that is no curve."""
    if by not in names:
        raise BadOption(
            f"{option('by', by)}: the models do not differ in it; they do in {', '.join(names) or 'nothing'}"
        )
    place, curves = names.index(by), {name: {} for name in PLOTTED}
    for setting, of in spreads.items():
        value = setting[place]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise BadOption(f"{option('by', by)} has the value {value!r}, not a number; give another option")
        if value in curves["MRR"]:
            raise BadOption(
                f"{option('by', by)}: two settings have {value} and differ elsewhere; leave one of them out"
            )
        for name in curves:
            curves[name][value] = of[name]
    return curves
