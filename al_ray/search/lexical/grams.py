"""Character 3-grams of texts: hashed, counted, and stored in chunks as token ids are.

The 3-grams lie within words, as those of scikit-learn's TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3)): a word
has a space on both sides, so "to be" has " to", "to ", " be" and "be ", and a single letter is one 3-gram. Texts are
put in lower case, and in Unicode form NFKC. A 3-gram is a column of COLUMNS by a hash of its three characters.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from al_ray.core.errors import BadFile
from al_ray.core.pairs import Rows
from al_ray.encoders.tokens import load_array, store_array
from al_ray.storage.uri import StoragePath

BITS = 20
COLUMNS = 2**BITS
MOST = 2**16 - 1
"""The highest count of a 3-gram in a text; further ones are not counted."""
SPACE = 32
DEFINITION = f"char-3-grams-{BITS}-bits-1-{unicodedata.unidata_version}"
"""What decides the stored 3-grams of a text, for the name of their folder. Unicode decides what is lower case."""
AT_ONCE = 2**22  # Characters that are hashed at a time, unless a single text has more.
Counts = npt.NDArray[np.uint16]
Columns = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Grams:
    """3-grams of n texts: those of text i are at starts[i]:starts[i + 1]; starts is (n + 1,).

    columns: (z,) in [0, COLUMNS), ascending and distinct within a text. counts: (z,) how often each is in it, from 1.
    """

    columns: Columns
    counts: Counts
    starts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def texts(self) -> Rows:
        """Return for each 3-gram (z,) the place of its text."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def take(self, places: Rows) -> "Grams":
        """Return those of the texts at (r,) places, in memory."""
        lengths = self.starts[places + 1] - self.starts[places]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        at = np.arange(starts[-1]) + np.repeat(self.starts[places] - starts[:-1], lengths)
        return Grams(self.columns[at], self.counts[at], starts)

    @property
    def chunks(self) -> Iterator[tuple[Rows, "Grams"]]:
        """Yield all rows (n,) and these 3-grams: one chunk, as those of StoredGrams."""
        yield np.arange(len(self)), self

    @staticmethod
    def joined(parts: Sequence["Grams"]) -> "Grams":
        """Return those of the texts of all parts, one after the other."""
        lengths = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.starts) for part in parts)])
        columns = np.concatenate([np.empty(0, np.int32), *(part.columns for part in parts)])
        counts = np.concatenate([np.empty(0, np.uint16), *(part.counts for part in parts)])
        return Grams(columns, counts, np.cumsum(lengths))

    @staticmethod
    def of(texts: Sequence[str]) -> "Grams":
        """Return the 3-grams of texts; an empty text has none."""
        parts, batch, size = list[Grams](), list[str](), 0
        for text in texts:
            batch.append(_spaced(text))
            size += len(batch[-1])
            if size >= AT_ONCE:
                parts.append(_hashed(batch))
                batch, size = [], 0
        return Grams.joined([*parts, _hashed(batch)])

    def write(self, folder: StoragePath, number: int = 0) -> None:
        """Write chunk `number` of a folder: three .npy files."""
        store_array(folder / _file("columns", number), self.columns)
        store_array(folder / _file("counts", number), self.counts)
        # Last: a chunk is there if this file is.
        store_array(folder / _file("starts", number), self.starts)


