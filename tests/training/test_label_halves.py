"""An encoder and the matcher that looks at its cosines learn from pairs of different left texts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.labels import NO, YES, Labelled
from al_ray.training.label_halves import label_halves


def labels(left: list[int], match: list[bool], rounds: list[int]) -> Labelled:
    pairs = np.stack([np.array(left, dtype=np.int64), np.arange(len(left))], axis=1)
    return Labelled(
        pairs, np.where(match, YES, NO).astype(np.uint8), np.array(rounds, dtype=np.int32), ("x",) * len(left)
    )


def of_two_texts(count: int) -> Labelled:
    """Two pairs of each of so many left texts, a match and none, in rounds 1 and 2 in turn."""
    left = np.repeat(np.arange(count), 2).tolist()
    return labels(left, [True, False] * count, [1, 1, 2, 2] * (count // 2))


def test_half_of_the_texts_are_the_encoders_and_the_others_the_matchers():
    every = of_two_texts(200)
    encoder, matcher = label_halves(every, 2)
    assert (encoder ^ matcher).all()
    assert 150 < encoder.sum() < 250
    assert (encoder[::2] == encoder[1::2]).all(), "both pairs of a text go together"


def test_an_encoder_that_was_not_trained_leaves_all_labels_to_the_matcher():
    encoder, matcher = label_halves(of_two_texts(20), 0)
    assert (encoder.any(), matcher.all()) == (False, True)


def test_where_a_half_would_lack_matches_both_learn_from_all():
    few = labels([1, 2, 3, 4], [True, False, False, False], [1, 1, 1, 2])
    encoder, matcher = label_halves(few, 1)
    assert (encoder.tolist(), matcher.all()) == ([True, True, True, False], True)


def test_labels_after_the_training_do_not_make_halves():
    every = of_two_texts(40)
    encoder, _ = label_halves(every, 2)
    mine, other = (int(every.pairs[which, 0][0]) for which in (encoder, ~encoder))
    drawn = labels([mine, mine, other, other], [True, False, True, False], [1, 1, 1, 2])
    assert label_halves(drawn, 1)[0].tolist() == [True, True, True, False]
    assert label_halves(drawn, 2)[0].tolist() == [True, True, False, False]


@given(st.integers(1, 3), st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.integers(1, 4)), max_size=40))
def test_later_labels_do_not_change_what_an_encoder_learned_from(trained, drawn):
    drawn = sorted(drawn, key=lambda one: one[2])
    every = labels(*(list(column) for column in zip(*drawn, strict=True))) if drawn else labels([], [], [])
    before = every.where(every.rounds <= trained)
    encoder, matcher = label_halves(every, trained)
    at_its_time, matcher_then = label_halves(before, trained)
    assert encoder[every.rounds <= trained].tolist() == at_its_time.tolist()
    assert matcher[every.rounds <= trained].tolist() == matcher_then.tolist()
    assert not encoder[every.rounds > trained].any()
    left = every.pairs[:, 0]
    halves = not (encoder & matcher).any()
    assert not (halves and set(left[encoder].tolist()) & set(left[matcher].tolist()))
