"""Which of a shard's own blocks of right texts meet a visiting block of left texts, in a stage over all pairs."""

from collections.abc import Callable

from al_ray.cluster.pool.ring import Place, Ring
from al_ray.core.vectors import Block
from al_ray.search.join.exact_join import hosts


class Meetings:
    """The shard's own blocks; where pairs are unordered, each two blocks of the ring meet once (exact_join.hosts)."""

    def __init__(self, held: Block, ring: Ring, shard: int, unordered: bool) -> None:
        """held: the right texts of the shard of this number. unordered: (a, b) and (b, a) are one pair."""
        places = ring.places("right")
        self.blocks, self.unordered = len(places), unordered
        self.own = {
            place: Block(held.rows[place.start : place.stop], held.vectors[place.start : place.stop])
            for place in places
            if place.shard == shard
        }
        self._met = dict[Place, list[Block]]()

    def met_by(self, visitor: Place) -> list[Block]:
        """Return the own blocks that a visitor meets here: the same objects each time."""
        if visitor not in self._met:
            met = set(hosts(visitor.number, self.blocks).tolist()) if self.unordered else None
            self._met[visitor] = [block for place, block in self.own.items() if met is None or place.number in met]
        return self._met[visitor]

    def work(self, add: Callable[[Block, Block], None]) -> Callable[[Block, Place], None]:
        """Return the function that adds a visiting block with each own one that it meets."""

        def visit(texts: Block, visitor: Place) -> None:
            for own in self.met_by(visitor):
                add(texts, own)

        return visit

    def needed(self, visitor: Place) -> bool:
        """Return whether a visitor meets any own block."""
        return bool(self.met_by(visitor))