class StoredGrams:
    """3-grams of many texts in chunks of a local folder, memory-mapped; each chunk has the texts of the next rows."""

    def __init__(self, folder: Path, texts: int) -> None:
        """BadFile if files are missing or damaged, or are those of another number of texts."""
        self.folder = folder
        try:
            count = max(1, sum(1 for _ in folder.glob("starts-*.npy")))
            self._chunks = [self._read(number) for number in range(count)]
        except (OSError, ValueError) as error:
            raise BadFile(f"3-grams in {folder} cannot be read ({error}); {self._fix}") from error
        self._ends = np.cumsum([len(chunk) for chunk in self._chunks])
        if len(self) != texts:
            raise BadFile(f"{folder} has 3-grams of {len(self):,} of {texts:,} texts; {self._fix}")

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def chunks(self) -> Iterator[tuple[Rows, Grams]]:
        """Yield the rows (c,) of each chunk, which are consecutive, and their 3-grams, memory-mapped."""
        for end, chunk in zip(self._ends.tolist(), self._chunks, strict=True):
            yield np.arange(end - len(chunk), end), chunk

    def take(self, rows: Rows) -> Grams:
        """(r,) rows, in any order -> their 3-grams, in memory."""
        where = np.searchsorted(self._ends, rows, side="right")
        parts = list[Grams]()
        for number in np.unique(where).tolist():
            chunk = self._chunks[number]
            parts.append(chunk.take(rows[where == number] - (self._ends[number] - len(chunk))))
        back = np.argsort(np.argsort(where, kind="stable"), kind="stable")
        return Grams.joined(parts).take(back)

    def _read(self, number: int) -> Grams:
        columns, counts, starts = (load_array(self.folder / _file(name, number)) for name in _FILES)
        kinds = [(array.dtype, array.ndim) for array in (columns, counts, starts)]
        if kinds != [(np.int32, 1), (np.uint16, 1), (np.int64, 1)] or not _agree(columns, counts, starts):
            raise BadFile(f"3-grams in {self.folder}, chunk {number}, are truncated or damaged; {self._fix}")
        return Grams(columns, counts, starts)

    @property
    def _fix(self) -> str:
        return f"delete {self.folder} and run again"


_FILES = ("columns", "counts", "starts")


def has_chunk(folder: StoragePath, number: int) -> bool:
    """Return whether chunk `number` of a folder is written."""
    return (folder / _file("starts", number)).is_file()


def _file(name: str, number: int) -> str:
    return f"{name}-{number:05}.npy"


def _agree(columns: npt.NDArray[Any], counts: npt.NDArray[Any], starts: npt.NDArray[Any]) -> bool:
    """Return whether the arrays of a chunk can be what `write` wrote: one that is not would be read out of bounds."""
    if not len(starts) or starts[0] or starts[-1] != len(columns) or len(columns) != len(counts):
        return False
    if not (np.diff(starts) >= 0).all():
        return False
    return not len(columns) or bool(columns.min() >= 0 and columns.max() < COLUMNS and counts.min() > 0)


def _spaced(text: str) -> str:
    """Return a text in lower case with one space before, between and after its words."""
    folded = unicodedata.normalize("NFKC", text).lower().split()
    return f" {' '.join(folded)} " if folded else ""


def _hashed(spaced: Sequence[str]) -> Grams:
    """Return the 3-grams of texts with spaces about their words."""
    letters = np.frombuffer("".join(spaced).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
    # No 3-gram has a space in its middle: it would belong to two words, or, at the end of a text, to two texts.
    middle = np.flatnonzero(letters != SPACE)
    before, after = letters[middle - 1], letters[middle + 1]
    columns = _columns_of(before << np.uint64(42) | letters[middle] << np.uint64(21) | after)
    texts = np.searchsorted(np.cumsum([len(text) for text in spaced]), middle, side="right")
    keys = np.sort(texts << BITS | columns)
    first = np.flatnonzero(np.concatenate([np.ones(min(1, len(keys)), dtype=np.bool_), keys[1:] != keys[:-1]]))
    counts = np.minimum(np.diff(np.append(first, len(keys))), MOST).astype(np.uint16)
    keys = keys[first]
    starts = np.searchsorted(keys >> BITS, np.arange(len(spaced) + 1))
    return Grams((keys & (COLUMNS - 1)).astype(np.int32), counts, starts.astype(np.int64))


def _columns_of(codes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """(z,) codes of 63 bits -> (z,) columns: the highest bits of the finaliser of SplitMix64 (Steele et al. 2014)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        codes = np.bitwise_xor(codes, codes >> np.uint64(shift)) * np.uint64(factor)
    return (np.bitwise_xor(codes, codes >> np.uint64(31)) >> np.uint64(64 - BITS)).astype(np.int64)
