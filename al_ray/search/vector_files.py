"""Where a shard's vectors are: in its memory or in a file of its own that it maps; and the chunks that a run keeps.

A kept file has the vectors of a chunk: a .npy with 32 bytes behind it, the SHA-256 of its key, which names all that
decides the vectors, and of every byte before. A file that was cut short, damaged or made from something else is known
by that alone, and so is what a power cut left of it: nothing is synced. To check it costs a reading, at a GB/s or so,
where encoding costs a hundred times that. These files are a cache, and the one thing of a run that is ever deleted: see
`VectorStore.select`.
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
from numpy.lib.format import open_memmap, read_array_header_1_0, read_magic

from al_ray.core.config.encoder import Precision
from al_ray.core.errors import BadFile, WriteErrors
from al_ray.core.vectors import Vectors
from al_ray.storage.uri import StoragePath, Uri

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
        self, numbers: Precision, mapped_above: float, folders: Mapping[str, StoragePath], shard: int, shards: int
    ) -> None:
        """mapped_above: GiB in memory; what would go beyond is mapped. folders: where files of a kind are kept.

        The files of chunk c are those of shard c mod `shards`.
        """
        self.dtype, self.limit, self.folders = NUMBERS[numbers], mapped_above * GIB, folders
        self.shard, self.shards = shard, shards
        self.folder: StoragePath | None = None
        self._weights, self._size = "", 0

    def select(self, kind: str, digest: str) -> None:
        """Change to weights of a kind: drop the vectors in memory, and delete files of other weights of this kind.

        Only the shard's own: another shard may read its files.
        """
        self._weights, self._size = f"{kind}-{digest}", 0
        self.folder = self.folders.get(kind)
        if self.folder is None or not self.folder.is_dir():
            return
        with WriteErrors(self.folder):
            # What a process that was killed left has a suffix behind .npy.
            for path in self.folder.glob(f"{kind}-*.npy*"):
                chunk = path.name.partition(".npy")[0].rpartition("-")[2]
                own = chunk.isdigit() and int(chunk) % self.shards == self.shard
                if own and not path.name.startswith(f"{self._weights}-"):
                    path.unlink(missing_ok=True)

    def empty(self, shape: tuple[int, int]) -> Vectors:
        """Return an array (n, d) to be filled: in memory, or mapped. BadFile when the disk has no room."""
        size = math.prod(shape) * self.dtype.itemsize
        if not size or self._size + size <= self.limit:
            self._size += size
            return np.empty(shape, dtype=self.dtype)
        with _temporary(None) as aside:
            # Its name goes at once, and its bytes with the process, however that ends.
            return _mapped(aside, shape, self.dtype)

    def load(self, part: str, chunk: int, key: str, texts: int) -> Vectors | None:
        """Return a chunk's vectors as they were kept; None where there are none, and, with a warning, no good ones."""
        path = self._path(part, chunk)
        if path is None or not path.is_file():
            return None
        reason = "cut short, damaged, or made from something else, on other hardware or with other versions"
        try:
            if isinstance(path, Uri):
                with _temporary(None) as copy:
                    path.get(copy)
                    found = _sealed(copy, key)
            else:
                found = _sealed(path, key)
        except (OSError, ValueError, BadFile) as error:
            found, reason = None, str(error)
        if found is not None and found.ndim == 2 and len(found) == texts and found.dtype == self.dtype:
            return found
        logger.warning("%s is not used (%s): %d texts are encoded again", path, reason, texts)
        return None

    def keep(self, part: str, chunk: int, key: str, vectors: Vectors) -> None:
        """Write the vectors of a chunk, if files of these weights are kept. BadFile when there is no room."""
        path = self._path(part, chunk)
        if path is None:
            return
        with WriteErrors(path), _temporary(path) as aside:
            with aside.open("w+b") as file:
                np.save(file, vectors)
                file.write(bytes(SEAL))
                seal = _seal(file, key)
                file.seek(-SEAL, os.SEEK_END)
                file.write(seal)
            if isinstance(path, Uri):
                path.put(aside)
            else:
                os.replace(aside, path)

    def missing(self, part: str, chunks: int) -> list[list[int]]:
        """Return for each shard which of its chunks of a part are not kept, of weights that are kept."""
        assert self.folder is not None
        names = {path.name for path in self.folder.glob(f"{self._weights}-{part}-*.npy")}
        return [
            [chunk for chunk in range(shard, chunks, self.shards) if self._name(part, chunk) not in names]
            for shard in range(self.shards)
        ]

    def _path(self, part: str, chunk: int) -> StoragePath | None:
        return None if self.folder is None else self.folder / self._name(part, chunk)

    def _name(self, part: str, chunk: int) -> str:
        return f"{self._weights}-{part}-{chunk:05}.npy"


def vector_folder(pool: StoragePath) -> StoragePath:
    """Return where the vectors of a pool folder are kept."""
    return pool.parent / "vectors" / pool.name


def single(vectors: Vectors) -> torch.Tensor:
    """(n, d) vectors in float32, for products: a copy where they are of 16 bits, mapped or read-only."""
    # torch cannot express what is read-only.
    return torch.from_numpy(np.require(vectors, np.float32, "W"))


@contextmanager
def _temporary(path: StoragePath | None) -> Iterator[Path]:
    """Provide a new empty file until the context ends: beside a local path, or in the node's TMPDIR."""
    place = path.parent if isinstance(path, Path) else Path(tempfile.gettempdir())
    with WriteErrors(place):
        place.mkdir(parents=True, exist_ok=True)
        prefix = f"{path.name}." if isinstance(path, Path) else "al_ray-vectors-"
        handle, name = tempfile.mkstemp(prefix=prefix, dir=place)
        os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _mapped(aside: Path, shape: tuple[int, int], dtype: np.dtype) -> Vectors:
    """Return the array of a new file."""
    with WriteErrors(aside):
        found = open_memmap(aside, mode="w+", dtype=dtype, shape=shape)
        with aside.open("r+b") as file:
            # All of it now: a map that meets a full disk later on kills its process.
            os.posix_fallocate(file.fileno(), 0, aside.stat().st_size)
    return np.asarray(found)


def _sealed(path: Path, key: str) -> Vectors | None:
    """Return the array of a kept file, mapped; None if its seal is not that of the key and its bytes."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size <= SEAL or _seal(file, key) != file.read():
            return None
        # Of the open file: another trial may have put its own in this place.
        file.seek(0)
        read_magic(file)
        shape, _, dtype = read_array_header_1_0(file)
        return np.asarray(np.memmap(file, dtype, "r", file.tell(), shape))


def _seal(file: BinaryIO, key: str) -> bytes:
    """SHA-256 of the key and of all but the last bytes of a file, which then stands before these."""
    content = hashlib.sha256(key.encode())
    left = file.seek(-SEAL, os.SEEK_END)
    file.seek(0)
    while left and (piece := file.read(min(left, PIECE))):
        content.update(piece)
        left -= len(piece)
    return content.digest()
