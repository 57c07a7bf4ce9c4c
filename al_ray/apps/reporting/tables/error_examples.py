"""Example pairs that a run's last round gets wrong or is unsure of (the paper's Figure 2), and what changed in it.

For a run that recorded none they are pairs that were labelled.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from al_ray.apps.reporting.labelled_examples import (
    CONFIDENT,
    DIFFERENT_YES,
    NO_TO_YES,
    SIMILAR_NO,
    UNCERTAIN,
    YES_TO_NO,
)
from al_ray.apps.reporting.run_records import LABELLED, ExamplePair, Run, Setting
from al_ray.metrics.error_examples import HIGH_NEGATIVE, LOW_POSITIVE, NEAR_BOUNDARY

TITLES = {
    HIGH_NEGATIVE: "Confident false positives: not known matches with the highest p",
    LOW_POSITIVE: "Confident false negatives: matches with the lowest p",
    NEAR_BOUNDARY: "Least certain pairs: p closest to 1/2",
    YES_TO_NO: "The model says yes, the label no: the highest score first",
    NO_TO_YES: "The model says no, the label yes: the lowest score first",
    UNCERTAIN: "Least certain labelled pairs: score closest to 1/2",
    CONFIDENT: "Most certain labelled pairs: score closest to 0 or 1",
    SIMILAR_NO: "Most similar pairs labelled no",
    DIFFERENT_YES: "Least similar pairs labelled yes",
}
BY_ENCODER = (SIMILAR_NO, DIFFERENT_YES)


@dataclass(frozen=True)
class Pair:
    """A pair with its rank in its kind, from 1; new: the previous round did not list it."""

    place: int
    example: ExamplePair
    new: bool


@dataclass(frozen=True)
class Group:
    """Pairs of a kind, the most extreme first; gone: those that only the previous round listed.

    words: how many are on the wrong side of p = 1/2, and how many are new.
    """

    title: str
    words: str
    pairs: tuple[Pair, ...]
    gone: tuple[ExamplePair, ...]


@dataclass(frozen=True)
class ErrorExamples:
    """The example pairs of a run's last round. labelled: they are among its labels, and not of an evaluated split."""

    title: str
    labelled: bool
    groups: tuple[Group, ...]


def error_examples(setting: Setting, count: int) -> list[ErrorExamples]:
    """Return the examples of one run for each method: the first seed with any, at most `count` pairs of a kind."""
    lists: list[ErrorExamples] = []
    # Adaptive methods first: readers look for them most often.
    for method in sorted(setting.methods, key=lambda method: (-method.rank[0], method.rank)):
        runs = [*setting.of(method), *setting.of(method, complete=False)]
        first = next((run for run in runs if run.last is not None and run.last.examples), None)
        if first is not None:
            lists.append(_of_run(first, setting.name(method), count))
    return lists


def _of_run(run: Run, name: str, count: int) -> ErrorExamples:
    last = run.rounds[-1]
    before = run.rounds[-2].examples if len(run.rounds) > 1 else ()
    title = f"{name}, seed {run.config.seed}, round {last.number}, on {last.examples_of}"
    if run.trouble:
        title += f" ({run.trouble})"
    groups = [_group(kind, last.examples, before, count) for kind in TITLES]
    return ErrorExamples(title, last.examples_of == LABELLED, tuple(group for group in groups if group.pairs))


def _group(kind: str, examples: Sequence[ExamplePair], before: Sequence[ExamplePair], count: int) -> Group:
    here = [one for one in examples if one.kind == kind]
    there = [one for one in before if one.kind == kind]
    known, now = {one.key for one in there}, {one.key for one in here}
    pairs = tuple(Pair(place, one, bool(there) and one.key not in known) for place, one in enumerate(here, start=1))
    gone = tuple(one for one in there if one.key not in now)
    words = f"{len(here)} pairs."
    if kind in (HIGH_NEGATIVE, LOW_POSITIVE):
        wrong = sum(one.p is not None and (one.p > 0.5) != bool(one.label) for one in here)
        words = f"{wrong} of {len(here)} pairs are on the wrong side of p = 1/2."
    elif kind in BY_ENCODER:
        words = "By the cosine of the untrained encoder, because no trained model chose a pair of this run."
    elif kind != NEAR_BOUNDARY:
        words = "The score is by the model that chose the pair, before it was labelled; no measured probability."
    if there:
        words += f" Since the previous round: {sum(pair.new for pair in pairs)} new, {len(gone)} no longer in the list."
    return Group(TITLES[kind], words, pairs[:count], gone[:count])
