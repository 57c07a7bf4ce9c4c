"""Where a shard's vectors are: in its memory, in a file of its own that it maps, or in a kept file of the run, mapped.

A kept file is a .npy with 32 bytes behind it: the SHA-256 of its key, which names all that decides the vectors, and of
every byte before. A file that was cut short, damaged or made from something else is known by that alone, and so is what
a power cut left of it: nothing is synced. To check it costs a reading, at a GB/s or so, where encoding costs a hundred
times that. These files are a cache, and the one thing of a run that is ever deleted: see `VectorStore.select`.
"""

import hashlib
import logging
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from numpy.lib.format import open_memmap

from al_ray.core.config.encoder import Precision
from al_ray.core.errors import WriteErrors
from al_ray.core.vectors import Vectors

TRAINED, UNTRAINED = "trained", "untrained"  # Kinds of weights.
NUMBERS = {"fp32": np.dtype(np.float32), "fp16": np.dtype(np.float16)}
GIB = 2**30
DIGITS = 16  # Of a model's digest in the name of a file.
SEAL = hashlib.sha256().digest_size
PIECE = 2**20  # Bytes hashed at a time.
logger = logging.getLogger(__name__)


class VectorStore:
    """Where one shard puts the vectors of its parts.

    The numbers are those of `--vectors`: a float32 that is put into a 16-bit array is rounded there and then, to the
    nearest (ties to even), and never again.
    """

    def __init__(
        self, numbers: Precision, mapped_above: float, folders: Mapping[str, Path], shard: int, shards: int
    ) -> None:
        """mapped_above: GiB in memory; what would go beyond is mapped. folders: where files of a kind are kept."""
        self.dtype, self.limit, self.folders = NUMBERS[numbers], mapped_above * GIB, folders
        self.shard, self.shards = shard, shards
        self.folder: Path | None = None
        self._weights, self._held = "", 0

    def select(self, kind: str, digest: str) -> None:
        """Turn to weights of a kind: nothing is in memory any more, and kept files of others of this kind go.

        Only the shard's own, and those of runs with another number of shards: what another shard maps stays.
        """
        self._weights, self._held = f"{kind}-{digest}", 0
        self.folder = self.folders.get(kind)
        if self.folder is None or not self.folder.is_dir():
            return
        with WriteErrors(self.folder):
            for path in self.folder.glob(f"{kind}-*"):
                own = f"-{self.shard}-of-{self.shards}.npy" in path.name
                strange = f"-of-{self.shards}.npy" not in path.name
                if (own or strange) and not path.name.startswith(f"{self._weights}-"):
                    path.unlink(missing_ok=True)

    def load(self, part: str, key: str, texts: int) -> Vectors | None:
        """A part's vectors as they were kept, mapped; None where there are none, and, with a warning, no good ones."""
        path = self._path(part)
        if path is None or not path.is_file():
            return None
        reason = "it is not what was written there: cut short, damaged or made from something else"
        try:
            with path.open("rb") as file:
                good = path.stat().st_size > SEAL and _seal(file, key) == file.read()
            found = open_memmap(path, mode="r") if good else None
        except OSError as error:
            found, reason = None, str(error)
        if found is not None and found.ndim == 2 and len(found) == texts and found.dtype == self.dtype:
            return np.asarray(found)
        logger.warning("%s is not used (%s): %d texts are encoded again", path, reason, texts)
        return None

    @contextmanager
    def create(self, part: str, key: str, shape: tuple[int, int]) -> Iterator[Vectors]:
        """An array (n, d) to be filled within the context, and whole after it. BadFile when the disk has no room."""
        size, path = math.prod(shape) * self.dtype.itemsize, self._path(part)
        if not size or (path is None and self._held + size <= self.limit):
            self._held += size
            yield np.empty(shape, dtype=self.dtype)
            return
        aside = _aside(path)
        try:
            vectors = _mapped(aside, shape, self.dtype)
            if path is None:
                # Its name goes at once, and its bytes with the process, however that ends.
                aside.unlink()
            yield vectors
            if path is not None:
                _settle(aside, path, key)
        finally:
            aside.unlink(missing_ok=True)

    def _path(self, part: str) -> Path | None:
        name = f"{self._weights}-{part}-{self.shard}-of-{self.shards}.npy"
        return None if self.folder is None else self.folder / name


def single(vectors: Vectors) -> torch.Tensor:
    """(n, d) vectors in float32, for products: a copy where they are of 16 bits, mapped, or what Ray handed over."""
    # torch cannot express what is read-only.
    return torch.from_numpy(np.require(vectors, np.float32, "W"))


def _aside(path: Path | None) -> Path:
    """A new empty file: beside where it is to be kept, or in the node's folder for temporary files (TMPDIR)."""
    place = Path(tempfile.gettempdir()) if path is None else path.parent
    with WriteErrors(place):
        place.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix="al_ray-vectors-" if path is None else f"{path.name}.", dir=place)
        os.close(handle)
    return Path(name)


def _mapped(aside: Path, shape: tuple[int, int], dtype: np.dtype) -> Vectors:
    """The array of a new file, with room behind it for the seal."""
    with WriteErrors(aside):
        found = open_memmap(aside, mode="w+", dtype=dtype, shape=shape)
        with aside.open("r+b") as file:
            # All of it now: a map that meets a full disk later on kills its process.
            os.posix_fallocate(file.fileno(), 0, aside.stat().st_size + SEAL)
    return np.asarray(found)


def _settle(aside: Path, path: Path, key: str) -> None:
    """Seal a file and give it its name."""
    with WriteErrors(path):
        with aside.open("r+b") as file:
            seal = _seal(file, key)
            file.write(seal)
        os.replace(aside, path)


def _seal(file: BinaryIO, key: str) -> bytes:
    """SHA-256 of the key and of all but the last bytes of a file, which then stands before these."""
    content = hashlib.sha256(key.encode())
    left = file.seek(-SEAL, os.SEEK_END)
    file.seek(0)
    while left and (piece := file.read(min(left, PIECE))):
        content.update(piece)
        left -= len(piece)
    return content.digest()
