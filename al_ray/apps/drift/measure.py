"""How the texts to match differ from the texts on which the model was trained."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

import numpy as np

from al_ray.apps.drift.comparison import LARGE, LARGE_SHARE, Direction, Figure, Kind, compare
from al_ray.apps.drift.pair_values import TOLERANCE, best_cosines, random_cosines
from al_ray.apps.drift.samples import SAMPLE, TextSample, draw_rows, sample_new, sample_training, sides_of
from al_ray.apps.drift.text_values import (
    count_texts,
    distance_to,
    distance_within,
    unknown_in_training,
    unknown_shares,
)
from al_ray.apps.matching.model import MatchingModel
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.core.config.encoder import family_of
from al_ray.core.labels import NO, YES, latest_labels
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats, refit
from al_ray.core.task import Split, Task, strings_at
from al_ray.core.vectors import Vectors
from al_ray.storage.pair_cosines import FIT, read_cosines

VOCABULARY = 100_000
"""Training texts of a side whose words count as known, at most: a random sample of more would take long to read."""
UNLIKE = 0.95
"""A text is unlike training if it is farther from all training texts than this share of the training texts are."""

LENGTH = Kind(
    "characters",
    "{:,.0f} characters on average",
    {"higher": "are longer than in training", "lower": "are shorter than in training"},
)
TRUNCATED = Kind(
    "truncated",
    "{:.1%} of them",
    {"higher": "have the maximum number of tokens, and so are truncated, more often than in training"},
    LARGE_SHARE,
)
UNKNOWN = Kind(
    "unknown words", "{:.1%} of the words of a text", {"higher": "have more words that no training text has"}
)
DISTANCE = Kind(
    "distance to training",
    "1 - cosine to the nearest training text is {:.3f} on average",
    {"higher": "are farther from the training texts than those are from each other"},
)
RANDOM = Kind(
    "cosine of random pairs",
    "cosine {:.3f} on average",
    {
        "higher": "are more alike than in training, so more of them may pass a cutoff",
        "lower": "are less alike than in training",
    },
)
BEST = Kind(
    "cosine of best partners",
    "cosine {:.3f} on average",
    {
        "higher": "have higher scores than in training, so more of them may pass a cutoff",
        "lower": "have lower scores than in training, so fewer of them may pass a cutoff",
    },
)


@dataclass(frozen=True)
class Drift:
    """Figures of the texts to match beside those of training.

    samples: how many texts of each side were compared. training: (t, d) vectors of the sampled training texts. unlike:
    the distance to the nearest of them above which a text is unlike training; infinite if it is unknown.
    """

    figures: tuple[Figure, ...]
    samples: dict[str, list[int]]
    training: Vectors
    unlike: float

    @property
    def record(self) -> dict[str, Any]:
        """Return what match.json says of it."""
        return {
            "samples": self.samples,
            "figures": [figure.record for figure in self.figures],
            "warnings": [figure.warning for figure in self.figures if figure.warning],
        }


@dataclass(frozen=True)
class TextValues:
    """Values of sampled texts (n,): their side, and the values of each kind of figure."""

    sides: np.ndarray
    values: dict[Kind, Floats]

    def of(self, kind: Kind, side: str | None) -> Floats:
        """Return the values of a kind for one side, or for all texts; a value that is unknown is left out."""
        values = self.values[kind] if side is None else self.values[kind][self.sides == side]
        return values[~np.isnan(values)]


def measure_drift(pool: ShardedPool, model: MatchingModel, split: Split) -> Drift:
    """Compare samples of the texts that a pool matches with samples of the train split of the model's task.

    SAMPLE texts of each side at most, drawn by the seed of the run. Right texts are compared with right ones where both
    tasks have two sides, else all texts with all.
    """
    task, seed = model.task, model.config.seed
    sides = sides_of(task, task.split("train"))
    rows = [draw_rows(every, VOCABULARY, seed, "training", side) for side, _, every in sides]
    known = count_texts([text for (_, corpus, _), own in zip(sides, rows, strict=True)
                         for text in strings_at(corpus.texts, np.sort(own))])  # fmt: skip
    given = family_of(model.config.encoder).given
    before = sample_training(pool, model.model, task, [own[:SAMPLE] for own in rows], given)
    now = sample_new(pool, model.model, split, seed, given)

    training, texts = _vectors(before), _texts(before)
    distances, matches = distance_within(training, cosine_of_matches(model))
    values = (
        _values(before, model, distances, unknown_in_training(texts, known, matches)),
        _values(now, model, distance_to(training, _vectors(now)), unknown_shares(_texts(now), known)),
    )
    figures = [*_of_texts(*values), *_of_pairs(task, before, pool.task, now, seed)]
    limits = distances[~np.isnan(distances)]
    unlike = float(np.quantile(limits, UNLIKE)) if len(limits) else float("inf")
    samples = {"training": [len(one.texts) for one in before], "now": [len(one.texts) for one in now]}
    return Drift(tuple(figures), samples, training, unlike)


def cosine_of_matches(model: MatchingModel) -> float:
    """Return the lowest cosine of training texts that count as matches; infinite, so that none do, if it is unknown.

    It is the boundary of the model. With a neighbourhood or a matcher that is no cosine: then it is the boundary of a
    scorer that is fitted to the cosines of the same labelled pairs. They are unknown in runs with a matcher of earlier
    versions. An infinite boundary tells no matches from other pairs.
    """
    scorer = model.model.scorer
    assert scorer is not None
    if scorer.neighbourhood or scorer.matcher:
        assert model.run is not None
        assert model.round is not None
        space, ledger = model.task.split("train").space, model.run.ledger
        labelled = ledger.corrected(ledger.labelled(model.round))
        pairs, cosines = read_cosines(model.run.round(model.round) / FIT)
        labels = latest_labels(space.keys(labelled.pairs), labelled.labels, space.keys(pairs))
        decided = (labels == YES) | (labels == NO)
        if not decided.any():
            return inf
        scorer = refit(cosines[decided], labels[decided])
    return scorer.boundary if isfinite(scorer.boundary) else inf


def drift_lines(record: dict[str, Any]) -> Iterator[str]:
    """Yield what the command prints of the drift in match.json."""
    if "drift" in record:
        yield from (f"drift: {warning}" for warning in record["drift"]["warnings"])
        if not record["drift"]["warnings"]:
            # Of some figure even a difference that would be large is not significant.
            few = max((one["critical"] for one in record["drift"]["figures"]), default=np.inf) > LARGE
            yield "drift: none was found" + (", but so few texts show only very large differences" if few else "")


def _texts(samples: list[TextSample]) -> list[str]:
    return [text for one in samples for text in one.texts]


def _vectors(samples: list[TextSample]) -> Vectors:
    return np.concatenate([one.sample.vectors for one in samples])


def _values(samples: list[TextSample], model: MatchingModel, distances: Floats, unknown: Floats) -> TextValues:
    """Return the values of sampled texts, given their distances (n,) to training and shares (n,) of unknown words."""
    tokens = np.concatenate([one.tokens for one in samples])
    characters = np.array([len(text) for text in _texts(samples)], dtype=np.float64)
    truncated = (tokens >= model.config.max_length).astype(np.float64)
    sides = np.repeat([one.side for one in samples], [len(one.texts) for one in samples])
    return TextValues(sides, {LENGTH: characters, TRUNCATED: truncated, UNKNOWN: unknown, DISTANCE: distances})


def _of_texts(before: TextValues, now: TextValues) -> Iterator[Figure]:
    """Compare values of texts, side by side if both have two sides."""
    both = {len(np.unique(one.sides)) for one in (before, now)} == {2}
    for side in ("left", "right") if both else (None,):
        for kind in now.values:
            figure = compare(kind, f"{side} texts" if side else "texts", before.of(kind, side), now.of(kind, side))
            if figure is not None:
                yield figure


def _of_pairs(
    task: Task, before: list[TextSample], new_task: Task, now: list[TextSample], seed: int
) -> Iterator[Figure]:
    """Compare the cosines of random pairs and of best partners, among equally many texts."""
    # Of each side; in a symmetric task the texts are on both.
    (left, right), (new_left, new_right) = ((of[0].sample, of[-1].sample) for of in (before, now))
    pairs = (
        random_cosines(task, left, right, SAMPLE, generator(seed, "drift-training-pairs")),
        random_cosines(new_task, new_left, new_right, SAMPLE, generator(seed, "drift-new-pairs")),
    )
    sizes = min(len(left.rows), len(new_left.rows)), min(len(right.rows), len(new_right.rows))
    left, new_left = left.first(sizes[0]), new_left.first(sizes[0])
    right, new_right = right.first(sizes[1]), new_right.first(sizes[1])
    best = best_cosines(task, left, right), best_cosines(new_task, new_left, new_right)
    judged = judged_directions(right.share, new_right.share)
    for figure in (
        compare(RANDOM, "random pairs", *pairs),
        compare(BEST, "best partners", *best, judged=judged),
    ):
        if figure is not None:
            yield figure


def judged_directions(training: float, now: float) -> tuple[Direction, ...]:
    """Return in which directions best partners of samples may differ from training because of the texts themselves.

    training, now: share of all possible partners that are in the sample. With a smaller share more texts have lost
    their match, and best cosines are lower for this reason alone.
    """
    if training > TOLERANCE * now:
        return ("higher",)
    return ("lower",) if now > TOLERANCE * training else ("higher", "lower")
