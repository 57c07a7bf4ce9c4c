"""The Trainer of a run with --matcher on: a matcher learns from all labels, and the encoder if the run says so."""

import json
import logging
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from al_ray.active_learning.config import RunConfig
from al_ray.cluster.candidates.reference import Reference
from al_ray.cluster.candidates.reference_file import NAME as REFERENCE
from al_ray.cluster.candidates.reference_file import write_reference
from al_ray.cluster.candidates.sharded_candidates import ShardedCandidates
from al_ray.cluster.pool.sharded_evaluator import PoolEvaluator
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.cluster.presumed import PresumedPairs, chosen_keys, count_matches
from al_ray.cluster.training_group import Training, model_of
from al_ray.cluster.workers import get_results
from al_ray.core.candidates import Candidates
from al_ray.core.config.oracle import oracle_kind
from al_ray.core.labels import ENCODER, YES, Labelled, Model, SavedMatcher, SavedReference
from al_ray.core.pairs import Keys, Pairs
from al_ray.core.progress import OnProgress
from al_ray.core.rng import generator
from al_ray.core.task import Task
from al_ray.core.two_stage_score import MATCHED
from al_ray.datasets.field_types import field_pairs
from al_ray.matcher.explanation import explain, importance
from al_ray.matcher.explanation_file import write_explanations
from al_ray.matcher.learner import LEARNERS, learner_of
from al_ray.matcher.model_file import NAME, read_model, write_model
from al_ray.runs.candidate_figures import UNTRAINED, CandidateFigures
from al_ray.runs.importance import write_importance
from al_ray.runs.presumed_figures import PRESUMED, PresumedFigures
from al_ray.runs.run_folder import RunFolder
from al_ray.runs.untrained_figures import read_untrained
from al_ray.search.candidate_ranks import Features
from al_ray.storage.pair_cosines import FIT, SCORES, write_cosines
from al_ray.storage.uri import StoragePath, storage_path
from al_ray.training.label_halves import label_halves
from al_ray.training.saved_model import bytes_digest, write_matched

logger = logging.getLogger(__name__)
PRESUMED_WEIGHT = 0.3
"""Weight of a candidate without a label that is taken for a non-match (docs/matcher.md)."""


@dataclass(frozen=True)
class Known:
    """Features (n, F) and labels (n,) of the labelled pairs, names of the F features, learner, and the run's seed."""

    features: Features
    labels: npt.NDArray[np.uint8]
    names: tuple[str, ...]
    learner: str
    seed: int


def matches_among(task: Task, presumed: Pairs, far: Features, known: Known) -> PresumedFigures:
    """Count the matches among (m, 2) presumed non-matches of train, before they are used, or estimate them.

    far: (m, F) features of them. The estimate is the share of which p is 1/2 or more, by a matcher that was not told
    that they are non-matches. Their mean p would say too much: labels are of pairs that are hard to tell, so p of far
    pairs is some percent where none of them matches (docs/matcher.md).
    """
    if (counted := count_matches(task, presumed)) is not None:
        return counted
    if len(np.unique(known.labels)) < 2:
        # p would be that of the one label, whatever a pair is.
        return PresumedFigures(len(presumed), None, False)
    alone = LEARNERS[known.learner].fit(
        known.features, known.labels, np.ones(len(known.labels)), known.names, known.seed
    )
    return PresumedFigures(len(presumed), float((alone.probability(far) >= 0.5).mean()), False)


