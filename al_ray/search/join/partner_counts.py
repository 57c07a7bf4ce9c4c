"""How many texts of the other side have at least some score with each of a few texts, among all of a worker's own.

A float32 product gives rough scores. Those that may be on either side of the score are recomputed in float64, so that a
count does not depend on blocks, workers or devices.
"""

import numpy as np
import torch

from al_ray.core.pairs import Rows
from al_ray.core.vectors import Block, paired_scores
from al_ray.search.join.exact_join import TILE, rough_cosines, single_error
from al_ray.search.join.forbidden_pairs import ForbiddenPairs
from al_ray.search.merge import reachable_block
from al_ray.search.vector_files import single


def count_partners(queries: Block, held: Block, score: float, forbidden: ForbiddenPairs, device: str = "cpu") -> Rows:
    """Return how many (b,) held texts have at least this finite score with each query. Rows of both are sorted."""
    counts = np.zeros(len(queries.rows), dtype=np.int64)
    if not len(queries.rows):
        return counts
    held, error = reachable_block(queries, held, forbidden.rule), single_error(queries)
    ours = single(queries.vectors).to(device)
    # Rounded outwards: comparisons in float32 take half the time.
    low = np.nextafter(np.float32(score - error), np.float32(-np.inf))
    high = np.nextafter(np.float32(score + error), np.float32(np.inf))
    for top in range(0, len(queries.rows), TILE[0]):
        for start in range(0, len(held.rows), TILE[1]):
            up, across = np.s_[top : top + TILE[0]], np.s_[start : start + TILE[1]]
            tile = _scores(ours[up], single(held.vectors[across]).to(device))
            if queries.offsets is not None:
                tile -= queries.offsets[up, None].astype(np.float32)
            if queries.right_offsets is not None:
                tile -= queries.right_offsets.of(held.rows[across]).astype(np.float32)
            forbidden.hide(tile, queries.rows[up], held.rows[across])
            above = tile >= high
            counts[up] += above.sum(axis=1)
            at, by = np.nonzero((tile >= low) & ~above)
            cosines = paired_scores(queries.vectors, at + top, held.vectors, by + start)
            exact = queries.scores(at + top, held.rows[by + start], cosines)
            counts += np.bincount(at[exact >= score] + top, minlength=len(counts))
    return counts


def _scores(left: torch.Tensor, right: torch.Tensor) -> np.ndarray:
    return rough_cosines(left, right).cpu().numpy()
