"""Matches of texts among the known ones of a store, by one model: encode, search, score; and follow the store."""

import uuid
from collections.abc import Iterable, Sequence
from functools import cached_property
from math import inf
from pathlib import Path

import numpy as np
import torch

from al_ray.apps.matching.cutoff import choose_service_cutoff
from al_ray.apps.matching.model import MatchingModel
from al_ray.apps.serving.answers import IndexState, KnownMatch, MatchAnswer, ServedModel
from al_ray.apps.serving.catalogue import Catalogue, Scored
from al_ray.apps.serving.index import open_index
from al_ray.apps.serving.journal import Change, read_changes
from al_ray.apps.serving.known import KnownCoverage, check_model_of_store
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.questions import Checked, Put, Question
from al_ray.apps.serving.store import apply, read_store
from al_ray.core.errors import BadFile
from al_ray.core.neighbourhood import NEIGHBOURS, mean_of_nearest
from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats
from al_ray.core.text import read_alike
from al_ray.core.vectors import NEARLY_SAME, Vectors, round_to_halves
from al_ray.encoders.encoder import TextEncoder, embed_rows, load, saved
from al_ray.encoders.prompts import Side
from al_ray.encoders.tokens import batches
from al_ray.search.faiss_index import set_threads
from al_ray.search.known_vectors import KnownVectors, embed_unknown
from al_ray.search.vector_files import NUMBERS
from al_ray.storage.lock import locked
from al_ray.training.saved_model import input_digest

CHUNK = 50_000
"""Texts that are encoded between two writes of their vectors."""
FOREVER = -1.0
NO_RECORDS = "records, why: the model has no matcher, which alone compares fields; send texts, without why"


