"""The score of two stages: candidates by the p of a matcher, and all other pairs below them by their cosine.

    candidate: 2 + (1 - TIE) * p + TIE * (cosine + 1) / 2       any other pair: its cosine, from -1 to 1

So every pair of a pool has a rank, and average precision over all pairs, thresholds, counts and intervals are computed
from these scores as they are from cosines. Many candidates have one p, as a forest has few values: the cosine orders
those, and moves no score by more than TIE.
"""

import numpy as np

from al_ray.core.pairs import Keys, is_in
from al_ray.core.scorer import CANDIDATE, CERTAIN, Cosines, Floats, Scorer

TIE = 1e-6
MATCHED = Scorer(1.0, -(CANDIDATE + CERTAIN) / 2, outcome="matcher", matcher=True)
"""The scorer of a model with a matcher: p is the score less 2, and 1/2 at the boundary, 2.5."""


def candidate_scores(probabilities: Floats, cosines: Cosines) -> Floats:
    """(n,) p of candidates in [0, 1] and their cosines -> (n,) scores in [2, 3], in order of p and then of cosine."""
    within = np.clip(np.asarray(cosines, dtype=np.float64), -1.0, 1.0)
    return CANDIDATE + ((1 - TIE) * probabilities + TIE * (within + 1) / 2)


def probabilities_of(scores: Floats) -> Floats:
    """(n,) scores -> (n,) p of candidates, to within TIE; 0 for other pairs."""
    return np.clip(scores - CANDIDATE, 0.0, 1.0)


def ranking_logit(scorer: Scorer, scores: Floats) -> Floats:
    """(n,) scores -> (n,) log-odds that rank as the scores do.

    With a matcher the log-odds of pairs that are no candidates are all the same; here these are below all candidates,
    by their cosine.
    """
    logits = scorer.logit(scores)
    if not scorer.matcher:
        return logits
    return np.where(scores < CANDIDATE, logits - 2 + scores, logits)


def placed_scores(keys: Keys, cosines: Cosines, candidates: Keys, scores: Floats) -> Floats:
    """(n,) keys with cosines, (k,) sorted keys of candidates with scores -> (n,) scores, else cosines."""
    placed = np.array(cosines, dtype=np.float64)
    among = is_in(keys, candidates)
    placed[among] = scores[np.searchsorted(candidates, keys[among])]
    return placed
