"""Which scripts the letters of texts have, such as Latin or Ethiopic, by the names of their characters in Unicode."""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

# The Unicode name of a letter begins with its script, except for these, after which the script follows.
BEFORE = ("FULLWIDTH", "HALFWIDTH", "MODIFIER")


def script_shares(texts: Iterable[str]) -> dict[str, float]:
    """Return the share of each script among the letters of texts, the largest first; {} without a letter.

    Ties go by name. Digits, punctuation and emoji are no letters.
    """
    numbers = Counter[str]()
    for character, number in Counter(letter for text in texts for letter in text).items():
        if script := _script(character):
            numbers[script] += number
    total = numbers.total()
    return {script: number / total for script, number in sorted(numbers.items(), key=lambda one: (-one[1], one[0]))}


@lru_cache(4096)
def _script(character: str) -> str:
    """Return the script of a letter, capitalised, "CJK" for Chinese characters; "" for other characters."""
    if not unicodedata.category(character).startswith("L"):
        return ""
    words = unicodedata.name(character, "UNNAMED").split()
    # KATAKANA-HIRAGANA PROLONGED SOUND MARK
    first = words[1 if words[0] in BEFORE and len(words) > 1 else 0].split("-")[0]
    return first if first == "CJK" else first.capitalize()
