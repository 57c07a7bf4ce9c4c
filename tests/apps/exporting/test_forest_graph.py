"""A forest as an ONNX graph and as ten lines of numpy gives al_ray's p: to 1e-5 in float32, and to the bit."""

import numpy as np
import pytest

from al_ray.apps.exporting.forest_graph import CODE, LIMIT, edge_rows, largest_difference, write_forest_graph
from al_ray.core.rng import generator
from al_ray.matcher.forest import Forest
from al_ray.matcher.learner import DEFAULT, LEARNERS
from al_ray.matcher.model_file import write_model

NAMES = tuple(f"comparison {number}" for number in range(7))


def forest_of(labels: int) -> Forest:
    rng = generator(0, "test")
    features = np.round(rng.random((labels, len(NAMES))), 2).astype(np.float32)
    features[rng.random(features.shape) < 0.1] = -1
    yes = (features[:, 0] + features[:, 1] > 1).astype(np.uint8)
    model = LEARNERS[DEFAULT].fit(features, yes, np.ones(labels), NAMES, 0)
    assert isinstance(model, Forest)
    return model


@pytest.mark.parametrize("labels", [0, 2, 300])
def test_the_graph_gives_p_at_and_beside_every_threshold(labels, tmp_path):
    forest = forest_of(labels)
    write_forest_graph(forest, tmp_path / "matcher.onnx")
    rows = edge_rows(forest)
    assert labels < 300 or len(np.unique(forest.probability(rows))) > 100
    assert largest_difference(forest, tmp_path / "matcher.onnx", rows) <= LIMIT


def test_another_forest_is_told_apart(tmp_path):
    write_forest_graph(forest_of(300), tmp_path / "matcher.onnx")
    other = forest_of(200)
    assert largest_difference(other, tmp_path / "matcher.onnx", edge_rows(other)) > LIMIT


def test_the_numpy_code_gives_the_same_bits(tmp_path):
    forest = forest_of(300)
    write_model(tmp_path / "matcher.safetensors", forest, DEFAULT)
    names = dict[str, object]()
    exec(CODE, names)
    rows = edge_rows(forest)
    found = names["probability"](rows, tmp_path / "matcher.safetensors")  # pyright: ignore[reportCallIssue]
    assert found.tobytes() == forest.probability(rows).tobytes()
