"""Matches of texts among the known ones of a store, by scores that know the neighbourhood of both sides."""

from collections.abc import Sequence

from al_ray.apps.matching.model import MatchingModel
from al_ray.apps.serving.catalogue import Scored
from al_ray.apps.serving.matcher import Matcher
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.records.known_records import RecordSide
from al_ray.apps.serving.records.stored_scores import StoredScores
from al_ray.apps.serving.sides.known_sides import KnownSides
from al_ray.apps.serving.store import read_left_texts, read_source
from al_ray.core.pairs import Rows
from al_ray.core.vectors import Vectors


class SidesMatcher(Matcher):
    """The known texts of a store, and how near the other side's are to each. Not for two threads at a time."""

    def __init__(self, options: ServeOptions, model: MatchingModel, device: str = "cpu") -> None:
        """Load the encoder and the texts of both sides; find the nearest of known texts, unless these are on disk."""
        super().__init__(options, model, device)
        source = read_source(options.store)
        assert source is not None
        assert model.model.scorer is not None
        others = None
        if not source.symmetric:
            texts = [known.text for known in read_left_texts(options.store, source).values()]
            others = RecordSide([(text,) for text in texts], self._encoded(texts, "left", options.store))
        known = RecordSide([(self.texts[one].text,) for one in self.catalogue.ids], self.catalogue.vectors)
        left = None if others is None else others.vectors
        digest = f"both sides {model.model.weights}"
        self.sides = KnownSides(known.vectors, left, model.model.scorer.neighbourhood, digest)
        StoredScores(options.store / "neighbours", self.sides, known, others).use()

    def _nearest(self, texts: Sequence[str], vectors: Vectors, count: int) -> list[Scored]:
        found = list[Scored]()
        for text, vector in zip(texts, vectors, strict=True):
            rows, cosines, scores = self.sides.nearest(vector, count)
            exact = self._exact(text, rows, cosines)
            found.append(self.catalogue.ordered(rows, exact, scores + (exact - cosines)).first(count))
        return found

    def _replaced(self, gone: Rows, rows: Rows) -> None:
        self.sides.change(gone, rows, self.catalogue.vectors, self.catalogue.present)
