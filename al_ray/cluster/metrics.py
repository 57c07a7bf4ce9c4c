"""What a run tells Prometheus while it works, by Ray's metrics: each node serves those of its own processes.

Names as they are scraped: ray_al_ray_pairs_searched_total, ray_al_ray_texts_embedded_total,
ray_al_ray_stage_seconds_total{stage, run} and ray_al_ray_labels_bought{run}. No result depends on them.
"""

from typing import Any

from ray.util.metrics import Counter, Gauge

# Counters, and no histogram of the seconds: the sum that Ray 2.60 serves of a histogram is of its bins' middles.
PAIRS = Counter("al_ray_pairs_searched", "Pairs of the pool among which the search has looked.")
TEXTS = Counter("al_ray_texts_embedded", "Texts that shards have encoded; those read back are not among them.")
SECONDS = Counter("al_ray_stage_seconds", "Seconds that a stage took.", ("stage", "run"))
LABELS = Gauge("al_ray_labels_bought", "Labels that a run has, those of earlier rounds among them.", ("run",))


def counted(shard: type) -> type:
    """The class of a shard, which counts what it embeds."""
    return type(shard.__name__, (shard,), {"embedded": _embedded})


def _embedded(_: Any, count: int) -> None:
    # Of the module, so that an actor, whose class comes to it by value, takes its own TEXTS.
    TEXTS.inc(count)
