"""Draw pairs of a split by the score of a model, from bands of ranks (metrics/audit/score_bands.py)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from al_ray.active_learning.config import RunConfig
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.cluster.pool.sharded_retriever import PoolSearch
from al_ray.core.candidates import HIGHEST, Candidates
from al_ray.core.errors import BadOption
from al_ray.core.labels import Model
from al_ray.core.pairs import NO_KEYS, Keys
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats, Labels
from al_ray.core.task import Split
from al_ray.metrics.audit.drawn_pairs import BandScores, DrawnPairs
from al_ray.metrics.audit.looks import AT_THRESHOLD, Measure, look_sizes, order_in_looks
from al_ray.metrics.audit.score_bands import Band, allotted, bands, draw_ranks, ranked
from al_ray.runs.dev_labels import SPLIT, DevLabels

# Ranks in which the model's boundary is searched, if it is below `top`.
BOUNDARY_WITHIN = 100_000


@dataclass(frozen=True)
class BandDraw:
    """How many pairs to draw, the rank up to which bands grow tenfold, and the seed and number of the draw.

    second: draw all of them uniformly from the ranks up to `top` instead (metrics/audit/second_draw.py). measure: draw
    in the order of looks (metrics/audit/looks.py), and only from bands whose labels this figure needs; `count` is then
    the most.
    """

    count: int
    top: int
    seed: int
    number: int = 0
    second: bool = False
    measure: Measure | None = None


def draw_by_score(
    pool: ShardedPool, model: Model, split: Split, known: tuple[Keys, Labels], draw: BandDraw
) -> tuple[DrawnPairs, BandScores]:
    """Draw pairs of a split, shuffled, spread evenly over bands of rank and the rest of the pairs.

    known: sorted keys (k,) and labels (k,) of pairs that are neither ranked nor drawn. The search is exact, however the
    pool searches: ranks are among all pairs, not among candidates.
    """
    keys, labels = known
    total, boundary = split.space.total - len(keys), None
    if model.scorer is not None and np.isfinite(model.scorer.boundary):
        boundary = model.scorer.boundary
    search = PoolSearch(pool, split, config=replace(pool.search, kind="exact", ordered_pairs=False))
    first = search.least(model, HIGHEST, min(max(draw.top, BOUNDARY_WITHIN), total), keys)
    if draw.measure == "precision":
        draw = replace(draw, top=_pairs_at(first.cosines, boundary), second=True)
    elif draw.measure in AT_THRESHOLD:
        _pairs_at(first.cosines, boundary)
    reach = ranked(first.cosines, draw.top, total, boundary)
    first = Candidates(first.keys[:reach], first.cosines[:reach])
    drawn = _draw_bands(split, bands(reach, total, draw.top, draw.second), first, keys, draw)
    of_rest = np.flatnonzero(drawn.ranks == reach)
    if len(of_rest):
        drawn.cosines[of_rest] = pool.scores(model, split, drawn.pairs[of_rest])
    # With no pair, blocks would still be in flight when the shards end.
    of_known = pool.scores(model, split, split.space.pairs(keys)) if len(keys) else np.empty(0)
    scores = BandScores(first.cosines, of_known, labels)
    # Those of looks have their order.
    return drawn if draw.measure else drawn.shuffled(generator(draw.seed, "audit-order", draw.number)), scores


def draw_dev_pairs(
    pool: ShardedPool, config: RunConfig, labels: DevLabels, number: int, model: Model
) -> tuple[DrawnPairs, BandScores]:
    """Draw config.dev_labels pairs of dev by the score of the model of a round."""
    draw = BandDraw(config.dev_labels, labels.top, config.seed, number)
    return draw_by_score(pool, model, labels.task.split(SPLIT), labels.known(number), draw)


def _draw_bands(split: Split, cut: Sequence[Band], first: Candidates, known: Keys, draw: BandDraw) -> DrawnPairs:
    """Draw pairs of each band. Those of the rest have the rank `reach`, the number of ranked pairs, and no cosine."""
    reach, keys, ranks, names = len(first), [NO_KEYS], [NO_KEYS], list[str]()
    sizes = _sizes_drawn(cut, reach, draw)
    shares = allotted(draw.count, sizes)
    for band, share in zip(cut, shares, strict=False):
        rng = generator(draw.seed, f"audit-band-{band[0]}", draw.number)
        if draw.second:
            # Its draws must not depend on those of the first audit, which may have the same seed.
            rng = generator(draw.seed, "audit-second", draw.number)
        if band[0] < reach:
            own = draw_ranks(band, share, rng)
            keys.append(first.keys[own])
        else:
            keys.append(split.space.draw(share, np.sort(np.concatenate([known, first.keys])), rng))
            own = np.full(share, reach, dtype=np.int64)
        ranks.append(own)
        names += [f"{band[0] + 1}-{band[1]}"] * share
    every = np.concatenate(ranks)
    cosines = np.concatenate([first.cosines, [np.nan]])[every]
    drawn = DrawnPairs(split.space.pairs(np.concatenate(keys)), tuple(names), every, cosines)
    if draw.measure is None:
        return drawn
    return drawn.in_order(order_in_looks(look_sizes(len(every)), sizes, generator(draw.seed, "audit-looks")))


def _sizes_drawn(cut: Sequence[Band], reach: int, draw: BandDraw) -> list[int]:
    """Return the sizes of the bands that are drawn from, which come first."""
    sizes = [stop - start for start, stop in cut]
    if draw.second:
        return sizes[:1]
    return sizes if draw.measure in (None, "recall") else [stop - start for start, stop in cut if stop <= reach]


def _pairs_at(cosines: Floats, boundary: float | None) -> int:
    """Return how many pairs reach the boundary; BadOption if none does, or more than are ranked."""
    if boundary is None:
        raise BadOption(
            "the model has no boundary, at which to measure precision or recall; give "
            "`AuditConfig.of='average-precision'`, or audit another round by `AuditConfig.round`"
        )
    above = int(np.searchsorted(-cosines, -boundary, side="right"))
    if not above or above == len(cosines) >= BOUNDARY_WITHIN:
        pairs = f"more than {above - 1:,} pairs reach" if above else "no pair without a label reaches"
        raise BadOption(f"{pairs} the model's boundary, so it is no threshold to measure at; audit another round")
    return above
