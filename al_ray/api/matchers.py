"""Load a model with a matcher, and score the records of two tables, or of one, in this process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from al_ray.api.models import model_folder, require_list_of_texts
from al_ray.cluster.candidates.in_process import compare_candidates, encode_side
from al_ray.cluster.candidates.records import ComparedRecords
from al_ray.cluster.candidates.reference import Reference
from al_ray.cluster.candidates.reference_file import read_reference
from al_ray.core.config.sections import CandidatesConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.pairs import Pairs
from al_ray.core.scorer import CANDIDATE, Floats
from al_ray.core.task import Corpus, Fields
from al_ray.core.two_stage_score import candidate_scores
from al_ray.datasets.tables.columns import trim_cells
from al_ray.encoders.encoder import TextEncoder, load
from al_ray.matcher.comparisons.records import Field
from al_ray.matcher.model import Features, Model
from al_ray.matcher.model_file import read_model as read_matcher
from al_ray.metrics.handover import LAST, RoundName
from al_ray.search.lexical.grams import Grams
from al_ray.storage.uri import StoragePath, storage_path
from al_ray.training.saved_model import SCORER, read_model, saved_matching

Record = str | Mapping[str, str | None]
"""The cells of a record by the names of the model's fields, None or "" for a missing one; of one text column a text."""


@dataclass(frozen=True)
class RecordScores:
    """The candidates among the pairs of records: (n, 2) rows of left and right records from 0, and p (n,) of each.

    features: (n, F) what the matcher saw of each, in the order of its comparisons. Other pairs are no match of the
    model. Pairs are in order of the left row, then of the right one; of one table the left row is the lesser.
    """

    pairs: Pairs
    p: Floats
    features: Features


@dataclass(frozen=True)
class RecordModel:
    """A matcher with all that it needs: encoder, fields and frequencies of its task, and options of candidates."""

    encoder: TextEncoder
    matcher: Model
    reference: Reference
    candidates: CandidatesConfig

    @property
    def symmetric(self) -> bool:
        """Whether it matches within one table."""
        return self.reference.sides.symmetric

    @property
    def fields(self) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
        """Return names and types of the fields of left and of right records; () for one text column."""
        return self.reference.sides.left, self.reference.sides.right

    @property
    def comparisons(self) -> tuple[str, ...]:
        """Return the names of the comparisons (F,), in the order of features."""
        return self.matcher.names

    def score(self, left: Sequence[Record], right: Sequence[Record] | None = None) -> RecordScores:
        """Find the candidates of records and return p of each: what `match` gives for these tables.

        right: None for a model within one table. p depends on all records that are given: they are what a pair's rank
        is among. It is that of `match` to the bit if records come in the order of their ids, as `match` sorts them
        (whole numbers by value, then other ids by their characters).

        Raises:
            BadOption: for a side too few or too many, records without a field of the model or with another one, or
                cells that are no strings.
        """
        if (right is None) != self.symmetric:
            wanted = "one table: leave out right" if self.symmetric else "two tables: give right"
            raise BadOption(f"this matcher was trained within {wanted}")
        ours = _corpus(left, self.reference.sides.left, "left")
        theirs = ours if right is None else _corpus(right, self.reference.sides.right, "right")
        grams = Grams.of(ours.texts)
        both = grams, grams if theirs is ours else Grams.of(theirs.texts)
        threads = self.encoder.config.threads
        records = ComparedRecords(ours, theirs, both, self.reference, threads)
        vectors = encode_side(self.encoder, tuple(ours.texts), "left")
        others = vectors if theirs is ours else encode_side(self.encoder, tuple(theirs.texts), "right")
        found = compare_candidates(records, vectors, others, self.candidates)
        p = self.matcher.probability(found.features, threads)
        return RecordScores(found.pairs, candidate_scores(p, found.cosines) - CANDIDATE, found.features)


