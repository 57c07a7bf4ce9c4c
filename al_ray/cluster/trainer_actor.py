"""The Trainer of a run that trains its encoder: actors that write models into the run folder."""

from al_ray.cluster.pool.score_fit import choose_weight, fit_to_scores
from al_ray.cluster.pool.sharded_evaluator import PoolEvaluator
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.cluster.presumed import PresumedPairs
from al_ray.cluster.training_group import Training, model_of
from al_ray.core.candidates import Candidates
from al_ray.core.config.sections import ScoringConfig
from al_ray.core.labels import Labelled, Model
from al_ray.core.pairs import Keys, Pairs
from al_ray.core.progress import OnProgress
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.pair_cosines import SCORES, write_cosines
from al_ray.training.saved_model import write_scorer


class TrainerActor:
    """The Trainer of the loop: actors that write models into the run folder."""

    def __init__(
        self,
        training: Training,
        pool: ShardedPool,
        journal: RunFolder,
        watch: OnProgress,
        scores: ScoringConfig | None = None,
        presumed: PresumedPairs | None = None,
    ) -> None:
        """training: runs a training on one actor or several.

        scores: the run's options of scores; None where the score is the cosine. presumed: draws pairs that a training
        takes for non-matches.
        """
        self.training, self.pool, self.journal, self.watch = training, pool, journal, watch
        self.actors, self.scores, self.presumed = training.actors, scores, presumed

    def prepare(self, evaluator: PoolEvaluator) -> None:
        """Nothing is prepared before the first round."""

    def spread(self, count: int, excluded: Keys) -> Candidates:
        """Only a run with a matcher spreads its first batch."""
        raise NotImplementedError

    def explain(self, number: int, pairs: Pairs, model: Model) -> None:
        """A cosine needs no explanation."""

    def untrained(self) -> Model:
        """The pre-trained encoder."""
        return self.pool.untrained()

    def train(self, labelled: Labelled, number: int, start: Model) -> Model:
        """Train the model of round `number`, and fit its scorer to scores if the run ranks by them."""
        # Before the training, while the shards hold the vectors of the model before.
        weight = 0.0 if self.scores is None else choose_weight(self.pool, self.journal, number, self.scores)
        folder = (self.journal.round(number) / "model").resolve()
        pairs = labelled
        if self.presumed is not None:
            before = self.journal.model(number - 1) if number > 1 else self.untrained()
            pairs = self.presumed.add(labelled, number, before)
        events = self.training(pairs, number, start, str(folder))
        model = model_of(events, lambda step: self.watch("train", step.step, step.steps))
        round_folder = self.journal.round(number)
        # What an interrupted session left may be of another number: labels may have been corrected since.
        if not weight and not (round_folder / SCORES).exists():
            return model
        both = self.scores is not None and self.scores.both_sides
        model, pairs, scores = fit_to_scores(self.pool, round_folder, model, labelled, weight, both)
        assert model.scorer is not None
        write_cosines(round_folder / SCORES, pairs, scores)
        return write_scorer(round_folder / "model", model, model.scorer)
