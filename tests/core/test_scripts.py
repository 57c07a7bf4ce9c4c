"""Scripts of letters, counted by hand."""

import pytest

from al_ray.core.scripts import script_shares


@pytest.mark.parametrize(
    ("texts", "shares"),
    [
        ([], {}),
        (["42 😀 !?", ""], {}),
        # 3 and 4 letters; a digit and a space are none.
        (["ab c", "ቀይጫማ 4"], {"Ethiopic": 4 / 7, "Latin": 3 / 7}),
        (["日本語", "ひら", "カー", "한국"], {"CJK": 3 / 9, "Hangul": 2 / 9, "Hiragana": 2 / 9, "Katakana": 2 / 9}),
        # Full width; and a letter with an accent.
        (["\uff21\uff22", "é", "ж"], {"Latin": 3 / 4, "Cyrillic": 1 / 4}),
    ],
)
def test_letters_are_counted_by_script_the_most_frequent_first(texts, shares):
    found = script_shares(texts)
    assert found == pytest.approx(shares)
    assert list(found) == list(shares)
