"""Kappas against values worked by hand and scikit-learn's, and an interval that has a width where all agree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from al_ray.metrics import agreement
from al_ray.metrics.agreement import cohen_kappa, estimate_alpha, fleiss_kappa, krippendorff_alpha, tabulate

LABELS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=40)


def kappa(table: list[list[int]]):
    return cohen_kappa(np.array(table), np.random.default_rng(0))


def test_cohens_kappa_by_hand():
    # 35 of 50 agree; by chance (25/50 * 30/50) + (25/50 * 20/50) = 0.5. So (0.7 - 0.5) / 0.5.
    found = kappa([[20, 5], [10, 15]])
    assert (found.n, found.share) == (50, 0.7)
    assert found.kappa is not None
    assert found.kappa.value == pytest.approx(0.4)
    # The usual interval of so many pairs, for comparison: 0.15 to 0.65.
    assert (found.kappa.low, found.kappa.high) == pytest.approx((0.13, 0.63), abs=0.02)


@given(LABELS)
def test_cohens_kappa_is_that_of_scikit_learn(pairs):
    one, other = np.array(pairs).T
    found = cohen_kappa(tabulate(one, other, 3), np.random.default_rng(0))
    assert found.share == (one == other).mean()
    if found.kappa is None:
        assert len({*one.tolist(), *other.tolist()}) == 1
    else:
        assert found.kappa.value == pytest.approx(cohen_kappa_score(one, other))
        assert found.kappa.low <= found.kappa.value <= found.kappa.high


def test_few_pairs_on_which_all_agree_prove_little_and_many_prove_much():
    few, many = kappa([[5, 0], [0, 5]]).kappa, kappa([[500, 0], [0, 500]]).kappa
    assert few is not None
    assert many is not None
    assert few.value == many.value == few.high == 1
    assert few.low < 0.6
    assert many.low > 0.99


def test_a_third_label_that_is_rare_does_not_lower_the_interval():
    # With half a pair added to each of nine cells, 20 pairs on which all agree had an interval from 0.56.
    found = kappa([[10, 0, 0], [0, 7, 0], [0, 0, 3]]).kappa
    assert found is not None
    assert found.low == pytest.approx(0.69, abs=0.02)


def test_intervals_hold_the_truth_where_few_differ_and_unsure_is_rare(monkeypatch):
    monkeypatch.setattr(agreement, "DRAWS", 1000)
    shares = np.array([[0.6, 0.005, 0.005], [0.005, 0.35, 0.005], [0.005, 0.005, 0.02]])
    labels, rng, held = np.eye(3, dtype=np.int64), np.random.default_rng(0), np.zeros(2)
    # Of a million pairs kappa and alpha are those of the shares.
    many = np.repeat((labels[:, None] + labels).reshape(-1, 3), np.round(1e6 * shares).astype(int).ravel(), axis=0)
    truth = kappa(np.round(1e6 * shares).astype(int).tolist()).kappa, krippendorff_alpha(many)
    assert truth[0] is not None
    assert truth[1] == pytest.approx(truth[0].value, abs=1e-4)
    for _ in range(200):
        table = rng.multinomial(50, shares.ravel()).reshape(3, 3)
        counts = np.repeat((labels[:, None] + labels).reshape(-1, 3), table.ravel(), axis=0)
        for place, found in enumerate((cohen_kappa(table, rng).kappa, estimate_alpha(counts, rng))):
            assert found is not None
            held[place] += found.low <= truth[0].value <= found.high
    # 95% are wanted; with half a pair added to each of nine cells 64% were held.
    assert (held >= 0.88 * 200).all(), held


def test_where_all_labels_are_alike_nothing_tells_agreement_from_chance():
    assert kappa([[9, 0], [0, 0]]).kappa is None
    assert kappa([[0, 0], [0, 0]]).share is None
    assert fleiss_kappa(np.array([[3, 0], [3, 0]])) is None
    assert fleiss_kappa(np.empty((0, 2), dtype=np.int64)) is None


def test_fleiss_kappa_by_hand():
    # Three labellers. Agreement of the pairs: 1, 1/3, 1/3, 1; mean 2/3. Shares of labels: 7/12 and 5/12: 74/144.
    counts = np.array([[3, 0], [2, 1], [2, 1], [0, 3]])
    assert fleiss_kappa(counts) == pytest.approx((2 / 3 - 74 / 144) / (1 - 74 / 144))


@given(LABELS)
def test_of_two_labellers_fleiss_kappa_is_cohens_if_neither_is_the_first(pairs):
    one, other = np.array([*pairs, *((b, a) for a, b in pairs)]).T
    counts = np.stack([(one == label).astype(np.int64) + (other == label) for label in range(3)], axis=1)
    cohens = cohen_kappa(tabulate(one, other, 3), np.random.default_rng(0)).kappa
    assert fleiss_kappa(counts) == (None if cohens is None else pytest.approx(cohens.value))
