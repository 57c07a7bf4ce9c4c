"""Token ids of many texts as two flat arrays, in memory or on disk, and the fixed batches that are encoded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from al_ray.core.errors import BadFile
from al_ray.core.pairs import Rows
from al_ray.storage.download import fetched
from al_ray.storage.files import in_one_step
from al_ray.storage.uri import StoragePath

Ids = npt.NDArray[np.int32]
PROMPT = "prompt.npy"
OF_A_MATCHER = ("candidates", "grams-*")
"""What a pool folder has beside token ids, where a matcher ranks candidates: it grows with every split and search."""


@dataclass(frozen=True)
class Tokens:
    """Token ids of n texts: text i is ids[starts[i]:starts[i + 1]], with special tokens; starts is (n + 1,).

    prompt: number of first tokens of every text that its pooling leaves out; 0 for most encoders.
    """

    ids: Ids
    starts: npt.NDArray[np.int64]
    prompt: int = 0

    def __len__(self) -> int:
        return len(self.starts) - 1

    def lengths(self, rows: Rows) -> npt.NDArray[np.int64]:
        """(r,) rows -> (r,) numbers of tokens."""
        return self.starts[rows + 1] - self.starts[rows]

    def padded(self, rows: Rows, pad: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(r,) rows -> ids (r, longest) padded with `pad`, and the mask (r, longest) of the tokens."""
        lengths = self.lengths(rows)
        mask = np.arange(lengths.max()) < lengths[:, None]
        ids = np.full(mask.shape, pad, dtype=np.int64)
        ids[mask] = self._ids_of(rows)
        return torch.from_numpy(ids), torch.from_numpy(mask)

    def contents(self) -> Iterator[bytes]:
        """Yield the token ids of each text as bytes, which are equal where the ids are."""
        content, bounds = np.ascontiguousarray(self.ids).tobytes(), (self.ids.itemsize * self.starts).tolist()
        return (content[start:stop] for start, stop in pairwise(bounds))

    def beside(self, rows: Rows, others: "Tokens", other_rows: Rows) -> "Tokens":
        """Return the token ids of (r,) rows and then of (s,) rows of others, which have as long a prompt."""
        lengths = np.concatenate([self.lengths(rows), others.lengths(other_rows)])
        ids = np.concatenate([self._ids_of(rows), others._ids_of(other_rows)])
        return Tokens(ids, np.concatenate([[0], np.cumsum(lengths)]), self.prompt)

    def _ids_of(self, rows: Rows) -> Ids:
        """(r,) rows -> their token ids, one text after the other."""
        lengths = self.lengths(rows)
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return self.ids[np.repeat(self.starts[rows], lengths) + within]

    @staticmethod
    def of(texts: Sequence[Sequence[int]], prompt: int = 0) -> "Tokens":
        """Make Tokens of one list of ids per text."""
        starts = np.concatenate([[0], np.cumsum([len(ids) for ids in texts], dtype=np.int64)])
        flat = np.fromiter((token for ids in texts for token in ids), dtype=np.int32, count=int(starts[-1]))
        return Tokens(flat, starts.astype(np.int64), prompt)

    def write(self, folder: StoragePath, number: int = 0) -> None:
        """Write chunk `number` of a folder: two .npy files, and with the first the length of a prompt, if any."""
        if self.prompt and number == 0:
            store_array(folder / PROMPT, np.array(self.prompt))
        store_array(folder / _file("ids", number), self.ids)
        # Last: a chunk is there if this file is.
        store_array(folder / _file("starts", number), self.starts)

    @staticmethod
    def read(folder: Path) -> "Tokens":
        """Return the token ids of all texts of a folder; BadFile if files are missing or truncated."""
        return StoredTokens(folder).all()


def fetched_tokens(pool: StoragePath) -> Path:
    """Return a local pool folder with the token ids and all that is small, but without what only a matcher needs."""
    return fetched(pool, OF_A_MATCHER)


