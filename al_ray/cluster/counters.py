"""Counters of a run for Prometheus, through Ray's metrics: each node serves those of its own processes.

They are ray_al_ray_pairs_searched_total and so on. No result depends on them. Counters only: Ray 2.60 serves the value
of a gauge once, and nothing until it is set again; as the sum of a histogram it serves the sum of bin centres.
"""

from ray.util.metrics import Counter

COUNTERS = {
    "pairs_searched": Counter("al_ray_pairs_searched", "Pairs among which a search has looked."),
    "texts_embedded": Counter(
        "al_ray_texts_embedded", "Texts that shards have encoded; those read back are not among them."
    ),
    "stage_seconds": Counter("al_ray_stage_seconds", "Seconds that a stage took.", ("stage", "run")),
    "labels_bought": Counter(
        "al_ray_labels_bought", "Labels of the rounds that were labelled since the driver began.", ("run",)
    ),
}
