"""Counting negatives above thresholds: all of two blocks of texts, or those of a sample. Counts of parts add."""

from dataclasses import dataclass
from threading import Lock

import numpy as np
import numpy.typing as npt
import torch

from al_ray.core.candidates import margin
from al_ray.core.pair_rule import PairRule
from al_ray.core.pairs import Mask, Pairs, Rows
from al_ray.core.scorer import Floats, Scorer, check_no_nan
from al_ray.core.vectors import Block, paired_scores
from al_ray.encoders.products import product
from al_ray.metrics.average_precision import counts_above
from al_ray.metrics.bootstrap import REPLICATES, QueryBootstrap, cumulate_counts
from al_ray.metrics.calibration import reliability
from al_ray.metrics.estimator import CountRequest, NegativeCounts
from al_ray.search.merge import reachable_block
from al_ray.search.paired_products import Kept, on_device, paired_products
from al_ray.search.threads import in_threads
from al_ray.search.vector_files import single

TABLE = 16  # Rows for each one looked up, above which a search takes less time than a table.
COLUMNS = 2048  # Right texts in one block of a product: an array of 1,024 x 2,048 pairs takes some 8 MB.
GPU_CELLS = 2**25  # Of a product on a GPU, which must be large to be worth its start.
REACH = 1.05  # Cosines are sorted into intervals from -REACH to REACH; scores with offsets reach as far again a side.

_WEIGHING = Lock()


def weights_of(bootstrap: QueryBootstrap, texts: Rows) -> npt.NDArray[np.uint8]:
    """Return (n, replicates) weights of (n,) texts. Counting threads share a cache: one at a time adds to it."""
    with _WEIGHING:
        return bootstrap.weights(texts)


