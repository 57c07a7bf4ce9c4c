"""Whether to label more: lines of metrics.jsonl in, words out; and a run that ends by its share of matches."""

import pytest

from al_ray.active_learning.outlook import outlook
from al_ray.active_learning.stopping import StopConfig, limit_reached


def rounds(*batches: tuple[int, int, int], agreement: float | None = None, **last: object) -> list[dict]:
    """Rounds of (matches, other, unsure) labels; agreement and others: of the last one."""
    lines, labels = [], 0
    for matches, others, unsure in batches:
        labels += matches + others + unsure
        lines.append(
            {
                "labels": labels,
                "batch_positives": matches,
                "batch_unsure": unsure,
                "agreement": None,
                "average_precision": None,
                "average_precision_gain": None,
                "seconds": {"label": 1.0},
            }
        )
    lines[-1] |= {"agreement": agreement, **last}
    return lines


SEED, POOR = (30, 30, 0), (1, 399, 0)
CHANGED = {"value": 0.001, "low": -0.01, "high": 0.012}


@pytest.mark.parametrize(
    ("batch", "agreement", "ends"),
    [
        # 1 of 400: 0.04 to 1.4%, below 2%.
        (POOR, 0.97, True),
        # The models still disagree, or it is not known: such a round teaches what is no match.
        (POOR, 0.949, False),
        (POOR, None, False),
        # 3 of 400: 0.3 to 2.2%.
        ((3, 397, 0), 0.97, False),
        # 1 of 200 with an answer: 0.1 to 2.8%. What is unsure is not a non-match.
        ((1, 199, 200), 0.97, False),
        ((0, 0, 400), 0.97, False),
    ],
)
def test_few_matches_end_a_run_whose_models_agree(batch, agreement, ends):
    lines = rounds(SEED, batch, agreement=agreement)
    said = limit_reached(StopConfig(match_share=0.02), lines)
    words = "`stop.match_share=0.02`: 1 of the last 400 labels are matches (95%: 0.0% to 1.4%)"
    assert (said and said.by_option) == (words if ends else None)
    assert limit_reached(StopConfig(), lines) is None
    assert limit_reached(StopConfig(match_share=0.01), lines) is None


def test_a_round_of_an_earlier_version_ends_no_run():
    lines = rounds(SEED, POOR, agreement=0.97)
    del lines[-1]["batch_unsure"]
    assert limit_reached(StopConfig(match_share=0.02), lines) is None
    assert list(outlook(lines, StopConfig())) == ["label more, because nothing known speaks against it"]


def test_average_precision_has_its_interval():
    lines = rounds(SEED, average_precision=0.4, average_precision_interval={"value": 0.4, "low": 0.35, "high": 0.456})
    assert list(outlook(lines, StopConfig()))[-1] == "average precision is 40.0% (95%, over queries: 35.0 to 45.6)"


@pytest.mark.parametrize(
    ("lines", "first"),
    [
        (rounds(SEED), "label more, because 30 of the last 60 labels are matches (95%: 37.7% to 62.3%)"),
        (
            rounds(SEED, (0, 60, 0), agreement=0.97),
            "label more, because these labels do not show yet whether matches are rare: 0 of the last 60 labels are "
            "matches (95%: 0.0% to 6.0%)",
        ),
        (
            rounds(SEED, POOR, agreement=0.9),
            "label more, because the last two models still differ on 10.0% of the labelled pairs",
        ),
        (
            rounds(SEED, POOR, agreement=0.97),
            "enough, because 1 of the last 400 labels are matches (95%: 0.0% to 1.4%), and the last two models agree "
            "on 97.0% of the labelled pairs",
        ),
        (
            rounds(SEED, SEED, agreement=0.9, average_precision=0.4, average_precision_gain=CHANGED),
            "enough, because average precision changed by +0.1 points (95%: -1.0 to +1.2) since the round before",
        ),
        # A change of less than 2 points says little of an AP of 5%.
        (
            rounds(SEED, SEED, agreement=0.97, average_precision=0.05, average_precision_gain=CHANGED),
            "label more, because 30 of the last 60 labels are matches (95%: 37.7% to 62.3%)",
        ),
        (
            rounds(SEED, SEED, average_precision=0.4, average_precision_gain={"value": 0.05, "low": 0.01, "high": 0.1}),
            "label more, because the last labels changed average precision by +5.0 points (95%: +1.0 to +10.0)",
        ),
    ],
)
def test_advice_and_its_reason(lines, first):
    assert next(outlook(lines, StopConfig())) == first


@pytest.mark.parametrize(
    ("low", "high", "gain"),
    [(-0.042, 0.035, "0.05"), (-0.03, 0.04, "0.05"), (0.0, 0.1, "0.11"), (0.001, 0.1, None), (-0.1, -0.03, None)],
)
def test_an_uncertain_change_of_average_precision_is_said_with_the_limit_that_would_end_the_run(low, high, gain):
    change = {"value": -0.001, "low": low, "high": high}
    lines = rounds(SEED, SEED, average_precision=0.4, average_precision_gain=change)
    said = [line for line in outlook(lines, StopConfig()) if line.startswith("average precision changed")]
    assert [line.rsplit(" ", 1)[1] for line in said] == ([f"`stop.gain={gain}`"] if gain else [])
    assert not said or limit_reached(StopConfig(gain=float(gain)), lines) is not None
    assert not said or limit_reached(StopConfig(gain=float(gain) - 0.011), lines) is None


def test_a_limit_of_the_run_comes_first():
    (first, _) = outlook(rounds(SEED), StopConfig(labels=60))
    assert first == "enough, because of a limit of the run (labels 60): the run has 60"


def test_matches_to_come_are_of_the_size_that_is_planned():
    # 30 of 60 once more: 0.5 * 60 +- 1.96 * sqrt(0.25 * 2 / 60) * 60.
    (_, same), (_, planned) = (list(outlook(rounds(SEED), StopConfig(), size)) for size in (None, 120))
    assert same == "if matches are as frequent in the next 60 pairs, 19 to 41 of them match"
    assert planned == "if matches are as frequent in the next 120 pairs, 41 to 79 of them match"


def test_nothing_is_said_before_the_first_round():
    assert list(outlook([], StopConfig())) == []


def test_nothing_more_is_asked_once_every_pair_is_labelled():
    # 4 texts have 6 pairs, of which 2 match.
    lines = rounds((1, 1, 0), (1, 3, 0), unlabelled=0, positives=2)
    assert list(outlook(lines, StopConfig(), 4)) == ["enough, because every pair of train is labelled: 2 match"]
    first, second = outlook(rounds((1, 1, 0), (1, 2, 0), unlabelled=1, positives=2), StopConfig(), 4)
    assert first.startswith("label more")
    assert "in the next 1 pairs" in second
