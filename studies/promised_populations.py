"""Eight populations of pairs with scores, for simulated audits whose thresholds must keep their word."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from al_ray.core.rng import generator
from al_ray.core.scorer import Floats
from al_ray.metrics.audit.guarantee import CutSample, Sampled, cut_samples
from al_ray.metrics.audit.score_bands import BandAudit, allotted
from al_ray.metrics.average_precision import Ints

Place = tuple[int, int, int]
"""The number of pairs of a part, and where its cells begin and end."""
REACH = 10_000
SEED = 7


@dataclass(frozen=True)
class Population:
    """Pairs by score: (reach,) cosines, descending, and whether they match; `rest` others, `rest_matches` of them.

    shares: (reach,) with which each pair was made a match.
    """

    cosines: Floats
    matches: npt.NDArray[np.bool_]
    rest: int
    rest_matches: int
    shares: Floats

    @property
    def total(self) -> int:
        """Return the number of all pairs."""
        return len(self.cosines) + self.rest

    @property
    def counts(self) -> Ints:
        """Return (reach + 1,) numbers of matches among the first 0, 1, ... pairs."""
        return np.concatenate([[0], np.cumsum(self.matches)]).astype(np.int64)

    def precision(self, cut: int) -> float:
        """Return the share of matches of the first `cut` pairs."""
        return float(self.counts[cut] / cut)

    def recall(self, cut: int, ranked: bool) -> float:
        """Return the share of the matches (ranked: of those that are ranked) among the first `cut` pairs."""
        every = int(self.counts[-1]) + (0 if ranked else self.rest_matches)
        return float(self.counts[cut] / every) if every else 1.0

    @property
    def unlabelled(self) -> BandAudit:
        """Return an audit without a label."""
        none = np.empty(0, dtype=np.int64)
        labels = none.astype(np.uint8)
        return BandAudit(self.cosines, self.total, np.empty(0), labels, none, labels)


def populations() -> Mapping[str, Population]:
    """Make the eight populations; they are the same each time."""
    ranks = np.arange(1, REACH + 1)
    falling = 0.97 / (1 + (ranks / 400) ** 4)
    shares = {
        "calibrated": (0.98 / (1 + np.exp((ranks - 700) / 150)), 190_000, 3),
        "flat": (np.full(REACH, 0.79), 190_000, 20),
        "spiky": (np.where(ranks // 60 % 3 == 1, 0.55, 0.97), 190_000, 20),
        "rare": (falling * (ranks <= 40) + 0.0005, 4_990_000, 10),
        "long tail": (1 / (1 + (ranks / 200) ** 40) + 0.001, 190_000, 100),
        "ties": (falling, 190_000, 3),
    }
    made = {name: _drawn(name, *numbers) for name, numbers in shares.items()}
    rng = generator(SEED, "promised-small")
    of_tiny = np.linspace(0.98, 0.1, 60)
    equal, tiny = rng.random(2_000) < 0.55, rng.random(60) < of_tiny
    made["all equal"] = Population(np.full(2_000, 0.5), equal, 0, 0, np.full(2_000, 0.55))
    made["tiny"] = Population(np.linspace(0.9, 0.3, 60), tiny, 0, 0, of_tiny)
    return made


def levelled() -> Mapping[str, Population]:
    """Make two populations whose share of matches stops rising with the score, at 0.6 and at 0.9."""
    falling = 1 / (1 + (np.arange(1, REACH + 1) / 700) ** 6)
    return {name: _drawn(name, level * falling, 190_000, 3) for name, level in (("to 0.6", 0.6), ("to 0.9", 0.9))}


def _drawn(name: str, shares: Floats, rest: int, beyond: int) -> Population:
    rng = generator(SEED, f"promised-{name}")
    cosines = -np.sort(-rng.beta(2, 5, REACH))
    matches = rng.random(len(shares)) < shares
    return Population(np.round(cosines, 2) if name == "ties" else cosines, matches, rest, beyond, shares)


@dataclass(frozen=True)
class SampledAudits:
    """Audits of a population, each as its cuts: the same cuts, with the labels of `number` independent draws."""

    population: Population
    cuts: tuple[CutSample, ...]
    bands: tuple[tuple[int, int], ...]
    edges: Ints
    yes: Ints
    answered: Ints

    @classmethod
    def draw(cls, population: Population, budget: int, number: int, rng: np.random.Generator) -> "SampledAudits":
        """Draw `number` audits, evenly from bands of rank; only counts between cuts are drawn, which is enough."""
        audit = population.unlabelled
        cuts, bands = cut_samples(audit), audit.bands
        ends = {cut.pairs for cut in cuts} | {edge for band in bands for edge in band if edge <= audit.reach}
        edges = np.array(sorted(ends | {0, population.total}), dtype=np.int64)
        # The matches of the rest lie in one cell.
        matches = np.append(population.counts[edges[:-1]], population.counts[-1] + population.rest_matches)
        if edges[-1] == audit.reach:
            matches = population.counts[edges]
        yes, answered = (np.zeros((number, len(edges) - 1), dtype=np.int64) for _ in range(2))
        shares = allotted(budget, [stop - start for start, stop in bands])
        for (start, stop), share in zip(bands, shares, strict=True):
            own = np.flatnonzero((edges[:-1] >= start) & (edges[1:] <= stop))
            of_cells, sizes = np.diff(matches)[own], np.diff(edges)[own]
            counts = rng.multivariate_hypergeometric(np.concatenate([of_cells, sizes - of_cells]), share, size=number)
            yes[:, own], answered[:, own] = counts[:, : len(own)], counts[:, : len(own)] + counts[:, len(own) :]
        return cls(population, cuts, bands, edges, yes, answered)

    def audit(self, row: int) -> list[CutSample]:
        """Return the cuts of one audit with its labels."""
        yes, answered = ([0, *np.cumsum(counts[row]).tolist()] for counts in (self.yes, self.answered))

        def labelled(places: Sequence[Place]) -> tuple[Sampled, ...]:
            return tuple(Sampled(size, answered[b] - answered[a], yes[b] - yes[a]) for size, a, b in places)

        sides = zip(self.cuts, self._places, strict=True)
        return [
            CutSample(cut.threshold, cut.pairs, (0, 0), labelled(above), labelled(near), labelled(rest), cut.start)
            for cut, (above, near, rest) in sides
        ]

    @cached_property
    def _places(self) -> list[tuple[list[Place], list[Place], list[Place]]]:
        """Return where the cells of each part on the three sides of each cut begin and end."""
        reach, total = len(self.population.cosines), self.population.total
        return [
            (self._parts(0, cut.pairs), self._parts(cut.pairs, reach), self._parts(reach, total)) for cut in self.cuts
        ]

    def _parts(self, start: int, stop: int) -> list[Place]:
        parts: list[Place] = []
        for low, high in self.bands:
            first, last = max(low, start), min(high, stop)
            if first < last:
                begin, end = np.searchsorted(self.edges, (first, last)).tolist()
                parts.append((last - first, begin, end))
        return parts
