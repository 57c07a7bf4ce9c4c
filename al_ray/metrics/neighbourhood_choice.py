"""Choose the neighbourhood of scores (core/neighbourhood.py) on labelled pairs that the model has not been trained on.

The pairs are the newest batch, and the model is the one before. They were chosen by a strategy, so their average
precision is no estimate over all pairs; but what ranks them better is likely to rank others better, too. Pairs near a
boundary have almost equal scores by the number with which they were chosen, so a batch may tell nothing: a run keeps
its number until another one is better for certain.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats, Labels

CHOICES = (0.0, 0.25, 0.5, 0.75, 1.0)
FEWEST_TEXTS = 10  # Left texts with a match. Of fewer, the interval of a gain is too narrow.
REPLICATES = 1000
AT_ONCE = 2**22  # Weights of pairs in memory at a time.


@dataclass(frozen=True)
class Choice:
    """How well scores with a neighbourhood rank the pairs: AP in [0, 1], and AP less that of the current number.

    low, high: the 95% interval of that gain, by a paired bootstrap over left texts.
    """

    neighbourhood: float
    average_precision: float
    gain: float
    low: float
    high: float

    def as_dict(self) -> dict[str, Any]:
        """Return the content of round-NNN/neighbourhood.json."""
        return asdict(self)


@dataclass(frozen=True)
class BatchScores:
    """Labelled pairs under a model: (n,) cosines, mean cosines of the left texts with their nearest, left rows, labels.

    The labels are 0 or 1.
    """

    cosines: Floats
    means: Floats
    left: Rows
    labels: Labels


def compare_choices(pairs: BatchScores, current: float, rng: np.random.Generator) -> list[Choice]:
    """Compare the CHOICES with the current number, which is not among the results.

    None without a non-match, or if fewer than FEWEST_TEXTS left texts have a match.
    """
    labels = pairs.labels
    if labels.all() or len(np.unique(pairs.left[labels == 1])) < FEWEST_TEXTS:
        return []
    texts, places = np.unique(pairs.left, return_inverse=True)
    numbers = [choice for choice in CHOICES if choice != current]
    plain, *others = [_Ranking(pairs.cosines - a * pairs.means, labels) for a in (current, *numbers)]
    drawn = [
        np.stack([ranking.average_precisions(weights) for ranking in (plain, *others)])
        for weights in _resampled(len(texts), places, rng)
    ]
    replicates = np.concatenate(drawn, axis=1)
    once = np.ones((1, len(labels)))
    base, found = float(plain.average_precisions(once)[0]), list[Choice]()
    for neighbourhood, ranking, of_ranking in zip(numbers, others, replicates[1:], strict=True):
        value = float(ranking.average_precisions(once)[0])
        low, high = np.percentile(of_ranking - replicates[0], [2.5, 97.5]).tolist()
        found.append(Choice(neighbourhood, value, value - base, low, high))
    return found


def best_choice(choices: Sequence[Choice], current: float) -> float:
    """Return the neighbourhood of the highest AP of those whose gain is above 0 for certain; else the current one."""
    sure = [choice for choice in choices if choice.low > 0]
    return max(sure, key=lambda choice: choice.average_precision).neighbourhood if sure else current


class _Ranking:
    """Pairs in an order of scores, of equal ones the non-matches first."""

    def __init__(self, scores: Floats, labels: Labels) -> None:
        self.order = np.lexsort((labels, -scores))
        self.positive = labels[self.order] == 1

    def average_precisions(self, weights: Floats) -> Floats:
        """(r, n) how often each pair counts -> (r,) average precision; 0 where no match counts."""
        ranked = weights[:, self.order]
        of_matches = ranked * self.positive
        precision = np.cumsum(of_matches, axis=1) / np.maximum(np.cumsum(ranked, axis=1), 1)
        # A draw without a match tells nothing: no number has a gain in it.
        return (precision * of_matches).sum(axis=1) / np.maximum(of_matches.sum(axis=1), 1)


def _resampled(texts: int, places: Rows, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield weights (r, n) of pairs, together REPLICATES times: how often their left texts were drawn again."""
    step = max(1, AT_ONCE // max(texts, len(places)))
    for start in range(0, REPLICATES, step):
        count = min(step, REPLICATES - start)
        drawn = rng.multinomial(texts, np.full(texts, 1 / texts), size=count)
        yield drawn[:, places].astype(np.float64)
