"""Metrics of ranked results and of ordered scores (paper 002, section 4.2).

A rank counts from 1; 0 means that no match was retrieved. Equal scores have no rank of their own, so whoever ranks
settles them: metrics/labelled_pairs.py puts negatives first, an index the lowest row.
"""

import numpy as np

from al_ray.core.pairs import Mask, Rows
from al_ray.core.scorer import Floats, check_no_nan

Ranks = Rows
DEPTH = 20
"""Number of results that a search of question paraphrases is measured on (4.2)."""


def exclude_queries(results: Rows, queries: Rows, same: Rows, count: int) -> Rows:
    """Return the first `count` results of each query that are not the query itself.

    results: (q, k) rows in order of rank, -1 where there is none. queries: (q,) rows.
    same: (n,) a number for each text, equal where texts are: a row with the query's text is not a result either.
    Returns (q, count) rows, -1 where fewer are left.
    """
    excluded = (same[results] == same[queries][:, None]) | (results < 0)
    order = np.argsort(excluded, axis=1, kind="stable")[:, :count]
    return np.where(np.take_along_axis(excluded, order, axis=1), -1, np.take_along_axis(results, order, axis=1))


def queries_with_matches(component: Rows, same: Rows, rows: Rows) -> Rows:
    """Return those of (q,) rows whose component holds a different text.

    component, same: (n,) a component and a text number for each row.
    """
    each = np.unique(np.stack([component, same], axis=1), axis=0)[:, 0]
    return rows[np.isin(component[rows], each[1:][each[1:] == each[:-1]])]


def first_match_ranks(results: Rows, matches: Mask) -> Ranks:
    """(q, k) rows, -1 where there is none, (q, k) whether each matches -> (q,) rank of the first match, 0 for none."""
    hits = matches & (results >= 0)
    return np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, 0)


def precision_at(ranks: Ranks, count: int) -> float:
    """P@N: the share of queries with at least one match among the first `count` (4.2, Evaluation)."""
    return float(((ranks > 0) & (ranks <= count)).mean())


def mean_reciprocal_rank(ranks: Ranks) -> float:
    """MRR of (q,) ranks of first matches: the mean of 1 / rank, 0 for a query without one (4.2, Evaluation)."""
    return float(np.where(ranks > 0, 1 / np.maximum(ranks, 1), 0.0).mean())


def roc_auc(positives: Floats, negatives: Floats) -> float:
    """ROC AUC of (p,) and (n,) scores: the share of (positive, negative) pairs in order; equal scores count half.

    BadFile if a score is NaN, which has no place in any order.
    """
    check_no_nan(positives)
    check_no_nan(negatives)
    ordered = np.sort(negatives)
    below = np.searchsorted(ordered, positives, "left") + np.searchsorted(ordered, positives, "right")
    return float(below.sum() / (2 * len(positives) * len(negatives)))
