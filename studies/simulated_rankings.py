"""Rankings of pairs whose labels are all known, and drawn labels of them, to simulate audits."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.labels import NO, YES
from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats, Scorer, refit
from al_ray.core.task import Corpus
from al_ray.core.vectors import Vectors
from al_ray.datasets.wikiqa import read_wikiqa
from al_ray.encoders.encoder import embed_rows
from al_ray.encoders.pretrained import MINILM
from al_ray.encoders.transformer import Encoder
from al_ray.metrics.audit.score_bands import BandAudit, allotted, bands, draw_ranks

# Cosines of pairs that do not match, in a normal distribution.
MEAN, SPREAD = 0.25, 0.13
# Pairs of a simulated run's batches, and how far training on them moves their cosines apart.
BATCHES, BATCH, LEARNT = 3, 50, 0.05
# Pairs that an earlier model ranks in another order, and by how much its cosines differ.
REORDERED, NOISE = 20_000, 0.03


@dataclass(frozen=True)
class Ranking:
    """All pairs of a split: (n,) cosines, descending, and (n,) whether they match."""

    cosines: Floats
    matches: npt.NDArray[np.bool_]

    @cached_property
    def counts(self) -> Rows:
        """Return (n + 1,) numbers of matches among the first 0, 1, ..., n pairs."""
        return np.concatenate([[0], np.cumsum(self.matches, dtype=np.int64)])

    def average_precision(self, rows: Rows) -> float:
        """Return the average precision of some pairs, (r,) ascending rows."""
        ranks = np.flatnonzero(self.matches[rows]) + 1
        return float((np.arange(1, len(ranks) + 1) / ranks).mean())

    def first(self, scorer: Scorer, p: float) -> int:
        """Return how many pairs have at least a p by a scorer with w > 0."""
        if not 0 < p < 1:
            return 0 if p else len(self.cosines)
        return int(np.searchsorted(-self.cosines, -scorer.score_at(p), side="right"))


@dataclass(frozen=True)
class FallingShare:
    """A synthetic ranking: at rank r the share most / (1 + (r / scale)^power) of pairs match.

    tail: a share that matches in addition, down to rank 100,000.
    """

    most: float
    scale: float
    power: float
    tail: float = 0.0

    def ranking(self, pairs: int, rng: np.random.Generator) -> Ranking:
        """Draw a ranking."""
        ranks = np.arange(1, pairs + 1)
        share = self.most / (1 + (ranks / self.scale) ** self.power) + self.tail * (ranks <= 100_000)
        return Ranking(-np.sort(-rng.normal(MEAN, SPREAD, pairs)), rng.random(pairs) < share)


def wikiqa_ranking(folder: Path, cache: Path | None, threads: int) -> Ranking:
    """Rank all pairs of WikiQA's dev by the untrained MiniLM; cache: .npz file, read if it exists, else written."""
    if cache is not None and cache.exists():
        stored = np.load(cache)
        return Ranking(stored["cosines"].astype(np.float64), stored["matches"])
    task, _ = read_wikiqa(folder, "fail")
    split, encoder = task.splits["dev"], Encoder.base(EncoderConfig(MINILM, None, 64, 64, threads))
    left, right = (np.asarray(rows) for rows in (split.space.left, split.space.right))
    cosines = _vectors(encoder, task.left, left) @ _vectors(encoder, task.right, right).T
    matches = np.zeros(cosines.shape, dtype=bool)
    places = split.positives
    matches[np.searchsorted(left, places[:, 0]), np.searchsorted(right, places[:, 1])] = True
    order = np.argsort(-cosines, axis=None, kind="stable")
    ranking = Ranking(cosines.ravel()[order].astype(np.float64), matches.ravel()[order])
    if cache is not None:
        np.savez(cache, cosines=ranking.cosines.astype(np.float32), matches=ranking.matches)
    return ranking


def _vectors(encoder: Encoder, corpus: Corpus, rows: Rows) -> Vectors:
    return embed_rows(encoder, encoder.tokenise(list(corpus.texts)), rows)


def trained_scorer(ranking: Ranking, rng: np.random.Generator) -> Scorer:
    """Return w and b of a small run: fitted to pairs that it chose, and to cosines that training has moved apart.

    The batches are pairs of the first ranks, and twice those nearest to the boundary.
    """
    chosen = rng.choice(2 * BATCH, BATCH, replace=False)
    for _ in range(BATCHES - 1):
        boundary = _fitted(ranking, chosen).boundary
        middle = np.searchsorted(-ranking.cosines, -boundary)
        near = np.arange(max(0, middle - 4 * BATCH), min(len(ranking.cosines), middle + 4 * BATCH))
        near = np.setdiff1d(near, chosen)
        order = np.argsort(np.abs(ranking.cosines[near] - boundary), kind="stable")
        chosen = np.append(chosen, near[order[:BATCH]])
    return _fitted(ranking, chosen)


def _fitted(ranking: Ranking, rows: Rows) -> Scorer:
    labels = ranking.matches[rows]
    return refit(ranking.cosines[rows] + LEARNT * (2.0 * labels - 1), labels.astype(np.uint8))


def draw_audit(
    ranking: Ranking, count: int, top: int, rng: np.random.Generator, known: Rows
) -> tuple[BandAudit, Floats, Rows]:
    """Draw and label pairs by bands of rank; return the audit, and cosines (count,) and rows (count,) of its pairs.

    known: (k,) rows that were labelled before.
    """
    left = np.delete(np.arange(len(ranking.cosines)), known)
    reach = min(top, len(left))
    ranks = _draw(reach, len(left), count, rng)
    rows, labels = left[ranks], np.where(ranking.matches, YES, NO).astype(np.uint8)
    of_known = ranking.cosines[known], labels[known]
    cosines, ranks = ranking.cosines[left[:reach]], np.minimum(ranks, reach)
    return BandAudit(cosines, len(left), *of_known, ranks, labels[rows], top), ranking.cosines[rows], rows


def draw_earlier(ranking: Ranking, count: int, rounds: int, top: int, rng: np.random.Generator) -> Rows:
    """Draw dev labels of earlier rounds: by bands of rank, of models that order the first pairs otherwise."""
    head, known = ranking.cosines[:REORDERED], np.empty(0, dtype=np.int64)
    for _ in range(rounds):
        order = np.arange(len(ranking.cosines))
        order[: len(head)] = np.argsort(-(head + rng.normal(0, NOISE, len(head))))
        left = order[~np.isin(order, known)]
        known = np.append(known, left[_draw(top, len(left), count, rng)])
    return np.sort(known)


def _draw(reach: int, total: int, count: int, rng: np.random.Generator) -> Rows:
    """Draw ranks, divided equally among the bands."""
    cut = bands(reach, total)
    shares = allotted(count, [stop - start for start, stop in cut])
    return np.concatenate([draw_ranks(band, share, rng) for band, share in zip(cut, shares, strict=True)])
