"""Runs with a matcher: what it adds to the cosine alone, and how many of the known matches are candidates."""

from collections.abc import Iterator

from al_ray.apps.reporting.run_records import Round, Run, Setting
from al_ray.apps.reporting.tables.table import SPREAD, Row, Table, left_out, percents, seeds
from al_ray.runs.candidate_figures import CandidateFigures

NOTE = (
    "Matcher: candidates rank by its p, and all other pairs below them by cosine. Cosine alone: all pairs rank by the "
    "cosine of the untrained encoder, which a run with a matcher does not train, so it is the same after every round."
)


def matcher_and_cosine(setting: Setting, tag: str, split: str) -> Table | None:
    """Return AP of the matcher beside that of the cosine alone by number of labels; None without a matcher."""
    steps = sorted({one.labels for run in setting.runs if not run.trouble for one in run.rounds if _both(one, split)})
    if not steps:
        return None
    head, rows = ["labels"], list[Row]()
    for method in setting.methods:
        name = f"{setting.name(method)} ({seeds(setting, method)})"
        head += [f"{name}: matcher", f"{name}: cosine alone"]
    for labels in steps:
        cells = [f"{labels:,}"]
        for method in setting.methods:
            rounds = [one for run in setting.of(method) if (one := run.at(labels)) is not None and _both(one, split)]
            cells.append(percents([one.splits[split].average_precision.value for one in rounds]))
            cells.append(percents([one.candidates[split].cosine for one in rounds]))
        rows.append(Row(tuple(cells)))
    title, notes = f"AP % on {split} of the matcher and of the cosine alone", (f"{SPREAD} {NOTE}",)
    return Table(f"{tag}-matcher-{split}", title, tuple(head), tuple(rows), (*notes, *left_out(setting.runs)))


def candidate_sentences(setting: Setting) -> Iterator[str]:
    """Yield a sentence for each split on the candidates of the setting's runs, and a warning if they lack matches.

    Runs of a setting have the same candidates, which strategy and seed do not change.
    """
    for split in setting.splits:
        found = next((one for run in setting.runs if (one := _last(run, split)) is not None), None)
        if found is not None:
            sentence, warning = found.recall.words(split), found.recall.warning(split, _least(setting))
            yield f"{sentence[0].upper()}{sentence[1:]}."
            if warning is not None:
                yield f"Warning: {warning}."


def _least(setting: Setting) -> float:
    return setting.options.candidates.least_recall


def _last(run: Run, split: str) -> CandidateFigures | None:
    return run.last.candidates.get(split) if run.last else None


def _both(one: Round, split: str) -> bool:
    """Return whether a round measured the split with its matcher, and the cosine alone."""
    return split in one.splits and split in one.candidates
