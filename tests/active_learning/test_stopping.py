"""A run ends early by labels, hours or patience, and says which; worked by hand and against a slow twin."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.stopping import StopConfig, end_reason, limit_reached
from al_ray.core.config.sections import EvaluationConfig, SearchConfig
from al_ray.core.errors import BadOption

RUN = RunConfig(task="task")
PRECISIONS = st.lists(st.sampled_from([0.1, 0.2, 0.3]), min_size=1, max_size=9)


def lines(*precisions: float | None) -> list[dict]:
    """Rounds of 10 labels and 90 seconds each."""
    return [
        {"labels": 10 * number, "average_precision": value, "seconds": {"label": 30.0, "train": 60.0}}
        for number, value in enumerate(precisions, start=1)
    ]


def test_nothing_ends_a_run_that_was_not_told_to_end_or_has_no_round():
    assert limit_reached(StopConfig(), lines(0.3, 0.2, 0.1)) is None
    assert limit_reached(StopConfig(labels=1, hours=0, patience=1), []) is None


def test_labels_end_it_with_the_round_that_reaches_them():
    asked = StopConfig(labels=20)
    assert limit_reached(asked, lines(0.1)) is None
    said = limit_reached(asked, lines(0.1, 0.1))
    assert said
    assert said.by_option == "`stop.labels=20`: the run has 20"
    assert limit_reached(StopConfig(labels=21), lines(0.1, 0.1)) is None


def test_hours_are_of_all_stages_of_all_rounds():
    # 3 rounds of 90 s are 0.075 h.
    said = limit_reached(StopConfig(hours=0.075), lines(0.1, 0.1, 0.1))
    assert said
    assert said.by_option == "`stop.hours=0.075`: the rounds took 0.07"
    assert limit_reached(StopConfig(hours=0.075), lines(0.1, 0.1)) is None


@pytest.mark.parametrize(
    ("precisions", "patience", "best"),
    [
        ((0.1, 0.2, 0.2), 1, 2),
        ((0.1, 0.2, 0.2), 2, None),
        ((0.1, 0.2, 0.2, 0.19), 2, 2),
        ((0.3, 0.1, 0.2), 2, 1),
        ((0.3, 0.1, 0.4), 1, None),
        ((0.3,), 1, None),
        ((0.0, 0.0), 1, 1),
    ],
)
def test_patience_counts_rounds_since_the_best(precisions, patience, best):
    said = limit_reached(StopConfig(patience=patience), lines(*precisions))
    wanted = f"`stop.patience={patience}`: average precision has not improved since round {best}"
    assert (said and said.by_option) == (None if best is None else wanted)


@pytest.mark.parametrize(
    ("low", "high", "ends"),
    [
        (-0.019, 0.019, True),
        (-0.02, 0.01, False),
        (-0.01, 0.02, False),
        # Better for certain, and worse for certain: the next round may go on, or repair it.
        (0.021, 0.03, False),
        (-0.09, -0.03, False),
        (0.001, 0.015, True),
    ],
)
def test_a_small_change_ends_it_when_its_interval_is_within_the_gain(low, high, ends):
    rounds = [*lines(0.3, 0.31), {**lines(0.31)[0], "average_precision_gain": {"value": 0.0, "low": low, "high": high}}]
    said = limit_reached(StopConfig(gain=0.02), rounds)
    points = f"+0.0 points (95%: {100 * low:+.1f} to {100 * high:+.1f})"
    changed = f"average precision changed by {points} since the round before"
    assert (said and said.by_option) == (f"`stop.gain=0.02`: {changed}" if ends else None)
    assert limit_reached(StopConfig(), rounds) is None
    if ends:
        assert "with a lower value, or none" in str(end_reason(replace(RUN, rounds=4), StopConfig(gain=0.02), rounds))


@pytest.mark.parametrize("line", [{}, {"average_precision_gain": None}])
def test_a_round_whose_change_is_unknown_does_not_end_it(line):
    # The first round, one after a round of an earlier version, and one that was not measured.
    assert limit_reached(StopConfig(gain=1.0), [{**lines(0.3)[0], **line}]) is None


@given(PRECISIONS, st.integers(1, 4))
def test_patience_is_that_of_a_loop_over_rounds(precisions, patience):
    best, waited = -1.0, 0
    for value in precisions:
        best, waited = (value, 0) if value > best else (best, waited + 1)
    assert (limit_reached(StopConfig(patience=patience), lines(*precisions)) is not None) == (waited >= patience)


@given(PRECISIONS, st.integers(1, 90), st.integers(1, 4))
def test_higher_limits_let_a_run_go_on_for_no_less(precisions, labels, patience):
    asked = StopConfig(labels=labels, hours=0.1, patience=patience)
    for raised in (replace(asked, labels=labels + 5), replace(asked, hours=0.2), replace(asked, patience=patience + 1)):
        if limit_reached(asked, lines(*precisions)) is None:
            assert limit_reached(raised, lines(*precisions)) is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"labels": 0}, "`stop.labels` is 0; give at least 1"),
        ({"hours": -1.0}, "`stop.hours` is -1.0; give at least 0"),
        ({"hours": float("nan")}, "`stop.hours` is nan; give at least 0"),
        ({"patience": 0}, "`stop.patience` is 0; give at least 1"),
        ({"gain": 0.0}, "`stop.gain` is 0.0; give at least 0.001"),
        ({"gain": 2}, "`stop.gain` is 2; give at most 1"),
    ],
)
def test_limits_that_cannot_be_are_refused(changed, said):
    with pytest.raises(BadOption, match=f"^{said}$"):
        StopConfig(**changed)


def test_what_ended_is_said_and_how_it_goes_on():
    rounds, stop = replace(RUN, rounds=3), StopConfig(labels=20)
    assert end_reason(rounds, stop, lines(0.1, 0.1, 0.1)) is None
    assert end_reason(rounds, stop, lines(0.1, 0.1)) == (
        "stopped after round 2 of 3 by `stop.labels=20`: the run has 20; "
        "to resume, rerun the command with a higher value, or none"
    )
    ran_out = "no unlabelled candidate is left after round 1 of 3: the run ends below its budget"
    every = [*lines(0.1)[:-1], {**lines(0.1)[-1], "unlabelled": 0}]
    said = "every pair of train is labelled after round 1 of 3: the run ends below its budget"
    assert end_reason(rounds, stop, every) == said
    nearest = " (its candidates are the 100 nearest of each text: `search.neighbours`)"
    assert end_reason(rounds, stop, lines(0.1)) == ran_out + nearest
    assert end_reason(replace(rounds, search=SearchConfig(kind="exact")), stop, lines(0.1)) == ran_out
    assert end_reason(replace(rounds, strategy="random", train_every_budget=True), stop, lines(0.1)) == ran_out


def test_patience_needs_a_split_to_be_measured():
    unmeasured = replace(RUN, evaluation=EvaluationConfig(splits=()))
    with pytest.raises(BadOption, match=r"give `evaluation\.splits='dev'`"):
        StopConfig(patience=1).check_measured(unmeasured)
    with pytest.raises(BadOption, match=r"`stop\.gain` compares .* give `evaluation\.splits='dev'`"):
        StopConfig(gain=0.1).check_measured(unmeasured)
    StopConfig(patience=1, gain=0.1).check_measured(RUN)
    StopConfig(labels=5).check_measured(unmeasured)
