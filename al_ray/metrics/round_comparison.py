"""Compare two consecutive rounds on labelled pairs, without labelling any pair for it.

The pairs were chosen by a strategy: these figures show that something changed, and are no estimate over all pairs.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from al_ray.core.pairs import Keys
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats, Labels
from al_ray.metrics.average_precision import average_precision, count_scores

AGREEMENT, PREQUENTIAL, GAIN = "agreement", "prequential_average_precision", "average_precision_gain"
INTERVAL = "average_precision_interval"
MOST_DROP, FEWEST_POSITIVES = 0.1, 10
"""A larger fall of a figure from one round to the next is a warning; AP of fewer positives is not compared."""

ORDERS = 400  # Random orders that AP is compared with.


def look_up(keys: Keys, known: Keys, cosines: Floats) -> Floats:
    """(n,) keys -> (n,) cosines among those of (m,) distinct known keys; NaN where a key is not known."""
    if not len(known):
        return np.full(len(keys), np.nan)
    order = np.argsort(known)
    places = order[np.minimum(np.searchsorted(known, keys, sorter=order), len(known) - 1)]
    return np.where(known[places] == keys, cosines[places], np.nan)


def agreement(before: Floats, boundary_before: float, now: Floats, boundary_now: float) -> float | None:
    """Return the share of pairs that two models call alike: a match if the cosine is at least the model's boundary.

    before, now: (n,) cosines under the two models, NaN where unknown. None if no pair has both.
    """
    known = ~np.isnan(before) & ~np.isnan(now)
    alike = (before >= boundary_before) == (now >= boundary_now)
    return float(alike[known].mean()) if known.any() else None


def prequential_average_precision(cosines: Floats, labels: Labels) -> float | None:
    """Return AP among the pairs of a batch, ranked by the model that chose them before it knew their labels.

    (n,) cosines, NaN where unknown, and (n,) labels 0 or 1. None without a known match and a known non-match.
    """
    known = ~np.isnan(cosines)
    scores, positive = cosines[known], labels[known] == 1
    if positive.all() or not positive.any():
        return None
    return average_precision(count_scores(scores[positive], [scores[~positive]]), np.ones(1))


def random_order(pairs: int, matches: int) -> float:
    """Return the 95% quantile of AP of n pairs in a random order, by ORDERS orders that do not change."""
    rng = generator(0, "random-order", pairs)
    found = np.arange(1, matches + 1)
    values = [
        (found / np.sort(rng.choice(pairs, matches, replace=False, shuffle=False) + 1)).mean() for _ in range(ORDERS)
    ]
    return float(np.quantile(values, 0.95))


def drop_warnings(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return warnings of a figure that fell by more than MOST_DROP since the round before; none if AP was measured.

    Prequential AP also falls when the pairs become harder or fewer of them match, as they do under uncertainty
    sampling: it is a warning only where it is at most `random_order`. before, now: lines of metrics.jsonl, of
    which the first may lack the figures.
    """
    if now["average_precision"] is not None:
        return []
    fell = [
        name
        for name in (AGREEMENT, PREQUENTIAL)
        if None not in (before.get(name), now[name]) and before[name] - now[name] > MOST_DROP
    ]
    if PREQUENTIAL in fell:
        decided = now["labels"] - before["labels"] - now["batch_unsure"]
        few = min(before["batch_positives"], now["batch_positives"]) < FEWEST_POSITIVES
        if few or now[PREQUENTIAL] > random_order(decided, now["batch_positives"]):
            fell.remove(PREQUENTIAL)
    words = {
        AGREEMENT: "the models of this round and of the one before agree on fewer of the labelled pairs",
        PREQUENTIAL: "the model before ranked the pairs labelled in this round no better than a random order could; AP",
    }
    return [
        f"{words[name]}: {100 * now[name]:.1f}% after {100 * before[name]:.1f}%; more labels may have made the model "
        "worse: measure it before you use it (`AuditConfig.by_score=True`)"
        for name in fell
    ]
