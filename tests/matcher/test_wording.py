"""Comparisons in plain words."""

import numpy as np
import pytest

from al_ray.matcher.comparisons.registry import COMPARISONS
from al_ray.matcher.wording import SHOWN, WORDS, is_missing, name_in_words, value_in_words
from al_ray.search.candidate_ranks import rank_names


def test_the_words_are_of_comparisons_that_there_are():
    names = {one.name for one in COMPARISONS.values()}
    assert {*WORDS, *SHOWN} <= names


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("way", ["cosine", "3-grams"])
def test_ranks_have_words_of_their_own(way, symmetric):
    names = rank_names(way, symmetric)
    words = [name_in_words(name) for name in names]
    assert len(set(words)) == len(words)
    what = {"cosine": "similarity of meaning", "3-grams": "similarity of letters"}[way]
    assert words[0] == f"{what} ({way})"
    one = "the text where it stands out more" if symmetric else "the left text"
    assert words[1] == f"{what}, less the mean of the 5 nearest of {one}"
    assert words[3] == f"{what}, less the best of {one}"
    # A cosine of -1 is no missing value.
    assert not any(is_missing(name, -1.0) for name in names)
    assert value_in_words(names[0], -1.0) == "-1.00"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("price: relative difference", 0.02, "price: relative difference 0.02"),
        ("price: relative difference", -1, "price: relative difference missing"),
        # ln(1 + 30)
        ("born: days apart", np.log(31), "born: days apart 30"),
        ("price: log difference", np.log(2.5), "price: difference 1.5"),
        ("sku: equal codes", 1, "sku: equal codes yes"),
        ("maker: equal", 0, "maker: equal no"),
        ("maker: missing values", 2, "maker: missing values 2"),
        ("note: no. 1: token sort ratio", 0.5, "note: no. 1: similarity of the words in any order 0.50"),
        ("a: initials", -0.001, "a: common initials 0.00"),
        ("a: rarity of the equal value", 1234.5, "a: rarity of the equal value 1,234"),
        ("a: one of next year", 0.25, "a: one of next year 0.25"),
        ("cosine: equal", -1, "cosine: equal missing"),
    ],
)
def test_names_and_values(name, value, words):
    assert f"{name_in_words(name)} {value_in_words(name, float(value))}" == words
