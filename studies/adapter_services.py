"""The services of a simulated run in memory: exact search and evaluation of all pairs, and training of an adapter."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from al_ray.active_learning.ports import Oracle
from al_ray.core.candidates import MARGIN, BestCandidates, Candidates, Order
from al_ray.core.labels import OPEN, Answers, Batch, Labelled, Model, State
from al_ray.core.neighbourhood import NEIGHBOURS
from al_ray.core.pairs import Keys, Pairs, PairSpace, Rows, is_in
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats, Labels
from al_ray.core.task import Split
from al_ray.metrics.average_precision import Counts, StratumSummary, counts_above, thresholds_of
from al_ray.metrics.bootstrap import Replicates, bootstrap_queries, cumulate_counts, make_replicates
from al_ray.metrics.error_examples import Examples
from al_ray.metrics.evaluation import Evaluation, evaluate_counts
from al_ray.oracles.simulated import SimulatedOracle
from studies.adapter import AdapterOptions, SideVectors, train_adapter
from studies.adapter_noise import NO_NOISE, Noise, NoisyOracle, refit_noisy

ROWS = 256
"""Left texts of a block of scores."""
UNTRAINED = Model("", "untrained")
Scores = npt.NDArray[np.float32]


class AdapterModels:
    """Vectors of the untrained encoder and of the latest model, and the offsets of their left texts."""

    def __init__(self, frozen: SideVectors) -> None:
        """Start with the untrained encoder."""
        self._vectors = {UNTRAINED.path: frozen}
        self._offsets = dict[tuple[str, str, float], Floats]()

    def add(self, path: str, vectors: SideVectors) -> None:
        """Keep the vectors of a model, and forget those of the model before."""
        self._vectors = {UNTRAINED.path: self._vectors[UNTRAINED.path], path: vectors}
        self._offsets = {key: offsets for key, offsets in self._offsets.items() if key[0] == UNTRAINED.path}

    def vectors(self, model: Model) -> SideVectors:
        """Return the vectors of the untrained encoder or of the latest model."""
        return self._vectors[model.path]

    def offsets(self, model: Model, split: Split, neighbourhood: float) -> Floats:
        """Return a * h of each left text (l,) of a split (core/neighbourhood.py)."""
        key = (model.path, split.name, neighbourhood)
        if key not in self._offsets:
            means = np.zeros(len(split.space.left))
            if neighbourhood:
                blocks = self.blocks(model, split, 0.0)
                means = np.concatenate([_means_of_highest(cosines) for _, cosines in blocks])
            self._offsets[key] = neighbourhood * means
        return self._offsets[key]

    def blocks(self, model: Model, split: Split, neighbourhood: float) -> Iterator[tuple[Rows, Scores]]:
        """Yield left rows (b,) and the float32 scores (b, r) of their pairs with all right texts of the split."""
        vectors, space = self.vectors(model), split.space
        right, offsets = vectors.right[space.right].T, self.offsets(model, split, neighbourhood)
        for start in range(0, len(space.left), ROWS):
            rows = space.left[start : start + ROWS]
            yield rows, vectors.left[rows] @ right - offsets[start : start + ROWS, None].astype(np.float32)

    def scores(self, model: Model, split: Split, neighbourhood: float, pairs: Pairs) -> Floats:
        """(n, 2) pairs of the split -> (n,) scores."""
        offsets = self.offsets(model, split, neighbourhood)
        return self.vectors(model).cosines(pairs) - offsets[np.searchsorted(split.space.left, pairs[:, 0])]


def _means_of_highest(cosines: Scores) -> Floats:
    """(b, r) cosines -> (b,) means of the NEIGHBOURS highest of each row, as `means_in` in a third of its time."""
    least = max(0, cosines.shape[1] - NEIGHBOURS)
    return np.partition(cosines, least, axis=1)[:, least:].mean(axis=1, dtype=np.float64)


def neighbourhood_of(model: Model) -> float:
    """Return a of a model; the untrained encoder ranks by cosines, as in a run on a cluster."""
    return 0.0 if model.scorer is None else model.scorer.neighbourhood


@dataclass(frozen=True)
class ExactSearch:
    """Search all pairs of the pool. Scores are float32, so pairs whose scores differ by less may change places."""

    models: AdapterModels
    pool: Split

    def least(self, model: Model, order: Order, count: int, labelled: Keys) -> Candidates:
        """Return the `count` pairs of least cost that are not labelled; see Retriever."""
        best = BestCandidates(order, count)
        for rows, scores in self.models.blocks(model, self.pool, neighbourhood_of(model)):
            costs = _costs(order, scores).ravel()
            if np.isfinite(best.bound):
                # The bound is of float64 costs.
                places = np.flatnonzero(costs <= best.bound + MARGIN)
            else:
                # Labelled pairs may be among the least, and are removed below.
                most = min(count + len(labelled), len(costs))
                places = np.argpartition(costs, most - 1)[:most] if most else np.empty(0, dtype=np.int64)
            keys = _keys(self.pool.space, rows, places)
            fresh = ~is_in(keys, labelled)
            best.add(Candidates(keys[fresh], scores.ravel()[places[fresh]].astype(np.float64)))
        return best.result()


def _costs(order: Order, scores: Scores) -> Scores:
    """Compute Order.cost in float32, which takes half the time."""
    if np.isinf(order.centre):
        return -scores if order.centre > 0 else scores
    return np.abs(scores - np.float32(order.centre))


def _keys(space: PairSpace, rows: Rows, places: Rows) -> Keys:
    """Left rows (b,) of a block and (n,) places in its scores -> (n,) keys."""
    left, right = np.divmod(places, len(space.right))
    return rows[left] * space.width + space.right[right]


@dataclass(frozen=True)
class AdapterTrainer:
    """Train an adapter from the untrained encoder in every round, and fit its scorer to the scores of all labels."""

    models: AdapterModels
    pool: Split
    options: AdapterOptions
    neighbourhood: float
    seed: int
    noise: Noise = NO_NOISE

    def untrained(self) -> Model:
        """Return the untrained encoder."""
        return UNTRAINED

    def train(self, labelled: Labelled, number: int, start: Model | None) -> Model:
        """Train the model of a round; `start` is not used."""
        labelled = labelled.decided
        frozen, rng = self.models.vectors(UNTRAINED), generator(self.seed, "adapter-order", number)
        model = Model(f"round-{number}", f"round-{number}")
        adapter = train_adapter(frozen, labelled.pairs, labelled.labels, self.options, rng, self.noise.flips)
        self.models.add(model.path, adapter.adapted(frozen))
        scores = self.models.scores(model, self.pool, self.neighbourhood, labelled.pairs)
        scorer = refit_noisy(scores, labelled.labels, self.noise.flips)
        return replace(model, scorer=replace(scorer, neighbourhood=self.neighbourhood))


@dataclass(frozen=True)
class ExactEvaluator:
    """Count every pair of the measured split."""

    models: AdapterModels
    measured: Split

    def evaluate(self, model: Model, split: str) -> Evaluation:
        """Evaluate a model by its own scores."""
        return self.evaluate_scores(model, neighbourhood_of(model))

    def evaluate_scores(self, model: Model, neighbourhood: float) -> Evaluation:
        """Evaluate a model, also the untrained encoder, by scores with a neighbourhood."""
        counts = self._count(model, neighbourhood)
        negatives = self.measured.space.total - int(counts.positives[-1])
        strata = [StratumSummary("all", negatives, negatives)]
        over_left = self._over_left_texts(model, neighbourhood, counts)
        return evaluate_counts(self.measured.name, counts, strata, None, generator(0, "simulated-interval"), over_left)

    def _over_left_texts(self, model: Model, neighbourhood: float, counts: Counts) -> Replicates:
        """Bootstrap AP over left texts: the counts of each, weighted by how often it is drawn."""
        bootstrap = bootstrap_queries(self.measured, counts)
        lowest_first, every, true = bootstrap.thresholds[::-1], list[Floats](), list[Floats]()

        def count_lines(lines: Rows, scores: Scores, texts: int) -> Floats:
            """(n,) lines and scores of pairs -> (texts, g) how many of each line reach each threshold."""
            reached, most = np.searchsorted(lowest_first, scores, side="right"), len(lowest_first) + 1
            numbers = np.bincount(lines * most + reached, minlength=texts * most).reshape(texts, most)
            return cumulate_counts(numbers.astype(np.float64))

        for rows, scores in self.models.blocks(model, self.measured, neighbourhood):
            reaching = np.nonzero(scores >= np.float32(lowest_first[0]))
            every.append(count_lines(reaching[0], scores[reaching], len(rows)))
            matches = self._matches(rows)
            true.append(count_lines(matches[0], scores[matches], len(rows)))
        drawn = bootstrap.weights(self.measured.space.left).T.astype(np.float64)
        true_of, every_of = (drawn @ np.concatenate(parts) for parts in (true, every))
        return make_replicates(counts, np.ones(1), true_of, every_of - true_of)

    def _matches(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return the places of the positives in a block of scores of sorted left rows (b,)."""
        left, right = self.measured.space.pairs(self.measured.positive_keys).T
        own = is_in(left, rows)
        return np.searchsorted(rows, left[own]), np.searchsorted(self.measured.space.right, right[own])

    def _count(self, model: Model, neighbourhood: float) -> Counts:
        """Count all pairs in two passes: the scores of the positives are the thresholds of the second."""
        blocks = self.models.blocks(model, self.measured, neighbourhood)
        of_positives = np.concatenate([scores[self._matches(rows)] for rows, scores in blocks])
        thresholds = thresholds_of(of_positives)
        every = np.zeros(len(thresholds), dtype=np.int64)
        for _, scores in self.models.blocks(model, self.measured, neighbourhood):
            # Few scores reach the lowest threshold, and the others are not counted at any.
            every += counts_above(thresholds, scores[scores >= np.float32(thresholds[-1])])
        above = counts_above(thresholds, of_positives)
        return Counts(thresholds, above, (every - above)[None])

    def examples(self, model: Model, split: str) -> Examples:
        """Simulated runs keep no examples."""
        raise NotImplementedError


