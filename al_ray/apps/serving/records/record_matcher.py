"""Matches of records among the known ones of a store, by a model with a matcher."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np

from al_ray.apps.matching.model import MatchingModel
from al_ray.apps.serving.answers import KnownMatch, MatchAnswer, ServedModel, WordedPart, WordedReason
from al_ray.apps.serving.catalogue import Catalogue
from al_ray.apps.serving.journal import Change
from al_ray.apps.serving.matcher import Matcher
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.questions import Put, Question
from al_ray.apps.serving.records.known_records import Cells, Compared, KnownRecords, RecordSide, text_of
from al_ray.apps.serving.records.left_records import names_of, reference_of
from al_ray.apps.serving.records.record_text import cells_of, decoded, encoded
from al_ray.apps.serving.records.stored_scores import StoredScores
from al_ray.apps.serving.sides.sides_matcher import SidesMatcher
from al_ray.apps.serving.store import read_left_texts, read_source
from al_ray.apps.serving.text_lines import FIX, KnownText
from al_ray.core.id_order import id_key
from al_ray.core.scorer import CANDIDATE
from al_ray.matcher.explanation import Explanation, explain
from al_ray.matcher.model_file import read_model
from al_ray.matcher.wording import name_in_words, value_in_words
from al_ray.storage.uri import storage_path

ID = "id"
SECOND_ID = (
    "records[0].id: the model compares a field 'id', too, which a record beside its id cannot have; add new records by "
    "`al_ray.match_into`, and start `al_ray.serve` with that folder as `known` and another `store`"
)


def load_matcher(options: ServeOptions, model: MatchingModel, device: str = "cpu") -> Matcher:
    """Load what answers by a model: one with a matcher, one whose scores know both sides, or another."""
    if model.model.matcher is not None:
        return RecordMatcher(options, model, device)
    return (SidesMatcher if model.scores_both_sides else Matcher)(options, model, device)


class RecordMatcher(Matcher):
    """The known records of a store under a model with a matcher. Not for two threads at a time."""

    def __init__(self, options: ServeOptions, model: MatchingModel, device: str = "cpu") -> None:
        """Load the encoder, the matcher and the known records; find their nearest, unless these are on disk."""
        self.reference = reference_of(model)
        self.names = names_of(self.reference.sides)
        super().__init__(options, model, device)
        assert model.model.matcher is not None
        source = read_source(options.store)
        assert source is not None
        left = None if source.symmetric else read_left_texts(options.store, source)
        others = None if left is None else self._left_side(list(left.values()), options.store)
        ids, vectors = self.catalogue.ids, self.catalogue.vectors
        known = RecordSide([self._known_cells(self.texts[one].text) for one in ids], vectors, tuple(ids))
        forest = read_model(storage_path(model.model.matcher.path))
        config, threads = model.config.candidates, options.cpus_per_replica
        self.records = KnownRecords(self.reference, forest, known, others, config, threads)
        StoredScores(options.store / "neighbours", self.records, known, others).use()

    def about(self) -> ServedModel:
        """Return what Matcher says, and the fields of records that are asked about, and of known ones."""
        return replace(super().about(), fields=self.names.left, known_fields=self.names.right)

    def answer(self, questions: Sequence[Question]) -> list[MatchAnswer]:
        """Return the answers of questions, as Matcher does; those with `why` say what each comparison adds to p."""
        self.follow()
        answers = list[MatchAnswer]()
        for question in questions:
            answer = MatchAnswer(self.digest, self.number)
            try:
                asked = self._cells(question)
            except ValueError as error:
                answers.append(replace(answer, error=str(error)))
                continue
            if question.at_least <= self.number:
                vectors = self._embed([text_of(cells) for cells in asked], "left")
                found = [self.records.candidates(*one) for one in zip(asked, vectors, strict=True)]
                answer = replace(answer, results=[self._results(one, question) for one in found])
            answers.append(answer)
        return answers

    def _cells(self, question: Question) -> list[Cells]:
        """Return the cells of the records of a question; ValueError, with the place, for one that cannot be matched."""
        given, name = (question.records, "records") if question.records else (question.texts, "texts")
        cells = list[Cells]()
        for place, one in enumerate(given):
            try:
                cells.append(cells_of(self.names.left, one))
            except ValueError as error:
                raise ValueError(f"{name}[{place}]: {error}") from error
        return cells

    def _results(self, found: Compared, question: Question) -> list[KnownMatch]:
        """Return the matches of one record. Scores are those that `match` shows."""
        lowest = -inf if self.cutoff.score == -inf else self.cutoff.score + CANDIDATE
        count = min(int(np.count_nonzero(found.scores >= lowest)), question.limit)
        scores, given = np.maximum(found.scores[:count] - CANDIDATE, 0.0), self.model.calibrated
        probabilities = [None] * count if given is None else given.probability(scores + CANDIDATE).tolist()
        rows, ids, clusters = found.rows[:count].tolist(), self.catalogue.ids, self.catalogue.clusters
        matches = [
            KnownMatch(ids[row], score, p, clusters[row])
            for row, score, p in zip(rows, scores.tolist(), probabilities, strict=True)
        ]
        if not question.why:
            return matches
        reasons = explain(self.records.matcher, found.features[:count])
        return [replace(match, why=_in_words(reason)) for match, reason in zip(matches, reasons, strict=True)]

    def _text(self, stored: str) -> str:
        return text_of(self._known_cells(stored))

    def _known_cells(self, stored: str) -> Cells:
        return decoded(self.names.right, stored, FIX)

    def _stored(self, put: Sequence[Put]) -> tuple[tuple[str, str], ...]:
        if ID in self.names.right and not all(isinstance(given, str) for _, given in put):
            raise ValueError(SECOND_ID)
        texts = list[tuple[str, str]]()
        for place, (one, given) in enumerate(put):
            name = "texts" if isinstance(given, str) else "records"
            try:
                cells = cells_of(self.names.right, given)
            except ValueError as error:
                raise ValueError(f"{name}[{place}]: {error}") from error
            known = self.texts.get(one)
            # In a table its fields may have had another order.
            is_same = known is not None and self._known_cells(known.text) == cells
            texts.append((one, known.text if known is not None and is_same else encoded(self.names.right, cells)))
        return tuple(texts)

    def _take(self, changes: Sequence[Change]) -> None:
        """Take over what all changes together have changed, as each of them compares texts with all others."""
        touched = dict.fromkeys(one for change in changes for one in (*(one for one, _ in change.put), *change.removed))
        if not touched:
            return
        for change in changes:
            self._apply(change)
        fresh, gone = dict[str, Cells](), list[str]()
        for one in touched:
            known, row = self.texts.get(one), self.catalogue.row_of.get(one)
            if known is None:
                gone.append(one)
                continue
            cells = self._known_cells(known.text)
            if row is None or self.records.cells[row] != cells:
                fresh[one] = cells
            else:
                self.catalogue.clusters[row] = known.cluster
        removed = self.catalogue.remove([*gone, *fresh])
        texts = [text_of(cells) for cells in fresh.values()]
        vectors = self._embed(texts, self._side) if texts else self.catalogue.vectors[:0]
        rows = self.catalogue.put(list(fresh), vectors)
        side = RecordSide(list(fresh.values()), vectors, tuple(fresh))
        self.records.change(removed, rows, side, self.catalogue.vectors, self.catalogue.present)

    def _catalogue(self, store: Path) -> Catalogue:
        # In the order of their ids, as `match` has them.
        self.texts = {one: self.texts[one] for one in sorted(self.texts, key=id_key)}
        return super()._catalogue(store)

    def _left_side(self, left: Sequence[KnownText], store: Path) -> RecordSide:
        cells = [decoded(self.names.left, one.text, FIX) for one in left]
        return RecordSide(cells, self._encoded([text_of(one) for one in cells], "left", store))


def _in_words(reason: Explanation) -> WordedReason:
    """Return why a record matches, as people read it."""
    parts = (
        WordedPart(name_in_words(part.name), value_in_words(part.name, part.value), part.adds) for part in reason.parts
    )
    return WordedReason(reason.base, tuple(parts))
