"""A graph with int8 weights, and what it costs: AP over all pairs of dev by this graph, and by that of fp32."""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from al_ray.apps.exporting.session import OnnxEncoder, quiet
from al_ray.apps.matching.model import MatchingModel
from al_ray.core.errors import BadOption
from al_ray.core.nearest_means import NearestMeans
from al_ray.core.neighbourhood import means_in
from al_ray.core.progress import OnProgress
from al_ray.core.rng import generator
from al_ray.core.scorer import Floats
from al_ray.core.task import Split, strings_at
from al_ray.core.vectors import Block, Vectors, paired_scores
from al_ray.metrics.average_precision import StratumSummary
from al_ray.metrics.estimator import NegativeCounts, PositiveScores, build_evaluation, request_counts
from al_ray.metrics.evaluation import Evaluation
from al_ray.search.counting import count_block

SPLIT, QUERIES = "dev", 1024
MOST_PAIRS = 4_000_000_000  # One process counts them, twice.


def dev_split(model: MatchingModel) -> Split:
    """Return the dev split of the model's task; BadOption or MissingSplit if AP cannot be counted on it."""
    if model.run is None:
        raise BadOption(
            f"`int8` is measured on dev, and {model.path} is a copy of a model, whose task is not known; give "
            "`model=RUN`, or leave out `int8`"
        )
    split = model.task.measurable(SPLIT)
    if split.space.total > MOST_PAIRS:
        raise BadOption(
            f"`int8` counts every pair of dev, and there are {split.space.total:,}, more than {MOST_PAIRS:,}; leave "
            "out `int8`"
        )
    return split


def quantize(graph: Path, out: Path) -> None:
    """Write a graph whose weights are int8, and whose activations are quantised as they come (dynamically)."""
    # By name, because the package belongs to an extra.
    tools = import_module("onnxruntime.quantization")
    shapes = import_module("onnxruntime.quantization.shape_inference")
    with quiet(), TemporaryDirectory(prefix="al_ray-") as folder:
        prepared = Path(folder) / graph.name
        shapes.quant_pre_process(str(graph), str(prepared), skip_symbolic_shape=True)
        # One scale for each output of a layer: with one for all, vectors are several times as far from those of fp32.
        tools.quantize_dynamic(str(prepared), str(out), per_channel=True, weight_type=tools.QuantType.QInt8)


def measure_cost(
    model: MatchingModel, split: Split, graphs: Mapping[str, OnnxEncoder], watch: OnProgress
) -> dict[str, Any]:
    """Return AP over all pairs of dev by each graph, as export.json has it; graphs: by "fp32" and "int8"."""
    evaluations = {name: evaluate_graph(model, split, graph, watch) for name, graph in graphs.items()}
    one = evaluations["fp32"]
    return {
        "split": split.name,
        "pairs": one.total_pairs,
        "positives": one.positives,
        "counted": "every pair",
        **{f"average_precision_{name}": each.average_precision.value for name, each in evaluations.items()},
    }


def describe_cost(cost: Mapping[str, Any]) -> str:
    """Return in words what `measure_cost` found."""
    by_fp32, by_int8 = (100 * cost[f"average_precision_{name}"] for name in ("fp32", "int8"))
    return (
        f"every one of {cost['pairs']:,} pairs counted: fp32 {by_fp32:.2f}%, int8 {by_int8:.2f}%, a difference of "
        f"{by_int8 - by_fp32:+.2f} points"
    )


def evaluate_graph(model: MatchingModel, split: Split, graph: OnnxEncoder, watch: OnProgress) -> Evaluation:
    """Evaluate the scores of a graph over all pairs of a split, as `evaluate` counts them."""
    task, space, scorer = model.task, split.space, model.model.scorer
    assert scorer is not None
    left = graph.encode(strings_at(task.left.texts, space.left), "left", watch=watch)
    right = left
    if not task.symmetric:
        right = graph.encode(strings_at(task.right.texts, space.right), "right", watch=watch)
    queries, held = Block(space.left, left), Block(space.right, right)
    if scorer.neighbourhood:
        queries = replace(queries, offsets=scorer.neighbourhood * nearest_means(split, left, right))
        if scorer.both_sides:
            means = nearest_means(split, left, right, turned=True)
            queries = replace(queries, right_offsets=NearestMeans(space.right, means).times(scorer.neighbourhood))
    pairs = split.positives
    places = np.searchsorted(space.left, pairs[:, 0]), np.searchsorted(space.right, pairs[:, 1])
    scores = queries.scores(places[0], pairs[:, 1], paired_scores(left, places[0], right, places[1]))
    request, total = request_counts(split, scores), space.total - len(pairs)
    counts = NegativeCounts.zero(request)
    for start in range(0, len(left), QUERIES):
        block = queries.take(np.arange(start, min(start + QUERIES, len(left))))
        counts += count_block(block, held, pairs, request, None, space.rule)
        watch("count the pairs of dev", start + len(block.rows), len(left))
    strata, rng = (StratumSummary("all", total, total),), generator(model.config.seed, f"interval-{split.name}")
    return build_evaluation(request, split, PositiveScores(scores, None), strata, [counts], rng)


def nearest_means(split: Split, left: Vectors, right: Vectors, turned: bool = False) -> Floats:
    """Return h (n,) of the left texts of a split: the mean cosine with the nearest right texts that each can match.

    turned: of the right texts with left ones. In one set of texts none is its own neighbour.
    """
    space = split.space
    rule, rows, others = space.rule, space.left, space.right
    if turned:
        left, right, rows, others = right, left, others, rows
        rule = None if rule is None else rule.turned
    if rule is None and not space.symmetric:
        return means_in(right, left)
    means = np.zeros(len(left))
    for place, row in enumerate(rows):
        allowed = others != row if space.symmetric else np.ones(len(others), dtype=np.bool_)
        if rule is not None:
            allowed &= rule.table(np.array([row]), others)[0]
        means[place] = means_in(right[allowed], left[place : place + 1])[0]
    return means