@dataclass
class MemoryJournal:
    """A journal and its ledger in memory. watch: called with every complete round."""

    watch: Callable[[State, Mapping[str, Evaluation]], None]
    batches: dict[int, Batch] = field(default_factory=dict)
    answers: dict[int, Labels] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)

    @property
    def ledger(self) -> "MemoryJournal":
        """Return this journal."""
        return self

    def batch(self, number: int) -> Batch | None:
        """Return the batch of a round."""
        return self.batches.get(number)

    def add_batch(self, number: int, batch: Batch) -> None:
        """Store the batch of a round."""
        self.batches[number] = batch
        self.answers[number] = np.full(len(batch.pairs), OPEN, dtype=np.uint8)

    def labels(self, number: int) -> Labels:
        """Return the (n,) labels of a round's batch."""
        return self.answers[number].copy()

    def corrected(self, labelled: Labelled) -> Labelled:
        """Return the labels as they are: nobody corrects them."""
        return labelled

    def add_answers(self, number: int, answers: Answers) -> None:
        """Store answers."""
        self.answers[number][answers.rows] = answers.labels

    def seal(self, number: int) -> None:
        """Make the labels of a round final."""
        self.closed.add(number)

    def sealed(self, number: int) -> bool:
        """Return whether the labels of a round are final."""
        return number in self.closed

    def record_round(self, state: State, evaluations: Mapping[str, Evaluation], examples: Examples | None) -> None:
        """Report a complete round."""
        self.watch(state, evaluations)


def make_oracle(pool: Split, trainer: AdapterTrainer) -> Oracle:
    """Return the labeller of a simulated run: one who errs, if the trainer has such options."""
    truth, noise = SimulatedOracle(pool), trainer.noise
    frozen = trainer.models.vectors(UNTRAINED)
    return NoisyOracle(truth, noise, frozen, trainer.seed) if noise.errors else truth


class SimulatedServices:
    """The RunServices of a simulated run. seconds: by stage of the loop, since they were last cleared."""

    dev = None

    def __init__(self, pool: Split, measured: Split, trainer: AdapterTrainer, journal: MemoryJournal) -> None:
        """trainer: of adapters, whose models the search and the evaluation use."""
        self.retriever, self.evaluator = ExactSearch(trainer.models, pool), ExactEvaluator(trainer.models, measured)
        self.trainer, self.journal, self.oracle = trainer, journal, make_oracle(pool, trainer)
        self.seconds = dict[str, float]()

    def spread(self, count: int, excluded: Keys) -> Candidates:
        """No adapter is beside a matcher."""
        raise NotImplementedError

    def explain(self, number: int, pairs: Pairs, model: Model) -> None:
        """Nobody asks."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add up the seconds of a stage."""
        started = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started
