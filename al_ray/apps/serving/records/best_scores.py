"""The highest scores of each known text, kept so that those of one more text can be merged in; pure."""

from dataclasses import dataclass

import numpy as np

from al_ray.core.pairs import Mask, Rows
from al_ray.core.scorer import Floats
from al_ray.search.candidate_ranks import NearestOf


@dataclass(frozen=True)
class BestScores:
    """The k highest scores of each of n known texts with the texts of the other side, by one way.

    scores: (n, k) descending, -inf where a text has fewer. partners: (n, k) rows of the texts that they are with, -1
    for none.
    """

    scores: Floats
    partners: Rows

    def least(self, count: int) -> Floats:
        """Return (n,) the score above which another text is among the `count` nearest of each; -inf if all are."""
        return self.scores[:, count - 1]

    def summary_with(self, rows: Rows, scores: Floats) -> Floats:
        """(m,) rows and their scores (m,) with one more text -> summaries (m, 2) as NearestOf has them.

        A score of -inf stands for a pair that the way does not find.
        """
        every = np.concatenate([self.scores[rows], scores[:, None]], axis=1)
        lines, places = np.nonzero(every > -np.inf)
        return NearestOf(rows, lines, places, every[lines, places]).summary()

    def with_one(self, partner: int, scores: Floats) -> "BestScores":
        """(n,) scores of all texts with one more -> the best of each among these, too; -inf is no pair."""
        entering = np.flatnonzero(scores > self.scores[:, -1])
        best, partners = self.scores.copy(), self.partners.copy()
        every = np.concatenate([best[entering], scores[entering, None]], axis=1)
        whose = np.concatenate([partners[entering], np.full((len(entering), 1), partner)], axis=1)
        order = np.argsort(-every, axis=1, kind="stable")[:, :-1]
        best[entering] = np.take_along_axis(every, order, axis=1)
        partners[entering] = np.take_along_axis(whose, order, axis=1)
        return BestScores(best, partners)

    def having(self, partner: int) -> Mask:
        """Return (n,) which texts have a score with a text among their best."""
        return (self.partners == partner).any(axis=1)

    def replaced(self, rows: Rows, of: "BestScores") -> "BestScores":
        """Return the same with those of (m,) rows replaced."""
        scores, partners = self.scores.copy(), self.partners.copy()
        scores[rows], partners[rows] = of.scores, of.partners
        return BestScores(scores, partners)

    def beside(self, other: "BestScores") -> "BestScores":
        """Return those of these texts, and after them those of others."""
        return BestScores(np.concatenate([self.scores, other.scores]), np.concatenate([self.partners, other.partners]))


def no_scores(count: int) -> BestScores:
    """Return those of no text, with room for `count` scores of each."""
    return BestScores(np.empty((0, count)), np.empty((0, count), dtype=np.int64))