class MatcherTrainer:
    """Learns a matcher on the driver, which has the labelled pairs and never the candidates."""

    def __init__(
        self,
        config: RunConfig,
        pool: ShardedPool,
        folder: StoragePath,
        journal: RunFolder,
        watch: OnProgress,
        training: Training | None = None,
    ) -> None:
        """folder: of the pool, in which candidates are kept. training: of the encoder; None if it is never trained."""
        self.config, self.pool, self.folder, self.journal, self.watch = config, pool, folder, journal, watch
        self.training, self.actors = training, [] if training is None else training.actors
        self.learner = learner_of(len(field_pairs(pool.task.left, pool.task.right)))
        self._reference: Reference | None = None
        last = journal.last
        self._use(journal.model(last).by_cosine if last else pool.untrained())

    def untrained(self) -> Model:
        """The pre-trained encoder."""
        return self.pool.untrained()

    def prepare(self, evaluator: PoolEvaluator) -> None:
        """Find the candidates of train and of measured splits; measure their recall, and the cosine alone."""
        self._evaluator = evaluator
        self._measure()

    def _use(self, encoder: Model) -> None:
        """Find candidates by an encoder from now on."""
        self.candidates = ShardedCandidates(self.pool, self.config, self.folder, encoder)
        self._features = dict[int, Features]()

    def _measure(self) -> None:
        """Find the candidates of the encoder; measure their recall, and its cosine alone, beside the untrained one."""
        task, rounds = self.pool.task, self.journal.complete_rounds()
        names = dict.fromkeys(("train", *self.config.evaluation.splits))
        self.candidates.prepare(task.split(name) for name in names)
        for name in self.config.evaluation.splits:
            split, before = task.split(name), self.journal.candidates.get(name)
            recall = self.candidates.recall(split, split.positive_keys)
            alone = self._alone(name)
            untrained = None
            if self.training is not None:
                before = before or (rounds[-1]["candidates"][name] if rounds else None)
                untrained = before[UNTRAINED] if before else alone
            self.journal.candidates[name] = CandidateFigures(recall, alone, untrained).as_dict()
            logger.info("%s", recall.words(name))
            if warning := recall.warning(name, self.config.candidates.least_recall):
                logger.warning("%s", warning)

    def _alone(self, split: str) -> float:
        """Return AP of the cosine alone, which is measured already of the untrained encoder."""
        if self.candidates.encoder == self.pool.untrained():
            stored = read_untrained(self.journal.path).get(split)
            if stored is not None:
                return float(stored["average_precision"]["value"])
        return self._evaluator.evaluate(self.candidates.encoder, split).average_precision.value

    def _train_encoder(self, training: Training, labelled: Labelled, number: int, start: Model) -> None:
        """Train the encoder of round `number`, unless an interrupted session did, and find candidates by it."""
        folder = (self.journal.round(number) / ENCODER).resolve()
        presumed = PresumedPairs(self.pool, self.journal, self.config.training, self.config.seed)
        labelled = presumed.add(labelled, number, self.candidates.encoder)
        events = training(labelled, number, start.by_cosine, str(folder))
        self._use(model_of(events, lambda step: self.watch("train", step.step, step.steps)).by_cosine)
        self._measure()

    def spread(self, count: int, excluded: Keys) -> Candidates:
        """Return `count` candidates of train spread over the ranking without labels, without the sorted excluded."""
        return self.candidates.spread(self.pool.task.split("train"), count, excluded)

    def explain(self, number: int, pairs: Pairs, model: Model) -> None:
        """Store why the pairs of a batch have their p, for the page on which people label them."""
        if model.matcher is not None and len(pairs) and oracle_kind(self.config.oracle).people:
            matcher = read_model(storage_path(model.matcher.path), self.candidates.names)
            found = explain(matcher, self._features_of(pairs))
            write_explanations(self.journal.round(number), found, matcher.names)

    def train(self, labelled: Labelled, number: int, start: Model) -> Model:
        """Train the matcher of round `number` on decided labels, and store it.

        start: from whose weights the encoder is trained, if it is in this round.
        """
        self.journal.presumed = None
        trained = 0 if self.training is None else number - number % self.config.encoder_every
        of_encoder, of_matcher = label_halves(labelled, trained)
        if self.training is not None and trained == number:
            self._train_encoder(self.training, labelled.where(of_encoder), number, start)
        encoder = self.candidates.encoder
        split, folder = self.pool.task.split("train"), self.journal.round(number)
        ours = labelled.where(of_matcher)
        if len(ours) < len(labelled):
            logger.info(
                "the encoder learned from %s labels, and the matcher learns from the %s of other left texts",
                f"{of_encoder.sum():,}", f"{len(ours):,}",
            )  # fmt: skip
        features = self._features_of(ours.pairs)
        labels, weights = (ours.labels == YES).astype(np.uint8), np.ones(len(ours))
        presumed = self._presumed(number)
        far = self._features_of(presumed)
        if len(presumed):
            known = Known(features, labels, self.candidates.names, self.learner, self.config.seed)
            self.journal.candidates[PRESUMED] = matches_among(self.pool.task, presumed, far, known).as_dict()
        features = np.concatenate([features, far])
        labels = np.concatenate([labels, np.zeros(len(presumed), dtype=np.uint8)])
        weights = np.concatenate([weights, np.full(len(presumed), PRESUMED_WEIGHT)])
        learned = LEARNERS[self.learner].fit(features, labels, weights, self.candidates.names, self.config.seed)
        path = (folder / "model" / NAME).resolve()
        write_model(path, learned, self.learner)
        content = b"".join(array.tobytes() for array in learned.arrays().values())
        reference = self._write_reference(path.parent)
        digest = bytes_digest(json.dumps([encoder.weights, reference.digest, *learned.names]).encode() + content)
        model = Model(encoder.path, digest, MATCHED, SavedMatcher(str(path), encoder.weights, reference))
        write_matched(folder / "model", model, self.config.encoding, self.config.candidates)
        # Of labelled pairs alone, for presumed ones are far from all that a person would look at.
        means = importance([learned.contributions(features[: len(ours)])])
        write_importance(folder, learned.names, means, len(ours))
        for name, scored in ((FIT, encoder), (SCORES, model)):
            write_cosines(folder / name, labelled.pairs, self.pool.scores(scored, split, labelled.pairs))
        self.watch("train", 1, 1)
        return model

    def _write_reference(self, folder: StoragePath) -> SavedReference:
        """Write the frequencies of the task, which the matcher has wherever it is used later."""
        reference: Reference = self._reference or get_results(self.pool.shards[0].count_texts.remote())
        self._reference = reference
        # With an encoder that is trained it is another one in each round.
        return write_reference(folder / REFERENCE, replace(reference, dense=self.candidates.dense))

    def _features_of(self, pairs: Pairs) -> Features:
        """(n, 2) pairs of train -> (n, F) features; those of a pair are asked for once."""
        split = self.pool.task.split("train")
        keys = split.space.keys(pairs)
        new = [place for place, key in enumerate(keys.tolist()) if key not in self._features]
        for place, row in zip(new, self.candidates.features_of(split, pairs[new]), strict=True):
            self._features[int(keys[place])] = row
        width = len(self.candidates.names)
        return np.array([self._features[key] for key in keys.tolist()], dtype=np.float32).reshape(-1, width)

    def _presumed(self, number: int) -> Pairs:
        """Draw candidates from the lower half of the ranking without labels, none that was chosen up to a round.

        A pair that people call unsure is no non-match.
        """
        split, count = self.pool.task.split("train"), self.config.candidates.far(self.pool.task.symmetric)
        if not count:
            return np.empty((0, 2), dtype=np.int64)
        far = self.candidates.far(split, chosen_keys(self.journal, number))
        rng = generator(self.config.seed, "presumed")
        return split.space.pairs(np.sort(rng.permutation(far)[:count]))
