"""The highest scores of each known text, kept as texts come and go, so that those of one more text can be merged in."""

import numpy as np

from al_ray.apps.serving.growing import GrowingArray
from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats
from al_ray.search.candidate_ranks import NearestOf

NONE = -1


class BestScores:
    """The highest scores of each of n known texts with the texts of the other side, by one way.

    scores: (n, k) descending, -inf where a list has fewer. partners: (n, k) rows of the texts that they are with, -1
    for none. floor: (n,) no text that is not in the list has a higher score; -inf where all are in it. A list loses the
    texts that go, and takes new ones whose score is above its floor; it needs to be made again only when it is too
    short (`too_short`).
    """

    def __init__(self, scores: Floats, partners: Rows, floor: Floats | None = None) -> None:
        """floor: None for lists that are as long as there are texts, up to k."""
        own = scores[:, -1].copy() if floor is None else floor
        self._scores, self._partners, self._floor = (GrowingArray(array) for array in (scores, partners, own))

    @staticmethod
    def empty(count: int, width: int) -> "BestScores":
        """Return lists of width k without any text."""
        return BestScores(np.full((count, width), -np.inf), np.full((count, width), NONE))

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def scores(self) -> Floats:
        """Return (n, k) scores."""
        return self._scores.rows

    @property
    def partners(self) -> Rows:
        """Return (n, k) rows of the other texts."""
        return self._partners.rows

    @property
    def floor(self) -> Floats:
        """Return (n,) what no text outside of a list exceeds."""
        return self._floor.rows

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

    def put(self, rows: Rows, lists: "BestScores") -> None:
        """Set the lists of (m,) rows, which may be new."""
        count = int(rows.max(initial=-1)) + 1
        self._scores.grow(count, -np.inf)
        self._partners.grow(count, NONE)
        self._floor.grow(count, -np.inf)
        self.scores[rows], self.partners[rows], self.floor[rows] = lists.scores, lists.partners, lists.floor

    def drop(self, gone: Rows) -> None:
        """Take the texts of (g,) rows out of all lists."""
        is_gone = np.zeros(max(len(self), int(gone.max(initial=0)) + 1) + 1, dtype=np.bool_)
        is_gone[gone] = True
        # The last one stands for NONE.
        lines = np.flatnonzero(is_gone[self.partners].any(axis=1))
        scores, partners = self.scores[lines], self.partners[lines]
        hit = is_gone[partners]
        scores[hit], partners[hit] = -np.inf, NONE
        order = np.argsort(-scores, axis=1, kind="stable")
        self.scores[lines] = np.take_along_axis(scores, order, axis=1)
        self.partners[lines] = np.take_along_axis(partners, order, axis=1)

    def too_short(self, count: int) -> Rows:
        """Return the rows whose `count` highest scores are not all in their lists."""
        return np.flatnonzero((self.scores[:, count - 1] == -np.inf) & (self.floor > -np.inf))

    def add(self, rows: Rows, partners: Rows, scores: Floats) -> None:
        """Add (m,) pairs of a known text and a new one, with their scores, to the lists of the known texts."""
        kept = np.flatnonzero(scores > self.floor[rows])
        kept = kept[np.lexsort((-scores[kept], rows[kept]))]
        lines, width = rows[kept], self.scores.shape[1]
        own, starts, at = np.unique(lines, return_index=True, return_inverse=True)
        nth = np.arange(len(lines)) - starts[at]
        # More than a list has places for raise its floor, as its last entry does.
        kept, at, nth = kept[nth < width], at[nth < width], nth[nth < width]
        more = np.full((len(own), int(nth.max(initial=-1)) + 1), -np.inf)
        others: Rows = np.full(more.shape, NONE, dtype=np.int64)
        more[at, nth], others[at, nth] = scores[kept], partners[kept]
        every = np.concatenate([self.scores[own], more], axis=1)
        order = np.argsort(-every, axis=1, kind="stable")[:, :width]
        self.scores[own] = np.take_along_axis(every, order, axis=1)
        self.partners[own] = np.take_along_axis(np.concatenate([self.partners[own], others], axis=1), order, axis=1)
        self.floor[own] = np.maximum(self.floor[own], self.scores[own, -1])

    def take(self, rows: Rows, place_of: Rows | None) -> "BestScores":
        """Return the lists of (m,) rows. place_of: what the rows of their partners are then; None if these stay."""
        partners = self.partners[rows]
        if place_of is not None:
            partners[partners >= 0] = place_of[partners[partners >= 0]]
        return BestScores(self.scores[rows], partners, self.floor[rows])
