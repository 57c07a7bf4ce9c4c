"""Counters of a run for Prometheus, through Ray's metrics: each node serves those of its own processes.

Names as they are scraped: ray_al_ray_pairs_searched_total, ray_al_ray_texts_embedded_total,
ray_al_ray_stage_seconds_total{stage, run} and ray_al_ray_labels_bought_total{run}. No result depends on them.
"""

from typing import Any

from ray.util.metrics import Counter

# Counters only. Ray 2.60 serves the value of a gauge once, and nothing until it is set again. As the sum of a histogram
# it serves the sum of bin centres.
PAIRS = Counter("al_ray_pairs_searched", "Pairs among which a search has looked.")
TEXTS = Counter("al_ray_texts_embedded", "Texts that shards have encoded; those read back are not among them.")
SECONDS = Counter("al_ray_stage_seconds", "Seconds that a stage took.", ("stage", "run"))
LABELS = Counter("al_ray_labels_bought", "Labels of the rounds that were labelled since the driver began.", ("run",))


def count_texts(shard: type) -> type:
    """Return the class of a shard that counts the texts it embeds."""
    return type(shard.__name__, (shard,), {"on_embedded": _on_embedded})


def _on_embedded(_: Any, count: int) -> None:
    # A module function, so that an actor, whose class is pickled by value, uses the TEXTS of its own process.
    TEXTS.inc(count)
