"""The exact join: the pairs of least cost among ALL pairs of two sets of texts, and no m (docs/departures.md, 2).

Blocks of texts meet two at a time. A product in float32, tile by tile so that it stays in the cache, says roughly what
each pair costs; only those that may be among the least under a running bound are computed again, in float64, and what
is kept has exact costs (least_pairs.py). So neither blocks, nor their order, nor the number of workers decides
anything, and memory is O(count + tile). Several queries among the same pairs share the products.

How wrong a rough cosine can be (u = 2^-24 in float32): a sum of d products is within d u |x||y| of the true one, in
whatever order it is added (Higham, Accuracy and Stability of Numerical Algorithms, 3.1). `half` rounds the vectors to
16 bits first, which moves a cosine by at most |x'-x||y'| + |x||y'-y|, where the distances are measured; sums of such
products are kept in float32, but a GPU cuts bits off where a CPU rounds: 4 u.

Vectors that are held in 16 bits (`--vectors fp16`) are what they are: each block is taken to float32, which holds them
exactly, and all of this is as before; rounding made them longer by 2^-11 of their length at most, within UNIT.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from al_ray.core.candidates import Candidates
from al_ray.core.pair_rule import PairRule
from al_ray.core.pairs import Keys, Rows
from al_ray.core.vectors import LENGTH, Block
from al_ray.encoders.hardware import free_memory, give_back_memory
from al_ray.encoders.products import product
from al_ray.search.join.least_pairs import Cells, JoinQuery, LeastPairs
from al_ray.search.merge import reachable_block
from al_ray.search.vector_files import single

FIRST = (256, 1024)  # Left and right texts of one product while there is no bound, and all of it is looked at again.
TILE = (1024, 2048)  # And then: 8 MB of float32 stay in the cache; smaller ones make threads wait for each other.
GPU_TILE = (8192, 16384)  # 512 MB: on a GPU a product must be large to be worth its start.
RESIDENT = 2**32  # Bytes of a worker's own blocks that stay on a GPU at most, or an eighth of its free memory.
CLOSER = 65536  # The same on a GPU, in float64: 400 MB at 384 dimensions.
UNIT = 1.01  # Vectors have norm 1 but for rounding, to 16 bits it may be; this much longer they may be.


@dataclass(frozen=True)
class LoadedBlock:
    """A block where products are made: its vectors (b, d) on the device, and those that go into rough products.

    moved: how far rounding to 16 bits moved a vector at most. offsets: (b,) in float64, of the side that this block is
    on, on the device.
    """

    block: Block
    vectors: torch.Tensor
    rough: torch.Tensor
    moved: float
    offsets: torch.Tensor | None = None

    @property
    def size(self) -> int:
        """Its bytes on the device."""
        return self.vectors.nbytes + (0 if self.rough is self.vectors else self.rough.nbytes)


class ExactJoin:
    """The least pairs of one or more queries among the same pairs, as one worker finds them block by block."""

    def __init__(
        self,
        queries: Sequence[JoinQuery],
        labelled: Sequence[Keys],
        device: str = "cpu",
        half: bool = False,
        rule: PairRule | None = None,
    ) -> None:
        """Start with nothing. labelled: sorted keys for each query, which it never chooses.

        The queries differ in order and count alone. half: rough products from 16 bits, for GPUs.
        rule: which pairs can match, None for all.
        """
        self.searches = [LeastPairs(query, keys) for query, keys in zip(queries, labelled, strict=True)]
        self.unordered, self.rule = queries[0].unordered, rule
        self.device, self.half = torch.device(device), half
        self.room = min(RESIDENT, free_memory(self.device) // 8)
        self._loaded, self._resident = list[LoadedBlock](), list[LoadedBlock]()

    @property
    def bounds(self) -> tuple[float, ...]:
        """For each query, a cost that at least `count` unlabelled pairs of the pool do not exceed."""
        return tuple(search.bound for search in self.searches)

    def tighten(self, bounds: Sequence[float]) -> None:
        """Learn another worker's bounds; then fewer than `count` pairs may come of this one."""
        for search, bound in zip(self.searches, bounds, strict=True):
            search.tighten(bound)

    def add(self, left: Block, right: Block) -> None:
        """See every pair of two blocks; each two blocks meet once, unordered ones in either order.

        right: the worker's own; those for which there is room stay on a GPU, and are found again as the same object.
        Of a block with itself, unordered, each pair is seen once; blocks that are not the same share no text then.
        """
        searches = [search for search in self.searches if search.query.count]
        if not searches or not len(left.rows) or not len(right.rows):
            return
        diagonal, own = self.unordered and np.array_equal(left.rows, right.rows), right
        if not diagonal:
            right = reachable_block(left, right, self.rule)
        if not len(right.rows):
            return
        ours, theirs = self._load(left), self._load(right)
        self._loaded = [ours, theirs]
        if right is own:
            self._let_stay(theirs)
        offsets = None if left.right_offsets is None else left.right_offsets.of(right.rows)
        theirs = replace(theirs, offsets=None if offsets is None else torch.from_numpy(offsets).to(self.device))
        top = 0
        while top < len(left.rows):
            usual = TILE if self.device.type == "cpu" else GPU_TILE
            height, width = FIRST if any(np.isinf(search.bound) for search in searches) else usual
            for start in range(top if diagonal else 0, len(right.rows), width):
                rows, columns = slice(top, top + height), slice(start, start + width)
                tile = rough_cosines(ours.rough[rows], theirs.rough[columns])
                if ours.offsets is not None:
                    tile.sub_(ours.offsets[rows, None].float())
                if theirs.offsets is not None:
                    tile.sub_(theirs.offsets[columns].float())
                for search in searches:
                    cells = self._within(search, ours, theirs, tile, (top, start))
                    if diagonal:
                        cells = cells.where(cells.left < cells.right)
                    search.look(left, right, cells, self.rule)
            top += height

    def results(self) -> list[Candidates]:
        """For each query the least pairs of those seen that are within its bound, in order: `count`, or fewer.

        Frees the memory of the device.
        """
        self._loaded, self._resident = [], []
        # The encoder needs it, and perhaps a trainer on the same GPU.
        give_back_memory(str(self.device))
        return [search.result() for search in self.searches]

    def _load(self, block: Block) -> LoadedBlock:
        """A block on the device, where those of the last meeting are still, and those that stay."""
        for seen in (*self._loaded, *self._resident):
            if seen.block is block:
                return seen
        vectors = single(block.vectors).to(self.device)
        offsets = None if block.offsets is None else torch.from_numpy(block.offsets).to(self.device)
        if not self.half:
            return LoadedBlock(block, vectors, vectors, 0.0, offsets)
        rough = vectors.half()
        moved = float(torch.linalg.vector_norm(rough.double() - vectors.double(), dim=1).max())
        return LoadedBlock(block, vectors, rough if self.device.type == "cuda" else rough.float(), moved, offsets)

    def _let_stay(self, loaded: LoadedBlock) -> None:
        """Let a block stay on the device if there is room for it."""
        if loaded.size <= self.room and all(one is not loaded for one in self._resident):
            self._resident.append(loaded)
            self.room -= loaded.size

    def _within(
        self,
        search: LeastPairs,
        left: LoadedBlock,
        right: LoadedBlock,
        tile: torch.Tensor,
        corner: tuple[int, int],
    ) -> Cells:
        """The cells of a tile, whose first one is the corner, that may cost no more than the bound of a search."""
        query, flat, width = search.query, tile.view(-1), tile.shape[1]
        error = self._error(left, right) + query.slack
        places = _inside(flat, *query.window(search.bound + error))
        up, across = corner[0] + places // width, corner[1] + places % width
        cosines = flat[places].double()
        if self.half:
            # 16 bits let by many times as many as are wanted: most go again before they leave the device.
            cosines = closer(left.vectors, right.vectors, up, across)
            if left.offsets is not None:
                own = left.offsets[up]
                cosines = cosines - (own if right.offsets is None else own + right.offsets[across])
            error = UNIT**2 * left.rough.shape[1] * 2.0**-52 + LENGTH + query.slack
            places = _inside(cosines, *query.window(search.bound + error))
            up, across, cosines = up[places], across[places], cosines[places]
        return Cells(up.cpu().numpy(), across.cpu().numpy(), cosines.cpu().numpy(), error)

    def _error(self, left: LoadedBlock, right: LoadedBlock) -> float:
        """How far a rough cosine may be from the true one."""
        width = left.rough.shape[1]
        summed = rough_error(width) if self.half else LENGTH + UNIT**2 * width * 2.0**-24
        return summed + shift_error(left.block) + UNIT * (left.moved + right.moved)


