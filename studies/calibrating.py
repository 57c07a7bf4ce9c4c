"""Simulate audits that turn scores into probabilities: how far is p from the truth, of the pairs above a threshold?"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from al_ray.core.config.bounds import Between, Seed, check_bounds
from al_ray.core.labels import NO, YES
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats, Labels, refit
from al_ray.core.text_table import format_columns
from al_ray.metrics.audit.recalibration import refit_to_bands
from al_ray.metrics.audit.score_bands import BandAudit, allotted, draw_ranks
from studies.promised_populations import Population, levelled, populations

logger = logging.getLogger(__name__)

TWO, CEILING, ISOTONIC = "two numbers", "with a ceiling", "isotonic"
PRECISIONS = (0.8, 0.5)
"""Pairs are taken down to the lowest rank at which the true precision is at least this."""
GROUPS = 10
"""Of these pairs, by score: the error is the mean of |mean p - share of matches| over groups of equal size."""
NOISE = 0.1
"""Spread of the scores of pairs that are not ranked, below the last ranked one."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Calibrations:
    """Error of calibrated probabilities over the pairs above a threshold: two numbers, a ceiling, isotonic."""

    audits: Annotated[int, Between(1, 1_000_000)] = 200
    """Audits of each population."""
    budget: Annotated[int, Between(1, 100_000)] = 300
    """Labels of an audit."""
    names: tuple[str, ...] = ()
    """Populations; all when not given."""
    seed: Seed = 0
    """Random seed."""
    out: Path | None = None
    """JSON file for the table."""

    def results(self) -> list[Row]:
        """Return a row for each population; of "all equal", where no score tells matches from others, there is none."""
        check_bounds(self)
        rows: list[Row] = []
        for name, population in {**populations(), **levelled()}.items():
            if name != "all equal" and (not self.names or name in self.names):
                rng = generator(self.seed, f"calibrations-{name}")
                rows.append({"population": name, **self._errors(population, rng)})
                logger.info("%s", rows[-1])
        return rows

    def _errors(self, population: Population, rng: np.random.Generator) -> Row:
        errors, ceilings = list[list[list[float]]](), list[float]()
        precision = np.cumsum(population.shares) / np.arange(1, len(population.shares) + 1)
        cuts = [np.flatnonzero(precision >= least) for least in PRECISIONS]
        for _ in range(self.audits):
            audit, scores = _audit(population, self.budget, rng)
            fitted = refit(scores, audit.labels)
            scorer = refit_to_bands(audit, scores)
            # Such labels are refused (apps/audit/calibration.py).
            if scorer is None or fitted.outcome != "fitted":
                continue
            ceilings.append(scorer.ceiling)
            of_way = (fitted.probability(population.cosines), scorer.probability(population.cosines))
            every = (*of_way, isotonic(scores, audit.labels)(population.cosines))
            errors.append([[_error(p, population.shares, cut) for cut in cuts] for p in every])
        means = np.mean(errors, axis=0).T.tolist() if errors else []
        of_precision = {
            f"precision {least:g}": dict(zip((TWO, CEILING, ISOTONIC), own, strict=True))
            for least, cut, own in zip(PRECISIONS, cuts, means, strict=False)
            if len(cut)
        }
        capped = [one for one in ceilings if one < 1]
        return {
            "fitted": len(errors) / self.audits,
            "ceilings": len(capped) / max(1, len(errors)),
            "ceiling": float(np.mean(capped)) if capped else 1.0,
            **of_precision,
        }


def _audit(population: Population, budget: int, rng: np.random.Generator) -> tuple[BandAudit, Floats]:
    """Draw and label pairs by bands of rank; return the audit and the scores of its pairs."""
    audit = population.unlabelled
    shares = allotted(budget, [stop - start for start, stop in audit.bands])
    ranks = np.concatenate([draw_ranks(band, share, rng) for band, share in zip(audit.bands, shares, strict=True)])
    ranked = ranks < audit.reach
    at = np.minimum(ranks, audit.reach - 1)
    beyond = population.cosines[-1] - np.abs(rng.normal(0, NOISE, len(ranks)))
    of_rest = rng.random(len(ranks)) < population.rest_matches / max(1, population.rest)
    labels = np.where(np.where(ranked, population.matches[at], of_rest), YES, NO).astype(np.uint8)
    scores = np.where(ranked, population.cosines[at], beyond)
    return replace(audit, ranks=np.minimum(ranks, audit.reach), labels=labels), scores


def _error(p: Floats, shares: Floats, cut: Sequence[int] | Any) -> float:
    if not len(cut):
        return float("nan")
    pairs = int(cut[-1]) + 1
    groups = np.array_split(np.arange(pairs), min(GROUPS, pairs))
    return sum(abs(float(p[own].mean() - shares[own].mean())) * len(own) for own in groups) / pairs


def isotonic(scores: Floats, labels: Labels) -> Callable[[Floats], Floats]:
    """Return the isotonic regression of labels on scores, a step function, by pooling adjacent violators."""
    ends, inverse = np.unique(scores, return_inverse=True)
    counts, matches = np.bincount(inverse).tolist(), np.bincount(inverse, labels).tolist()
    blocks: list[tuple[float, int, int]] = []
    for last, block in enumerate(zip(matches, counts, strict=True)):
        one = (*block, last)
        while blocks and blocks[-1][0] * one[1] >= one[0] * blocks[-1][1]:
            before = blocks.pop()
            one = (before[0] + one[0], before[1] + one[1], last)
        blocks.append(one)
    values = np.array([matched / count for matched, count, _ in blocks])
    starts = ends[[0, *(last + 1 for _, _, last in blocks[:-1])]]
    return lambda x: values[np.maximum(np.searchsorted(starts, x, side="right") - 1, 0)]


def format_calibrations(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format the table: the errors of the three ways, in points, down to both precisions."""
    errors = [f"{least:g}: {way}" for least in PRECISIONS for way in (TWO, CEILING, ISOTONIC)]
    lines: list[tuple[str, ...]] = [("population", "fitted", "with a ceiling", "its mean", *errors)]
    for row in rows:
        own = [row.get(f"precision {least:g}", {}).get(way) for least in PRECISIONS for way in (TWO, CEILING, ISOTONIC)]
        cells = ("-" if error is None else f"{100 * error:.1f}" for error in own)
        shares = f"{row['fitted']:.0%}", f"{row['ceilings']:.0%}", f"{row['ceiling']:.2f}"
        lines.append((row["population"], *shares, *cells))
    return format_columns(lines)
