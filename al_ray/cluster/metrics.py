"""What a run tells Prometheus while it works, by Ray's metrics: each node serves those of its own processes.

Names as they are scraped: ray_al_ray_pairs_searched_total, ray_al_ray_texts_embedded_total,
ray_al_ray_stage_seconds_total{stage, run} and ray_al_ray_labels_bought_total{run}. No result depends on them.
"""

from typing import Any

from ray.util.metrics import Counter

# Counters alone. Ray 2.60 serves the value of a gauge once, and nothing until it is set again; and as the sum of a
# histogram, that of the middles of its bins.
PAIRS = Counter("al_ray_pairs_searched", "Pairs among which a search has looked.")
TEXTS = Counter("al_ray_texts_embedded", "Texts that shards have encoded; those read back are not among them.")
SECONDS = Counter("al_ray_stage_seconds", "Seconds that a stage took.", ("stage", "run"))
LABELS = Counter("al_ray_labels_bought", "Labels of the rounds that were labelled since the driver began.", ("run",))


def counted(shard: type) -> type:
    """The class of a shard, which counts what it embeds."""
    return type(shard.__name__, (shard,), {"embedded": _embedded})


def _embedded(_: Any, count: int) -> None:
    # Of the module, so that an actor, whose class comes to it by value, takes its own TEXTS.
    TEXTS.inc(count)
