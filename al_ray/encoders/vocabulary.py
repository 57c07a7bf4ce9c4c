"""Words of texts as numbers: frequent ones by themselves, rare ones in hash bins (paper 002, 2.1.1 and 4.2)."""

import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from al_ray.core.errors import BadFile
from al_ray.core.text import WORD, words_of

FILE = "vocab.json"
WORDS, BINS = 50_000, 5_000


@dataclass(frozen=True)
class Vocabulary:
    """Words with a number of their own, the most frequent first; 0 fills up, 1 to `bins` are the bins, then words.

    counts: how often each of them stands in the texts that they were taken from.
    """

    words: tuple[str, ...]
    counts: tuple[int, ...]
    bins: int = BINS

    @staticmethod
    def of(texts: Iterable[str], most: int = WORDS, bins: int = BINS) -> "Vocabulary":
        """The `most` most frequent words of these texts; of equally frequent ones the first in order of code points."""
        counted = Counter(word for text in texts for word in words_of(text))
        words = sorted(counted, key=lambda word: (-counted[word], word))[:most]
        return Vocabulary(tuple(words), tuple(counted[word] for word in words), bins)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Word -> number."""
        return {word: number for number, word in enumerate(self.words, start=1 + self.bins)}

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return 1 + self.bins + len(self.words)

    @property
    def digest(self) -> str:
        """Of all that decides a word's number."""
        return hashlib.sha256(json.dumps([WORD.pattern, self.bins, self.words]).encode()).hexdigest()

    def ids(self, text: str, most: int) -> list[int]:
        """A text -> the numbers of its first `most` words; one without a word is the rare word ''."""
        return [self._number(word) for word in words_of(text)[:most] or [""]]

    def write(self, folder: Path) -> None:
        """Write it into a folder that exists."""
        about = {"bins": self.bins, "counts": self.counts, "words": self.words}
        (folder / FILE).write_text(json.dumps(about, ensure_ascii=False) + "\n", encoding="utf-8")

    @staticmethod
    def read(folder: Path) -> "Vocabulary":
        """What `write` wrote; BadFile when it is not there or not whole."""
        try:
            about = json.loads((folder / FILE).read_text(encoding="utf-8"))
            words, counts = tuple(map(str, about["words"])), tuple(map(int, about["counts"]))
            if len(words) != len(counts):
                raise ValueError(f"{len(words)} words, {len(counts)} counts")
            return Vocabulary(words, counts, int(about["bins"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadFile(
                f"{folder / FILE}, the encoder's words, cannot be read ({error}); restore {folder}"
            ) from error

    def _number(self, word: str) -> int:
        # CRC-32 is the same in every process and version, as Python's own hash is not.
        return self.numbers.get(word) or 1 + zlib.crc32(word.encode("utf-8", "surrogatepass")) % self.bins
