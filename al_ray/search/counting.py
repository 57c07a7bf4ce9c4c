"""Counting negatives above thresholds: all of two blocks of texts, or those of a sample. Counts of parts add."""

from dataclasses import dataclass

import numpy as np
import torch

from al_ray.core.candidates import MARGIN
from al_ray.core.pair_rule import PairRule
from al_ray.core.pairs import NO_KEYS, Keys, Mask, Pairs, Rows, as_pairs
from al_ray.core.scorer import Floats, Scorer, refuse_nan
from al_ray.core.vectors import Block, Vectors, paired_scores
from al_ray.encoders.products import product
from al_ray.metrics.average_precision import Ints, counts_above
from al_ray.metrics.bootstrap import REPLICATES, cumulate_counts
from al_ray.metrics.calibration import reliability
from al_ray.metrics.estimator import CountRequest, NegativeCounts, count_sample
from al_ray.search.merge import reachable_block
from al_ray.search.vector_files import single

TABLE = 16  # Rows for each one looked up, above which a search takes less time than a table.
COUNTED = 2**18  # Sampled pairs that are counted at a time.
COLUMNS = 2048  # Right texts in one block of a product: what is known of 1,024 x 2,048 pairs is some 8 MB an array.
# Cosines from -REACH to REACH are sorted into intervals this wide: wider than MARGIN by more than sorting rounds.
REACH, CELL = 1.05, 1.1 * MARGIN
CELLS = int(2 * REACH / CELL) + 2


@dataclass(frozen=True)
class SampleWeights:
    """How many negatives a sampled pair of each stratum represents; width: of the pairs' keys."""

    width: int
    weights: tuple[float, ...]


def count_block(
    queries: Block,
    held: Block,
    hidden: Pairs,
    request: CountRequest,
    scorer: Scorer | None,
    rule: PairRule | None = None,
) -> NegativeCounts:
    """Count every pair of two blocks that the rule allows, except the `hidden` (k, 2).

    Pairs whose float32 product is within MARGIN of a threshold are settled in float64, so that the count does not
    depend on blocks or shards. In a symmetric task only pairs left < right are counted. The reliability takes each
    probability from the middle of an interval of cosines CELL wide: a logit is moved by at most w * CELL / 2.
    """
    counter, rows = _BlockCounter(queries, request), single(queries.vectors)
    held = reachable_block(queries, held, rule)
    symmetric = request.bootstrap.symmetric
    # In a symmetric task no text on the right comes before the first on the left.
    first = np.searchsorted(held.rows, queries.rows[:1]).sum() if symmetric else 0
    for start in range(int(first), len(held.rows), COLUMNS):
        columns = Block(held.rows[start : start + COLUMNS], held.vectors[start : start + COLUMNS])
        tile = product(rows, single(columns.vectors))
        _hide(tile.numpy(), queries.rows, columns.rows, hidden, symmetric)
        if rule is not None:
            tile.numpy()[~rule.table(queries.rows, columns.rows)] = -REACH
        counter.add(tile, columns)
    return counter.counts(scorer)


class _BlockCounter:
    """The pairs of a block of left texts with one block of right texts after another, by how high they score.

    A cosine falls into one of CELLS intervals, and a table says how many of the bootstrap's thresholds it reaches:
    looking up costs a third of the product, comparing costs many times it. Where the table says `close`, which is no
    number of thresholds, pairs are settled.
    """

    def __init__(self, queries: Block, request: CountRequest) -> None:
        """No pair yet."""
        self.queries, self.request = queries, request
        thresholds = request.bootstrap.thresholds
        self.close, self.marked = len(thresholds) + 1, _marked(request.thresholds)
        reach = np.cumsum(np.bincount(_cell(thresholds), minlength=CELLS), dtype=np.int16)
        reach[self.marked] = self.close
        self.reach = torch.from_numpy(reach)
        # Memory that every block uses again: fresh pages cost as much as what is done with them.
        self.room = torch.empty(len(queries.rows) * COLUMNS, dtype=torch.int32)
        self.numbers = torch.zeros(CELLS, dtype=torch.int64)
        self.by_left = np.zeros((len(queries.rows), len(thresholds) + 2), dtype=np.int64)
        self.by_right = np.zeros((REPLICATES, len(thresholds) + 1))
        self.settled = np.zeros(len(request.thresholds), dtype=np.int64)

    def add(self, tile: torch.Tensor, columns: Block) -> None:
        """Count a tile (b, c) of cosines, which is written over; what is hidden of it is in the lowest interval."""
        refuse_nan(tile.numpy())
        cells = self.room[: tile.numel()].copy_(tile.mul_(1 / CELL).add_(REACH / CELL).view(-1))
        self.numbers += torch.bincount(cells, minlength=CELLS)
        reached = self.reach.index_select(0, cells).view(tile.shape)
        left, right = np.divmod(np.flatnonzero(reached.view(-1).numpy() == self.close), len(columns.rows))
        scores = paired_scores(self.queries.vectors, left, columns.vectors, right)
        self.settled += counts_above(self.request.thresholds, np.sort(scores))
        bootstrap = self.request.bootstrap
        exactly = np.searchsorted(bootstrap.thresholds[::-1], scores, side="right")
        self.by_left += self._by_text(reached, 0, left, exactly)
        if bootstrap.symmetric:
            by_right = self._by_text(reached, 1, right, exactly)
            self.by_right += bootstrap.weighted(columns.rows, by_right[:, : self.close])

    def _by_text(self, reached: torch.Tensor, side: int, texts: Rows, exactly: Rows) -> Ints:
        """(b, c) how many thresholds each pair reaches -> numbers of pairs by text of a side and that, the close apart.

        texts, exactly: of the close ones, which are counted by what they reach in truth besides.
        """
        count, width = reached.shape[side], self.close + 1
        starts = torch.arange(count, dtype=torch.int32) * width
        places = self.room[: reached.numel()]
        torch.add(reached, starts.view((-1, 1) if side == 0 else (1, -1)), out=places.view(reached.shape))
        numbers = torch.bincount(places, minlength=count * width).view(count, width).numpy()
        np.add.at(numbers, (texts, exactly), 1)
        return numbers

    def counts(self, scorer: Scorer | None) -> NegativeCounts:
        """Return the counts of everything added."""
        numbers, summed = self.numbers.numpy(), None
        numbers[0] = 0
        if scorer is not None:
            seen = np.flatnonzero(numbers)
            logits = scorer.logit((seen + 0.5) * CELL - REACH)
            summed = reliability(logits, np.zeros(len(seen), dtype=np.uint8), 1.0, numbers[seen])
        numbers[self.marked] = 0
        above = self.settled + np.cumsum(numbers[::-1])[::-1][_cell(self.request.thresholds)]
        by_left = self.by_left[:, : self.close]
        weighed = self.request.bootstrap.weighted(self.queries.rows, by_left)
        if self.request.bootstrap.symmetric:
            weighed += self.by_right - by_left.sum(axis=0)
        return NegativeCounts(above, summed, cumulate_counts(weighed))


