"""The highest scores of known texts as texts come and go: which of them are found again."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from al_ray.apps.serving.records.best_scores import BestScores
from al_ray.apps.serving.records.ways import Counts, Pairs, blocks
from al_ray.core.pairs import Rows


def renew(
    best: BestScores,
    counts: Counts,
    fresh: Rows,
    present: npt.NDArray[np.bool_],
    symmetric: bool,
    compare: Callable[[Rows], tuple[BestScores, Pairs]],
) -> None:
    """Find the highest scores of fresh texts, and of those whose lists are too short; add fresh ones to the others.

    Of two sets of texts only the fresh ones have new scores, as those of the other side stay. present: (n,) whether
    there is a text. compare: takes (m,) rows, and returns their lists, and the pairs above the floors of the others.
    """
    best.put(fresh, BestScores.empty(len(fresh), counts.kept))
    renewed = fresh
    if symmetric:
        short = best.too_short(counts.needed)
        renewed = np.concatenate([fresh, np.setdiff1d(short[present[short]], fresh)])
    for rows in blocks(renewed):
        lists, (lines, known, scores) = compare(rows)
        best.put(rows, lists)
        if symmetric:
            new = np.isin(rows[lines], fresh) & ~np.isin(known, renewed)
            best.add(known[new], rows[lines[new]], scores[new])