class StoredTokens:
    """Token ids of many texts in chunks of a local folder, memory-mapped; each chunk has the texts of the next rows."""

    def __init__(self, folder: Path) -> None:
        """BadFile if files are missing or truncated."""
        self.folder = folder
        try:
            self.prompt = int(load_array(folder / PROMPT)) if (folder / PROMPT).exists() else 0
            count = max(1, sum(1 for _ in folder.glob("starts-*.npy")))
            self._chunks = [self._read(number) for number in range(count)]
        except (OSError, ValueError, TypeError) as error:
            raise BadFile(f"token ids in {folder} cannot be read ({error}); {self._fix}") from error
        self._ends = np.cumsum([len(chunk) for chunk in self._chunks])

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def chunks(self) -> Sequence[Tokens]:
        """The token ids of all texts, chunk by chunk, memory-mapped."""
        return self._chunks

    def all(self) -> Tokens:
        """Return the token ids of all texts: memory-mapped if they are one chunk, else in memory."""
        return self._chunks[0] if len(self._chunks) == 1 else self.take(np.arange(len(self)))

    def lengths(self) -> npt.NDArray[np.int64]:
        """Return the numbers of tokens (n,) of all texts."""
        return np.concatenate([np.diff(chunk.starts) for chunk in self._chunks])

    def take(self, rows: Rows) -> Tokens:
        """(r,) rows -> their token ids, in memory; text i is that of rows[i]. BadFile if there are fewer texts."""
        if len(rows) and rows.max() >= len(self):
            raise BadFile(f"{self.folder} has token ids of {len(self):,} texts only; {self._fix}")
        where = np.searchsorted(self._ends, rows, side="right")
        taken = [(np.flatnonzero(where == number), number) for number in np.unique(where).tolist()]
        lengths = np.zeros(len(rows), dtype=np.int64)
        for places, number in taken:
            lengths[places] = self._chunks[number].lengths(self._local(rows[places], number))
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        ids = np.empty(starts[-1], dtype=np.int32)
        for places, number in taken:
            chunk, own = self._chunks[number], lengths[places]
            within = np.arange(own.sum()) - np.repeat(np.cumsum(own) - own, own)
            first = chunk.starts[self._local(rows[places], number)]
            ids[np.repeat(starts[places], own) + within] = chunk.ids[np.repeat(first, own) + within]
        return Tokens(ids, starts, self.prompt)

    def _local(self, rows: Rows, number: int) -> Rows:
        return rows - (self._ends[number - 1] if number else 0)

    def _read(self, number: int) -> Tokens:
        ids, starts = (load_array(self.folder / _file(name, number)) for name in ("ids", "starts"))
        whole = (ids.dtype, ids.ndim, starts.dtype, starts.ndim) == (np.int32, 1, np.int64, 1)
        if not whole or not len(starts) or starts[0] or starts[-1] != len(ids) or (np.diff(starts) < 0).any():
            raise BadFile(f"token ids in {self.folder} are truncated; {self._fix}")
        return Tokens(ids, starts, self.prompt)

    @property
    def _fix(self) -> str:
        return f"delete {self.folder.parent} and run again"


def has_chunk(folder: StoragePath, number: int) -> bool:
    """Return whether chunk `number` of a folder is written."""
    return (folder / _file("starts", number)).is_file()


def _file(name: str, number: int) -> str:
    return f"{name}-{number:05}.npy"


def load_array(path: Path) -> npt.NDArray[Any]:
    """Map a .npy file; ValueError if it is damaged, OSError if it cannot be read. Nothing is allocated for it."""
    try:
        return np.load(path, mmap_mode="r")
    except (EOFError, SyntaxError, TokenError, TypeError, OverflowError, MemoryError) as error:
        raise ValueError(f"{path.name} is damaged ({error})") from error


def store_array(path: StoragePath, array: npt.NDArray[Any]) -> None:
    """Write a .npy file atomically."""

    def write(aside: Path) -> None:
        # An open file, because NumPy appends .npy to names.
        with aside.open("wb") as file:
            np.save(file, array)

    in_one_step(path, write)


def batches(tokens: Tokens, rows: Rows, size: int) -> list[Rows]:
    """Return the fixed batches of (r,) rows: sorted by length, then by row, and cut into runs of `size`.

    The last bits of a vector depend on the batch in which it is encoded. Batches are therefore made of all rows at
    once, and shards receive whole batches.
    """
    order = batch_order(tokens.lengths(rows), rows)
    return [order[start : start + size] for start in range(0, len(rows), size)]


def batch_order(lengths: npt.NDArray[np.int64], rows: Rows) -> Rows:
    """Return (r,) rows sorted by their lengths (r,), then by row: the batches one after the other."""
    return rows[np.lexsort((rows, lengths))]
