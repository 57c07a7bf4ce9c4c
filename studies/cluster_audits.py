"""Simulate audits of clusters: how often the intervals of precision, recall and F1 contain the truth."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from al_ray.apps.audit.of_clusters.drawing import Clusters, answers_of, draw_records
from al_ray.core.config.bounds import Between, Seed, check_bounds
from al_ray.core.labels import NO, YES
from al_ray.core.pairs import Pairs, Rows, as_pairs
from al_ray.core.rng import generator
from al_ray.core.text_table import format_columns
from al_ray.metrics.audit.cluster_figures import ClusterFigures
from al_ray.metrics.average_precision import Estimate

logger = logging.getLogger(__name__)

FIGURES = (
    *("pair_precision", "direct_precision", "implied_precision", "pair_recall", "pair_f1"),
    *("b_cubed_precision", "b_cubed_recall", "b_cubed_f1"),
)
Row = dict[str, Any]


@dataclass(frozen=True)
class Population:
    """Records (n,) with their delivered and true clusters, and what match knows of them."""

    delivered: Rows
    true: Rows
    clusters: Clusters


def populations(seed: int) -> Mapping[str, Population]:
    """Return populations of clusters by name."""
    return {name: _population(name, generator(seed, f"cluster-population-{name}")) for name in KINDS}


KINDS: Mapping[str, tuple[Sequence[int], Sequence[int], float, float]] = {
    # sizes of true clusters, how many of each, share of them that are split, share that are merged with another one
    "pairs": ((1, 2), (600, 700), 0.1, 0.05),
    "mostly singletons": ((1, 2, 3), (3000, 150, 50), 0.1, 0.02),
    "few large": ((1, 2, 40, 150), (800, 200, 5, 2), 0.3, 0.02),
    "long tail": ((1, 2, 3, 5, 9, 17, 33), (500, 300, 150, 60, 25, 10, 4), 0.15, 0.1),
    "nearly right": ((1, 2, 3, 4), (400, 400, 200, 100), 0.005, 0.005),
    "bad": ((1, 2, 4, 8), (300, 200, 150, 60), 0.4, 0.6),
    "tiny": ((1, 2, 3, 6), (20, 10, 6, 3), 0.2, 0.2),
}


def _population(name: str, rng: np.random.Generator) -> Population:
    """Split and merge true clusters; matches are a chain in each, and one in three of the other pairs."""
    sizes, counts, split, merged = KINDS[name]
    true = np.repeat(np.arange(sum(counts)), np.repeat(sizes, counts))
    delivered = true.copy()
    for one in np.flatnonzero(rng.random(true[-1] + 1) < split).tolist():
        own = np.flatnonzero(true == one)
        delivered[rng.permutation(own)[: len(own) // 2]] = true[-1] + 1 + one
    for one in np.flatnonzero(rng.random(true[-1] + 1) < merged).tolist():
        delivered[delivered == one] = rng.integers(true[-1] + 1)
    delivered = np.unique(delivered, return_inverse=True)[1].astype(np.int64)
    return Population(delivered, true, _known(delivered, true, rng))


def _known(delivered: Rows, true: Rows, rng: np.random.Generator) -> Clusters:
    matches, candidates = list[Pairs](), list[Pairs]()
    for one in range(delivered.max() + 1):
        own = rng.permutation(np.flatnonzero(delivered == one))
        left, right = np.triu_indices(len(own), 1)
        direct = (right == left + 1) | (rng.random(len(left)) < 1 / 3)
        matches.append(as_pairs(own[left[direct]], own[right[direct]]))
    for one in range(true.max() + 1):
        own = np.flatnonzero(true == one)
        left, right = np.triu_indices(len(own), 1)
        apart = delivered[own[left]] != delivered[own[right]]
        candidates.append(as_pairs(own[left[apart]], own[right[apart]]))
    candidates.append(rng.integers(len(true), size=(len(true) // 4, 2)))
    pairs = np.concatenate(candidates)
    scores = rng.random(len(pairs))
    return Clusters.of(delivered, np.sort(np.concatenate(matches), axis=1), np.sort(pairs, axis=1), scores)


@dataclass(frozen=True)
class ClusterAudits:
    """Width and coverage of 95% intervals of audits of clusters."""

    audits: Annotated[int, Between(1, 1_000_000)] = 1_000
    """Audits of each population."""
    drawn: Annotated[int, Between(1, 100_000)] = 100
    """Records of an audit."""
    draws: Annotated[int, Between(100, 1_000_000)] = 1_000
    """Draws of each limit."""
    names: tuple[str, ...] = ()
    """Populations; all when not given."""
    seed: Seed = 0
    """Random seed."""
    out: Path | None = None
    """JSON file for the figures."""

    def __post_init__(self) -> None:
        """Validate options."""
        check_bounds(self)

    def results(self) -> list[Row]:
        """Return for each population and figure its truth, the mean estimate, coverage and mean width."""
        rows: list[Row] = []
        for name, population in populations(self.seed).items():
            if self.names and name not in self.names:
                continue
            true = truth(population)
            found = [self._audit(population, number) for number in range(self.audits)]
            rows += [_row(name, figure, true[figure], [one[figure] for one in found]) for figure in FIGURES]
            logger.info("%s: %d audits", name, self.audits)
        return rows

    def _audit(self, population: Population, number: int) -> Mapping[str, Estimate | None]:
        """Draw and label records, and return the estimates."""
        seed = int(generator(self.seed, "cluster-audits", number).integers(2**31))
        classes, draws = draw_records(population.clusters, self.drawn, seed)
        true = population.true.tolist()
        labels = {pair: YES if true[pair[0]] == true[pair[1]] else NO for one in draws for pair in one.pairs}
        by_class = answers_of(classes, draws, labels)
        new_rng = partial(generator, seed, "audit-estimate")
        figures = ClusterFigures(len(true), classes, by_class, new_rng, self.draws)
        return {name: getattr(figures, name) for name in FIGURES}


def truth(population: Population) -> Mapping[str, float]:
    """Return the figures of all records, by loops."""
    known, n = population.clusters, len(population.true)
    right, pairs, found, precision, recall = np.zeros(2), np.zeros(2), 0, 0.0, 0.0
    for row in range(n):
        kinds = known.members(row)
        yes = [int((population.true[own] == population.true[row]).sum()) for own in kinds]
        right, pairs = right + yes, pairs + [len(own) for own in kinds]
        outside = int((population.true[known.candidates_of(row)] == population.true[row]).sum())
        found += outside
        precision += (1 + sum(yes)) / known.sizes[row] / n
        recall += (1 + sum(yes)) / (1 + sum(yes) + outside) / n
    inside, every = right.sum(), pairs.sum()
    values = inside / every, *(right / pairs), inside / (inside + found), 2 * inside / (every + inside + found)
    both = precision, recall, 2 * precision * recall / (precision + recall)
    return dict(zip(FIGURES, (*map(float, values), *both), strict=True))


def _row(name: str, figure: str, true: float, found: Sequence[Estimate | None]) -> Row:
    known = [one for one in found if one is not None]
    held = np.mean([one.low - 1e-9 <= true <= one.high + 1e-9 for one in known])
    return {
        "population": name, "figure": figure, "true": true, "audits": len(known),
        "mean": float(np.mean([one.value for one in known])), "held": float(held),
        "width": float(np.mean([one.high - one.low for one in known])),
    }  # fmt: skip


def format_cluster_audits(rows: Sequence[Row]) -> str:
    """Format one line for each population and figure, in percent."""
    heads = ("population", "figure", "true %", "mean estimate %", "held %", "mean width")
    lines = [
        (
            row["population"],
            row["figure"].replace("_", " "),
            *(f"{100 * row[name]:.1f}" for name in ("true", "mean", "held", "width")),
        )
        for row in rows
    ]
    return format_columns([heads, *lines])
