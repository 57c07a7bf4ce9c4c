"""A matcher for other programs: as an ONNX graph and as ten lines of numpy, from comparisons of a pair to p."""

import shutil
from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from al_ray.apps.exporting.folder import FOREST_GRAPH, NUMPY_CODE
from al_ray.apps.exporting.session import quiet
from al_ray.apps.matching.model import MatchingModel
from al_ray.cluster.candidates.reference import Sides
from al_ray.cluster.candidates.reference_file import read_reference
from al_ray.core.errors import BadOption
from al_ray.core.labels import MATCHER, REFERENCE
from al_ray.matcher.forest import Forest
from al_ray.matcher.model import Features
from al_ray.matcher.model_file import read_model
from al_ray.storage.download import fetched
from al_ray.storage.uri import storage_path

INPUT, OUTPUT = "features", "p"
ROWS = 1000
LIMIT = 1e-5
"""Largest difference of p in float32 from al_ray's: the sum of 300 numbers that add up to 1, and their rounding."""
OPSET, TREES_OPSET, FORMAT = 17, 3, 8
CODE = '''"""p of pairs from their comparisons, as al_ray computes it; needs numpy and safetensors."""

import numpy as np
from safetensors.numpy import load_file


def probability(features, path="matcher.safetensors"):
    """(n, F) float32 comparisons, in the order of export.json -> (n,) p in float64."""
    forest = load_file(path)
    starts, feature, threshold, right, value = (
        forest[name] for name in ("starts", "feature", "threshold", "right", "value")
    )
    rows, total = np.arange(len(features)), np.zeros(len(features))
    for node in starts[:-1]:
        node = np.full(len(features), node)
        while (feature[node] >= 0).any():
            below = np.where(features[rows, feature[node]] <= threshold[node], node + 1, right[node])
            node = np.where(feature[node] >= 0, below, node)
        total += value[node]
    return total / (len(starts) - 1)
'''


def write_matcher(model: MatchingModel, aside: Path, graph: bool) -> dict[str, Any]:
    """Write the matcher of a model into a folder, and return what export.json says of it.

    graph: also as ONNX. BadOption if the graph differs from al_ray's p by more than LIMIT, for a matcher that is no
    forest, and for one of an earlier al_ray.
    """
    saved = model.model.matcher
    assert saved is not None
    if saved.reference is None:
        raise BadOption(
            f"{model.path} has a matcher of an earlier al_ray, without its fields; train it again (`al_ray.run`)"
        )
    source = fetched(storage_path(saved.path).parent)
    forest, sides = read_model(source / MATCHER), read_reference(saved.reference).sides
    if not isinstance(forest, Forest):
        raise BadOption(
            f"the matcher of {model.path} is no forest, which alone can be exported; match with `al_ray.match`"
        )
    for name in (MATCHER, REFERENCE):
        shutil.copyfile(source / name, aside / name)
    (aside / NUMPY_CODE).write_text(CODE)
    about = {"comparisons": list(forest.names), "trees": forest.trees, **_options(model, sides)}
    if not graph:
        return about
    write_forest_graph(forest, aside / FOREST_GRAPH)
    largest = largest_difference(forest, aside / FOREST_GRAPH, edge_rows(forest))
    if not largest <= LIMIT:
        raise BadOption(
            f"p of the ONNX graph of {model.path} differs by {largest:.2g} from al_ray's, more than {LIMIT:g}; give "
            "`format='sentence-transformers'`"
        )
    check = {"rows": ROWS, "largest_p": largest}
    return {**about, "graph": FOREST_GRAPH, "input": INPUT, "output": OUTPUT, "check": check}


def describe_forest_check(check: Mapping[str, Any]) -> str:
    """Return in words what export.json says of the check of a matcher."""
    return f"{check['rows']:,} rows at and beside its thresholds: {check['largest_p']:.2g}"


def _options(model: MatchingModel, sides: Sides) -> dict[str, Any]:
    both = {"left": sides.left} if sides.symmetric else {"left": sides.left, "right": sides.right}
    fields = {name: {field.name: field.type for field in side} for name, side in both.items()}
    options = asdict(model.config.candidates)
    counts = {name: options[name] for name in ("cosine", "trigrams", "of_right")}
    return {"fields": fields, "symmetric": sides.symmetric, "candidates": counts}


def write_forest_graph(forest: Forest, path: Path) -> None:
    """Write a forest as a graph: features (n, F) float32 -> p (n, 1) float32."""
    # By name, because the package belongs to an extra.
    helper, onnx = import_module("onnx.helper"), import_module("onnx")
    trees = np.repeat(np.arange(forest.trees), np.diff(forest.starts))
    first, inner = forest.starts[trees], forest.feature >= 0
    number = np.arange(len(trees)) - first
    leaves = np.flatnonzero(~inner)
    attributes = {
        "nodes_treeids": trees,
        "nodes_nodeids": number,
        "nodes_featureids": np.where(inner, forest.feature, 0),
        "nodes_values": np.where(inner, forest.threshold, np.float32(0)),
        "nodes_truenodeids": np.where(inner, number + 1, 0),
        "nodes_falsenodeids": np.where(inner, forest.right - first, 0),
        "target_treeids": trees[leaves],
        "target_nodeids": number[leaves],
        "target_ids": np.zeros(len(leaves), dtype=np.int64),
        "target_weights": forest.value[leaves] / np.float32(forest.trees),
    }
    node = helper.make_node(
        "TreeEnsembleRegressor", [INPUT], [OUTPUT], domain="ai.onnx.ml", n_targets=1, aggregate_function="SUM",
        nodes_modes=np.where(inner, "BRANCH_LEQ", "LEAF").tolist(), post_transform="NONE",
        **{name: array.tolist() for name, array in attributes.items()},
    )  # fmt: skip
    real, width = onnx.TensorProto.FLOAT, len(forest.names)
    given = helper.make_tensor_value_info(INPUT, real, ["pairs", width])
    answer = helper.make_tensor_value_info(OUTPUT, real, ["pairs", 1])
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", TREES_OPSET)]
    graph = helper.make_graph([node], "matcher", [given], [answer])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=FORMAT, producer_name="al_ray")
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())


def edge_rows(forest: Forest) -> Features:
    """Return (ROWS, F) rows whose values are thresholds of the forest, or the next number above or below them."""
    rows = np.full((ROWS, len(forest.names)), -1, dtype=np.float32)
    for column in range(rows.shape[1]):
        values = np.unique(forest.threshold[forest.feature == column])
        if len(values):
            values = np.concatenate(
                [np.nextafter(values, np.float32(np.inf)), values, np.nextafter(values, -1e9), [-1]]
            )
            # Of each column in another order, so that many leaves are reached.
            rows[:, column] = values.astype(np.float32)[(np.arange(ROWS) * (2 * column + 3)) % len(values)]
    return rows


def largest_difference(forest: Forest, graph: Path, rows: Features) -> float:
    """Return the largest difference of p between a graph and al_ray over (n, F) rows."""
    runtime = import_module("onnxruntime")
    with quiet():
        session = runtime.InferenceSession(str(graph), providers=["CPUExecutionProvider"])
        found = session.run([OUTPUT], {INPUT: rows})[0][:, 0].astype(np.float64)
    return float(np.abs(found - forest.probability(rows)).max())