def load_matcher(path: str | StoragePath, device: str = "cpu", *, round: RoundName = None) -> RecordModel:
    """Load a model with a matcher from a run folder, the best by evidence; or from a round's model folder, or a copy.

    The folder has no weights of an encoder, which is not trained: it names the encoder, and that is loaded and must be
    the one that the run used. device: "cpu", or "cuda:0". round: of a run, another than the best (docs/handover.md): a
    number, or "last".

    Examples:
        >>> config = al_ray.RunConfig(
        ...     task=str(folder / "task"), rounds=1, first_batch=16, encoder="random-bert", encoder_layers=1,
        ...     threads=1, matcher="on",
        ... )
        >>> _ = al_ray.run(config, folder / "run-with-matcher")
        >>> model = al_ray.load_matcher(folder / "run-with-matcher")
        >>> scores = model.score(["red lamp", "red lamps", "blue chair"])
        >>> scores.pairs.tolist(), bool((scores.p >= 0).all())
        ([[0, 1], [0, 2], [1, 2]], True)

    Raises:
        BadFile: if there is no such model, a file of it is damaged, or the encoder is another one now.
        BadOption: if it has no matcher (`load_model`), is of an earlier al_ray, or the encoder cannot be found; or if
            the untrained encoder of the run is better by its figures.
    """
    folder, choice = model_folder(storage_path(str(path)).resolve(), round)
    if choice is not None and not choice.round:
        raise BadOption(
            f"{folder}: {choice.words}. It has no matcher: load it by al_ray.load_model, or give another round, such "
            f'as round="{LAST}"'
        )
    model = read_model(folder)
    if model is None:
        raise BadFile(f"{folder} holds no {SCORER}; give a run folder, or the model folder of a round")
    if model.matcher is None or model.matcher.reference is None:
        raise BadOption(f"{folder} has no matcher; load it by al_ray.load_model")
    encoding, candidates = saved_matching(folder)
    reference = read_reference(model.matcher.reference)
    encoder = load(model.by_cosine, encoding, folder, device)
    return RecordModel(encoder, read_matcher(storage_path(model.matcher.path)), reference, candidates)


def _corpus(records: Sequence[Record], fields: Sequence[Field], side: str) -> Corpus:
    """Return records as tables are read: cells trimmed, and joined to texts."""
    require_list_of_texts(records)
    names = [field.name for field in fields]
    rows = [_cells(record, names, f"{side} record {number}") for number, record in enumerate(records)]
    ids = tuple(map(str, range(len(rows))))
    columns = [_trimmed([row[place] for row in rows]) for place in range(max(1, len(names)))]
    if not names:
        return Corpus(ids, tuple(columns[0]))
    lengths = np.array([[len(cell) for cell in column] for column in columns], dtype=np.int64).T
    texts = tuple(" ".join(filter(None, cells)) for cells in zip(*columns, strict=True))
    return Corpus(ids, texts, Fields(tuple(names), lengths, tuple(field.type for field in fields)))


def _cells(record: Record, names: Sequence[str], place: str) -> list[str | None]:
    if isinstance(record, str) != (not names):
        raise BadOption(f"{place} is {record!r}; give {'a dict of ' + ', '.join(names) if names else 'a text'}")
    if isinstance(record, str):
        return [record]
    wrong = [name for name in names if name not in record] or [name for name in record if name not in names]
    if wrong:
        raise BadOption(f"{place}: {wrong[0]!r} is lacking, or no field; the fields are {', '.join(names)}")
    cells = [record[name] for name in names]
    for name, cell in record.items():
        if not isinstance(cell, str | None):
            raise BadOption(f"{place} has {cell!r} as {name}; give a string, or None")
    return cells


def _trimmed(cells: Sequence[str | None]) -> list[str]:
    trimmed = trim_cells(pa.array(cells, pa.large_string()))
    return [cell or "" for cell in trimmed.to_pylist()]
