"""What matchers and the writer answer, as values that cross between processes; bodies.py has them as JSON."""

from dataclasses import dataclass


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