def rough_cosines(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """(a, d) and (b, d) vectors of one type -> (a, b) rough cosines in float32."""
    if left.dtype == torch.float16 and left.device.type == "cuda":
        return torch.mm(left, right.T, out_dtype=torch.float32)
    return product(left.float(), right.float())


def single_error(left: Block) -> float:
    """How far a score from float32 products of left texts may be from the true one."""
    return LENGTH + UNIT**2 * left.vectors.shape[1] * 2.0**-24 + shift_error(left)


def shift_error(left: Block) -> float:
    """How far a score may be from the true one because offsets are subtracted in float32."""
    # An offset is at most 1, and its difference from a cosine is rounded to float32.
    if left.offsets is None:
        return 0.0
    return 2.0**-23 if left.right_offsets is None else 2.0**-22


def rough_error(width: int) -> float:
    """How far a rough cosine of vectors of 16 bits (d,) may be from the true one of the same vectors."""
    return LENGTH + UNIT**2 * width * 2.0**-22


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


def closer(left: torch.Tensor, right: torch.Tensor, up: torch.Tensor, across: torch.Tensor) -> torch.Tensor:
    """Places of n pairs in (b, d) and (c, d) -> (n,) float64 cosines, where the vectors are."""
    pairs = zip(up.split(CLOSER), across.split(CLOSER), strict=True)
    return torch.cat([(left[ones].double() * right[others].double()).sum(dim=1) for ones, others in pairs])