class Matcher:
    """The known texts of a store under one model. Not for two threads at a time."""

    def __init__(self, options: ServeOptions, model: MatchingModel, device: str = "cpu") -> None:
        """Load the encoder and the known texts; those without a vector on disk are encoded."""
        torch.set_num_threads(options.cpus_per_replica)
        set_threads(options.cpus_per_replica)
        self.options, self.model, self.failed = options, model, False
        self.cutoff = choose_service_cutoff(options.for_matching(), model)
        content = read_store(options.store)
        self.symmetric = content.source.symmetric
        check_model_of_store(model, content.source)
        self.encoder = _load_encoder(model, self.symmetric, device)
        self._coverage = KnownCoverage(self.encoder, self._side, options.most_unknown)
        self._dtype = NUMBERS[model.config.vectors]
        self.texts, self._reader = content.texts, content.reader
        self.catalogue = self._catalogue(options.store)

    @property
    def number(self) -> int:
        """Return the number of the last change that this matcher has seen."""
        return self._reader.number

    @cached_property
    def digest(self) -> str:
        """Return the digest of all that decides an answer beside the known texts: weights, scorer and cutoff."""
        scorers = [None if one is None else one.as_dict() for one in (self.model.model.scorer, self.model.calibrated)]
        return input_digest([self.model.model.digest, *scorers, self.cutoff.score])

    def about(self) -> ServedModel:
        """Return the model, the cutoff, the number of texts, and how they are searched."""
        index = self.catalogue.index
        return ServedModel(
            model=self.digest, weights=self.model.model.digest,
            path=str(self.model.path), round=self.model.round, choice=self.model.choice,
            score=None if self.cutoff.score == -inf else self.cutoff.score,
            source=self.cutoff.source.replace("`", ""), calibrated=self.model.calibrated is not None,
            texts=len(self.catalogue), sequence=self.number,
            index=None if index is None else IndexState(
                index.factory, index.nprobe, index.recall, index.size, self.catalogue.beside
            ),
        )  # fmt: skip

    def follow(self) -> None:
        """Take over the changes of the store since the last call.

        After an error this matcher is of no more use, because it may have taken a part of the changes.
        """
        if self.failed:
            raise BadFile(f"the changes of {self.options.store} could not be taken over; this replica starts again")
        complete = False
        try:
            self._take(read_changes(self._reader))
            complete = True
        finally:
            self.failed = not complete

    def answer(self, questions: Sequence[Question]) -> list[MatchAnswer]:
        """Return the answers of questions: all under the same model and the same known texts.

        Matches of equal scores are in the order of their ids.
        """
        self.follow()
        late = [question.at_least > self.number for question in questions]
        texts = [text for question in questions for text in question.texts]
        most = max((question.limit for question in questions), default=0)
        matches = iter(self._matches(texts, most) if len(texts) and not all(late) else [])
        answers = list[MatchAnswer]()
        for question, is_late in zip(questions, late, strict=True):
            own = [next(matches, [])[: question.limit] for _ in question.texts]
            error = NO_RECORDS if question.records or question.why else ""
            answers.append(MatchAnswer(self.digest, self.number, None if is_late else own, error))
        return answers

    def _matches(self, texts: Sequence[str], limit: int) -> list[list[KnownMatch]]:
        count, vectors = limit, self._embed(texts, "left")
        while True:
            found = self._nearest(texts, vectors, count)
            shown = [self._shown(text, near, limit) for text, near in zip(texts, found, strict=True)]
            if count >= len(self.catalogue) or all(complete for _, complete in shown):
                return [matches for matches, _ in shown]
            # Texts that the encoder cannot tell apart took the places of matches.
            count *= 4

    def _nearest(self, texts: Sequence[str], vectors: Vectors, count: int) -> list[Scored]:
        """Return of each text, with its unit vector (d,), the `count` known texts of the highest scores, or more.

        All if there are fewer.
        """
        scorer = self.model.model.scorer
        weight = 0.0 if scorer is None else scorer.neighbourhood
        found = list[Scored]()
        nearest = self.catalogue.nearest(vectors, max(count, NEIGHBOURS) if weight else count)
        for text, near in zip(texts, nearest, strict=True):
            cosines = self._exact(text, *near)
            scores: Floats = cosines
            if weight and len(scores):
                scores = cosines - weight * mean_of_nearest(cosines, np.zeros(len(cosines), dtype=np.int64), 1)[0]
            found.append(self.catalogue.ordered(near.rows, cosines, scores))
        return found

    def _shown(self, text: str, near: Scored, limit: int) -> tuple[list[KnownMatch], bool]:
        """Return the matches of one text, and whether none is beyond those that were found.

        Known texts that read differently and have the cosine 1 are no matches: the encoder cannot tell them apart.
        """
        scores = near.scores
        ids = [self.catalogue.ids[row] for row in near.rows.tolist()]
        clear = np.array(
            [
                cosine != 1 or read_alike(self.texts[one].text, text)
                for one, cosine in zip(ids, near.cosines.tolist(), strict=True)
            ],
            dtype=np.bool_,
        )
        kept = np.flatnonzero(clear & (scores >= self.cutoff.score))[:limit]
        complete = bool(clear.all()) or len(kept) == limit or float(scores[-1]) < self.cutoff.score
        given = self.model.calibrated
        probabilities = [None] * len(kept) if given is None else given.probability(scores[kept]).tolist()
        rows = near.rows[kept].tolist()
        matches = [
            KnownMatch(self.catalogue.ids[row], score, p, self.catalogue.clusters[row])
            for row, score, p in zip(rows, scores[kept].tolist(), probabilities, strict=True)
        ]
        return matches, complete

    def _exact(self, text: str, rows: Rows, cosines: Floats) -> Floats:
        """Return the cosines (k,) of known texts (k,) with a text: 1 of those that have its token ids.

        Their vectors are the same, but for the rounding of bfloat16.
        """
        close = np.flatnonzero((cosines >= NEARLY_SAME) & (cosines < 1))
        if not len(close):
            return cosines
        [asked] = self.encoder.tokenise([text], "left").contents()
        ids = [self.catalogue.ids[row] for row in rows[close].tolist()]
        known = self.encoder.tokenise([self.texts[one].text for one in ids], self._side)
        exact = cosines.copy()
        exact[close[[content == asked for content in known.contents()]]] = 1.0
        return exact

    def check(self, put: Sequence[Put]) -> Checked:
        """Return texts that are to be put as the store has them, or what is wrong with them."""
        self.follow()
        try:
            texts = self._stored(put)
        except ValueError as error:
            return Checked(error=str(error))
        fresh = self._fresh(texts)
        refusal = self._coverage.refusal([self._text(text) for text in fresh.values()], self._texts_of(fresh))
        return Checked(texts, refusal=refusal)

    def _stored(self, put: Sequence[Put]) -> tuple[tuple[str, str], ...]:
        """Return texts by id as the store has them; ValueError, with the place, for what the model does not match."""
        if not all(isinstance(text, str) for _, text in put):
            raise ValueError(NO_RECORDS)
        return tuple((one, str(text)) for one, text in put)

    def _fresh(self, put: Sequence[tuple[str, str]]) -> dict[str, str]:
        return {one: text for one, text in put if one not in self.texts or self.texts[one].text != text}

    def _texts_of(self, ids: Iterable[str]) -> list[str]:
        return [self._text(self.texts[one].text) for one in ids if one in self.texts]

    def _take(self, changes: Sequence[Change]) -> None:
        """Take over what all changes together have changed."""
        ids = dict.fromkeys(one for change in changes for one in (*(one for one, _ in change.put), *change.removed))
        before = {one: self.texts.get(one) for one in ids}
        for change in changes:
            self._apply(change)
        fresh, gone = list[str](), list[str]()
        for one, known in before.items():
            now = self.texts.get(one)
            if now is None:
                gone.append(one)
            elif known is None or known.text != now.text:
                fresh.append(one)
            else:
                # It may have been another text in between, which was in no cluster.
                self.catalogue.clusters[self.catalogue.row_of[one]] = now.cluster
        removed = self.catalogue.remove([*gone, *fresh])
        rows = removed[:0]
        if fresh:
            rows = self.catalogue.put(
                fresh, self._embed([self._text(self.texts[one].text) for one in fresh], self._side)
            )
        self._replaced(removed, rows)

    def _replaced(self, gone: Rows, rows: Rows) -> None:
        """Take over that the catalogue has no texts any more in (g,) rows, and then others in (m,) rows."""

    def _apply(self, change: Change) -> dict[str, str]:
        """Make a change to the texts; return those that are new, by id, as the encoder reads them."""
        fresh = {one: self._text(text) for one, text in self._fresh(change.put).items()}
        self._coverage.change(list(fresh.values()), self._texts_of([*fresh, *change.removed]))
        apply(self.texts, change)
        return fresh

    @property
    def _side(self) -> Side:
        return "left" if self.symmetric else "right"

    def _embed(self, texts: Sequence[str], side: Side) -> Vectors:
        tokens = self.encoder.tokenise(list(texts), side)
        vectors = embed_rows(self.encoder, tokens, np.arange(len(tokens)))
        return vectors if self._dtype == np.float32 else round_to_halves(vectors.astype(np.float32))

    def _text(self, stored: str) -> str:
        """Return a known text as the encoder reads it."""
        return stored

    def _catalogue(self, store: Path) -> Catalogue:
        """Return the catalogue of the present texts, whose vectors are on disk afterwards."""
        vectors, index = (
            self._encoded([self._text(known.text) for known in self.texts.values()], self._side, store),
            None,
        )
        if len(vectors) > self.options.exact_texts and not self.model.knows_both_sides:
            search = self.options.index, self.options.nprobe
            folder = store / "index" / self.model.model.digest[:16]
            # One replica makes it, and the others wait.
            with locked(folder, FOREVER):
                index = open_index(folder, self.model.model.digest, vectors, *search)
        catalogue = Catalogue(vectors, index)
        catalogue.add_first(list(self.texts), [known.cluster for known in self.texts.values()])
        return catalogue

    def _encoded(self, texts: Sequence[str], side: Side, store: Path) -> Vectors:
        """Return the vectors (n, d) of texts of a side, which are on disk afterwards; known texts are checked."""
        vectors: Vectors = np.empty((len(texts), self.encoder.dimension), dtype=self._dtype)
        folder = store / "vectors" / f"{self.model.model.weights[:16]}-{side}"
        # One replica encodes, and the others wait for what it writes.
        with locked(folder, FOREVER):
            known = KnownVectors(folder, self._dtype)
            for start in range(0, len(texts), CHUNK):
                known.refresh()
                part = self.encoder.tokenise(list(texts[start : start + CHUNK]), side)
                if side == self._side:
                    self._coverage.add(part)
                own = batches(part, np.arange(len(part)), self.encoder.config.encoder_batch)
                for _ in embed_unknown(known, self.encoder, part, own, vectors[start : start + CHUNK]):
                    pass
                known.add(uuid.uuid4().hex, part, vectors[start : start + CHUNK])
            if side == self._side:
                self._coverage.check(texts, store / "checked" / f"{folder.name}.json")
        return vectors


def _load_encoder(model: MatchingModel, symmetric: bool, device: str) -> TextEncoder:
    """Load the encoder of a model. symmetric: whether there is one set of texts, which have the prompt of left ones."""
    if model.run is None and model.model.path:
        encoder = saved(model.model.path, model.config.encoding, device)
    else:
        encoder = load(model.model, model.config.encoding, model.path, device)
    if symmetric:
        encoder.use_left_prompt()
    return encoder
