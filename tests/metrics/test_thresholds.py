"""Thresholds by rule: by hand, and against every threshold there is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.errors import BadOption
from al_ray.core.scorer import Scorer
from al_ray.metrics.average_precision import StratumSummary, count_scores
from al_ray.metrics.evaluation import Evaluation, evaluate_counts
from al_ray.metrics.intervals import precision_at
from al_ray.metrics.thresholds import Rule, choose_thresholds, parse_rule

SCORES = st.lists(st.integers(-5, 5).map(float), max_size=20)


def measured(positives, near, random=(), population: int | None = None) -> Evaluation:
    parts = [np.array(part, dtype=np.float64) for part in (near, random)]
    extents = [
        StratumSummary("near", len(near), len(near)),
        StratumSummary("random", len(random), population or len(random)),
    ]
    return evaluate_counts(
        "dev", count_scores(np.array(positives, float), parts), extents, None, np.random.default_rng(0)
    )


# From above: + at 9, - at 8, + at 7 6 5, - - at 4, + at 3. Precision 1, 2/3, 3/4, 4/5, 5/8; recall 1/5 to 5/5.
MADE = measured([9, 7, 6, 5, 3], [8, 4, 4])


@pytest.mark.parametrize(
    ("words", "cosine", "precision", "recall"),
    [
        # 2/3 at 7 is below 3/4, yet 5, further down, has 4/5: the greatest recall counts.
        ("precision=0.75", 5.0, 4 / 5, 4 / 5),
        ("precision=0.8", 5.0, 4 / 5, 4 / 5),
        ("precision=0.81", 9.0, 1.0, 1 / 5),
        ("recall=0.4", 7.0, 2 / 3, 2 / 5),
        ("recall=0.41", 6.0, 3 / 4, 3 / 5),
        ("recall=1", 3.0, 5 / 8, 1.0),
        # Of a miss at 1 and an alarm at 1: at 9 four misses; at 5 one miss, one alarm: 2; at 3 three alarms.
        ("costs=1,1", 5.0, 4 / 5, 4 / 5),
        # At 5: 10 + 1; at 3: 3.
        ("costs=10,1", 3.0, 5 / 8, 1.0),
        ("costs=1,10", 9.0, 1.0, 1 / 5),
    ],
)
def test_thresholds_by_hand(words, cosine, precision, recall):
    (found,) = choose_thresholds([parse_rule(words)], MADE)
    assert found.precision is not None
    assert (found.cosine, found.recall) == (cosine, pytest.approx(recall))
    assert found.precision.low == found.precision.value == found.precision.high == pytest.approx(precision)


def test_where_no_threshold_will_do_none_is_chosen():
    made = measured([1.0], [2.0, 3.0])
    for found in choose_thresholds([parse_rule("precision=0.5"), parse_rule("costs=1,1")], made):
        assert (found.cosine, found.precision, found.recall) == (None, None, None)
        assert found.as_dict(Scorer(2.0, 1.0), made)["logit"] is None


def test_what_is_chosen_is_told_with_its_logit_and_its_split():
    (found,) = choose_thresholds([parse_rule("recall=0.4")], MADE)
    assert found.as_dict(Scorer(2.0, -1.0), MADE) == {
        "rule": "recall=0.4",
        "cosine": 7.0,
        "logit": 13.0,
        "precision": {"value": 2 / 3, "low": 2 / 3, "high": 2 / 3},
        "recall": 0.4,
        "split": "dev",
        "pairs": 8,
    }


@given(SCORES.filter(len), SCORES, SCORES.filter(len), st.floats(0.01, 1), st.floats(0.1, 9), st.floats(0.1, 9))
def test_no_threshold_at_all_does_better(positives, near, random, target, miss, alarm):
    weight = 3.0
    made = measured(positives, near, random, 3 * len(random))

    def at(threshold: float) -> tuple[float, float, float]:
        true = sum(score >= threshold for score in positives)
        false = sum(score >= threshold for score in near) + weight * sum(score >= threshold for score in random)
        costs = miss * (len(positives) - true) + alarm * false
        return true / (true + false) if true else 0.0, true / len(positives), costs

    every = [at(threshold) for threshold in [99.0, *positives, *near, *random]]
    by_precision, by_recall, by_costs = choose_thresholds(
        [Rule("precision", (target,)), Rule("recall", (target,)), Rule("costs", (miss, alarm))], made
    )
    reaching = [recall for precision, recall, _ in every if recall and precision >= target]
    if by_precision.cosine is None:
        assert reaching == []
    else:
        precision, recall, _ = at(by_precision.cosine)
        assert precision >= target
        assert recall == max(reaching)
    assert by_recall.cosine is not None
    assert at(by_recall.cosine)[1] >= target
    assert all(
        recall < target for _, recall, _ in map(at, positives + near + random) if recall < at(by_recall.cosine)[1]
    )
    cost = miss * len(positives) if by_costs.cosine is None else at(by_costs.cosine)[2]
    assert cost == pytest.approx(min(costs for _, _, costs in every))


def test_the_interval_is_garwoods_where_one_stratum_is_sampled():
    # 100 positives; above them 10 sampled negatives that stand for 50 each, and 20 counted ones. Garwood's interval of
    # a count of 10 is 4.795 to 18.39.
    made = measured([5.0] * 100, [6.0] * 20, [6.0] * 10 + [0.0] * 90, 5000)
    found = precision_at(made.counts, made.strata, 0)
    assert found.value == pytest.approx(100 / (100 + 20 + 500))
    assert found.low == pytest.approx(100 / (120 + 50 * 18.39), rel=0.01)
    assert found.high == pytest.approx(100 / (120 + 50 * 4.795), rel=0.01)


def test_no_sampled_alarm_leaves_room_for_some():
    # Garwood's of a count of 0: 0 to 3.689, of 50 each.
    made = measured([5.0] * 100, [], [0.0] * 100, 5000)
    found = precision_at(made.counts, made.strata, 0)
    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(100 / (100 + 50 * 3.689), rel=0.01)


@pytest.mark.parametrize(
    "words",
    [
        *("", "precision", "precision=", "precision=0", "precision=1.1", "precision=high", "recall=nan"),
        *("recall=0.5,0.5", "costs=1", "costs=1,0", "costs=-1,1", "costs=inf,1", "costs=1,1,1", "f1=0.5"),
    ],
)
def test_a_rule_that_says_nothing_is_refused(words):
    with pytest.raises(BadOption, match="give precision=P or recall=R"):
        parse_rule(words)


def test_rules_are_told_as_they_were_said():
    assert [str(parse_rule(words)) for words in ("precision=0.90", "costs=10,1")] == ["precision=0.9", "costs=10,1"]
