"""Labels, batches and the state of a run."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from al_ray.core.pairs import NO_PAIRS, Keys, Mask, Pairs, Rows
from al_ray.core.scorer import Labels, Scorer

# Labels of a pair: no match, a match, cannot be decided; OPEN has no label yet.
NO, YES, UNSURE, OPEN = 0, 1, 2, 3
# In an answer alone: the earlier ones to the pair were taken back, so that it has no label.
TAKEN_BACK = 4


@dataclass(frozen=True)
class Model:
    """A model: path and digest of its weights, and the scorer fitted to them; None for the untrained encoder.

    path: "" for the weights of the untrained encoder. digest: of all that decides its scores: the weights, and the
    matcher. matcher: what ranks the candidates above all other pairs; None for a model without one.
    """

    path: str
    digest: str
    scorer: Scorer | None = None
    matcher: "SavedMatcher | None" = None

    @property
    def weights(self) -> str:
        """The digest of the weights, which decide the vectors."""
        return self.digest if self.matcher is None else self.matcher.encoder

    @property
    def encoder_round(self) -> int | None:
        """The round that trained the encoder of a matcher; None if it is not trained."""
        trained = self.matcher is not None and self.path
        return int(self.path.split("/")[-2].removeprefix("round-")) if trained else None

    @property
    def by_cosine(self) -> "Model":
        """The same weights without a scorer and without a matcher: its scores are the cosines."""
        return Model(self.path, self.weights)


MATCHER, REFERENCE = "matcher.safetensors", "records.safetensors"
"""The files of a matcher and of its frequencies, in the model folder of a round."""
ENCODER = "encoder"
"""The folder of a round with the encoder that it trained beside a matcher: weights and scorer.json, as of any model."""


@dataclass(frozen=True)
class SavedMatcher:
    """A matcher (al_ray/matcher): the path of its file, and the digest of the encoder that it was trained with.

    reference: the frequencies of its comparisons; None for one of an earlier al_ray: those of the texts at hand.
    """

    path: str
    encoder: str
    reference: "SavedReference | None" = None


@dataclass(frozen=True)
class SavedReference:
    """The frozen frequencies of a matcher (cluster/candidates/reference.py): the path of their file, and the digest."""

    path: str
    digest: str


@dataclass(frozen=True)
class Labelled:
    """Labelled pairs, in the order in which they were chosen.

    pairs (n, 2); labels (n,) NO, YES or UNSURE; rounds (n,) from 1; sources (n,) how each pair was chosen, such as
    "seed" or the name of a strategy.
    presumed: (m, 2) other pairs, without a label, that a training takes for non-matches; they are never stored.
    """

    pairs: Pairs = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))
    labels: Labels = field(default_factory=lambda: np.empty(0, dtype=np.uint8))
    rounds: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    sources: tuple[str, ...] = ()
    presumed: Pairs = field(default_factory=lambda: NO_PAIRS)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def positives(self) -> int:
        """Number of positive labels."""
        return int((self.labels == YES).sum())

    @property
    def decided(self) -> "Labelled":
        """The pairs labelled NO or YES, on which a model is trained. UNSURE pairs are not used, nor asked again."""
        return self.where(self.labels != UNSURE)

    def where(self, kept: Mask) -> "Labelled":
        """(n,) which pairs are kept -> these."""
        sources = tuple(source for source, keep in zip(self.sources, kept.tolist(), strict=True) if keep)
        return Labelled(self.pairs[kept], self.labels[kept], self.rounds[kept], sources, self.presumed)

    @property
    def warnings(self) -> list[str]:
        """Warnings about labels from which little can be learnt."""
        decided = len(self.decided)
        if not decided or 0 < self.positives < decided:
            return []
        same, other = ("yes", "no match") if self.positives else ("no", "a match")
        return [
            f"labels: all {decided:,} are {same}, so the model cannot learn what {other} looks like; label more, or "
            "import labels that you have (`al_ray.import_labels`)"
        ]

    def extended(self, pairs: Pairs, labels: Labels, number: int, source: str) -> "Labelled":
        """Return these labels followed by those of a batch: (n, 2) pairs and (n,) labels of round `number`."""
        return Labelled(
            pairs=np.concatenate([self.pairs, pairs]),
            labels=np.concatenate([self.labels, labels]),
            rounds=np.concatenate([self.rounds, np.full(len(labels), number, dtype=np.int32)]),
            sources=self.sources + (source,) * len(labels),
            presumed=self.presumed,
        )


IMPORTED = "imported"
"""Source of a batch whose labels the user had before: they are imported at once, and never requested."""


@dataclass(frozen=True)
class Batch:
    """Pairs to label: (n, 2) pairs, (n,) cosines under the model that chose them (NaN if sampled), and their source."""

    pairs: Pairs
    cosines: npt.NDArray[np.float64]
    source: str


@dataclass(frozen=True)
class Answers:
    """One reply of an oracle: rows (k,) of a batch and their labels (k,) NO, YES, UNSURE, OPEN or TAKEN_BACK.

    OPEN is an answer that could not be parsed: it was paid for, and the pair is asked again.
    by: name of the labeller.
    confidences: (k,) in [0, 1], NaN where none was given. cost: of all rows together, in the user's currency.
    """

    rows: Rows
    labels: Labels
    by: str
    confidences: npt.NDArray[np.float64]
    cost: float = 0.0


def make_answers(rows: Rows, labels: Labels, by: str) -> Answers:
    """Make answers without cost and without confidences."""
    return Answers(rows, labels, by, np.full(len(rows), np.nan))


def latest_labels(keys: Keys, labels: Labels, queried: Keys) -> Labels:
    """Return the (k,) latest label of each `queried` key in a history of (n,) keys and labels, or OPEN."""
    if not len(keys):
        return np.full(len(queried), OPEN, dtype=np.uint8)
    order = np.argsort(keys, kind="stable")
    place = order[np.maximum(np.searchsorted(keys, queried, side="right", sorter=order) - 1, 0)]
    return np.where(keys[place] == queried, labels[place], np.uint8(OPEN))


@dataclass(frozen=True)
class State:
    """A run after `round` complete rounds."""

    round: int = 0
    labelled: Labelled = field(default_factory=Labelled)
    model: Model | None = None


# As files and forms spell them.
WORDS = {NO: "no", YES: "yes", UNSURE: "unsure", OPEN: "unreadable", TAKEN_BACK: "taken back"}
CODES = {word: code for code, word in WORDS.items()}
STATED = "stated"
