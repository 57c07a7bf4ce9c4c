"""Labelled pairs: what is said of labels from which little can be learnt."""

import numpy as np
import pytest

from al_ray.core.labels import NO, UNSURE, YES, Labelled


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([], []),
        ([UNSURE, UNSURE], []),
        ([YES, NO, UNSURE], []),
        ([YES, UNSURE, YES], ["all 2 are yes, so the model cannot learn what no match looks like"]),
        ([NO], ["all 1 are no, so the model cannot learn what a match looks like"]),
    ],
)
def test_labels_of_one_class_are_warned_of(labels, words):
    pairs = np.zeros((len(labels), 2), dtype=np.int64)
    warnings = Labelled().extended(pairs, np.array(labels, dtype=np.uint8), 1, "seed").warnings
    assert len(warnings) == len(words)
    assert all(word in warning for word, warning in zip(words, warnings, strict=True))
