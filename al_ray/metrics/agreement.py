"""How far labellers agree beyond chance: Cohen's kappa of two, Fleiss' kappa and Krippendorff's alpha of several.

Cohen (1960), A coefficient of agreement for nominal scales. Fleiss (1971), Measuring nominal scale agreement among many
raters. Krippendorff (2011), Computing Krippendorff's alpha-reliability; the package of this name is under GPL-3.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from al_ray.metrics.average_precision import Estimate, Floats

Counts = npt.NDArray[np.int64]
DRAWS, TAIL = 10_000, 0.025
ADDED = 2.0
"""Pairs that the prior adds, in equal parts to all cells of the table of the labels that occur.

With two labels these are Jeffreys' half a pair for each cell. Half a pair for each cell of three labels would be four
and a half pairs, on three of which the labellers differ: too many beside 20 to 100 pairs on which they agree.
"""
LEAST = 10
"""Pairs below which no interval of alpha is given."""


@dataclass(frozen=True)
class Agreement:
    """The agreement of two labellers on n pairs that both have labelled.

    share: of the pairs on which they agree. kappa: with its 95% interval; None if there is no pair, or if both gave one
    and the same label to all: then agreement cannot be distinguished from chance.
    """

    n: int
    share: float | None
    kappa: Estimate | None


def cohen_kappa(table: Counts, rng: np.random.Generator) -> Agreement:
    """Return the agreement of two labellers.

    table: (k, k) counts: how many pairs have label i by the first labeller and label j by the second one.

    The interval is that of kappa under tables of probabilities drawn from their posterior, with ADDED pairs beside
    those that were labelled. The usual one, of a normal distribution, has no width where all labels agree, however few
    they are.
    """
    total = int(table.sum())
    used = np.flatnonzero(table.sum(0) + table.sum(1))
    share = float(np.trace(table)) / total if total else None
    if len(used) < 2:
        return Agreement(total, share, None)
    cells = table[np.ix_(used, used)]
    draws = rng.dirichlet(cells.ravel() + ADDED / cells.size, DRAWS).reshape(DRAWS, len(used), len(used))
    low, high = np.quantile(_kappa(draws), [TAIL, 1 - TAIL])
    value = float(_kappa(cells[None] / total)[0])
    return Agreement(total, share, Estimate(value, min(float(low), value), max(float(high), value)))


def tabulate(one: npt.NDArray[np.integer], other: npt.NDArray[np.integer], labels: int) -> Counts:
    """Return the (labels, labels) table of two labellers' (n,) labels, which are 0, 1, ..., labels - 1."""
    table = np.zeros((labels, labels), dtype=np.int64)
    np.add.at(table, (one, other), 1)
    return table


def fleiss_kappa(counts: Counts) -> float | None:
    """Return Fleiss' kappa of pairs that have equally many labels, two or more.

    counts: (n, k), how many labellers gave pair i the label j. None without pairs, or if all labels are alike.
    """
    if not len(counts):
        return None
    raters = int(counts[0].sum())
    assert raters > 1
    assert (counts.sum(1) == raters).all()
    observed = float(((counts**2).sum(1) - raters).mean()) / (raters * (raters - 1))
    chance = float(((counts.sum(0) / counts.sum()) ** 2).sum())
    return None if chance == 1 else (observed - chance) / (1 - chance)


def krippendorff_alpha(counts: Counts) -> float | None:
    """Return Krippendorff's alpha of nominal labels: 1 - observed / expected disagreement.

    counts: (n, k), how many labellers gave pair i the label j; pairs with one label say nothing. None if fewer than two
    labels occur.
    """
    labels = counts.sum(1)
    counts, labels = counts[labels > 1], labels[labels > 1]
    totals, total = counts.sum(0), int(labels.sum())
    if np.count_nonzero(totals) < 2:
        return None
    # Ordered pairs of unlike labels: of one pair of texts, and of all labels wherever they were given.
    observed = float(((labels**2 - (counts**2).sum(1)) / (labels - 1)).sum())
    expected = float(total**2 - (totals**2).sum()) / (total - 1)
    return 1 - observed / expected


def _kappa(tables: Floats) -> Floats:
    """(d, k, k) tables of shares -> (d,) kappas."""
    observed = np.trace(tables, axis1=1, axis2=2)
    chance = (tables.sum(1) * tables.sum(2)).sum(1)
    return (observed - chance) / (1 - chance)


def estimate_alpha(counts: Counts, rng: np.random.Generator) -> Estimate | None:
    """Return Krippendorff's alpha of nominal labels with its 95% interval.

    counts: (n, k), how many people gave pair i the label j, two or more in all. None if there is one label only, or
    fewer than LEAST pairs.

    The interval is that of `cohen_kappa`, for any number of people: alpha under shares of pairs drawn from their
    posterior, with ADDED pairs of two labels beside those that were labelled. A bootstrap has no width where all agree,
    however few they are.
    """
    value = krippendorff_alpha(counts) if len(counts) >= LEAST else None
    if value is None:
        return None
    labels = np.eye(counts.shape[1], dtype=np.int64)[np.flatnonzero(counts.sum(0))]
    prior = (labels[:, None] + labels).reshape(-1, counts.shape[1])
    seen, times = np.unique(counts, axis=0, return_counts=True)
    shares = rng.dirichlet([*times, *[ADDED / len(prior)] * len(prior)], DRAWS)
    draws = _alphas(np.concatenate([seen, prior]), len(counts) * shares)
    low, high = np.quantile(draws, [TAIL, 1 - TAIL])
    return Estimate(value, min(float(low), value), max(float(high), value))


def _alphas(counts: Counts, weights: Floats) -> Floats:
    """Return (d,) alphas of rows of counts (n, k), each of which stands for weights[:, row] pairs; weights: (d, n)."""
    labels = counts.sum(1)
    totals, total = weights @ counts, weights @ labels
    # As in `krippendorff_alpha`: ordered pairs of unlike labels.
    observed = weights @ ((labels**2 - (counts**2).sum(1)) / (labels - 1))
    return 1 - observed * (total - 1) / (total**2 - (totals**2).sum(1))
