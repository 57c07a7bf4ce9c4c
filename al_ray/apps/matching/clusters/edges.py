"""Pairs of texts that were predicted to match, with their similarities: what clusters are made from."""

from dataclasses import dataclass

import numpy as np

from al_ray.core.errors import BadFile
from al_ray.core.pairs import Keys, Mask, Pairs, as_pairs, distinct, is_in
from al_ray.core.scored_pairs import ScoredPairs
from al_ray.core.scorer import Floats


@dataclass(frozen=True)
class Edges:
    """The kept edges between texts.

    texts: number of texts. scored: distinct pairs of rows, left < right, sorted; the scores are their similarities,
    which are finite.
    """

    texts: int
    scored: ScoredPairs

    @property
    def pairs(self) -> Pairs:
        """(m, 2) pairs of rows."""
        return self.scored.pairs

    @property
    def scores(self) -> Floats:
        """(m,) similarities."""
        return self.scored.scores

    @classmethod
    def of(cls, texts: int, scored: ScoredPairs) -> "Edges":
        """Sort pairs of rows below `texts`.

        If a pair occurs more than once, in either order, its highest similarity counts. A pair of a text with itself is
        dropped. Raises BadFile if a similarity is not finite.
        """
        pairs, scores = scored.pairs, np.asarray(scored.scores, dtype=np.float64)
        unusable = int(len(scores) - np.isfinite(scores).sum())
        if unusable:
            raise BadFile(f"{unusable:,} of {len(scores):,} similarities are not finite; score those pairs again")
        assert not len(pairs) or (pairs.min() >= 0 and pairs.max() < texts)
        proper = pairs[:, 0] != pairs[:, 1]
        keys, scores = pair_keys(texts, pairs[proper]), scores[proper]
        order = np.lexsort((-scores, keys))
        keys, scores = keys[order], scores[order]
        first = np.concatenate([np.ones(min(1, len(keys)), dtype=np.bool_), keys[1:] != keys[:-1]])
        return cls(texts, ScoredPairs(pairs_of_keys(texts, keys[first]), scores[first]))

    def where(self, mask: Mask) -> "Edges":
        """Take the edges at which the (m,) mask is true."""
        return Edges(self.texts, self.scored.at(mask))

    def without(self, pairs: Pairs) -> "Edges":
        """Drop the edges that are among (k, 2) `pairs`, in either order."""
        return self.where(~is_in(pair_keys(self.texts, self.pairs), distinct(pair_keys(self.texts, pairs))))


def pair_keys(texts: int, pairs: Pairs) -> Keys:
    """Return the (m,) keys of (m, 2) pairs of rows below `texts`, alike for either order of a pair."""
    return pairs.min(axis=1) * texts + pairs.max(axis=1)


def pairs_of_keys(texts: int, keys: Keys) -> Pairs:
    """Return the (m, 2) pairs of (m,) keys, the lower row first."""
    return as_pairs(*np.divmod(keys, max(1, texts)))
