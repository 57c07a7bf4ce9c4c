"""What matchers and the writer answer, as values that cross between processes; bodies.py has them as JSON."""

from dataclasses import asdict, dataclass
from typing import Any

from al_ray.metrics.handover import Choice


@dataclass(frozen=True)
class WordedPart:
    """A comparison in plain words, its value, and what it adds to the score; below 0 it speaks against a match."""

    comparison: str
    value: str
    adds: float


@dataclass(frozen=True)
class WordedReason:
    """Why a record matches: the score is the base and what all parts add, the largest first."""

    base: float
    parts: tuple[WordedPart, ...]


@dataclass(frozen=True)
class KnownMatch:
    """A known text that matches a text. probability: None if the model is not calibrated. cluster: None if in none.

    why: only where the question asked for it.
    """

    id: str
    score: float
    probability: float | None
    cluster: int | None
    why: WordedReason | None = None


@dataclass(frozen=True)
class MatchAnswer:
    """The answer to a question.

    model: digest of the weights, the scorer and the cutoff. sequence: the last change that was seen. results: of each
    text its matches, the best first; None if the change that the question named was not seen, or with an error. error:
    what the question has that the model does not match.
    """

    model: str
    sequence: int
    results: list[list[KnownMatch]] | None = None
    error: str = ""

    @property
    def found(self) -> list[list[KnownMatch]]:
        """The results of an answer that has some."""
        assert self.results is not None
        return self.results


@dataclass(frozen=True)
class PutCounts:
    """Counts of texts that were put. sequence: of the last change."""

    sequence: int
    added: int
    changed: int
    same: int


@dataclass(frozen=True)
class RemovedCounts:
    """Counts of ids whose texts were removed, and of those that were not there. sequence: of the last change."""

    sequence: int
    removed: int
    unknown: int


@dataclass(frozen=True)
class StoredTable:
    """The table of all known texts that was written; the fields are those of bodies.TableAnswer."""

    sequence: int
    path: str
    texts: int
    side: str
    text_columns: list[str]
    id_column: str


@dataclass(frozen=True)
class IndexState:
    """The Faiss index of known texts. recall: the share of the nearest that it finds. compared: texts beside it."""

    index: str
    nprobe: int
    recall: float
    indexed: int
    compared: int


@dataclass(frozen=True)
class ServedModel:
    """The model of a matcher, and what is known to it.

    model: digest of the weights, the scorer and the cutoff. weights: digest of the weights alone. score: the lowest of
    a match, None for none; source: what gave it. sequence: of the last change. index: None where all known texts are
    compared. fields, known_fields: of records that are asked about and of known ones; None if texts are. loading:
    whether another model is being loaded. problem: why the last one was not.
    """

    model: str
    weights: str
    path: str
    round: int | None
    choice: Choice | None
    score: float | None
    source: str
    calibrated: bool
    texts: int
    sequence: int
    index: IndexState | None
    fields: tuple[str, ...] | None = None
    known_fields: tuple[str, ...] | None = None
    loading: bool = False
    problem: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON values, as `GET /model` answers."""
        content = {
            "model": self.model, "weights": self.weights, "path": self.path, "round": self.round,
            "choice": None if self.choice is None else self.choice.as_dict(),
            "cutoff": {"score": self.score, "source": self.source}, "calibrated": self.calibrated,
            "texts": self.texts, "sequence": self.sequence,
            "search": {"kind": "exact"} if self.index is None else {"kind": "index", **asdict(self.index)},
        }  # fmt: skip
        if self.fields is not None and self.known_fields is not None:
            content |= {"fields": list(self.fields), "known_fields": list(self.known_fields)}
        return {**content, "loading": self.loading, "problem": self.problem or None}
