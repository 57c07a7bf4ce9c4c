"""Which labels train an encoder, and which train the matcher that uses its cosines.

An encoder moves the cosines of the very pairs that it was trained on further apart than those of other pairs. A matcher
that learned from those would trust the cosine too much; so each learns from left texts of its own, as the stages of
stacking do (Wolpert 1992).
"""

import numpy as np

from al_ray.core.hashing import hash_keys
from al_ray.core.labels import YES, Labelled
from al_ray.core.pairs import Mask, is_in


def label_halves(labelled: Labelled, trained: int) -> tuple[Mask, Mask]:
    """(n,) decided labels -> (n,) those that the encoder of round `trained` learns from, and (n,) those of the matcher.

    The encoder has the pairs of half of the left texts up to that round, by hash; the matcher all pairs of other left
    texts. Both have all pairs up to the round, and the matcher those after it, if a half would lack matches or
    non-matches. trained: 0 for an encoder that was not trained: the matcher has all.
    """
    before, every = labelled.rounds <= trained, np.ones(len(labelled), dtype=np.bool_)
    left = labelled.pairs[:, 0]
    half = before & ((hash_keys(left, 0, "halves of labels") & np.uint64(1)) == 1)
    others = ~is_in(left, np.unique(left[half]))
    # Only labels up to the round say whether there are halves, so that later ones do not change it.
    for share in (half, others & before):
        if len(np.unique(labelled.labels[share] == YES)) < 2:
            return before, every
    return half, others
