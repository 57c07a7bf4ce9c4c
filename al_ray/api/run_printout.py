"""What is said of a run that has ended: where its results are, and what to do with its model."""

from collections.abc import Iterator

from al_ray.apps.matching.cutoff import NO_VARIANCE
from al_ray.apps.matching.model import match_command
from al_ray.matcher.wording import name_in_words
from al_ray.runs.candidate_figures import candidate_figures
from al_ray.runs.handover import choose_model
from al_ray.runs.importance import Importance, read_importance
from al_ray.runs.more_labels import guess_of_run
from al_ray.runs.run_folder import RunFolder, bound_config
from al_ray.runs.untrained_figures import better_than_untrained, compared_with_untrained

COMPARISONS = 5
"""Comparisons of a matcher that are said."""


def result_lines(folder: RunFolder) -> Iterator[str]:
    """Yield where the results of a run are, and the command that matches with its model."""
    yield f"results: {folder.path}"
    for figures in folder.complete_rounds()[-1:]:
        without = compared_with_untrained(figures)
        if without is not None and not better_than_untrained(figures):
            yield without
    guess = guess_of_run(folder.path)
    if guess is not None:
        yield guess.words
    choice = choose_model(folder.path) if folder.last else None
    if choice is not None and choice.round != choice.last:
        yield f"match, serve and export take {choice.words}"
    yield from candidate_lines(folder)
    scorer = folder.model(folder.last).scorer if folder.last else None
    if scorer is not None and scorer.outcome == "no-variance":
        yield f"no boundary: {NO_VARIANCE}"
    found = read_importance(folder.round(folder.last)) if scorer is not None and scorer.matcher else None
    if found is not None:
        yield format_importance(found)
    command = match_command(folder)
    if command is not None:
        yield f"match with it: {command}"


def candidate_lines(folder: RunFolder) -> Iterator[str]:
    """Yield what candidates the matcher of the last round has in each measured split, with a warning if few match."""
    for line in folder.complete_rounds()[-1:]:
        for split, one in candidate_figures(line).items():
            yield one.recall.words(split)
            warning = one.recall.warning(split, bound_config(folder.path).candidates.least_recall)
            if warning is not None:
                yield f"warning: {warning}"


def format_importance(found: Importance) -> str:
    """Format the comparisons that change p most, in plain words."""
    most = zip(found.names[:COMPARISONS], found.adds[:COMPARISONS], strict=True)
    shown = "; ".join(f"{name_in_words(name)} {adds:.3f}" for name, adds in most)
    return f"what changes p most (on average over the {found.pairs:,} labelled pairs): {shown}"
