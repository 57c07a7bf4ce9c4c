"""What a round says of the model of the round before, by hand."""

from typing import Any

import numpy as np
import pytest

from al_ray.metrics.round_comparison import (
    AGREEMENT,
    PREQUENTIAL,
    agreement,
    drop_warnings,
    look_up,
    prequential_average_precision,
    random_order,
)

NAN = float("nan")


def test_cosines_are_looked_up_by_key():
    known, cosines = np.array([7, 2, 9]), np.array([0.7, 0.2, 0.9])
    assert look_up(np.array([2, 9]), known, cosines).tolist() == [0.2, 0.9]
    assert np.isnan(look_up(np.array([1, 8, 10]), known, cosines)).all()
    assert np.isnan(look_up(np.array([1]), np.empty(0, dtype=np.int64), np.empty(0))).all()


def test_models_agree_where_both_say_match_or_both_say_no_match():
    # At 0.5 and 0.3: yes-yes, no-yes, no-no, and a pair whose first cosine is unknown. A boundary belongs to the yes.
    before, now = np.array([0.5, 0.4, 0.1, NAN]), np.array([0.9, 0.3, 0.2, 0.9])
    assert agreement(before, 0.5, now, 0.3) == pytest.approx(2 / 3)
    assert agreement(before[3:], 0.5, now[3:], 0.3) is None
    # A scorer without slope calls every pair the same.
    assert agreement(before[:3], float("inf"), now[:3], float("-inf")) == 0


def test_prequential_ap_ranks_the_new_labels_by_the_model_that_did_not_know_them():
    # Positives rank 1st and 4th: (1/1 + 2/4) / 2; the pair without a cosine is left out.
    cosines, labels = np.array([0.9, 0.8, 0.7, 0.6, NAN]), np.array([1, 0, 0, 1, 1], dtype=np.uint8)
    assert prequential_average_precision(cosines, labels) == pytest.approx(0.75)
    assert prequential_average_precision(cosines, np.ones(5, dtype=np.uint8)) is None
    assert prequential_average_precision(cosines, np.zeros(5, dtype=np.uint8)) is None
    assert prequential_average_precision(np.full(5, NAN), labels) is None


def line(agreement: float | None, prequential: float | None, positives: int = 10, **changes) -> dict[str, Any]:
    """Of a second round of 20 labels after a first of 20."""
    figures = {AGREEMENT: agreement, PREQUENTIAL: prequential, "batch_positives": positives, "average_precision": None}
    return {**figures, "labels": 40, "batch_unsure": 0, **changes}


def first(agreement: float | None, prequential: float | None, positives: int = 10) -> dict[str, Any]:
    return line(agreement, prequential, positives, labels=20)


def test_a_large_fall_is_a_warning():
    (warning,) = drop_warnings(first(0.95, 0.7), line(0.80, 0.65))
    assert "agree on fewer of the labelled pairs: 80.0% after 95.0%; more labels may have made" in warning
    (warning,) = drop_warnings(first(0.95, 0.9), line(0.95, 0.5))
    assert "no better than a random order could; AP: 50.0% after 90.0%" in warning
    assert len(drop_warnings(first(0.9, 0.9), line(0.5, 0.4))) == 2
    assert drop_warnings(first(0.9, 0.9), line(1.0, 0.85)) == []
    # Nothing to compare with: no figure, the line of an older run, or an AP of few positives.
    assert drop_warnings(first(None, None), line(0.5, 0.5)) == []
    assert drop_warnings({"batch_positives": 10, "labels": 20}, line(0.5, 0.5)) == []
    assert drop_warnings(first(None, 0.9, 9), line(None, 0.4)) == []
    # AP over all pairs was measured, which says more.
    assert drop_warnings(first(0.9, 0.9), line(0.5, 0.4, average_precision=0.6)) == []


def test_a_random_order_is_a_warning_and_a_better_one_is_not():
    rng = np.random.default_rng(1)
    # Of 144 pairs 22 match. AP of a random order is on average q + (1 - q) H / 144 with q = 21 / 143, H = 1 + 1/2 + ...
    # + 1/144: 18.0%, although only 15.3% match.
    orders = [
        prequential_average_precision(rng.permutation(np.arange(144.0)), (np.arange(144) < 22).astype(np.uint8))
        for _ in range(1000)
    ]
    values = [value for value in orders if value is not None]
    q, harmonic = 21 / 143, (1 / np.arange(1, 145)).sum()
    assert np.mean(values) == pytest.approx(q + (1 - q) * harmonic / 144, abs=0.004)
    batch = {"labels": 164, "positives": 22}
    warned = [drop_warnings(first(None, 0.9, 22), line(None, value, **batch)) != [] for value in values]
    assert 0.92 <= np.mean(warned) <= 0.98
    assert drop_warnings(first(None, 0.9, 22), line(None, 0.5, **batch)) == []
    # Unsure pairs are not in the order: of 22 pairs all match, so no order is better than another.
    assert random_order(22, 22) == 1.0
    assert drop_warnings(first(None, 1.0, 22), line(None, 0.8, **batch, batch_unsure=122)) != []
