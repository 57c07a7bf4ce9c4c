"""The Trainer of a run with --matcher on: the encoder stays as it is, and a matcher learns from all labels."""

import hashlib
import logging
from pathlib import Path

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.cluster.candidates.sharded_candidates import ShardedCandidates
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.core.labels import YES, Labelled, Model, SavedMatcher
from al_ray.core.pairs import Pairs
from al_ray.core.progress import OnProgress
from al_ray.core.rng import generator
from al_ray.core.two_stage_score import MATCHED
from al_ray.matcher.learner import DEFAULT, LEARNERS
from al_ray.matcher.model_file import NAME, write_model
from al_ray.runs.run_folder import RunFolder
from al_ray.search.candidate_ranks import Features
from al_ray.storage.files import write_root
from al_ray.storage.pair_cosines import SCORES, write_cosines

logger = logging.getLogger(__name__)
PRESUMED_WEIGHT = 0.3
"""Weight of a candidate without a label that is taken for a non-match (docs/matcher.md)."""


class MatcherTrainer:
    """Learns a matcher on the driver, which has the labelled pairs and never the candidates."""

    def __init__(
        self, config: RunConfig, pool: ShardedPool, candidates: ShardedCandidates, journal: RunFolder, watch: OnProgress
    ) -> None:
        """candidates: those of train are prepared."""
        self.config, self.pool, self.candidates, self.journal, self.watch = config, pool, candidates, journal, watch
        self._features = dict[int, Features]()
        self.actors = list[object]()

    def untrained(self) -> Model:
        """The pre-trained encoder."""
        return self.pool.untrained()

    def train(self, labelled: Labelled, number: int, start: Model) -> Model:
        """Train the matcher of round `number` on decided labels, and store it. start: the encoder."""
        split, folder = self.pool.task.split("train"), self.journal.round(number)
        features = self._features_of(labelled.pairs)
        labels, weights = (labelled.labels == YES).astype(np.uint8), np.ones(len(labelled))
        presumed = self._presumed(labelled)
        features = np.concatenate([features, self._features_of(presumed)])
        labels = np.concatenate([labels, np.zeros(len(presumed), dtype=np.uint8)])
        weights = np.concatenate([weights, np.full(len(presumed), PRESUMED_WEIGHT)])
        learned = LEARNERS[DEFAULT].fit(features, labels, weights, self.candidates.names, self.config.seed)
        path = (folder / "model" / NAME).resolve()
        write_model(path, learned, DEFAULT)
        model = Model("", start.digest, MATCHED, SavedMatcher(str(path), digest_of(path)))
        write_root(
            folder / "model" / "scorer.json", {"digest": model.digest, "matcher": model.matcher.digest, **FIELDS}
        )
        write_cosines(folder / SCORES, labelled.pairs, self.pool.scores(model, split, labelled.pairs))
        self.watch("train", 1, 1)
        return model

    def _features_of(self, pairs: Pairs) -> Features:
        """(n, 2) pairs of train -> (n, F) features; those of a pair are asked for once."""
        split = self.pool.task.split("train")
        keys = split.space.keys(pairs)
        new = [place for place, key in enumerate(keys.tolist()) if key not in self._features]
        for place, row in zip(new, self.candidates.features_of(split, pairs[new]), strict=True):
            self._features[int(keys[place])] = row
        width = len(self.candidates.names)
        return np.array([self._features[key] for key in keys.tolist()], dtype=np.float32).reshape(-1, width)

    def _presumed(self, labelled: Labelled) -> Pairs:
        """Draw candidates without a label from the lower half of the ranking without labels."""
        split, count = self.pool.task.split("train"), self.config.candidates.presumed
        if not count:
            return np.empty((0, 2), dtype=np.int64)
        far = self.candidates.far(split, np.sort(split.space.keys(labelled.pairs)))
        rng = generator(self.config.seed, "presumed")
        return split.space.pairs(np.sort(rng.permutation(far)[:count]))
