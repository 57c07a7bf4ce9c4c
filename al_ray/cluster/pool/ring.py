"""The shards of a pool as they see each other in a stage: where the blocks of a split are, and how to ask for them."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from al_ray.search.candidate_files import OwnRequest

# Concurrency groups of a shard actor: COMPUTE asks an index, SERVE hands over vectors. A stage runs beside them.
COMPUTE, SERVE = "compute", "serve"
GROUPS = {COMPUTE: 1, SERVE: 2}
GPU_BLOCKS = 16  # Blocks of texts that an exact search on a GPU joins as one: each product has a fixed cost.
MAX_UPDATES = 100  # Maximum number of progress updates of a shard in a stage.
SAMPLE_BLOCKS = 16  # Blocks of left texts that a shard asks for at a time, about, to score sampled pairs.
AHEAD = 2  # Blocks asked for before they are needed.

Item = TypeVar("Item")
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
Stage: TypeAlias = Iterator[int | Answer]
"""What a stage streams: numbers of texts (or pairs) done since the last one, and at the end the answer."""


def texts_at_once(device: str, block: int) -> int:
    """Return how many left texts an exact search joins at once on a device. block: `--search.block`."""
    return block if device == "cpu" else GPU_BLOCKS * block


@dataclass(frozen=True)
class Place:
    """A block of texts: its number in the ring, the shard that has it, and from which to which of its texts."""

    number: int
    shard: int
    start: int
    stop: int


@dataclass(frozen=True)
class Ring:
    """What a shard needs to know of the others in a stage.

    shards: the actors (s,). stage: a number that no other stage has. left, right: parts of the split. left_sizes,
    right_sizes: (s,) how many of their texts each shard has. block: texts in a block. offsets: a reference of what is
    subtracted from the cosines of left texts, as NearestMeans; None for nothing. right_offsets: the same of right
    texts. own: where the candidates are that the model's matcher ranks above all other pairs; None for a model without
    one.
    """

    shards: Sequence[Any]
    stage: int
    left: str
    right: str
    left_sizes: tuple[int, ...]
    right_sizes: tuple[int, ...]
    block: int
    offsets: Any = None
    right_offsets: Any = None
    own: OwnRequest | None = None

    def places(self, side: Literal["left", "right"], first: int = 0) -> list[Place]:
        """Return the blocks of a side, in the order of the ring from shard `first` on."""
        sizes, found = self.left_sizes if side == "left" else self.right_sizes, list[Place]()
        for shard, size in enumerate(sizes):
            for start in range(0, size, self.block):
                found.append(Place(len(found), shard, start, min(start + self.block, size)))
        turn = sum(place.shard < first for place in found)
        return found[turn:] + found[:turn]

    def ask(self, method: str, group: str, *arguments: Any) -> list[Any]:
        """Call a method of every shard in a concurrency group; return the references of the answers."""
        return [self.ask_one(shard, method, group, *arguments) for shard in range(len(self.shards))]

    def ask_one(self, shard: int, method: str, group: str, *arguments: Any) -> Any:
        """Call a method of a shard in a concurrency group; return the reference of the answer."""
        return getattr(self.shards[shard], method).options(concurrency_group=group).remote(*arguments)


def asked_ahead(
    items: Iterable[Item], ask: Callable[[Item], Asked], ahead: int = AHEAD
) -> Iterator[tuple[Item, Asked]]:
    """Yield items with the request for each; requests are sent `ahead` items before they are needed."""
    coming = deque[tuple[Item, Asked]]()
    for item in items:
        coming.append((item, ask(item)))
        if len(coming) > ahead:
            yield coming.popleft()
    while coming:
        yield coming.popleft()


def is_due(step: int, steps: int) -> bool:
    """Return whether to send an update after this step: after MAX_UPDATES of all steps, evenly, the last among them."""
    return (step + 1) * MAX_UPDATES // steps > step * MAX_UPDATES // steps
