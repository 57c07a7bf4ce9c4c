"""The looks of an audit that is labelled until an interval is narrow enough: each has a sheet in a folder of its own.

look-1/audit.csv, look-2/audit.csv, ...: the pairs that each look adds, in the order of audit-key.parquet
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from al_ray.apps.audit.folder import STEM, AuditFolder, Record
from al_ray.core.errors import BadFile
from al_ray.core.labels import OPEN
from al_ray.core.pairs import Pairs
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats, Labels
from al_ray.core.task import Task
from al_ray.metrics.audit.drawn_pairs import BandScores, DrawnPairs
from al_ray.metrics.audit.looks import (
    AT_THRESHOLD,
    Forecast,
    WidthGoal,
    forecast,
    look_sizes,
    prior_shares,
    shares_so_far,
)
from al_ray.metrics.audit.score_bands import BandAudit
from al_ray.metrics.average_precision import Estimate
from al_ray.oracles.answer_files import answer_paths, read_answer_files
from al_ray.oracles.people import write_sheets


@dataclass(frozen=True)
class Look:
    """A look: its folder, and rows start to stop of the key, which are the pairs that it adds. number: from 1."""

    number: int
    folder: Path
    start: int
    stop: int

    @property
    def codes(self) -> list[str]:
        """Return the codes of its pairs, which no other look has."""
        return [f"{self.letter}{row + 1:05d}" for row in range(self.start, self.stop)]

    @property
    def letter(self) -> str:
        """Return what its codes begin with: a-, b-, ..."""
        return f"{chr(ord('a') + self.number - 1)}-"

    @property
    def name(self) -> str:
        """Return its name."""
        return self.folder.name


def looks_of(path: Path, pairs: int) -> tuple[Look, ...]:
    """Return the looks of an audit in a folder that drew so many pairs."""
    sizes = (0, *look_sizes(pairs)) if pairs else ()
    return tuple(
        Look(number, path / f"look-{number}", sizes[number - 1], sizes[number]) for number in range(1, len(sizes))
    )


def write_looks(path: Path, pairs: Pairs, task: Task) -> None:
    """Write the sheets of all looks; those that exist are not overwritten. pairs: (n, 2) in the order of the key."""
    for look in looks_of(path, len(pairs)):
        write_sheets(look.folder, STEM, look.codes, pairs[look.start : look.stop], task)


@dataclass(frozen=True)
class LookResult:
    """What a complete look shows. estimate: None if its labels leave it unknown. narrow: whether it is enough."""

    look: Look
    estimate: Estimate | None
    narrow: bool


@dataclass(frozen=True)
class WidthAudit:
    """An audit with its labels so far, (n,) in the order of the key."""

    path: Path
    record: Record
    pairs: DrawnPairs
    scored: BandScores
    labels: Labels

    @classmethod
    def read(cls, path: Path) -> "WidthAudit":
        """Read an audit and the labels of all looks; BadFile for answers that cannot be read."""
        folder = AuditFolder(path)
        _, ids, pairs = folder.key()
        labels = [
            read_answer_files(answer_paths(look.folder, STEM), look.codes, ids[look.start : look.stop])
            for look in looks_of(path, len(ids))
        ]
        every = np.concatenate([np.empty(0, dtype=np.uint8), *labels])
        return cls(path, folder.record(), pairs, folder.scored(), every)

    @property
    def looks(self) -> tuple[Look, ...]:
        """Return all looks."""
        return looks_of(self.path, len(self.labels))

    @property
    def goal(self) -> WidthGoal:
        """Return what is wanted."""
        asked, scorer = self.record.asked, self.record.scorer
        assert asked.until_width is not None
        assert asked.of is not None
        threshold = float("nan")
        if asked.of in AT_THRESHOLD:
            if scorer is None:
                raise BadFile(f"{self.path} is an audit of {asked.of} without a scorer; restore its record")
            threshold = scorer.boundary
        return WidthGoal(asked.of, asked.until_width, tuple(look.stop for look in self.looks), threshold)

    @property
    def bands(self) -> BandAudit:
        """Return the bands of score, with the labels so far."""
        asked, scored = self.record.asked, self.scored.decided
        total = self.record.total_pairs - len(self.scored.known_labels)
        uniform = asked.of == "precision"
        top = int(np.searchsorted(-scored.cosines, -self.goal.threshold, side="right")) if uniform else asked.top
        known = scored.known_cosines, scored.known_labels
        return BandAudit(scored.cosines, total, *known, self.pairs.ranks, self.labels, top, uniform)

    @property
    def complete(self) -> int:
        """Return how many looks have an answer to all their pairs and to those of the looks before."""
        first = int(np.argmax(self.labels == OPEN)) if (self.labels == OPEN).any() else len(self.labels)
        return sum(look.stop <= first for look in self.looks)

    def results(self) -> list[LookResult]:
        """Return the complete looks up to the first one that is narrow enough."""
        found, goal, bands = list[LookResult](), self.goal, self.bands
        for look in self.looks[: self.complete]:
            # Of its own, so that a look says the same each time.
            rng = generator(self.record.asked.seed, "audit-look", look.number)
            estimate = goal.interval(bands, self.pairs.cosines, look.number - 1, rng)
            found.append(LookResult(look, estimate, goal.reached(estimate)))
            if found[-1].narrow:
                break
        return found

    def forecast(self, done: int) -> Forecast:
        """Simulate the labels of the looks after the first `done` ones: by them, or before the first by p."""
        goal, bands, size = self.goal, self.bands, self.looks[done - 1].stop if done else 0
        scorer = self.record.scorer
        p: Floats | None = None if scorer is None else scorer.probability(bands.cosines)
        shares = prior_shares(bands, p)
        if done:
            shares = shares_so_far(replace(bands, ranks=bands.ranks[:size], labels=bands.labels[:size]), shares)
        rng = generator(self.record.asked.seed, "audit-forecast", done)
        return forecast(goal, bands, self.pairs.cosines, done, shares, rng)
