"""Measure the speeds of a matcher on this machine: a search by 3-grams, comparisons of records, and p."""

from collections.abc import Iterator, Sequence

import numpy as np

from al_ray.apps.planning.measure_hardware import median_seconds
from al_ray.apps.planning.stage_times import COMPARISONS
from al_ray.core.rng import generator
from al_ray.matcher.comparisons.record_comparer import RecordComparer
from al_ray.matcher.comparisons.records import Field, Records
from al_ray.matcher.learner import DEFAULT, LEARNERS
from al_ray.search.lexical.conditions import PairConditions
from al_ray.search.lexical.grams import Grams
from al_ray.search.lexical.nearest import nearest_lexical
from al_ray.search.lexical.weights import DocumentFrequencies, GramWeights

NEAREST, LABELS, PAIRS = 20, 300, 50_000


def matcher_speeds(texts: Sequence[str], threads: int) -> Iterator[tuple[str, float]]:
    """Yield the name and speed of each constant of a matcher. texts: what is searched and compared."""
    grams, rows = Grams.of(texts), np.arange(len(texts))
    counts = DocumentFrequencies.of([grams])
    weights = GramWeights(counts, counts.most)
    weighted, alone = weights.weigh(rows, grams), PairConditions(symmetric=True)
    added = float((counts.counts[weights.used].astype(np.float64) ** 2).sum())
    yield "grams", added / median_seconds(lambda: nearest_lexical(weighted, [weighted], NEAREST, alone, threads), 1)
    rng = generator(0, "measure-matcher")
    pairs = rng.integers(len(texts), size=(PAIRS, 2))
    firsts = [" ".join(text.split()[:3]) for text in texts]
    fields = Field("name", "name"), Field("text", "text")
    records = Records(texts, (firsts, texts))
    comparer = RecordComparer(fields, records, records, None, threads)
    yield "comparisons", len(pairs) * len(comparer.names) / median_seconds(lambda: comparer.compare(pairs), 1)
    features = rng.random((PAIRS, COMPARISONS), dtype=np.float32)
    # Not only the first comparison decides, so that trees are as deep as those of hard pairs.
    labels = features[:LABELS, :3].sum(axis=1) + rng.random(LABELS) > 2
    names = [f"comparison {number}" for number in range(COMPARISONS)]
    matcher = LEARNERS[DEFAULT].fit(features[:LABELS], labels.astype(np.uint8), np.ones(LABELS), names, 0)
    yield "trees", len(features) / median_seconds(lambda: matcher.probability(features, threads), 1)
