"""The highest scores of each known text, kept so that those of one more text can be merged in; pure."""

from dataclasses import dataclass

import numpy as np

from al_ray.core.pairs import Rows
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
