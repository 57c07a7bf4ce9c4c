"""Precision and recall with the errors of people: by hand, by a law, and by simulated audits whose truth is known."""

import numpy as np
import pytest

from al_ray.core.labels import NO, YES
from al_ray.core.rng import generator
from al_ray.metrics.audit import false_positives, score_bands
from al_ray.metrics.audit.label_errors import TwoAnswers, with_errors
from al_ray.metrics.audit.score_bands import BandAudit


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for module in (false_positives, score_bands):
        monkeypatch.setattr(module, "DRAWS", 1000)


def audit(above: int, below: int, total: int = 1000) -> BandAudit:
    """50 labels of each of two ranked bands of 100 and 900 pairs, of which so many are yes."""
    cosines = 1 - np.arange(total) / total
    ranks = np.concatenate([np.arange(0, 100, 2), np.arange(100, 1000, 18)])
    labels = np.array([YES] * above + [NO] * (50 - above) + [YES] * below + [NO] * (50 - below), dtype=np.uint8)
    return BandAudit(cosines, total, np.empty(0), np.empty(0, dtype=np.uint8), ranks, labels)


def test_the_share_of_wrong_labels_follows_from_how_often_two_people_differ():
    # 9 of 50 differ: 2 e (1 - e) = 0.18 for e = 0.1. Of labels that both gave alike e^2 / (1 - 0.18) are wrong.
    few = TwoAnswers(50, 41, 10**9)
    assert few.rate == pytest.approx([0.1], abs=1e-6)
    assert TwoAnswers(50, 41, 82).rate == pytest.approx([0.1 / 2 + 0.01 / 0.82 / 2])
    assert TwoAnswers(50, 50, 100).rate.tolist() == [0]
    low, high = (np.median(few.draws(end, generator(0, "x"))) for end in ("low", "high"))
    assert 0.08 < low < 0.1 < high < 0.12
    # People who differ on every pair say nothing, and give no NaN.
    assert 0.35 < TwoAnswers(50, 0, 100).rate[0] < 0.5


def test_precision_and_recall_by_hand():
    # Labelled yes: 37 of 50 above, 9 of 50 below. With 10% wrong labels (0.74 - 0.1) / 0.8 = 0.8 of the 100 pairs above
    # match, and (0.18 - 0.1) / 0.8 = 0.1 of the 900 below: recall 80 / (80 + 90).
    bands, answers = audit(37, 9), TwoAnswers(50, 41, 10**9)
    found, plain = (one(bands, generator(0, "x")) for one in (_corrected(answers), lambda b, rng: b.at(0.901, rng)))
    assert found.precision
    assert found.recall
    assert found.recall_of_reach
    assert found.precision.value == pytest.approx(0.8)
    assert found.recall.value == found.recall_of_reach.value == pytest.approx(80 / 170)
    for name in ("precision", "recall"):
        own, other = getattr(found, name), getattr(plain, name)
        assert own.low < own.value < own.high
        assert own.high - own.low > other.high - other.low, "errors make an interval wider"
    # More labels yes than errors explain none: no share is below 0.
    none = with_errors(audit(37, 2), 0.901, answers, generator(0, "x"))
    assert none.recall is not None
    assert none.recall.value == 1


def _corrected(answers):
    return lambda bands, rng: with_errors(bands, 0.901, answers, rng)


def test_people_who_always_agree_change_no_estimate():
    bands, answers = audit(37, 9), TwoAnswers(10**6, 10**6, 10**9)
    found, plain = with_errors(bands, 0.901, answers, generator(0, "x")), bands.at(0.901, generator(0, "x"))
    for name in ("precision", "recall", "recall_of_reach"):
        assert getattr(found, name).value == pytest.approx(getattr(plain, name).value, abs=1e-4)
    assert with_errors(bands, 2.0, answers, generator(0, "x")).precision is None


@pytest.mark.parametrize("wrong", [0.0, 0.03, 0.1])
def test_intervals_contain_the_truth_where_labels_are_wrong(wrong):
    held = np.zeros((2, 2))
    for seed in range(100):
        rng = generator(seed, "wrong-labels")
        # 85 of the first 100 pairs match, and 45 of the other 900.
        yes = [rng.hypergeometric(85, 15, 50), rng.hypergeometric(45, 855, 50)]
        said = [rng.binomial(count, 1 - wrong) + rng.binomial(50 - count, wrong) for count in yes]
        bands = audit(*said)
        answers = TwoAnswers(60, int(rng.binomial(60, 1 - 2 * wrong * (1 - wrong))), 10**9)
        found, plain = with_errors(bands, 0.901, answers, rng), bands.at(0.901, rng)
        for row, one in enumerate((found, plain)):
            assert one.precision
            assert one.recall
            held[row] += one.precision.low <= 0.85 <= one.precision.high, one.recall.low <= 85 / 130 <= one.recall.high
    assert (held[0] >= 95).all()
    if wrong == 0.1:
        assert held[1].min() < 70
