"""Quality of predicted clusters against true ones: over pairs of texts, and over texts (B-cubed).

Both are sums over the cells of the contingency table, the predicted and true clusters that share a text, so no pair of
texts is enumerated.
"""

from dataclasses import dataclass

import numpy as np

from al_ray.core.pairs import Rows


@dataclass(frozen=True)
class ClusterQuality:
    """Precision, recall and their harmonic mean F1. A figure is NaN if its denominator is 0."""

    precision: float
    recall: float
    f1: float


def pairwise_f1(predicted: Rows, true: Rows) -> ClusterQuality:
    """Compare the pairs of texts that share a predicted cluster with the pairs that share a true one.

    predicted, true: (n,) labels of clusters, any integers. Precision is NaN if no two texts share a predicted cluster,
    recall if no two share a true one, F1 if neither.
    """
    table = _Contingency.of(predicted, true)
    hits, positives, relevant = (float((n * (n - 1) // 2).sum()) for n in (table.cells, table.predicted, table.true))
    return ClusterQuality(_ratio(hits, positives), _ratio(hits, relevant), _ratio(2 * hits, positives + relevant))


def b_cubed(predicted: Rows, true: Rows) -> ClusterQuality:
    """Average over the texts how much of a text's predicted cluster is of its true one, and the other way round.

    Bagga and Baldwin 1998, Entity-based cross-document coreferencing using the vector space model, with equal weights
    of texts. F1 is that of mean precision and mean recall. predicted, true: (n,) labels of clusters, any integers.
    All are NaN if n is 0.
    """
    table = _Contingency.of(predicted, true)
    # Each of the c texts of a cell has c texts of its true cluster in its predicted one.
    squares = table.cells.astype(np.float64) ** 2
    precision = _ratio(float((squares / table.predicted[table.row]).sum()), len(predicted))
    recall = _ratio(float((squares / table.true[table.column]).sum()), len(predicted))
    return ClusterQuality(precision, recall, _ratio(2 * precision * recall, precision + recall))


@dataclass(frozen=True)
class _Contingency:
    """Counts of texts. cells: (c,), without zeros, at (c,) row and column; predicted, true: of each cluster."""

    cells: Rows
    row: Rows
    column: Rows
    predicted: Rows
    true: Rows

    @classmethod
    def of(cls, predicted: Rows, true: Rows) -> "_Contingency":
        _, of_predicted, in_predicted = np.unique(predicted, return_inverse=True, return_counts=True)
        _, of_true, in_true = np.unique(true, return_inverse=True, return_counts=True)
        keys, cells = np.unique(of_predicted * max(1, len(in_true)) + of_true, return_counts=True)
        row, column = np.divmod(keys, max(1, len(in_true)))
        return cls(cells, row, column, in_predicted, in_true)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")
