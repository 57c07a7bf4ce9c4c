"""Content of a report: for each setting its tables, figures and example pairs, in reading order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from al_ray.apps.reporting.plots import paper_figures as curves
from al_ray.apps.reporting.plots.dev_estimates import dev_average_precision
from al_ray.apps.reporting.plots.importance import importance
from al_ray.apps.reporting.plots.learning_curves import Picture
from al_ray.apps.reporting.run_records import Run, Setting, last_evaluation, settings
from al_ray.apps.reporting.tables.by_round import batches, by_labels, recall, seconds, stability
from al_ray.apps.reporting.tables.comparisons import against_reference, efficiency
from al_ray.apps.reporting.tables.dev_estimates import dev_estimates, dev_words
from al_ray.apps.reporting.tables.error_examples import ErrorExamples, error_examples
from al_ray.apps.reporting.tables.matcher import candidate_sentences, matcher_and_cosine
from al_ray.apps.reporting.tables.results import positives, results, stratified, task_sizes
from al_ray.apps.reporting.tables.table import NOTHING, Row, Table, estimate_words, percent

Part = Table | Picture | ErrorExamples


@dataclass(frozen=True)
class Chapter:
    """A part of a section."""

    name: str
    title: str
    tables: tuple[Table, ...]
    pictures: tuple[Picture, ...]
    examples: tuple[ErrorExamples, ...]


@dataclass(frozen=True)
class Section:
    """The chapters of one setting. words: its summary in a few sentences."""

    name: str
    title: str
    words: str
    chapters: tuple[Chapter, ...]


@dataclass(frozen=True)
class Report:
    """The sections, and a table of all runs."""

    sections: tuple[Section, ...]
    runs: Table

    @property
    def pictures(self) -> list[Picture]:
        """Return the figures of all sections."""
        return [picture for section in self.sections for chapter in section.chapters for picture in chapter.pictures]

    def in_words(self, words: Callable[[str], str]) -> "Report":
        """Return the report with each sentence as `words` returns it, such as with flags for the names of options."""
        sections = list[Section]()
        for one in self.sections:
            chapters = (
                replace(chapter, tables=tuple(table.in_words(words) for table in chapter.tables))
                for chapter in one.chapters
            )
            sections.append(replace(one, words=words(one.words), chapters=tuple(chapters)))
        return Report(tuple(sections), self.runs.in_words(words))

    @property
    def cites_paper(self) -> bool:
        """Return whether a table shows figures of the paper."""
        return any(table.paper for section in self.sections for chapter in section.chapters for table in chapter.tables)


def report(runs: Sequence[Run], examples: int) -> Report:
    """Build the report of runs of any tasks and options. examples: maximum number of pairs of each kind and run."""
    parts = settings(runs)
    return Report(
        tuple(_section(setting, f"s{number}", examples) for number, setting in enumerate(parts, start=1)),
        _every_run(parts),
    )


def _section(setting: Setting, tag: str, examples: int) -> Section:
    splits, first = setting.splits, setting.splits[:1]
    contents: dict[str, list[Part | None]] = {
        "Results": [
            results(setting, tag),
            dev_estimates(setting, tag),
            stratified(setting, tag),
            against_reference(setting, tag),
            efficiency(setting, tag),
            *(by_labels(setting, tag, split) for split in splits),
            *(matcher_and_cosine(setting, tag, split) for split in splits),
            *(curves.average_precision(setting, split, f"{tag}-ap-{split}") for split in splits),
            dev_average_precision(setting, f"{tag}-ap-dev-labels"),
            *(curves.seeding(setting, split, f"{tag}-seeding-{split}") for split in first),
            *(curves.precision_recall(setting, split, f"{tag}-pr-{split}") for split in splits),
        ],
        "Positives collected": [
            positives(setting, tag),
            stability(setting, tag),
            curves.positives(setting, f"{tag}-positives"),
            curves.positive_share(setting, f"{tag}-share"),
        ],
        "Calibration": [
            batches(setting, tag),
            curves.batch_calibration(setting, f"{tag}-batches"),
            *(curves.reliability(setting, split, f"{tag}-reliability-{split}") for split in first),
        ],
        "Which comparisons matter": [
            importance(setting, method, f"{tag}-importance-{number}")
            for number, method in enumerate(setting.methods, start=1)
        ],
        "Example pairs": [*error_examples(setting, examples)],
        "Task, time and search": [
            *(task_sizes(setting, tag), seconds(setting, tag), recall(setting, tag)),
            *(curves.time_by_stage(setting, f"{tag}-time"), curves.index_recall(setting, f"{tag}-recall")),
        ],
    }
    chapters = tuple(
        _chapter(f"{tag}-{number}", title, parts)
        for number, (title, parts) in enumerate(contents.items(), start=1)
        if any(part is not None for part in parts)
    )
    return Section(tag, setting.words, in_short(setting), chapters)


def _chapter(name: str, title: str, parts: Sequence[Part | None]) -> Chapter:
    """Return a chapter of the tables, figures and examples among the parts."""
    tables = tuple(part for part in parts if isinstance(part, Table))
    pictures = tuple(part for part in parts if isinstance(part, Picture))
    return Chapter(name, title, tables, pictures, tuple(part for part in parts if isinstance(part, ErrorExamples)))


def in_short(setting: Setting) -> str:
    """Return how many runs are complete, and which method ends with the highest mean AP."""
    complete = [run for run in setting.runs if not run.trouble]
    seeds = {run.config.seed for run in complete}
    words = f"{len(setting.runs)} run{'s' if len(setting.runs) > 1 else ''}, {len(complete)} complete."
    if not any(run.rounds for run in setting.runs):
        return f"{words} None has a complete round."
    if not setting.splits:
        none = "No run was evaluated (`RunConfig.evaluation.splits`), so there is no average precision."
        return f"{words} {dev_words(setting) if setting.has_dev else none}"
    split, means = setting.splits[0], dict[str, float]()
    for method in setting.methods:
        evaluations = setting.evaluations(method, split)
        if evaluations:
            means[setting.name(method)] = fmean(one.average_precision.value for one in evaluations)
    if len(means) > 1:
        shown = {name: percent(mean) for name, mean in sorted(means.items(), key=lambda item: -item[1])}
        highest = next(iter(shown.values()))
        best = " and ".join(name for name, word in shown.items() if word == highest)
        rest = ", ".join(f"{name} {word}%" for name, word in shown.items() if word != highest)
        # Means that print alike are not ranked.
        ranked = f"highest for {best}: {highest}% ({rest})" if rest else f"{highest}% for {best}"
        words += f" Mean AP on {split} after the last round is {ranked}."
    if len(seeds) == 1:
        words += " All runs have one seed, so the variation between seeds is not known."
    return " ".join([words, *candidate_sentences(setting)])


def _every_run(parts: Sequence[Setting]) -> Table:
    """Return a row for each run, incomplete ones included, with the figures of its last complete round."""
    splits = tuple(split for split in ("dev", "test", "train") if any(split in part.splits for part in parts))
    has_dev = any(part.has_dev for part in parts)
    rows: list[Row] = []
    for number, part in enumerate(parts, start=1):
        for run in (run for method in part.methods for run in part.of(method, complete=None)):
            last = run.last
            figures = (str(last.number), f"{last.labels:,}", f"{last.positives:,}") if last else ("0", NOTHING, NOTHING)
            words = (run.name, run.trouble or "complete", str(number), part.name(run.method), str(run.config.seed))
            aps = [_estimate(run, split) for split in splits] + [_of_dev_labels(run)] * has_dev
            rows.append(Row((*words, *figures, *aps), bool(run.trouble)))
    heads = ("run", "status", "section", "method", "seed", "round", "labels", "positives")
    ap_heads = [f"{split} AP %" for split in splits] + ["AP % of ranked dev pairs"] * has_dev
    notes = ("AP after the last complete round. If it was estimated from a sample, its 95% interval is in brackets.",)
    return Table("runs", "All runs", (*heads, *ap_heads), tuple(rows), notes, words=5)


def _estimate(run: Run, split: str) -> str:
    one = last_evaluation(run, split)
    if one is None:
        return NOTHING
    ap = one.average_precision
    return percent(ap.value) + ("" if one.exact else f" ({percent(ap.low)} to {percent(ap.high)})")


def _of_dev_labels(run: Run) -> str:
    """Return AP of the ranked dev pairs after the last round, as estimated from dev labels."""
    return estimate_words(run.last.dev.average_precision if run.last and run.last.dev else None)
