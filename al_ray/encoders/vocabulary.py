"""The vocabulary of `cnn`: a number for each frequent word, and hash bins for rare words (paper 002, 2.1.1 and 4.2)."""

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
from al_ray.storage.files import write_text
from al_ray.storage.uri import StoragePath

FILE = "vocab.json"
WORDS, BINS = 50_000, 5_000


@dataclass(frozen=True)
class Vocabulary:
    """Words with a number of their own, the most frequent first. Numbers: 0 is padding, then `bins` bins, then words.

    counts: occurrences of each word in the texts.
    """

    words: tuple[str, ...]
    counts: tuple[int, ...]
    bins: int = BINS

    @staticmethod
    def of(texts: Iterable[str], most: int = WORDS, bins: int = BINS) -> "Vocabulary":
        """Return the `most` most frequent words of texts, ties in the order of code points."""
        counted = Counter(word for text in texts for word in words_of(text))
        words = sorted(counted, key=lambda word: (-counted[word], word))[:most]
        return Vocabulary(tuple(words), tuple(counted[word] for word in words), bins)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Return word -> number."""
        return {word: number for number, word in enumerate(self.words, start=1 + self.bins)}

    @property
    def size(self) -> int:
        """Return how many numbers there are."""
        return 1 + self.bins + len(self.words)

    @property
    def digest(self) -> str:
        """Return the digest of everything that decides a word's number."""
        return hashlib.sha256(json.dumps([WORD.pattern, self.bins, self.words]).encode()).hexdigest()

    def ids(self, text: str, most: int) -> list[int]:
        """Return the numbers of a text's first `most` words; a text without words is the rare word ''."""
        return [self._number(word) for word in words_of(text)[:most] or [""]]

    def write(self, folder: StoragePath) -> None:
        """Write `vocab.json` into a folder."""
        about = {"bins": self.bins, "counts": self.counts, "words": self.words}
        write_text(folder / FILE, json.dumps(about, ensure_ascii=False) + "\n")

    @staticmethod
    def read(folder: Path) -> "Vocabulary":
        """Read what `write` wrote; BadFile if it is missing or damaged."""
        try:
            about = json.loads((folder / FILE).read_text(encoding="utf-8"))
            words, counts = tuple(map(str, about["words"])), tuple(map(int, about["counts"]))
            if len(words) != len(counts):
                raise ValueError(f"{len(words)} words, {len(counts)} counts")
            return Vocabulary(words, counts, int(about["bins"]))
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise BadFile(
                f"{folder / FILE}, the encoder's vocabulary, cannot be read ({error}); restore {folder}"
            ) from error

    def _number(self, word: str) -> int:
        # CRC-32, because Python's own hash differs between processes and versions.
        return self.numbers.get(word) or 1 + zlib.crc32(word.encode("utf-8", "surrogatepass")) % self.bins
