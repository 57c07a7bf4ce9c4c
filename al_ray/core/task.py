"""A task: texts on two sides, and splits of them with what is known of their pairs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from al_ray.core.errors import MissingSplit
from al_ray.core.pairs import Keys, Pairs, PairSpace, Rows

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Corpus:
    """Texts with the ids their owner gave them; a text's row is its place here."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class Split:
    """The pool of one split and what is known of it.

    positives: (n, 2) all pairs that match (every other pair of the pool is taken for a negative; paper, 3.1.2).
    stated_negatives: (n, 2) pairs that somebody labelled as no match, less those that are positives.
    Pairs are rows of the task's texts, in order of key, left < right when symmetric.
    """

    name: str
    space: PairSpace
    positives: Pairs
    stated_negatives: Pairs

    @cached_property
    def positive_keys(self) -> Keys:
        """Sorted keys of the positives."""
        return np.sort(self.space.keys(self.positives))


@dataclass(frozen=True)
class Task:
    """Texts on two sides (one and the same Corpus when symmetric) and their splits.

    digest: of all that the tables hold; a run is bound to it.
    """

    name: str
    symmetric: bool
    left: Corpus
    right: Corpus
    splits: Mapping[str, Split]
    digest: str

    def split(self, name: str) -> Split:
        """A split that has pairs; MissingSplit names the cure otherwise."""
        split = self.splits.get(name)
        if split is None or not split.space.total:
            there = ", ".join(other.name for other in self.splits.values() if other.space.total)
            raise MissingSplit(
                f"task {self.name!r} has no {name} pairs (it has: {there or 'none'}); "
                f"prepare it again with a {name} share, see: python -m jobs.prepare --help"
            )
        return split

    def stating(self, name: str) -> Split:
        """A split with stated pairs, of either kind; MissingSplit names the cure otherwise."""
        split = self.split(name)
        if not len(split.positives) + len(split.stated_negatives):
            raise MissingSplit(f"no pair is stated in the {name} split of task {self.name!r}; name another --split")
        return split

    def measurable(self, name: str) -> Split:
        """A split with positives to measure by; MissingSplit names the cure otherwise."""
        split = self.split(name)
        if not len(split.positives):
            raise MissingSplit(
                f"the {name} split of task {self.name!r} has no positive pair"
                + (
                    "; let people or a program label: --oracle file"
                    if name == "train"
                    else " to measure by; name another"
                )
            )
        return split

    def space(self, left: Rows, right: Rows) -> PairSpace:
        """The pairs of some left rows with some right rows of this task."""
        return PairSpace(left=left, right=right, width=len(self.right), symmetric=self.symmetric)