def count_block(
    queries: Block,
    held: Block,
    hidden: Pairs,
    request: CountRequest,
    scorer: Scorer | None,
    rule: PairRule | None = None,
    device: str = "cpu",
) -> NegativeCounts:
    """Count every pair of two blocks that the rule allows, except the `hidden` (k, 2).

    Pairs whose float32 product is within the margin of a threshold are recomputed in float64, so that counts do not
    depend on blocks, shards or devices. In a symmetric task only pairs left < right are counted. The reliability takes
    each probability from the middle of an interval of cosines: a logit is moved by at most w * its width / 2.
    """
    rows, whole = single(queries.vectors).to(device), None if device == "cpu" else on_device(held.vectors, device)
    reached, held = reachable_block(queries, held, rule), held
    if reached is not held:
        whole, held = None, reached
    symmetric = request.bootstrap.symmetric
    # In a symmetric task no text on the right comes before the first on the left.
    first = int(np.searchsorted(held.rows, queries.rows[:1]).sum()) if symmetric else 0
    step = COLUMNS if device == "cpu" else max(1, GPU_CELLS // max(1, len(queries.rows)))
    tables, starts = _Tables(request, _Cells.of_queries(queries), device), range(first, len(held.rows), step)
    offsets = None if queries.offsets is None else torch.from_numpy(queries.offsets).float().to(device)
    coming = iter(starts)

    def count() -> _BlockCounter:
        counter = _BlockCounter(queries, request, tables, step)
        for start in coming:
            columns = Block(held.rows[start : start + step], held.vectors[start : start + step])
            there = single(columns.vectors).to(device) if whole is None else whole[start : start + step].float()
            tile = product(rows, there)
            if offsets is not None:
                tile.sub_(offsets[:, None])
            if queries.right_offsets is not None:
                tile.sub_(torch.from_numpy(queries.right_offsets.of(columns.rows)).float().to(device))
            lowest = -tables.cells.reach
            _hide(tile, queries.rows, columns.rows, hidden, symmetric, lowest)
            if rule is not None:
                forbidden = torch.from_numpy(~rule.table(queries.rows, columns.rows))
                tile.masked_fill_(forbidden.to(device), lowest)
            counter.add(tile, columns)
        return counter

    total, *others = in_threads(count, len(starts) if device == "cpu" else 1)
    for other in others:
        total.merge(other)
    return total.counts(scorer)


class _Tables:
    """What is looked up for a cosine: its interval, and how many thresholds of the bootstrap it reaches.

    A cosine falls into one of `count` intervals. Where the table says `close`, which is no number of thresholds, pairs
    are recomputed in float64.
    """

    def __init__(self, request: CountRequest, cells: "_Cells", device: str) -> None:
        """Make the tables of these intervals."""
        self.cells, thresholds = cells, request.bootstrap.thresholds
        self.close, self.marked = len(thresholds) + 1, self.cells.marked(request.thresholds)
        reach = np.cumsum(np.bincount(self.cells.of(thresholds), minlength=self.cells.count), dtype=np.int16)
        reach[self.marked] = self.close
        self.reach = torch.from_numpy(reach).to(device)


class _BlockCounter:
    """The pairs of a block of left texts with one block of right texts after another, by how high they score.

    Looking up a cosine costs a third of the product, comparing it with thresholds many times it.
    """

    def __init__(self, queries: Block, request: CountRequest, tables: _Tables, columns: int) -> None:
        """No pair yet. columns: right texts of a block at most."""
        self.queries, self.request, self.tables = queries, request, tables
        device, groups = tables.reach.device, tables.close
        # Memory reused by every block: allocating new pages costs as much time as the arithmetic.
        self.room = torch.empty(len(queries.rows) * columns, dtype=torch.int32, device=device)
        self.numbers = torch.zeros(tables.cells.count, dtype=torch.int64, device=device)
        self.by_left = torch.zeros((len(queries.rows), groups + 1), dtype=torch.int64, device=device)
        self.by_right = torch.zeros((REPLICATES, groups), dtype=torch.float64, device=device)
        self.settled = np.zeros(len(request.thresholds), dtype=np.int64)

    def add(self, tile: torch.Tensor, columns: Block) -> None:
        """Count a tile (b, c) of cosines, which is overwritten; its hidden pairs are in the lowest interval."""
        if tile.numel() and bool(tile.max().isnan()):
            check_no_nan(tile.cpu().numpy())
        tables, width = self.tables, self.tables.cells.width
        cells = self.room[: tile.numel()].copy_(tile.mul_(1 / width).add_(tables.cells.reach / width).view(-1))
        self.numbers += torch.bincount(cells, minlength=tables.cells.count)
        reached = tables.reach.index_select(0, cells).view(tile.shape)
        left, right = np.divmod(_places_of(reached.view(-1), tables.close), len(columns.rows))
        cosines = paired_scores(self.queries.vectors, left, columns.vectors, right)
        scores = self.queries.scores(left, columns.rows[right], cosines)
        self.settled += counts_above(self.request.thresholds, np.sort(scores))
        bootstrap = self.request.bootstrap
        exactly = np.searchsorted(bootstrap.thresholds[::-1], scores, side="right")
        self.by_left += self._by_text(reached, 0, left, exactly)
        if bootstrap.symmetric:
            self.by_right += self._weighted(columns.rows, self._by_text(reached, 1, right, exactly))

    def _by_text(self, reached: torch.Tensor, side: int, texts: Rows, exactly: Rows) -> torch.Tensor:
        """(b, c) how many thresholds each pair reaches -> numbers of pairs by text of a side and that, the close apart.

        texts, exactly: of the close ones, which are counted by what they reach in truth besides.
        """
        count, width = reached.shape[side], self.tables.close + 1
        starts = torch.arange(count, dtype=torch.int32, device=reached.device) * width
        places = self.room[: reached.numel()]
        torch.add(reached, starts.view((-1, 1) if side == 0 else (1, -1)), out=places.view(reached.shape))
        numbers = torch.bincount(places, minlength=count * width)
        settled = torch.from_numpy(texts * width + exactly).to(numbers.device)
        return numbers.scatter_add_(0, settled, torch.ones_like(settled)).view(count, width)

    def _weighted(self, texts: Rows, numbers: torch.Tensor) -> torch.Tensor:
        """(n,) texts, (n, g + 2) numbers of their pairs -> (replicates, g + 1) sums, weighted by the bootstrap."""
        weights = torch.from_numpy(weights_of(self.request.bootstrap, texts)).to(numbers.device)
        numbers = numbers[:, : self.tables.close]
        # Integers below 2^24 are exact in float32, which takes half the time. Threads of NumPy would wait for others.
        most = int(numbers[:, 1:].sum()) * int(weights.max()) if weights.numel() else 0
        kind = torch.float32 if most < 2**24 else torch.float64
        return product(weights.T.to(kind), numbers.T.to(kind)).double()

    def merge(self, other: "_BlockCounter") -> None:
        """Add what another has counted of the same left texts."""
        for name in ("numbers", "by_left", "by_right", "settled"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def counts(self, scorer: Scorer | None) -> NegativeCounts:
        """Return the counts of everything added."""
        cells, numbers, summed = self.tables.cells, self.numbers.cpu().numpy(), None
        numbers[0] = 0
        if scorer is not None:
            seen = np.flatnonzero(numbers)
            logits = scorer.logit((seen + 0.5) * cells.width - cells.reach)
            summed = reliability(logits, np.zeros(len(seen), dtype=np.uint8), 1.0, numbers[seen])
        numbers[self.tables.marked] = 0
        above = self.settled + np.cumsum(numbers[::-1])[::-1][cells.of(self.request.thresholds)]
        weighed = self._weighted(self.queries.rows, self.by_left)
        if self.request.bootstrap.symmetric:
            weighed += self.by_right - self.by_left[:, : self.tables.close].sum(dim=0)
        return NegativeCounts(above, summed, cumulate_counts(weighed.cpu().numpy()))


def score_pairs(queries: Block, held: Block, pairs: Pairs, thresholds: Floats, device: str = "cpu") -> Floats:
    """(n, 2) pairs of the queries with held texts -> (n,) scores, so near in float32 that counts are exact.

    Those within the margin of a threshold are recomputed in float64, so that counts do not depend on blocks or shards.
    """
    left, right = _places(queries.rows, pairs[:, 0]), _places(held.rows, pairs[:, 1])
    cosines = paired_products(queries.vectors, left, held.vectors, right, device).astype(np.float64)
    check_no_nan(cosines)
    cells, scores = _Cells.of_queries(queries), queries.scores(left, pairs[:, 1], cosines)
    near = np.flatnonzero(_marks.of(thresholds, cells)[cells.of(scores)])
    exact = paired_scores(queries.vectors, left[near], held.vectors, right[near])
    scores[near] = queries.scores(left[near], pairs[near, 1], exact)
    return scores


def _places(rows: Rows, wanted: Rows) -> Rows:
    """(n,) rows that are all among the sorted (b,) rows -> their places.

    Of many, a table is ten times as quick as a search; of few, it takes longer to make.
    """
    if TABLE * len(wanted) <= len(rows):
        return np.searchsorted(rows, wanted)
    table = np.empty(int(rows.max()) + 1, dtype=np.int64)
    table[rows] = np.arange(len(rows))
    return table[wanted]


@dataclass(frozen=True)
class _Cells:
    """Intervals of scores from -reach to reach, wider than what rounding moves a score by more than sorting rounds."""

    dimension: int
    reach: float
    shifted: float

    @classmethod
    def of_queries(cls, queries: Block) -> "_Cells":
        """Those of the scores with some left texts."""
        if queries.offsets is None:
            return cls(queries.vectors.shape[1], REACH, 0.0)
        # An offset is at most 1, and its difference from a cosine is rounded to float32.
        if queries.right_offsets is None:
            return cls(queries.vectors.shape[1], 2 * REACH, 2.0**-22)
        return cls(queries.vectors.shape[1], 3 * REACH, 2.0**-20)

    @property
    def width(self) -> float:
        """Width of an interval."""
        return 1.1 * (margin(self.dimension) + self.shifted)

    @property
    def count(self) -> int:
        """Number of intervals."""
        return int(2 * self.reach / self.width) + 2

    def of(self, scores: Floats) -> Rows:
        """(n,) scores -> the intervals they fall into; the ends hold what lies beyond."""
        return np.clip((scores + self.reach) / self.width, 1, self.count - 2).astype(np.int64)

    def marked(self, thresholds: Floats) -> Mask:
        """(count,) in which intervals a float32 product may lie on the wrong side of a threshold."""
        marked, cells = np.zeros(self.count, dtype=np.bool_), self.of(thresholds)
        for step in (-1, 0, 1):
            marked[cells + step] = True
        return marked


def _marked(thresholds: Floats, cells: _Cells) -> Mask:
    return cells.marked(thresholds)


_marks = Kept(_marked)


def _places_of(flat: torch.Tensor, value: int) -> Rows:
    """(n,) -> places of a value. On a CPU NumPy is eight times as fast as torch."""
    if flat.device.type == "cpu":
        return np.flatnonzero(flat.numpy() == value)
    return (flat == value).nonzero().view(-1).cpu().numpy()


def _hide(tile: torch.Tensor, left: Rows, right: Rows, hidden: Pairs, symmetric: bool, lowest: float) -> None:
    """Put the cells (b, c) that are no pairs to count into the lowest interval, where no score is."""
    if symmetric and len(right) and right[0] <= left[-1]:
        tile.masked_fill_(torch.from_numpy(left[:, None] >= right[None, :]).to(tile.device), lowest)
    for turned in (hidden, hidden[:, ::-1]) if symmetric else (hidden,):
        here = turned[np.isin(turned[:, 0], left) & np.isin(turned[:, 1], right)]
        places = np.searchsorted(left, here[:, 0]) * len(right) + np.searchsorted(right, here[:, 1])
        tile.view(-1).index_fill_(0, torch.from_numpy(places).to(tile.device), lowest)
