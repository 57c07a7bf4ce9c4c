"""Compare pairs of records: every field by the comparisons of its type, and the whole text."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from al_ray.core.pairs import Pairs, Rows
from al_ray.matcher.comparisons.comparison import ColumnValues, Compared, Comparison, Prepared, Scores
from al_ray.matcher.comparisons.frequencies import ColumnCounts, Frequencies, frequencies_of
from al_ray.matcher.comparisons.records import Field, Records, normal_form
from al_ray.matcher.comparisons.registry import comparisons_of

WHOLE = "whole text"
BLOCK = 2**14  # Pairs compared at a time.


@dataclass(frozen=True)
class PreparedColumn:
    """A column (n,) of one side: the place (n,) of each value among the distinct ones, -1 where it is missing.

    by: what each function of the registry made of the distinct values.
    """

    places: Rows
    by: dict[Callable[[ColumnValues], Prepared], Prepared]


PreparedRecords = tuple[PreparedColumn, ...]


class RecordComparer:
    """Compares records of two sides; names: (F,) of the numbers, such as "price: relative difference".

    fields: those that both sides have, () if the sides share none: then the whole text is compared alone, as a field of
    type text too. frequencies: of values and words; those of the given records if None. A shard, or a service with
    records of later, is given those of all records.
    """

    def __init__(
        self,
        fields: Sequence[Field],
        left: Records,
        right: Records,
        frequencies: Frequencies | None = None,
        threads: int = 1,
    ) -> None:
        self.fields, self.threads = tuple(fields), threads
        if frequencies is None:
            frequencies = frequencies_of(fields, left)
            frequencies = frequencies if right is left else frequencies + frequencies_of(fields, right)
        self.frequencies = frequencies
        self._comparisons = tuple(_comparisons(self.fields))
        self.names = tuple(f"{name}: {one.name}" for name, _, one in self._comparisons)
        self._left = self._prepared(left)
        self._right = self._left if right is left else self._prepared(right)

    def against(self, right: Records) -> "RecordComparer":
        """Return the comparer of the same left records with other right ones, such as the next block of them."""
        other = object.__new__(RecordComparer)
        other.__dict__.update(self.__dict__)
        other._right = self._prepared(right)
        return other

    def compare(self, pairs: Pairs) -> Scores:
        """(n, 2) rows of the left and right records -> (n, F) numbers; each row depends on its own pair alone."""
        scores = np.empty((len(pairs), len(self._comparisons)), dtype=np.float32)
        starts = range(0, len(pairs), BLOCK)

        def fill(start: int) -> None:
            part = slice(start, start + BLOCK)
            self._fill(pairs[part], scores[part])

        # A thread takes longer to start than one block of a few pairs, such as the candidates of one record.
        if self.threads == 1 or len(starts) <= 1:
            for start in starts:
                fill(start)
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(fill, starts))
        return scores

    def _fill(self, pairs: Pairs, scores: Scores) -> None:
        for number, (_, column, comparison) in enumerate(self._comparisons):
            left, right = self._left[column], self._right[column]
            rows, others = left.places[pairs[:, 0]], right.places[pairs[:, 1]]
            made, other = left.by[comparison.prepare], right.by[comparison.prepare]
            if comparison.missing is None:
                scores[:, number] = comparison.compute(made, rows, other, others)
                continue
            known = (rows >= 0) & (others >= 0)
            scores[~known, number] = comparison.missing
            scores[known, number] = comparison.compute(made, rows[known], other, others[known])

    def _prepared(self, records: Records) -> PreparedRecords:
        counts = (*self.frequencies.columns, self.frequencies.texts)
        columns = (*records.columns, records.texts)
        return tuple(
            _prepare(values, counted, [one for _, at, one in self._comparisons if at == column])
            for column, (values, counted) in enumerate(zip(columns, counts, strict=True))
        )


def _comparisons(fields: Sequence[Field]) -> list[tuple[str, int, Comparison]]:
    """Return the name of the field, the number of the column and the comparison of each number."""
    kinds: list[tuple[str, Compared]] = [(field.name, field.type) for field in fields]
    chosen = [(name, at, one) for at, (name, kind) in enumerate(kinds) for one in comparisons_of(kind)]
    whole = comparisons_of(WHOLE)
    if not fields:
        whole = (*whole, *(one for one in comparisons_of("text") if one not in whole))
    return [*((WHOLE, len(fields), one) for one in whole), *chosen]


def _prepare(values: Sequence[str], counts: ColumnCounts, comparisons: Sequence[Comparison]) -> PreparedColumn:
    numbers = dict[str, int]()
    places = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(map(normal_form, values)):
        places[row] = numbers.setdefault(value, len(numbers)) if value else -1
    column = ColumnValues(list(numbers), counts)
    return PreparedColumn(places, {prepare: prepare(column) for prepare in {one.prepare for one in comparisons}})
