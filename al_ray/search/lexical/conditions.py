"""Which pairs a search by 3-grams leaves out, as further columns of its matrices.

A sparse product knows only sums. So a group of texts that form no pairs has a column of its own, whose product is below
every score; and a group within which all pairs lie has one whose product is above every score.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix, hstack

from al_ray.core.pair_rule import GroupCodes, PairRule
from al_ray.core.pairs import Rows
from al_ray.search.lexical.weights import SCALE, WeightedTexts

INSIDE = 2 * SCALE**2
"""What a pair within a group of --same has besides its score, which is below 1.1 * SCALE**2."""
Keys = npt.NDArray[np.int32 | np.int64]
_SAME, _FORBIDDEN = (SCALE, 2 * SCALE), (2 * SCALE, -2 * SCALE)  # Weights of a query and of another text.


@dataclass(frozen=True, eq=False)
class PairConditions:
    """Which pairs of a query and another text are pairs of a task, queries being its left texts.

    symmetric: both sides are the same texts, and none is a pair with itself. rule: which can match; None for all.
    """

    symmetric: bool = False
    rule: PairRule | None = None

    @property
    def turned(self) -> "PairConditions":
        """Return the same conditions for queries that are the right texts of a task, and others that are the left."""
        if self.rule is None:
            return self
        both = {name: GroupCodes(of.columns, of.right, of.left) for name, of in self.rule.conditions.items()}
        return replace(self, rule=PairRule(**both))

    @property
    def least(self) -> int:
        """Return the sum above which a pair is one of the task."""
        return INSIDE if self.rule is not None and self.rule.same is not None else 0

    def order(self, rows: Rows) -> Rows:
        """(n,) rows of queries -> their places, those of a group of --same one after the other."""
        if self.rule is None or self.rule.same is None:
            return np.arange(len(rows))
        return np.argsort(self.rule.same.left[rows], kind="stable")

    def keys(self, rows: Rows, side: int) -> list[tuple[Keys, int]]:
        """Return for each condition the key (n,) of each text, and the weight of its column.

        side: 0 for queries, 1 for others.
        """
        keyed = list[tuple[Keys, int]]()
        rule = PairRule() if self.rule is None else self.rule
        if rule.same is not None:
            keyed.append(((rule.same.left, rule.same.right)[side][rows], _SAME[side]))
        if rule.different is not None:
            # In a symmetric task a text is in one group with itself.
            keyed.append(((rule.different.left, rule.different.right)[side][rows], _FORBIDDEN[side]))
        elif self.symmetric:
            keyed.append((rows, _FORBIDDEN[side]))
        return keyed


class OtherTexts:
    """Others (o,) as a matrix with a row for each 3-gram and each key of a condition."""

    def __init__(self, texts: WeightedTexts, conditions: PairConditions) -> None:
        """Prepare the matrix: 12 bytes for a weight, besides the 8 of the texts."""
        self.texts, self.rows, self.conditions = texts, texts.rows, conditions
        keyed = conditions.keys(texts.rows, 1)
        self._known = [np.unique(keys) for keys, _ in keyed]
        columns = [_column(keys, known, weight) for (keys, weight), known in zip(keyed, self._known, strict=True)]
        self.matrix = csr_matrix(_beside(texts, columns).T)

    def __len__(self) -> int:
        return len(self.rows)

    def reached_by(self, rows: Rows) -> "OtherTexts":
        """Return those that share a group of --same with a query of (q,) rows, and these themselves if all do."""
        rule = self.conditions.rule
        if rule is None or rule.same is None:
            return self
        places = rule.reachable(rows, self.rows)
        return self if len(places) == len(self) else OtherTexts(self.texts.take(places), self.conditions)

    def matrix_of(self, queries: WeightedTexts) -> csr_matrix:
        """Return the weights of queries, with the columns of the conditions: its product with `matrix` has all sums."""
        keyed = self.conditions.keys(queries.rows, 0)
        columns = [_column(keys, known, weight) for (keys, weight), known in zip(keyed, self._known, strict=True)]
        return _beside(queries, columns)


def _beside(texts: WeightedTexts, columns: list[csr_matrix]) -> csr_matrix:
    """Return the weights and further columns as one matrix of 64 bits, which the sums of products need."""
    return csr_matrix(hstack([texts.weights.astype(np.int64), *columns], format="csr"))


def _column(keys: Keys, known: Keys, weight: int) -> csr_matrix:
    """Return a matrix with a row for each key (n,) and a column for each known key, with the weight where they meet."""
    at = np.searchsorted(known, keys)
    there = np.flatnonzero(at < len(known))
    there = there[known[at[there]] == keys[there]]
    values = np.full(len(there), weight, dtype=np.int64)
    return csr_matrix((values, (there, at[there])), shape=(len(keys), len(known)))