class SampleCounter:
    """Counts sampled negatives of several blocks at a time, because a count has a fixed cost."""

    def __init__(self, request: CountRequest, weights: SampleWeights, scorer: Scorer | None) -> None:
        """No pair yet."""
        self.request, self.weights, self.scorer = request, weights, scorer
        self._counts = [NegativeCounts.zero(request) for _ in weights.weights]
        self._waiting = [[(NO_KEYS, np.empty(0))] for _ in weights.weights]

    def add(self, stratum: int, keys: Keys, cosines: Floats) -> None:
        """Add (n,) pairs of a stratum with their cosines."""
        self._waiting[stratum].append((keys, cosines))
        if sum(len(keys) for keys, _ in self._waiting[stratum]) >= COUNTED:
            self._count(stratum)

    def result(self) -> list[NegativeCounts]:
        """Return the counts of each stratum."""
        for stratum in range(len(self._counts)):
            self._count(stratum)
        return self._counts

    def _count(self, stratum: int) -> None:
        keys, cosines = map(np.concatenate, zip(*self._waiting[stratum], strict=True))
        self._waiting[stratum] = [(NO_KEYS, np.empty(0))]
        pairs = as_pairs(*np.divmod(keys, self.weights.width))
        logits = None if self.scorer is None else self.scorer.logit(cosines)
        weight = self.weights.weights[stratum]
        self._counts[stratum] += count_sample(self.request, keys, pairs, cosines, logits, weight)


def score_pairs(queries: Block, held: Block, pairs: Pairs, thresholds: Floats) -> Floats:
    """(n, 2) pairs of the queries with held texts -> (n,) cosines, so near in float32 that counts are exact.

    Those within MARGIN of a threshold are settled in float64, so that the counts do not depend on blocks or shards.
    """
    left, right = _places(queries.rows, pairs[:, 0]), _places(held.rows, pairs[:, 1])
    cosines = paired_scores(queries.vectors, left, held.vectors, right, _single_dots)
    near = np.flatnonzero(_marked(thresholds)[_cell(cosines)])
    cosines[near] = paired_scores(queries.vectors, left[near], held.vectors, right[near])
    return cosines


def _single_dots(ones: np.ndarray, others: np.ndarray) -> Floats:
    return np.vecdot(ones.astype(np.float32, copy=False), others.astype(np.float32, copy=False))


def _places(rows: Rows, wanted: Rows) -> Rows:
    """(n,) rows that are all among the sorted (b,) rows -> their places.

    Of many, a table is ten times as quick as a search; of few, it takes longer to make.
    """
    if TABLE * len(wanted) <= len(rows):
        return np.searchsorted(rows, wanted)
    table = np.empty(int(rows.max()) + 1, dtype=np.int64)
    table[rows] = np.arange(len(rows))
    return table[wanted]


def _cell(cosines: Floats) -> Rows:
    """(n,) cosines -> the intervals they fall into; the ends hold what lies beyond."""
    return np.clip((cosines + REACH) / CELL, 1, CELLS - 2).astype(np.int64)


def _marked(thresholds: Floats) -> Mask:
    """(CELLS,) in which intervals a float32 product may lie on the wrong side of a threshold."""
    marked, cells = np.zeros(CELLS, dtype=np.bool_), _cell(thresholds)
    for step in (-1, 0, 1):
        marked[cells + step] = True
    return marked


def _hide(tile: Vectors, left: Rows, right: Rows, hidden: Pairs, symmetric: bool) -> None:
    """Put the cells (b, c) that are no pairs to count into the lowest interval, where no cosine is."""
    if symmetric and len(right) and right[0] <= left[-1]:
        tile[left[:, None] >= right[None, :]] = -REACH
    for turned in (hidden, hidden[:, ::-1]) if symmetric else (hidden,):
        here = turned[np.isin(turned[:, 0], left) & np.isin(turned[:, 1], right)]
        tile[np.searchsorted(left, here[:, 0]), np.searchsorted(right, here[:, 1])] = -REACH
