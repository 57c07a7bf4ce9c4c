"""Pairs to look at: what a run's last round gets wrong (Figure 2), what it is unsure of, and what changed since."""

from collections.abc import Sequence
from dataclasses import dataclass

from al_ray.core.examples import HIGH_NEGATIVE, LOW_POSITIVE, NEAR_BOUNDARY
from al_ray.core.runs import Run, Setting, Shown

TITLES = {
    HIGH_NEGATIVE: "Confident false positives: no match, by what is known, and the highest p",
    LOW_POSITIVE: "Confident false negatives: a match, and the lowest p",
    NEAR_BOUNDARY: "Nearest the boundary, where p is 1/2",
}


@dataclass(frozen=True)
class Pair:
    """A pair with its place among those of its kind, from 1; new: the round before did not have it."""

    place: int
    shown: Shown
    new: bool


@dataclass(frozen=True)
class Group:
    """Pairs of a kind, the most telling first; gone: those of the round before that are no more among them.

    words: how many are on the wrong side of p = 1/2, and what is new.
    """

    title: str
    words: str
    pairs: tuple[Pair, ...]
    gone: tuple[Shown, ...]


@dataclass(frozen=True)
class Looked:
    """The pairs of a run's last round on a split."""

    title: str
    groups: tuple[Group, ...]


def looked_at(setting: Setting, count: int) -> list[Looked]:
    """Of each method, the first seed's run that has any; at most `count` pairs of a kind, and as many that left."""
    made: list[Looked] = []
    # The adaptive ones first: they are what is mostly looked for.
    for method in sorted(setting.methods, key=lambda method: (-method.rank[0], method.rank)):
        runs = [*setting.of(method), *setting.of(method, complete=False)]
        found = next((run for run in runs if run.last is not None and run.last.examples), None)
        if found is not None:
            made.append(_looked(found, setting.name(method), count))
    return made


def _looked(run: Run, name: str, count: int) -> Looked:
    last = run.rounds[-1]
    before = run.rounds[-2].examples if len(run.rounds) > 1 else ()
    title = f"{name}, seed {run.config.seed}, round {last.number}, on {last.examples_of}"
    if run.trouble:
        title += f" ({run.trouble})"
    groups = [_group(kind, last.examples, before, count) for kind in TITLES]
    return Looked(title, tuple(group for group in groups if group.pairs))


def _group(kind: str, examples: Sequence[Shown], before: Sequence[Shown], count: int) -> Group:
    here = [one for one in examples if one.kind == kind]
    there = [one for one in before if one.kind == kind]
    known, now = {one.key for one in there}, {one.key for one in here}
    pairs = tuple(Pair(place, one, bool(there) and one.key not in known) for place, one in enumerate(here, start=1))
    gone = tuple(one for one in there if one.key not in now)
    words = f"{len(here)} kept."
    if kind != NEAR_BOUNDARY:
        wrong = sum((one.p > 0.5) != bool(one.label) for one in here)
        words = f"Of the {len(here)} kept, {wrong} on the wrong side of p = 1/2."
    if there:
        words += f" New since the round before: {sum(pair.new for pair in pairs)}; no more among them: {len(gone)}."
    return Group(TITLES[kind], words, pairs[:count], gone[:count])
