"""Evaluated paraphrase models beside each other: a table, and a curve over an option that is a number."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from al_ray.core.errors import BadOption
from al_ray.core.plain import as_dict
from al_ray.core.spreads import Spread, spread
from al_ray.data.files import write_pictures
from al_ray.data.paraphrase_folder import ParaphraseFolder
from al_ray.pictures.measures import option_plot
from jobs.entry import aligned

FIGURES = {
    "precision_at_1": "P@1",
    "precision_at_10": "P@10",
    "mean_reciprocal_rank": "MRR",
    "recall": "recall of the index",
}
DRAWN = ("P@1", "P@10", "MRR")
Spreads = dict[str, Spread]
"""A figure's name -> of the models of one setting, percent."""


@dataclass(frozen=True)
class Compare:
    """Put evaluated models beside each other; of those that differ in the seed alone, the mean (least to greatest)."""

    runs: tuple[Path, ...]
    """Folders of models that jobs.paraphrase evaluate has measured, of one task and by one kind of index."""
    split: Literal["dev", "test"] = "dev"
    """Choose by dev; look at test at the end."""
    by: str | None = None
    """An option that is a number, such as smoothing or batch: its values are the x axis of the picture."""
    out: Path | None = None
    """The picture, OUT.svg and OUT.png; with --by."""

    def carry_out(self) -> None:
        """Print the table, and draw the picture."""
        if (self.by is None) != (self.out is None):
            raise BadOption("--by and --out make a picture together; give both or neither")
        names, spreads = compared([ParaphraseFolder(path) for path in self.runs], self.split)
        head = (*names, "seeds", *(f"{name}, %" for name in FIGURES.values()))
        print(f"{self.split}:")
        print(aligned([head, *(row(setting, of) for setting, of in spreads.items())]))
        if self.by is not None and self.out is not None:
            write_pictures(self.out, option_plot(self.by, points(names, spreads, self.by), self.split))
            print(f"picture: {self.out}.svg, {self.out}.png")


def compared(folders: Sequence[ParaphraseFolder], split: str) -> tuple[list[str], dict[tuple[Any, ...], Spreads]]:
    """The options in which the models differ, seeds aside, and for each of their settings the figures."""
    options = [as_dict(folder.config()) for folder in folders]
    figures = [with_index(folder.evaluation(split)) for folder in folders]
    for what, of in (
        ("task", [folder.task_digest() for folder in folders]),
        ("index", [one["index"] for one in figures]),
    ):
        if len(set(of)) > 1:
            several = ", ".join(sorted(set(of)))
            raise BadOption(f"--runs were measured with more than one {what} ({several}): their figures do not compare")
    names = [name for name in options[0] if name not in ("seed", "task") and len({one[name] for one in options}) > 1]
    found: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = defaultdict(dict)
    for folder, one, measured in zip(folders, options, figures, strict=True):
        seeds = found[tuple(one[name] for name in names)]
        if one["seed"] in seeds:
            raise BadOption(f"--runs {folder.path} is the second one of its options and seed; give it once")
        seeds[one["seed"]] = measured
    return names, {setting: of_setting(found[setting].values()) for setting in sorted(found)}


def with_index(evaluation: dict[str, Any]) -> dict[str, Any]:
    """An evaluation with the name and the recall of its index among its figures."""
    return {**evaluation, "index": evaluation["index"]["index"], "recall": evaluation["index"]["recall"]}


def of_setting(figures: Collection[Mapping[str, Any]]) -> Spreads:
    """Of the models of one setting."""
    found = {name: spread([100 * one[key] for one in figures]) for key, name in FIGURES.items()}
    return {name: one for name, one in found.items() if one is not None}


def row(setting: tuple[Any, ...], of: Spreads) -> tuple[str, ...]:
    """A row of the table."""
    cells = [
        f"{one.mean:.2f}" + (f" ({one.low:.2f} to {one.high:.2f})" if one.count > 1 else "") for one in of.values()
    ]
    return (*map(str, setting), str(of["MRR"].count), *cells)


def points(names: Sequence[str], spreads: Mapping[tuple[Any, ...], Spreads], by: str) -> dict[str, dict[float, Spread]]:
    """A figure's name -> the option's value -> the figure."""
    if by not in names:
        raise BadOption(f"--by {by}: the models do not differ in it; they do in {', '.join(names) or 'nothing'}")
    place, found = names.index(by), {name: {} for name in DRAWN}
    for setting, of in spreads.items():
        value = setting[place]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise BadOption(f"--by {by} is {value!r}, not a number; give another option")
        if value in found["MRR"]:
            raise BadOption(f"--by {by}: two settings have {value} and differ elsewhere; leave one of them out")
        for name in found:
            found[name][value] = of[name]
    return found
