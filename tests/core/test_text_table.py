"""Tables as plain text."""

import pytest

from al_ray.core.text_table import format_probability


@pytest.mark.parametrize(
    ("p", "digits", "words"),
    # Ends of half decades of the odds: 10^2, 10^2.5, 10^3, 10^3.5.
    [
        (0.990099, 2, "0.9901"), (0.996848, 2, "0.9968"), (0.999001, 2, "0.99900"), (0.999684, 2, "0.99968"),
        (0.999684, 3, "0.999684"), (0.0031523, 2, "0.0032"), (0.909091, 2, "0.91"), (0.0, 2, "0"), (1.0, 3, "1"),
    ],
)  # fmt: skip
def test_probabilities_near_one_are_told_apart(p, digits, words):
    assert format_probability(p, digits) == words
