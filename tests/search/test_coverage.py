"""What an encoder does not see of texts, counted by hand; `random-bert` knows the letters of ASCII alone."""

import pytest

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.errors import BadOption
from al_ray.core.text import reads_alike
from al_ray.encoders.transformer import Encoder
from al_ray.search.coverage import Coverage, CoverageCount, check_coverage, coverage_lines

CONFIG = EncoderConfig(encoder="random-bert", encoder_layers=1, max_length=8)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder.base(CONFIG)


def covered(encoder: Encoder, *chunks: list[str]) -> Coverage:
    count = CoverageCount(encoder.unknown, encoder.special, CONFIG.max_length)
    for texts in chunks:
        count.add(encoder.tokenise(texts))
    return count.result([text for texts in chunks for text in texts])


def test_tokens_and_texts_are_counted_by_hand(encoder):
    # Tokens: 2 unknown words each; r e d and one unknown; r e d; the same; none; none.
    first, rest = ["ቀይ ጫማ", "ሰማያዊ ጃኬት", "red 😀"], ["red 🚀", "red", "R E D".replace(" ", ""), "", "\u200b"]
    found = covered(encoder, first, rest)
    assert (found.texts, found.tokens, found.unknown) == (8, 2 + 2 + 4 + 4 + 3 + 3, 2 + 2 + 1 + 1)
    assert found.share == 6 / 18
    assert found.empty == 2
    # The two Amharic texts, and the two with emoji; red and RED read alike, and so do texts of nothing.
    assert (found.alike, found.truncated) == (4, 0)
    assert found.examples == (("ቀይ ጫማ", "ሰማያዊ ጃኬት"), ("red 😀", "red 🚀"))
    assert covered(encoder, first + rest) == found
    assert Coverage.of_dict(found.as_dict) == found


def test_texts_that_differ_beyond_the_maximum_length_are_alike(encoder):
    # 8 tokens are two special ones and six letters.
    found = covered(encoder, ["abcdefg", "abcdefh", "abcdef", "abcdeg"])
    assert (found.alike, found.truncated, found.unknown) == (3, 3, 0)
    (line,) = coverage_lines(found)
    assert line == (
        "different texts with the token ids of another, which the encoder cannot tell apart: 3, 3 of them cut at "
        "--max-length, such as 'abcdefg' and 'abcdefh' and 'abcdef'"
    )


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("Red Shoe", "red  shoe", True),
        ("café", "CAFE", True),
        ("shoe", "shoe\u200b", True),
        ("red 😀", "red 🚀", False),
        ("ቀይ ጫማ", "ቀይ ጃኬት", False),
        ("shoe 42", "shoe 43", False),
    ],
)
def test_case_accents_and_space_are_what_a_tokenizer_may_drop(one, other, alike):
    assert (reads_alike(one) == reads_alike(other)) is alike


def test_too_many_unknown_tokens_are_refused_with_what_to_do(encoder):
    found = covered(encoder, ["ቀይ ጫማ", "ሰማያዊ ጃኬት", "red"])
    # 4 of 7 tokens.
    with pytest.raises(BadOption, match=r"does not know 57% of the tokens of the texts, more than --most-unknown 0\.3"):
        check_coverage(found, CONFIG)
    check_coverage(found, EncoderConfig(encoder="random-bert", encoder_layers=1, most_unknown=4 / 7))
    check_coverage(Coverage(), CONFIG)
    assert list(coverage_lines(covered(encoder, ["red", "blue"]))) == []
