"""The rule by which a run hands over a model, by hand and as a law."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.metrics.average_precision import Estimate
from al_ray.metrics.handover import Choice, MeasuredModel, choose_by_intervals, choose_by_precision


def model(number, value, low=None, high=0.0):
    """A model; with low and high also the interval of its AP less that of the last round."""
    return MeasuredModel(number, value, None if low is None else Estimate((low + high) / 2, low, high))


def chosen(*models):
    choice = choose_by_precision(models, "dev")
    return choice.round, choice.reason


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        # The last one, though round 1 is higher: its interval reaches below 0.
        ([model(1, 0.52, -0.01, 0.05), model(2, 0.5)], (2, "last")),
        ([model(1, 0.52, 0.01, 0.03), model(2, 0.5)], (1, "better")),
        # Without an interval an earlier round is not clearly better.
        ([model(1, 0.9), model(2, 0.5)], (2, "last")),
        # Of two that are clearly better the higher one; of equal ones the one with more labels.
        ([model(1, 0.6, 0.01, 0.2), model(2, 0.7, 0.01, 0.3), model(3, 0.5)], (2, "better")),
        ([model(1, 0.6, 0.01, 0.2), model(2, 0.6, 0.01, 0.2), model(3, 0.5)], (2, "better")),
        # The untrained encoder needs no interval, and wins a tie.
        ([model(0, 0.5), model(1, 0.5)], (0, "untrained")),
        ([model(0, 0.51, -0.1, 0.1), model(1, 0.5)], (0, "untrained")),
        ([model(0, 0.49), model(1, 0.5)], (1, "last")),
        # An earlier round is better than both.
        ([model(0, 0.6, 0.05, 0.2), model(1, 0.7, 0.1, 0.3), model(2, 0.5)], (1, "better")),
        ([model(0, 0.7, 0.05, 0.2), model(1, 0.6, 0.05, 0.3), model(2, 0.5)], (0, "untrained")),
        # The order in which they come says nothing, and one round alone is the last one.
        ([model(2, 0.5), model(0, 0.4), model(1, 0.6, 0.01, 0.2)], (1, "better")),
        ([model(1, 0.5)], (1, "last")),
    ],
)
def test_by_average_precision(models, expected):
    assert chosen(*models) == expected


SHARES = st.floats(0, 1)
MODELS = st.lists(st.tuples(SHARES, st.floats(-1, 1), st.booleans()), min_size=1, max_size=8)


@given(MODELS, SHARES)
def test_never_a_lower_average_precision_than_without_labels(rows, untrained):
    """A law: neither than the untrained encoder, nor, where that is not chosen, than the last round."""
    last = rows[-1][0]
    models = [
        MeasuredModel(number, value, Estimate(value - last, min(low, value - last), 1.0) if known else None)
        for number, (value, low, known) in enumerate(rows, start=1)
    ]
    choice = choose_by_precision([MeasuredModel(0, untrained), *models], "dev")
    assert choice.average_precision is not None
    assert choice.average_precision >= max(untrained, last)
    values = {0: untrained} | {one.round: one.average_precision for one in models}
    assert choice.average_precision == values[choice.round]


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        # 0.4 to 0.5 of round 1 is not above 0.45 to 0.6 of round 2; 0.61 to 0.7 is.
        ([(1, (0.4, 0.5)), (2, (0.45, 0.6))], (2, "last")),
        ([(1, (0.61, 0.7)), (2, (0.45, 0.6))], (1, "better")),
        ([(1, (0.6, 0.7)), (2, (0.45, 0.6))], (2, "last")),
        ([(1, (0.61, 0.9)), (2, (0.65, 0.7)), (3, (0.45, 0.6))], (2, "better")),
        ([(3, (0.1, 0.2))], (3, "last")),
    ],
)
def test_by_intervals(models, expected):
    choice = choose_by_intervals(models)
    assert (choice.round, choice.reason) == expected


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (Choice(2, 3, "given"), "round 2 of 3, as it was asked for"),
        (Choice(0, 3, "given"), "the untrained encoder's cosine (round 0), as it was asked for"),
        (Choice(3, 3, "uncompared"), "round 3 of 3, the last one: the run has no figures"),
        (
            choose_by_precision([model(0, 0.25), model(1, 0.5)], "dev"),
            "round 1 of 1: AP 50.0% on dev, 25.0% without labels; no other of the 2 measured models is clearly better",
        ),
        (choose_by_precision([model(1, 0.5)], "train"), "50.0% on train, not compared with the untrained encoder;"),
        (
            choose_by_precision([model(0, 0.682, 0.1, 0.2), model(1, 0.537)], "dev"),
            "the untrained encoder's cosine (round 0): AP 68.2% on dev, against 53.7% of round 1 (95%: +10.0 to +20.0 "
            "points); `round='last'` takes round 1",
        ),
        (
            choose_by_precision([model(0, 0.25), model(1, 0.75, 0.125, 0.5), model(2, 0.5)], "dev"),
            "round 1 of 2: AP 75.0% on dev, against 50.0% of round 2 (95%: +12.5 to +50.0 points), 25.0% without",
        ),
        (
            choose_by_intervals([(1, (0.61, 0.7)), (2, (0.45, 0.6))]),
            "round 1 of 2: AP 61.0 to 70.0% (95%) by labels of dev pairs, and 45.0 to 60.0% of round 2; the untrained",
        ),
        (choose_by_intervals([(2, (0.45, 0.6))]), "and no earlier round is surely better; the untrained encoder was"),
    ],
)
def test_words(choice, words):
    assert words in choice.words
    # A choice comes back from JSON as it was.
    assert Choice.of_dict(json.loads(json.dumps(choice.as_dict()))) == choice


@pytest.mark.parametrize(
    "damage",
    [{"round": "3"}, {"reason": "x"}, {"interval": [0.1]}, {"gain_low": []}, {"measured": "test"}, {"last": None}],
)
def test_what_is_no_choice(damage):
    whole = Choice(2, 3, "given").as_dict()
    assert Choice.of_dict(whole) == Choice(2, 3, "given")
    with pytest.raises(ValueError, match=f"{next(iter(damage))} is "):
        Choice.of_dict(whole | damage)
    with pytest.raises(KeyError):
        Choice.of_dict({})
