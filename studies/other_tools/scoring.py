"""Precision, recall and F1 of the pairs that a tool calls matches, of all pairs and of those without a label."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

Pair = tuple[str, str]
PairSet = frozenset[Pair]


@dataclass(frozen=True)
class Measured:
    """Counts of pairs: those that a tool calls matches, true matches, and those that are both."""

    found: int
    true: int
    right: int

    @property
    def precision(self) -> float:
        """The share of found pairs that match; 0 if none is found."""
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """The share of true matches that are found; 0 if there is none."""
        return self.right / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.right / (self.found + self.true) if self.found + self.true else 0.0


def pair_set(pairs: Iterable[Pair], one_table: bool) -> PairSet:
    """Return the pairs of ids; of one table each pair is put in one order, as (a, b) and (b, a) are the same."""
    return frozenset((min(pair), max(pair)) if one_table else pair for pair in pairs)


def measure(found: PairSet, true: PairSet, without: PairSet = frozenset()) -> Measured:
    """Compare found pairs with true ones; pairs in `without` count in neither."""
    found, true = found - without, true - without
    return Measured(len(found), len(true), len(found & true))


def read_pairs(path: Path, one_table: bool, answer: str | None = None) -> PairSet:
    """Read the columns left_id and right_id of a CSV file; of rows with this answer alone, if one is given."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if answer in (None, row.get("answer"))]
    return pair_set(((row["left_id"], row["right_id"]) for row in rows), one_table)
