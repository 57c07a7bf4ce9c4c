"""The rows of a simulated month: synthetic texts dealt over days, some of them abbreviated; and counts of a day."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np

from al_ray.core.graph import components
from al_ray.core.pairs import Rows
from al_ray.core.rng import generator
from al_ray.core.task import strings_at
from al_ray.datasets.synthetic import synthetic_task
from al_ray.storage.files import write_text


@dataclass(frozen=True)
class Stream:
    """The rows of a month: n texts, and of each its cluster, its day (0: known), and whether it is abbreviated."""

    texts: tuple[str, ...]
    cluster: Rows
    day: Rows
    abbreviated: np.ndarray

    def until(self, day: int) -> Rows:
        """Return the rows that are there on a day."""
        return np.flatnonzero(self.day <= day)

    def write(self, days: range, path: Path) -> Path:
        """Write the rows of some days as a table."""
        rows = np.flatnonzero(np.isin(self.day, days)).tolist()
        lines = [f'{row},"{self.texts[row]}"' for row in rows]
        write_text(path, "\n".join(["id,text", *lines, ""]))
        return path

    def counts(self, day: int, pairs: np.ndarray) -> dict[str, int]:
        """Count COUNTS of a day; pairs: (m, 2) rows of matches that were found, each pair once."""
        pairs = pairs[(self.day[pairs] == day).any(axis=1) & (self.day[pairs] <= day).all(axis=1)]
        right = int((self.cluster[pairs[:, 0]] == self.cluster[pairs[:, 1]]).sum())
        return {"true": self._pairs(day) - self._pairs(day - 1), "found": len(pairs), "right": right}

    def _pairs(self, day: int) -> int:
        """Return the number of matching pairs of all rows that are there on a day."""
        sizes = np.bincount(self.cluster[self.until(day)])
        return int((sizes * (sizes - 1) // 2).sum())


def make_stream(known: int, rows: int, abbreviated: Sequence[int], words: float, seed: int) -> Stream:
    """Deal `known` rows of a synthetic task to day 0, and `rows` to each later day.

    abbreviated: of each later day the number of abbreviated rows. words: share of words that these abbreviate.
    """
    days = len(abbreviated)
    texts = known + days * rows
    task, rng = synthetic_task(texts, seed), generator(seed, "month")
    cluster = components(texts, np.concatenate([split.positives for split in task.splits.values()]))
    order = rng.permutation(texts)
    day = np.repeat(np.arange(days + 1), [known] + [rows] * days)
    short = np.zeros(texts, dtype=np.bool_)
    for number, count in enumerate(abbreviated, 1):
        # Rows of a day are in an order by chance.
        short[np.flatnonzero(day == number)[:count]] = True
    lines = strings_at(task.left.texts, order)
    lines = [abbreviate(line, words) if new else line for line, new in zip(lines, short, strict=True)]
    return Stream(tuple(lines), cluster[order], day, short)


def abbreviate(text: str, share: float) -> str:
    """Leave out all vowels but a first letter, in so great a share of all words: the same words in every text."""

    def written(word: re.Match[str]) -> str:
        chosen = crc32(word[0].lower().encode()) < share * 2**32
        return re.sub(r"\B[aeiou]", "", word[0]) if chosen else word[0]

    return re.sub(r"[A-Za-z]{4,}", written, text)
