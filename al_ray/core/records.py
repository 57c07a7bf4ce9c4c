"""What a run has bought and made so far: values that the run folder holds."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from al_ray.core.pairs import Pairs, Rows
from al_ray.core.scoring import Labels, Scorer

# What is said of a pair: no match, a match, cannot be told; or nothing so far.
NO, YES, UNSURE, OPEN = 0, 1, 2, 3


@dataclass(frozen=True)
class Model:
    """Weights by path and digest, and the scorer fitted to them; `scorer` is None for the untrained encoder."""

    path: str
    digest: str
    scorer: Scorer | None = None


@dataclass(frozen=True)
class Labelled:
    """Pairs with their labels, in the order bought.

    pairs (n, 2), labels (n,) NO, YES or UNSURE, rounds (n,) from 1, sources (n,) words: how each pair was chosen.
    """

    pairs: Pairs = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))
    labels: Labels = field(default_factory=lambda: np.empty(0, dtype=np.uint8))
    rounds: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    sources: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def positives(self) -> int:
        """How many of the labels say match."""
        return int((self.labels == YES).sum())

    @property
    def told(self) -> "Labelled":
        """Those that say no or yes: what a model learns from. An unsure pair was asked, and is not asked again."""
        sure = self.labels != UNSURE
        sources = tuple(source for source, keep in zip(self.sources, sure.tolist(), strict=True) if keep)
        return Labelled(self.pairs[sure], self.labels[sure], self.rounds[sure], sources)

    def extended(self, pairs: Pairs, labels: Labels, number: int, source: str) -> "Labelled":
        """These, and then a batch bought in round `number`."""
        return Labelled(
            pairs=np.concatenate([self.pairs, pairs]),
            labels=np.concatenate([self.labels, labels]),
            rounds=np.concatenate([self.rounds, np.full(len(labels), number, dtype=np.int32)]),
            sources=self.sources + (source,) * len(labels),
        )


@dataclass(frozen=True)
class Batch:
    """Pairs to label: (n, 2) pairs, (n,) cosines under the model that chose them (NaN for a draw), and how chosen."""

    pairs: Pairs
    cosines: npt.NDArray[np.float64]
    source: str


@dataclass(frozen=True)
class Answers:
    """What an oracle said at one time: rows (k,) of a batch and labels (k,) NO, YES or UNSURE.

    OPEN is an answer that could not be read: it cost, and the pair is asked again. by: who said it; confidences (k,)
    in 0..1, NaN where none was given; cost: of all of it, in whatever money the user counts.
    """

    rows: Rows
    labels: Labels
    by: str
    confidences: npt.NDArray[np.float64]
    cost: float = 0.0


def answers(rows: Rows, labels: Labels, by: str) -> Answers:
    """Answers for nothing and without confidences."""
    return Answers(rows, labels, by, np.full(len(rows), np.nan))


@dataclass(frozen=True)
class State:
    """A run after `round` complete rounds."""

    round: int = 0
    labelled: Labelled = field(default_factory=Labelled)
    model: Model | None = None
