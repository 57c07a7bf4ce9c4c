"""Load a trained bi-encoder, encode texts and score pairs of texts."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast, get_args

import numpy as np

from al_ray.core.errors import BadFile, BadOption
from al_ray.core.neighbourhood import means_in
from al_ray.core.scorer import Floats, Scorer
from al_ray.core.vectors import Vectors, cosines
from al_ray.encoders.encoder import TextEncoder, load, saved
from al_ray.encoders.prompts import Side
from al_ray.encoders.tokens import batches
from al_ray.metrics.handover import Choice, RoundName
from al_ray.runs.handover import choose_model
from al_ray.runs.other_runs import run_of_model
from al_ray.runs.run_folder import bound_config
from al_ray.runs.scorer_evidence import calibrated_scorer
from al_ray.runs.untrained_figures import untrained_digest
from al_ray.storage.uri import StoragePath, storage_path
from al_ray.training.saved_model import SCORER, raise_has_matcher, read_model, saved_encoding
from al_ray.training.untrained_model import untrained_model

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PairModel:
    """A trained bi-encoder and its scorer, p = sigmoid(w * cosine + b) (paper, Eq. 7).

    Of a run with --scoring.neighbourhood a, the cosine less a times the mean cosine of the left text with its 5 nearest
    right texts takes the place of the cosine. With --scoring.neighbourhood-sides both the model gives cosines and no
    scores, which need the nearest of both texts.
    choice: which round of the run this is, and why (docs/handover.md); None for a model folder. Of round 0 the encoder
    is untrained: cosines are its scores, and p has their order and no other meaning.
    calibrated_on: the labels of drawn pairs to which w and b were fitted, "audit" or "dev-labels"; None if there are
    none. Then p is a score that ranks pairs, and not a probability: w and b were fitted to pairs that a strategy chose.
    """

    encoder: TextEncoder
    scorer: Scorer
    calibrated_on: str | None = None
    choice: Choice | None = None

    @property
    def boundary(self) -> float:
        """Return the cosine, less what is subtracted from it, at which the score is 1/2."""
        return self.scorer.boundary

    def encode(self, texts: Sequence[str], side: Side = "left") -> Vectors:
        """Encode n texts as unit vectors (n, d), float32.

        side: whose prompt is put before the texts, "left" or "right". A model of a symmetric task, or without prompts,
        gives the same vectors for both.

        Raises:
            BadOption: for another side, or a single text.
        """
        require_list_of_texts(texts)
        if side not in get_args(Side):
            raise BadOption(f"side is {side!r}; give one of {', '.join(get_args(Side))}")
        if not len(texts):
            return np.empty((0, self.encoder.dimension), dtype=np.float32)
        tokens = self.encoder.tokenise(list(texts), side)
        vectors = np.empty((len(tokens), self.encoder.dimension), dtype=np.float32)
        for rows in batches(tokens, np.arange(len(tokens)), self.encoder.config.encoder_batch):
            vectors[rows] = self.encoder.embed(tokens, rows)
        return vectors

    def cosines(self, left: Sequence[str], right: Sequence[str]) -> Floats:
        """Compute the cosine of left[i] with right[i] for n pairs: (n,), in [-1, 1].

        Raises:
            BadOption: if the two sequences are not of the same length.
        """
        return cosines(*self._both_sides(left, right))

    def score(
        self, left: Sequence[str], right: Sequence[str], collection: Sequence[str] | Vectors | None = None
    ) -> Floats:
        """Compute the score of left[i] with right[i] for n pairs: (n,), in [0, 1]; higher for likelier matches.

        It estimates the probability of a match only if `calibrated_on` is not None (docs/audit.md).

        collection: all right texts among which matches are looked for, or their vectors (m, d), as `encode` returns
        them. A model of a run with --scoring.neighbourhood needs them; where that is 0 they change nothing. In a task
        some of whose pairs cannot match, one call takes left texts that can match the same right texts, and these as
        the collection.

        Raises:
            BadOption: if the two sequences are not of the same length, if a collection is needed and there is none, or
                if scores need the nearest of both texts.
        """
        weight = self.scorer.neighbourhood
        if weight and self.scorer.both_sides:
            raise BadOption(
                "this model is of a run with a neighbourhood of both sides "
                "(`RunConfig.scoring.neighbourhood_sides='both'`), and its scores need the nearest of both texts among "
                "all texts: take scores from `al_ray.match`, or compute them from encode() (docs/neighbourhood.md)"
            )
        if weight and (collection is None or not len(collection)):
            raise BadOption(
                f"this model is of a run with a neighbourhood of {weight}: give score() as collection all right "
                "texts among which you look for matches, or their vectors"
            )
        ours, theirs = self._both_sides(left, right)
        if collection is None or not weight:
            return self.scorer.probability(cosines(ours, theirs))
        are_vectors = isinstance(collection, np.ndarray) and collection.dtype.kind == "f"
        every = cast(Vectors, collection) if are_vectors else self.encode(cast(Sequence[str], collection), "right")
        return self.scorer.probability(cosines(ours, theirs) - weight * means_in(every, ours))

    def _both_sides(self, left: Sequence[str], right: Sequence[str]) -> tuple[Vectors, Vectors]:
        """Encode the texts of n pairs: (n, d) of each side."""
        require_list_of_texts(left)
        require_list_of_texts(right)
        if len(left) != len(right):
            raise BadOption(f"left has {len(left):,} texts and right {len(right):,}; give the two texts of every pair")
        return self.encode(left), self.encode(right, "right")


def require_list_of_texts(texts: Sequence[object]) -> None:
    """BadOption for one text, whose letters would be taken for texts."""
    if isinstance(texts, str):
        raise BadOption("give a list of texts, such as [text], and not one text")


def model_folder(path: StoragePath, asked: RoundName) -> tuple[StoragePath, Choice | None]:
    """Return the model folder of the round that a run hands over, and why this one; of round 0 the folder of the run.

    A model folder is returned as it is, without a choice. asked: see `choose_model`.
    """
    # A model folder of transformers holds a config.json, too.
    if not (path / "config.json").exists() or (path / SCORER).exists():
        if asked is not None and (path / SCORER).exists():
            raise BadOption(f"round {asked}: {path} is one model, and only a run has several; leave round out")
        return path, None
    choice = choose_model(path, asked)
    logger.info("model of %s: %s", path, choice.words)
    return path / f"round-{choice.round:03d}" / "model" if choice.round else path, choice


def load_model(path: str | StoragePath, device: str = "cpu", *, round: RoundName = None) -> PairModel:
    """Load a model from a run folder, the best by evidence; or from a round's model folder, or a copy of one.

    device: "cpu", or "cuda:0". round: of a run, another than the best (docs/handover.md): a number, 0 for the untrained
    encoder, or "last".

    Examples:
        >>> model = al_ray.load_model(folder / "run")
        >>> model.encode(["how do i swim", "how to swim"]).shape
        (2, 32)
        >>> scores = model.score(["how do i swim"], ["how to swim"])
        >>> bool(0 <= scores[0] <= 1), model.calibrated_on
        (True, None)

    Raises:
        BadFile: if there is no model, a file of it is damaged, or its weights are not those that the run trained.
        BadOption: if it has a matcher (`load_matcher`), or the run has no such round.
    """
    folder, choice = model_folder(storage_path(str(path)).resolve(), round)
    if choice is not None and not choice.round:
        return _untrained(folder, choice, device)
    model = read_model(folder)
    if model is not None and model.matcher is not None:
        raise_has_matcher(folder)
    if model is None or model.scorer is None:
        raise BadFile(f"{folder} holds no {SCORER}; give a run folder, or the model folder of a round")
    scorer, calibrated_on = calibrated_scorer(folder / SCORER, model.scorer)
    of = run_of_model(folder)
    if of is None:
        encoder = saved(str(folder), saved_encoding(folder), device)
    else:
        encoder = load(model, bound_config(of[0]).encoding, folder, device)
    return PairModel(encoder, scorer, calibrated_on, choice)


def _untrained(run: StoragePath, choice: Choice, device: str) -> PairModel:
    """Load the untrained encoder of a run."""
    encoding = bound_config(run).encoding
    model = untrained_model(run, encoding, untrained_digest(run))
    assert model.scorer is not None
    return PairModel(load(model, encoding, run, device), model.scorer, None, choice)
