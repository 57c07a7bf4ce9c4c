"""All that a report says: of each setting its tables, its figures and its pairs, in the order of reading."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from al_ray.core.runs import Run, Setting, measured, settings
from al_ray.pictures import curves
from al_ray.pictures.lines import Picture
from al_ray.reports.comparisons import against_reference, efficiency
from al_ray.reports.looked import Looked, looked_at
from al_ray.reports.rounds import batches, by_labels, recall, seconds
from al_ray.reports.table import NOTHING, Row, Table, percent
from al_ray.reports.tables import positives, results, stratified, task_sizes


@dataclass(frozen=True)
class Chapter:
    """A part of a section."""

    name: str
    title: str
    tables: tuple[Table, ...]
    pictures: tuple[Picture, ...] = ()
    looked: tuple[Looked, ...] = ()


@dataclass(frozen=True)
class Section:
    """What is said of runs that can be compared. words: in short."""

    name: str
    title: str
    words: str
    chapters: tuple[Chapter, ...]


@dataclass(frozen=True)
class Report:
    """Sections, and a table of all runs."""

    sections: tuple[Section, ...]
    runs: Table

    @property
    def pictures(self) -> list[Picture]:
        """Of all sections."""
        return [picture for section in self.sections for chapter in section.chapters for picture in chapter.pictures]


def report(runs: Sequence[Run], examples: int) -> Report:
    """Of runs of any tasks and options. examples: pairs of a kind to show of a run."""
    parts = settings(runs)
    return Report(
        tuple(_section(setting, f"s{number}", examples) for number, setting in enumerate(parts, start=1)),
        _every_run(parts),
    )


def _section(setting: Setting, tag: str, examples: int) -> Section:
    splits, first = setting.splits, setting.splits[:1]
    chapters = [
        _chapter(
            f"{tag}-1",
            "Results",
            [
                results(setting, tag),
                stratified(setting, tag),
                against_reference(setting, tag),
                efficiency(setting, tag),
                *(by_labels(setting, tag, split) for split in splits),
            ],
            [
                *(curves.average_precision(setting, split, f"{tag}-ap-{split}") for split in splits),
                *(curves.seeding(setting, split, f"{tag}-seeding-{split}") for split in first),
                *(curves.precision_recall(setting, split, f"{tag}-pr-{split}") for split in splits),
            ],
        ),
        _chapter(
            f"{tag}-2",
            "Positives collected",
            [positives(setting, tag)],
            [
                curves.positives(setting, f"{tag}-positives"),
                curves.positive_share(setting, f"{tag}-share"),
            ],
        ),
        _chapter(
            f"{tag}-3",
            "Calibration",
            [batches(setting, tag)],
            [
                curves.batch_calibration(setting, f"{tag}-batches"),
                *(curves.reliability(setting, split, f"{tag}-reliability-{split}") for split in first),
            ],
        ),
        _chapter(f"{tag}-4", "Pairs to look at (Figure 2)", [], [], looked_at(setting, examples)),
        _chapter(
            f"{tag}-5",
            "Task, time and search",
            [task_sizes(setting, tag), seconds(setting, tag), recall(setting, tag)],
            [curves.time_by_stage(setting, f"{tag}-time"), curves.index_recall(setting, f"{tag}-recall")],
        ),
    ]
    filled = tuple(one for one in chapters if one.tables or one.pictures or one.looked)
    return Section(tag, setting.words, in_short(setting), filled)


def in_short(setting: Setting) -> str:
    """What runs there are, and which method ends with the highest AP."""
    whole = [run for run in setting.runs if not run.trouble]
    seeds = {run.config.seed for run in whole}
    words = f"{len(setting.runs)} run{'s' if len(setting.runs) > 1 else ''}, {len(whole)} complete."
    if not any(run.rounds for run in setting.runs):
        return f"{words} None has a complete round."
    if not setting.splits:
        return f"{words} None has measured a split (--evaluation.splits): there is no average precision."
    split, means = setting.splits[0], dict[str, float]()
    for method in setting.methods:
        found = [one.average_precision.value for run in setting.of(method) if (one := measured(run, split)) is not None]
        if found:
            means[setting.name(method)] = fmean(found)
    if len(means) > 1:
        best, *others = sorted(means, key=lambda name: -means[name])
        told = ", ".join(f"{name} {percent(means[name])}%" for name in others)
        words += f" AP on {split} after the last round is highest for {best}: {percent(means[best])}% ({told})."
    if len(seeds) == 1:
        words += " It is one seed: what another would have given is not known."
    return words


def _chapter(
    name: str,
    title: str,
    tables: Sequence[Table | None],
    pictures: Sequence[Picture | None],
    looked: Sequence[Looked] = (),
) -> Chapter:
    there = tuple(table for table in tables if table is not None), tuple(one for one in pictures if one is not None)
    return Chapter(name, title, *there, tuple(looked))


def _every_run(parts: Sequence[Setting]) -> Table:
    """A row a run, whatever came of it, with the figures of its last complete round."""
    splits = tuple(split for split in ("dev", "test", "train") if any(split in part.splits for part in parts))
    rows: list[Row] = []
    for number, part in enumerate(parts, start=1):
        for run in (run for method in part.methods for run in part.of(method, complete=None)):
            last = run.last
            figures = (str(last.number), f"{last.labels:,}", f"{last.positives:,}") if last else ("0", NOTHING, NOTHING)
            words = (run.name, run.trouble or "complete", str(number), part.name(run.method), str(run.config.seed))
            rows.append(Row((*words, *figures, *(_estimate(run, split) for split in splits)), bool(run.trouble)))
    heads = ("run", "state", "section", "method", "seed", "round", "labels", "positives")
    notes = ("AP after the last complete round; in brackets, where a sample was weighted, its 95% interval.",)
    return Table("runs", "All runs", (*heads, *(f"{split} AP %" for split in splits)), tuple(rows), notes, words=5)


def _estimate(run: Run, split: str) -> str:
    one = measured(run, split)
    if one is None:
        return NOTHING
    found = one.average_precision
    return percent(found.value) + ("" if one.exact else f" ({percent(found.low)} to {percent(found.high)})")
