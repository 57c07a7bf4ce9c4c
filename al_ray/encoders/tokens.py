"""Token ids of many texts as two flat arrays, in memory or on disk, and the fixed batches that are encoded."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import torch

from al_ray.core.errors import BadFile
from al_ray.core.pairs import Rows

Ids = npt.NDArray[np.int32]
PROMPT = "prompt.npy"


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
        ids[mask] = np.concatenate([self.ids[self.starts[row] : self.starts[row + 1]] for row in rows])
        return torch.from_numpy(ids), torch.from_numpy(mask)

    @staticmethod
    def of(texts: Sequence[Sequence[int]], prompt: int = 0) -> "Tokens":
        """Make Tokens of one list of ids per text."""
        starts = np.concatenate([[0], np.cumsum([len(ids) for ids in texts], dtype=np.int64)])
        flat = np.fromiter((token for ids in texts for token in ids), dtype=np.int32, count=int(starts[-1]))
        return Tokens(flat, starts.astype(np.int64), prompt)

    def write(self, folder: Path) -> None:
        """Write two .npy files into an existing folder, and a third if the pooling leaves out a prompt."""
        if self.prompt:
            np.save(folder / PROMPT, self.prompt)
        np.save(folder / "ids.npy", self.ids)
        np.save(folder / "starts.npy", self.starts)

    @staticmethod
    def read(folder: Path) -> "Tokens":
        """Map the files into memory; BadFile if they are missing or truncated."""
        try:
            ids = cast(Ids, np.load(folder / "ids.npy", mmap_mode="r"))
            starts = np.load(folder / "starts.npy")
            prompt = int(np.load(folder / PROMPT)) if (folder / PROMPT).exists() else 0
        except (OSError, ValueError, EOFError) as error:
            raise BadFile(
                f"token ids in {folder} cannot be read ({error}); delete {folder.parent} and run again"
            ) from error
        if not len(starts) or starts[-1] != len(ids):
            raise BadFile(f"token ids in {folder} are truncated; delete {folder.parent} and run again")
        return Tokens(ids, starts, prompt)


def batches(tokens: Tokens, rows: Rows, size: int) -> list[Rows]:
    """Return the fixed batches of (r,) rows: sorted by length, then by row, and cut into runs of `size`.

    The last bits of a vector depend on the batch in which it is encoded. Batches are therefore made of all rows at
    once, and shards receive whole batches.
    """
    order = np.lexsort((rows, tokens.lengths(rows)))
    return [rows[order[start : start + size]] for start in range(0, len(rows), size)]
