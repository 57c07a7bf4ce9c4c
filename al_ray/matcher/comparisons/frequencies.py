"""How often values and words occur in a column: sums over records, which do not depend on shards or their order."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from al_ray.core.task import FieldType
from al_ray.matcher.comparisons.records import Field, Records, normal_form

Keys = npt.NDArray[np.int64]
SIGNS = re.compile(r"[^\w\s]+")
# Types whose values are counted, and whose words are. The whole text is a text.
VALUES: tuple[FieldType, ...] = ("name", "code", "category")
WORDS: tuple[FieldType, ...] = ("text", "name")


@dataclass(frozen=True)
class Counts:
    """Counts (k,) of strings by their keys (k,), ascending (`keys_of`); total: of values that are not missing."""

    keys: Keys
    counts: npt.NDArray[np.int64]
    total: int

    def __add__(self, other: "Counts") -> "Counts":
        keys, places = np.unique(np.concatenate([self.keys, other.keys]), return_inverse=True)
        counts = np.zeros(len(keys), dtype=np.int64)
        np.add.at(counts, places, np.concatenate([self.counts, other.counts]))
        return Counts(keys, counts, self.total + other.total)

    def of(self, keys: Keys) -> npt.NDArray[np.int64]:
        """(n,) keys -> (n,) counts, 0 for a string that was not counted."""
        if not len(self.keys):
            return np.zeros(len(keys), dtype=np.int64)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.counts[places], 0)


NO_COUNTS = Counts(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), 0)


@dataclass(frozen=True)
class ColumnCounts:
    """Counts of the values of a column, and of the values that contain each word."""

    values: Counts = NO_COUNTS
    words: Counts = NO_COUNTS

    def __add__(self, other: "ColumnCounts") -> "ColumnCounts":
        return ColumnCounts(self.values + other.values, self.words + other.words)


@dataclass(frozen=True)
class Frequencies:
    """Counts of each field of some records, and of their whole texts."""

    columns: tuple[ColumnCounts, ...]
    texts: ColumnCounts

    def __add__(self, other: "Frequencies") -> "Frequencies":
        pairs = zip(self.columns, other.columns, strict=True)
        return Frequencies(tuple(one + two for one, two in pairs), self.texts + other.texts)


def frequencies_of(fields: Sequence[Field], records: Records) -> Frequencies:
    """Count the values and words of records. Those of both sides, and of shards, are added by +."""
    columns = zip(fields, records.columns, strict=True)
    return Frequencies(tuple(_counts(field.type, column) for field, column in columns), _counts("text", records.texts))


def words_of(value: str) -> list[str]:
    """Return the words of a normalised value: what is between spaces, without punctuation: psl-x350h is pslx350h."""
    return SIGNS.sub("", value).split()


def keys_of(strings: Sequence[str]) -> Keys:
    """(n,) strings -> (n,) keys, at least 0: 63 bits of a BLAKE2b hash."""
    hashes = b"".join(blake2b(string.encode("utf-8", "surrogatepass"), digest_size=8).digest() for string in strings)
    return (np.frombuffer(hashes, dtype="<u8") >> np.uint64(1)).astype(np.int64)


def _counts(kind: FieldType, column: Iterable[str]) -> ColumnCounts:
    values = Counter(map(normal_form, column))
    values.pop("", None)
    words = Counter[str]()
    if kind in WORDS:
        for value, count in values.items():
            for word in set(words_of(value)):
                words[word] += count
    total = values.total()
    return ColumnCounts(_keyed(values, total) if kind in VALUES else NO_COUNTS, _keyed(words, total))


def _keyed(counts: Counter[str], total: int) -> Counts:
    keys, numbers = keys_of(list(counts)), np.fromiter(counts.values(), dtype=np.int64, count=len(counts))
    order = np.argsort(keys)
    return Counts(keys[order], numbers[order], total)
