"""Matches of records among the known ones of a store, by a model with a matcher."""

import hashlib
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from al_ray.apps.matching.model import MatchingModel
from al_ray.apps.serving.catalogue import Catalogue
from al_ray.apps.serving.matcher import FOREVER, Matcher
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.questions import Question
from al_ray.apps.serving.records.best_scores import BestScores
from al_ray.apps.serving.records.known_records import Cells, Compared, KnownRecords, RecordSide, text_of
from al_ray.apps.serving.records.left_records import names_of, reference_of
from al_ray.apps.serving.records.record_text import cells_of, decoded
from al_ray.apps.serving.store import UNCHANGED, read_left_texts, read_source
from al_ray.apps.serving.text_lines import CURE, KnownText
from al_ray.core.id_order import id_key
from al_ray.core.scorer import CANDIDATE
from al_ray.encoders.tokens import load_array, store_array
from al_ray.matcher.explanation import Part, explain
from al_ray.matcher.model_file import read_model
from al_ray.matcher.wording import name_in_words, value_in_words
from al_ray.storage.lock import locked
from al_ray.storage.uri import storage_path
from al_ray.training.saved_model import input_digest


def load_matcher(options: ServeOptions, model: MatchingModel, device: str = "cpu") -> Matcher:
    """Load what answers by a model: a RecordMatcher for one that has a matcher."""
    return (Matcher if model.model.matcher is None else RecordMatcher)(options, model, device)


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
        cells = [decoded(self.names.right, self.texts[one].text, CURE) for one in self.catalogue.ids]
        known = RecordSide(cells, self.catalogue.vectors)
        forest = read_model(storage_path(model.model.matcher.path))
        config, threads = model.config.candidates, options.cpus_per_replica
        self.records = KnownRecords(self.reference, forest, known, others, config, threads)
        self.records.use(self._best(options.store))

    def about(self) -> dict[str, Any]:
        """Return what Matcher says, and the fields of records."""
        return super().about() | {"fields": list(self.names.left)}

    def answer(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        """Return the answers of questions, as Matcher does; those with `why` say what each comparison adds to p."""
        self.follow()
        answers = list[dict[str, Any]]()
        for question in questions:
            answer: dict[str, Any] = {"model": self.digest, "sequence": self.number, "results": None}
            try:
                asked = self._cells(question)
            except ValueError as error:
                answers.append(answer | {"error": str(error)})
                continue
            if question.at_least <= self.number:
                vectors = self._embed([text_of(cells) for cells in asked], "left")
                found = [self.records.candidates(*one) for one in zip(asked, vectors, strict=True)]
                answer["results"] = [self._results(one, question) for one in found]
            answers.append(answer)
        return answers

    def refusal(self, texts: Sequence[tuple[str, str]]) -> str:
        """Return why records are not put."""
        return UNCHANGED

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

    def _results(self, found: Compared, question: Question) -> list[dict[str, Any]]:
        """Return the matches of one record, as JSON. Scores are those that jobs.match shows."""
        lowest = -inf if self.cutoff.score == -inf else self.cutoff.score + CANDIDATE
        count = min(int(np.count_nonzero(found.scores >= lowest)), question.limit)
        scores, given = np.maximum(found.scores[:count] - CANDIDATE, 0.0), self.model.calibrated
        probabilities = [None] * count if given is None else given.probability(scores + CANDIDATE).tolist()
        rows, ids, clusters = found.rows[:count].tolist(), self.catalogue.ids, self.catalogue.clusters
        matches = [
            {"id": ids[row], "score": score, "probability": p, "cluster": clusters[row]}
            for row, score, p in zip(rows, scores.tolist(), probabilities, strict=True)
        ]
        if question.why:
            for match, reason in zip(matches, explain(self.records.matcher, found.features[:count]), strict=True):
                match["why"] = {"base": reason.base, "parts": [_in_words(one) for one in reason.parts]}
        return matches

    def _text(self, known: KnownText) -> str:
        return text_of(decoded(self.names.right, known.text, CURE))

    def _catalogue(self, store: Path) -> Catalogue:
        # In the order of their ids, as jobs.match has them.
        self.texts = {one: self.texts[one] for one in sorted(self.texts, key=id_key)}
        return super()._catalogue(store)

    def _left_side(self, left: Sequence[KnownText], store: Path) -> RecordSide:
        cells = [decoded(self.names.left, known.text, CURE) for known in left]
        return RecordSide(cells, self._encoded([text_of(one) for one in cells], "left", store))

    def _best(self, store: Path) -> tuple[BestScores, BestScores]:
        """Return the highest scores of all known records by each way, kept on disk by all that decides them."""
        records = self.records
        sides = [records.known] if records.others is None else [records.known, records.others]
        content = hashlib.sha256()
        for side in sides:
            content.update(np.ascontiguousarray(side.vectors).data)
            content.update(repr([text_of(cells) for cells in side.cells]).encode("utf-8", "surrogatepass"))
        name = input_digest([content.hexdigest(), self.reference.digest, [one.kept for one in records.counts]])[:32]
        folder = store / "neighbours" / name
        with locked(folder, FOREVER):
            paths = [folder / f"{number}.npy" for number in range(4)]
            if not all(path.exists() for path in paths):
                found = records.find_best()
                arrays = [array for one in found for array in (one.scores, one.partners)]
                for path, array in zip(paths, arrays, strict=True):
                    store_array(path, array)
            cosine, cosines_with, gram, grams_with = (np.array(load_array(path)) for path in paths)
        return BestScores(cosine, cosines_with), BestScores(gram, grams_with)


def _in_words(part: Part) -> dict[str, Any]:
    """Return a part of why a record matches, as people read it."""
    name, value = name_in_words(part.name), value_in_words(part.name, part.value)
    return {"comparison": name, "value": value, "adds": part.adds}
