"""Bars from the base to p."""

import pytest

from al_ray.matcher.explanation import Explanation, Part, explain
from al_ray.matcher.waterfall import SHOWN, waterfall
from tests.matcher.labelled import examples, fitted


def test_each_bar_begins_where_the_one_before_ends():
    parts = Part("cosine", 0.9, 0.5), Part("price: relative difference", -1, -0.2)
    shown = waterfall(Explanation(0.6, 0.3, parts))
    # 0.3 + 0.5 = 0.8; 0.8 - 0.2 = 0.6.
    assert (shown.start, shown.end) == pytest.approx((30, 60))
    assert [(bar.left, bar.width) for bar in shown.bars] == [pytest.approx((30, 50)), pytest.approx((60, 20))]
    assert [(bar.name, bar.value) for bar in shown.bars] == [
        ("similarity of meaning (cosine)", "0.90"), ("price: relative difference", "missing"),
    ]  # fmt: skip


def test_an_axis_is_wider_where_bars_leave_it():
    # 0.5 + 1 = 1.5; 1.5 - 0.75 = 0.75: the axis is from 0 to 1.5.
    shown = waterfall(Explanation(0.75, 0.5, (Part("cosine", 1, 1.0), Part("a: equal", 0, -0.75))))
    assert [(bar.left, bar.width) for bar in shown.bars] == [pytest.approx((100 / 3, 200 / 3)), pytest.approx((50, 50))]
    assert shown.end == pytest.approx(50)


@pytest.mark.parametrize("count", [1, SHOWN, SHOWN + 1, SHOWN + 2, 40])
def test_the_bars_end_at_p_and_the_weakest_share_one(count):
    parts = tuple(Part(f"a{row}: equal", 1, 0.01 * (-1) ** row) for row in range(count))
    shown = waterfall(Explanation(0.4 + sum(part.adds for part in parts), 0.4, parts))
    assert 0.4 + sum(bar.adds for bar in shown.bars) == pytest.approx(shown.p)
    assert shown.end == pytest.approx(100 * shown.p)
    shared = f"{count - SHOWN} other comparisons"
    assert len(shown.bars) == min(count, SHOWN + 1)
    assert (shown.bars[-1].name == shared) == (count > SHOWN + 1)


def test_bars_of_a_forest_stay_on_the_axis():
    features, _ = examples(50, 4)
    for one in explain(fitted(), features):
        shown = waterfall(one)
        for bar in shown.bars:
            assert -1e-9 <= bar.left <= bar.left + bar.width <= 100 + 1e-9
        assert shown.base + sum(bar.adds for bar in shown.bars) == pytest.approx(shown.p, abs=1e-12)
