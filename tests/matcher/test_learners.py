"""The contract of every learner: the same bits for any threads, blocks and rows; p explained; bad values refused."""

import pickle

import numpy as np
import pytest

from al_ray.core.errors import BadOption
from al_ray.matcher import model as models
from al_ray.matcher.learner import DEFAULT, LEARNERS
from al_ray.matcher.model import Model
from tests.matcher.labelled import NAMES, examples


@pytest.fixture(scope="module", params=LEARNERS)
def learner(request: pytest.FixtureRequest) -> str:
    return request.param


def fit(learner: str, count: int = 200) -> Model:
    x, y = examples(count)
    return LEARNERS[learner].fit(x, y, np.ones(len(y)), NAMES, 0)


@pytest.fixture(scope="module")
def model(learner: str) -> Model:
    return fit(learner)


def test_the_default_is_one_of_them():
    assert DEFAULT in LEARNERS


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("block", [1, 7, 4096])
def test_neither_threads_nor_blocks_change_a_bit(
    model: Model, threads: int, block: int, monkeypatch: pytest.MonkeyPatch
):
    x, _ = examples(300, 2)
    expected, explained = model.probability(x), model.contributions(x)
    monkeypatch.setattr(models, "BLOCK", block)
    assert model.probability(x, threads).tobytes() == expected.tobytes()
    assert model.contributions(x, threads).values.tobytes() == explained.values.tobytes()


def test_other_rows_of_the_same_call_change_no_bit(model: Model):
    x, _ = examples(300, 2)
    assert model.probability(x[::7].copy()).tobytes() == model.probability(x)[::7].tobytes()
    assert model.probability(np.asfortranarray(x)).tobytes() == model.probability(x).tobytes()


def bits(model: Model) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in model.arrays().items()}


def test_a_row_of_weight_0_is_as_if_it_was_not_there(learner: str):
    x, y = examples()
    weights = np.where(np.arange(len(y)) % 3 > 0, 0.5, 0)
    # Outside of all others, so that splines would have other knots.
    x[0] = 9
    some = weights > 0
    without = LEARNERS[learner].fit(x[some], y[some], weights[some], NAMES, 0)
    assert bits(LEARNERS[learner].fit(x, y, weights, NAMES, 0)) == bits(without)
    none = np.zeros(len(y))
    assert LEARNERS[learner].fit(x, y, none, NAMES, 0).probability(x).tolist() == [0.5] * len(y)


def test_p_tells_matches_from_others(model: Model):
    x, y = examples(500, 5)
    p = model.probability(x)
    # Both sides of the boundary are learnt: the labels have noise of 0.1.
    assert p[y == 1].mean() > 0.65 > 0.35 > p[y == 0].mean()


def test_p_is_the_base_and_all_that_the_comparisons_add(model: Model):
    x, _ = examples(500, 6)
    found = model.contributions(x)
    assert found.values.shape == x.shape
    np.testing.assert_allclose(found.base + found.values.sum(axis=1), model.probability(x), atol=1e-14, rtol=0)


def test_no_rows_give_no_p(model: Model):
    none = np.empty((0, 3), dtype=np.float32)
    assert model.probability(none).shape == (0,)
    assert model.contributions(none).values.shape == (0, 3)


def test_it_reads_what_it_is_made_of(learner: str, model: Model):
    x, _ = examples(50, 7)
    assert LEARNERS[learner].read(NAMES, model.arrays()).probability(x).tobytes() == model.probability(x).tobytes()


def test_it_travels_to_other_processes(model: Model):
    x, _ = examples(50, 4)
    expected = model.probability(x)
    assert pickle.loads(pickle.dumps(model)).probability(x).tobytes() == expected.tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_features_that_are_no_numbers_are_refused(learner: str, model: Model, value: float):
    x, y = examples(20)
    x[3, 1] = value
    with pytest.raises(BadOption, match=r"'price: relative difference' is .* for row 3; give finite"):
        LEARNERS[learner].fit(x, y, np.ones(20), NAMES, 0)
    with pytest.raises(BadOption, match="row 3"):
        model.probability(x)
    with pytest.raises(BadOption, match="row 3"):
        model.contributions(x)


@pytest.mark.parametrize(
    ("labels", "weights", "reason"),
    [
        ([0, 1, 2], [1, 1, 1], "unsure"),
        ([0, 1], [1, 1, 1], "labels of shape"),
        ([0, 1, 0], [1, 1], "weights of shape"),
        ([0, 1, 0], [1, -1, 1], "at least 0"),
        ([0, 1, 0], [1, np.nan, 1], "finite"),
    ],
)
def test_labels_and_weights_that_do_not_fit_are_refused(learner: str, labels: object, weights: object, reason: str):
    x, _ = examples(3)
    with pytest.raises(ValueError, match=reason):
        LEARNERS[learner].fit(x, labels, weights, NAMES, 0)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("x", [np.zeros((2, 3)), np.zeros((2, 4), np.float32), np.zeros(3, np.float32)])
def test_features_of_another_shape_or_type_are_refused(model: Model, x: models.Features):
    with pytest.raises(ValueError, match="the matcher takes float32 of shape"):
        model.probability(x)
