"""The exact join: the pairs of least cost among ALL pairs of two sets of texts, and no m (docs/departures.md, 2).

Blocks of texts meet two at a time. A product in float32, tile by tile so that it stays in the cache, says roughly what
each pair costs; only those that may be among the least under a running bound are looked at again, in float64 by `dots`,
and what is kept has exact costs. So neither blocks, nor their order, nor the number of workers decides anything, and
memory is O(count + tile).

How wrong a rough cosine can be (u = 2^-24 in float32): a sum of d products is within d u |x||y| of the true one, in
whatever order it is added (Higham, Accuracy and Stability of Numerical Algorithms, 3.1). `half` rounds the vectors to
16 bits first, which moves a cosine by at most |x'-x||y'| + |x||y'-y|, where the distances are measured; sums of such
products are kept in float32, but a GPU cuts bits off where a CPU rounds: 4 u.

Vectors that are held in 16 bits (`--vectors fp16`) are what they are: each block is taken to float32, which holds them
exactly, and all of this is as before; rounding made them longer by 2^-11 of their length at most, within UNIT.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch

from al_ray.core.candidates import NO_CANDIDATES, Candidates, Order
from al_ray.core.pair_rule import PairRule
from al_ray.core.pairs import NO_KEYS, Keys, PairSpace, Rows, as_pairs, is_in
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Block, dots
from al_ray.search.merge import reachable_block
from al_ray.search.vector_files import single

FIRST = (256, 1024)  # Left and right texts of one product while there is no bound, and all of it is looked at again.
TILE = (1024, 2048)  # And then: 8 MB of float32 stay in the cache; smaller ones make threads wait for each other.
GPU_TILE = (8192, 16384)  # 512 MB: on a GPU a product must be large to be worth its start.
RESIDENT = 2**32  # Bytes of a worker's own blocks that stay on a GPU at most, or an eighth of its free memory.
RESCORED = 1024  # Pairs whose vectors are gathered at a time: beyond the cache `dots` takes three times as long.
CLOSER = 65536  # The same on a GPU, in float64: 400 MB at 384 dimensions.
SPARE = 4096  # Candidates kept beyond `count` and a quarter of it, before the worst are dropped.
UNIT = 1.01  # Vectors have norm 1 but for rounding, to 16 bits it may be; this much longer they may be.
FAR = 1e30  # Beyond any cosine, and within what float32 holds.


@dataclass(frozen=True)
class JoinQuery:
    """Which pairs are asked for: the `count` of least cost under `order`, equal costs by key.

    width: number of right texts of the whole task, as in PairSpace.
    symmetric: both sides are the same texts, and none is a pair with itself.
    ordered: of a symmetric task, (a, b) and (b, a) are two pairs all the same.
    """

    order: Order
    count: int
    width: int
    symmetric: bool
    ordered: bool = False

    @property
    def unordered(self) -> bool:
        """Whether (a, b) and (b, a) are one pair."""
        return self.symmetric and not self.ordered

    @property
    def slack(self) -> float:
        """How far rounding moves a float64 cost: all the way between two cosines when the centre is far off."""
        centre = self.order.centre
        return 8 * float(np.finfo(np.float64).eps) * (1.0 if np.isinf(centre) else 2 + abs(centre))

    def window(self, cost: float) -> tuple[np.float32, np.float32]:
        """The least and the greatest cosine of pairs that cost at most so much, rounded outward."""
        centre = self.order.centre
        if np.isinf(centre):
            low, high = (-cost, np.inf) if centre > 0 else (-np.inf, cost)
        else:
            low, high = centre - cost, centre + cost
        low, high = np.clip([low, high], -FAR, FAR).astype(np.float32)
        return np.nextafter(low, np.float32(-np.inf)), np.nextafter(high, np.float32(np.inf))

    def keys(self, left: Rows, right: Rows) -> Keys:
        """(n,) rows and (n,) rows -> (n,) keys; either order will do when unordered."""
        return PairSpace(NO_KEYS, NO_KEYS, self.width, self.unordered).keys(as_pairs(left, right))


@dataclass(frozen=True)
class LoadedBlock:
    """A block where products are made: its vectors (b, d) on the device, and those that go into rough products.

    moved: how far rounding to 16 bits moved a vector at most.
    """

    block: Block
    vectors: torch.Tensor
    rough: torch.Tensor
    moved: float

    @property
    def size(self) -> int:
        """Its bytes on the device."""
        return self.vectors.nbytes + (0 if self.rough is self.vectors else self.rough.nbytes)


@dataclass(frozen=True)
class Cells:
    """Pairs of two blocks: (n,) places in each, (n,) rough cosines, and how wrong these can be."""

    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    rough: Floats
    error: float

    def where(self, chosen: npt.NDArray[np.bool_] | slice) -> "Cells":
        """Some of them."""
        return Cells(self.left[chosen], self.right[chosen], self.rough[chosen], self.error)


class LeastPairs:
    """What one worker knows of the least pairs, after the blocks it has seen.

    `bound` is a cost that at least `count` unlabelled pairs of the pool do not exceed: what costs more is not wanted.
    """

    def __init__(
        self,
        wanted: JoinQuery,
        labelled: Keys,
        device: str = "cpu",
        half: bool = False,
        rule: PairRule | None = None,
    ) -> None:
        """Start with nothing. labelled: sorted keys, never chosen; half: rough products from 16 bits, for GPUs.

        rule: which pairs can match, None for all.
        """
        self.wanted, self.labelled, self.rule = wanted, labelled, rule
        self.device, self.half = torch.device(device), half
        free = torch.cuda.mem_get_info(self.device)[0] if self.device.type == "cuda" else 0
        self.bound, self.room = np.inf, min(RESIDENT, free // 8)
        self._kept, self._held = [NO_CANDIDATES], 0
        self._loaded, self._resident = list[LoadedBlock](), list[LoadedBlock]()

    def __len__(self) -> int:
        """How many candidates are held: at most count * 5/4 + SPARE + RESCORED."""
        return self._held

    def tighten(self, cost: float) -> None:
        """Learn another worker's bound; then fewer than `count` may come of this one."""
        self.bound = min(self.bound, cost)

    def add(self, left: Block, right: Block) -> None:
        """See every pair of two blocks; each two blocks meet once, unordered ones in either order.

        right: the worker's own; those for which there is room stay on a GPU, and are found again as the same object.
        Of a block with itself, unordered, each pair is seen once; blocks that are not the same share no text then.
        """
        if not self.wanted.count or not len(left.rows) or not len(right.rows):
            return
        diagonal, own = self.wanted.unordered and np.array_equal(left.rows, right.rows), right
        if not diagonal:
            right = reachable_block(left, right, self.rule)
        if not len(right.rows):
            return
        ours, theirs = self._load(left), self._load(right)
        self._loaded = [ours, theirs]
        if right is own:
            self._let_stay(theirs)
        top = 0
        while top < len(left.rows):
            usual = TILE if self.device.type == "cpu" else GPU_TILE
            height, width = FIRST if np.isinf(self.bound) else usual
            for start in range(top if diagonal else 0, len(right.rows), width):
                rows, columns = slice(top, top + height), slice(start, start + width)
                self._look(ours, theirs, self._within(ours, theirs, rows, columns), diagonal)
            top += height

    def result(self) -> Candidates:
        """The least pairs of those seen that are within the bound, in order: `count`, or all when there are fewer.

        Frees the memory of the device.
        """
        self._settle()
        self._loaded, self._resident = [], []
        if self.device.type == "cuda":
            # The encoder needs it, and perhaps a trainer on the same GPU.
            torch.cuda.empty_cache()
        return self._kept[0].least(self.wanted.order, self.wanted.count)

    def _load(self, block: Block) -> LoadedBlock:
        """A block on the device, where those of the last meeting are still, and those that stay."""
        for seen in (*self._loaded, *self._resident):
            if seen.block is block:
                return seen
        vectors = single(block.vectors).to(self.device)
        if not self.half:
            return LoadedBlock(block, vectors, vectors, 0.0)
        rough = vectors.half()
        moved = float(torch.linalg.vector_norm(rough.double() - vectors.double(), dim=1).max())
        return LoadedBlock(block, vectors, rough if self.device.type == "cuda" else rough.float(), moved)

    def _let_stay(self, loaded: LoadedBlock) -> None:
        """Let a block stay on the device if there is room for it."""
        if loaded.size <= self.room and all(one is not loaded for one in self._resident):
            self._resident.append(loaded)
            self.room -= loaded.size

    def _within(self, left: LoadedBlock, right: LoadedBlock, rows: slice, columns: slice) -> Cells:
        """The cells of a tile that may cost no more than the bound."""
        x, y = left.rough[rows], right.rough[columns]
        error = self._error(left, right)
        product = torch.mm(x, y.T, out_dtype=torch.float32) if x.dtype == torch.float16 else torch.mm(x, y.T)
        flat = product.view(-1)
        places = _inside(flat, *self.wanted.window(self.bound + error))
        up, across = rows.start + places // len(y), columns.start + places % len(y)
        cosines = flat[places].double()
        if self.half:
            # 16 bits let by many times as many as are wanted: most go again before they leave the device.
            cosines = _closer(left.vectors, right.vectors, up, across)
            error = UNIT**2 * x.shape[1] * 2.0**-52 + self.wanted.slack
            places = _inside(cosines, *self.wanted.window(self.bound + error))
            up, across, cosines = up[places], across[places], cosines[places]
        return Cells(up.cpu().numpy(), across.cpu().numpy(), cosines.cpu().numpy(), error)

    def _error(self, left: LoadedBlock, right: LoadedBlock) -> float:
        """How far a rough cosine may be from the true one, and a cost from its own rounding."""
        summed = left.rough.shape[1] * (2.0**-22 if self.half else 2.0**-24)
        return UNIT**2 * summed + UNIT * (left.moved + right.moved) + self.wanted.slack

    def _look(self, left: LoadedBlock, right: LoadedBlock, cells: Cells, diagonal: bool) -> None:
        """Hold those of the cells that are pairs, unlabelled, and exactly no dearer than the bound."""
        ours, theirs = left.block, right.block
        if diagonal:
            cells = cells.where(cells.left < cells.right)
        if self.wanted.symmetric:
            cells = cells.where(ours.rows[cells.left] != theirs.rows[cells.right])
        if self.rule is not None:
            cells = cells.where(self.rule.allows(as_pairs(ours.rows[cells.left], theirs.rows[cells.right])))
        keys = self.wanted.keys(ours.rows[cells.left], theirs.rows[cells.right])
        fresh = ~is_in(keys, self.labelled)
        cells, keys = cells.where(fresh), keys[fresh]
        costs = self.wanted.order.cost(cells.rough)
        limit = self.bound
        if len(costs) > self.wanted.count:
            # The count-th in truth is at most this far from the count-th by rough cost.
            limit = min(limit, np.partition(costs, self.wanted.count - 1)[self.wanted.count - 1] + cells.error)
        near = np.flatnonzero(costs <= limit + cells.error)
        for start, stop in pairwise([*range(0, len(near), RESCORED), len(near)]):
            here = near[start:stop]
            here = here[costs[here] <= self.bound + cells.error]
            cosines = dots(ours.vectors[cells.left[here]], theirs.vectors[cells.right[here]])
            self._hold(keys[here], cosines)

    def _hold(self, keys: Keys, cosines: Floats) -> None:
        within = self.wanted.order.cost(cosines) <= self.bound
        self._kept.append(Candidates(keys[within], cosines[within]))
        self._held += len(self._kept[-1])
        count = self.wanted.count
        if self._held >= (count if np.isinf(self.bound) else count + count // 4 + SPARE):
            self._settle()

    def _settle(self) -> None:
        """Drop all but the `count` least by (cost, key), in no order; so many found, the dearest is a bound."""
        keys = np.concatenate([kept.keys for kept in self._kept])
        cosines = np.concatenate([kept.cosines for kept in self._kept])
        costs, count = self.wanted.order.cost(cosines), self.wanted.count
        if len(keys) >= count > 0:
            self.tighten(float(np.partition(costs, count - 1)[count - 1]))
        chosen = np.flatnonzero(costs < self.bound)
        tied = np.flatnonzero(costs == self.bound)
        room = count - len(chosen)
        if room < len(tied):
            tied = tied[np.argsort(keys[tied])[:room]]
        chosen = np.concatenate([chosen, tied])
        self._kept, self._held = [Candidates(keys[chosen], cosines[chosen])], len(chosen)


def hosts(visitor: int, blocks: int) -> Rows:
    """Which of k blocks a block visits, itself first, so that all visits together bring each two together once.

    A block goes half way round the circle: s steps back for s up to k/2, and with k even the last step is one for half
    of the blocks; so none makes more than (k + 2) / 2 visits.
    """
    steps = np.arange(blocks // 2 + 1)
    found = (visitor - steps) % blocks
    return found[(2 * steps != blocks) | (found < blocks // 2)]


def _inside(flat: torch.Tensor, low: np.float32, high: np.float32) -> torch.Tensor:
    """(n,) -> places within [low, high]. On a CPU NumPy compares eight times as fast as torch."""
    if flat.device.type == "cpu":
        values = flat.numpy()
        mask = values >= low
        mask &= values <= high
        return torch.from_numpy(np.flatnonzero(mask))
    return ((flat >= float(low)) & (flat <= float(high))).nonzero().view(-1)


def _closer(left: torch.Tensor, right: torch.Tensor, up: torch.Tensor, across: torch.Tensor) -> torch.Tensor:
    """Places of n pairs in (b, d) and (c, d) -> (n,) float64 cosines, where the vectors are."""
    pairs = zip(up.split(CLOSER), across.split(CLOSER), strict=True)
    return torch.cat([(left[ones].double() * right[others].double()).sum(dim=1) for ones, others in pairs])
