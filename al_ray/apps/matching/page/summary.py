"""What the page of matches says, as values: histograms, examples by score band, clusters, changes, drift."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from al_ray.apps.matching.clusters.clustering import Clusters
from al_ray.apps.matching.clusters.figures import ClusterFigures
from al_ray.apps.matching.folder import Matches
from al_ray.apps.matching.page.bands import Band, counts_between, mean_probability, round_edges, score_bands, spaced
from al_ray.apps.matching.page.clusters import ClusterSummary, summarize_clusters
from al_ray.apps.matching.page.examples import ShownPair, ShownText, TextReader
from al_ray.core.pairs import Pairs, Rows
from al_ray.core.scorer import Floats
from al_ray.core.task import Task

BANDS, BINS, EXAMPLES = 8, 40, 5
"""Maximum number of score bands, of bins of a histogram, and of example pairs in a band."""


@dataclass(frozen=True)
class Histogram:
    """Counts of scores. edges: (b + 1,) of the bins. counts: (b,) of each series that has any, by name."""

    edges: Floats
    counts: Mapping[str, Rows]


@dataclass(frozen=True)
class ShownBand:
    """A band of scores with examples that are evenly spaced by rank."""

    band: Band
    examples: tuple[ShownPair, ...]


@dataclass(frozen=True)
class ClusterChange:
    """A change since the last match.

    number: of the cluster now, or of one that is gone. others: the clusters that were merged into it, or those that it
    was split into. texts: some of its texts.
    """

    kind: Literal["new", "gone", "split", "merge"]
    number: int
    others: tuple[int, ...] = ()
    texts: tuple[ShownText, ...] = ()


@dataclass(frozen=True)
class ClusterChanges:
    """How the clusters changed since the last match: counts, and some of the changes."""

    new: int
    gone: int
    splits: int
    merges: int
    examples: tuple[ClusterChange, ...] = ()


@dataclass(frozen=True)
class DriftFigure:
    """A figure of the texts of the training and of those that are matched now; None where it is not known."""

    name: str
    training: float | None
    new: float | None


@dataclass(frozen=True)
class DriftFigures:
    """How the texts differ from those of the training: figures, and warnings as sentences."""

    figures: tuple[DriftFigure, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class MatchSummary:
    """What the page says of a match.

    record: content of match.json. matched: number of texts with a match, of the left and of the right side; of one
    table both are the same. probability: mean of the model's matches, None if the model is not calibrated.
    scores: of the matches. best: of the best pair of each left text (of one table, of each text), before the rule of
    assignment. without_best: number of texts without a pair above the cutoff.
    changes, drift: None if they were not computed.
    """

    record: Mapping[str, Any]
    symmetric: bool
    matched: tuple[int, int]
    probability: float | None
    scores: Histogram | None
    best: Histogram | None
    without_best: int
    bands: tuple[ShownBand, ...]
    clusters: ClusterSummary | None = None
    changes: ClusterChanges | None = None
    drift: DriftFigures | None = None


def summarize(
    matches: Matches,
    task: Task,
    record: Mapping[str, Any],
    best: Floats,
    texts: bool,
    clustered: tuple[Clusters, ClusterFigures, Rows] | None = None,
) -> MatchSummary:
    """Summarize matches.

    record: content of match.json. best: as `best_scores` returns it. texts: whether texts are shown, or only their ids.
    clustered: the clusters of nodes, their figures, and the (nodes,) ids of clusters.
    """
    reader = TextReader(task, texts)
    own = matches.by_model
    words = [word for word, decided in matches.others.items() if word == "label" or decided.any()]
    others = f"by {' or '.join(words)}"
    left, right = (np.unique(matches.pairs[:, side]) for side in (0, 1))
    if task.symmetric:
        left = right = np.union1d(left, right)
    known = np.flatnonzero(best > -np.inf)
    has_match = np.isin(known, left)
    return MatchSummary(
        record=record,
        symmetric=task.symmetric,
        matched=(len(left), len(right)),
        probability=mean_probability(matches, own),
        scores=_histogram({"by model": matches.scores[own], others: matches.scores[~own]}),
        best=_histogram({"with a match": best[known[has_match]], "without a match": best[known[~has_match]]}),
        without_best=record["left"] - len(known),
        bands=tuple(
            ShownBand(band, reader.matches(matches, band.start + spaced(len(band), EXAMPLES)))
            for band in score_bands(matches, BANDS)
        ),
        clusters=None if clustered is None else summarize_clusters(matches, *clustered, reader),
    )


def best_scores(task: Task, pairs: Pairs, scores: Floats) -> Floats:
    """(n, 2) candidate pairs with (n,) scores -> the highest score of each left text, -inf for one without a pair.

    Of one table a pair counts for both its texts.
    """
    best = np.full(len(task.left), -np.inf)
    for side in (0, 1) if task.symmetric else (0,):
        np.maximum.at(best, pairs[:, side], scores)
    return best


def _histogram(series: Mapping[str, Floats]) -> Histogram | None:
    """Count the scores of each series in the same bins; None without scores."""
    given = {name: scores for name, scores in series.items() if len(scores)}
    if not given:
        return None
    low, high = (float(end(np.concatenate(list(given.values())))) for end in (np.min, np.max))
    edges = round_edges(low, high, BINS)
    return Histogram(edges, {name: counts_between(edges, scores) for name, scores in given.items()})


def drift_figures(record: Mapping[str, Any]) -> DriftFigures | None:
    """Return the drift that match.json has, None if it was not measured."""
    if "drift" not in record:
        return None
    figures = (
        DriftFigure(_drift_name(one["name"], one["subject"]), one["training"], one["now"])
        for one in record["drift"]["figures"]
    )
    return DriftFigures(tuple(figures), tuple(record["drift"]["warnings"]))


def _drift_name(name: str, subject: str) -> str:
    return name if name.endswith(subject) else f"{subject}: {name}"
