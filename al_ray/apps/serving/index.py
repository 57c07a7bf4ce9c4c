"""A Faiss index of many known texts, on disk under the digest of what it was made from, and its measured recall."""

import hashlib
from dataclasses import dataclass
from math import isqrt
from pathlib import Path

import numpy as np

from al_ray.core.pairs import Rows
from al_ray.core.rng import generator
from al_ray.core.vectors import Block, Vectors
from al_ray.search.faiss_index import DistanceIndex, exact_nearest
from al_ray.search.merge import recall
from al_ray.storage.files import in_one_step, read_json, remove_unfinished, write_json

SAMPLE, NEIGHBOURS = 200, 10
"""Texts of which recall is measured, and the nearest other texts of each that are looked for."""
CLOSE = 1e-5
"""Squared distances that differ by no more count as equal."""


@dataclass(frozen=True)
class KnownIndex:
    """An index of the first `size` known texts, by their rows. Of unit vectors the nearest have the highest cosine.

    recall: share of the 10 nearest other texts that it finds, of 200 known texts drawn at random.
    """

    index: DistanceIndex
    factory: str
    nprobe: int
    recall: float

    @property
    def size(self) -> int:
        """Return the number of texts in it."""
        return len(self.index)

    def candidates(self, queries: Vectors, count: int) -> Rows:
        """(q, d) unit vectors -> (q, count) rows, the nearest first, -1 where there are fewer."""
        rows = self.index.nearest(queries, count)[1]
        return np.pad(rows, ((0, 0), (0, count - rows.shape[1])), constant_values=-1)


def open_index(folder: Path, model: str, vectors: Vectors, factory: str, nprobe: int) -> KnownIndex:
    """Read the index of these unit vectors (n, d) from a folder, or make it there, in place of an earlier one.

    model: digest of the model, which with the vectors and the factory string names the file. The folder is for the
    indexes of one model, and nobody else opens it meanwhile. BadOption if Faiss refuses the factory string.
    """
    # A process that is killed as it writes an index leaves as much as the index takes.
    remove_unfinished(folder)
    if factory == "auto":
        # Cells of about sqrt(n) / 4 texts.
        factory = f"IVF{max(1, 4 * isqrt(len(vectors)))},Flat"
    content = hashlib.sha256(f"{model} {factory} {vectors.dtype} {vectors.shape}".encode())
    content.update(np.ascontiguousarray(vectors).data)
    path = folder / f"{content.hexdigest()[:32]}.faiss"
    if path.exists():
        index = DistanceIndex.read(path)
    else:
        index = DistanceIndex.build(vectors, factory, np.arange(len(vectors)))
        in_one_step(path, index.write)
        # Whoever uses an earlier index has it in memory.
        for other in folder.iterdir():
            if other.suffix in (".faiss", ".json") and not other.name.startswith(path.stem):
                other.unlink(missing_ok=True)
    index.set_nprobe(nprobe)
    about = path.with_suffix(f".recall-{nprobe}.json")
    if not about.exists():
        write_json(about, {"recall": measure_recall(index, vectors)})
    return KnownIndex(index, factory, nprobe, float(read_json(about, ["recall"], f"delete {about}")["recall"]))


def measure_recall(index: DistanceIndex, vectors: Vectors) -> float:
    """Return the share of the nearest other texts that an index of all vectors (n, d) finds, of a sample of texts."""
    rows = generator(0, "serve-recall").choice(len(vectors), min(SAMPLE, len(vectors)), replace=False)
    count, queries = min(NEIGHBOURS + 1, len(vectors)), vectors[rows]
    if count < 2:
        return 1.0
    truth = exact_nearest(Block(np.arange(len(vectors)), vectors), queries, count, "l2")[0]
    found = index.nearest(queries, count)[0]
    # The first is the text itself. A text as near as the last one that is sought counts as found.
    return recall(-found[:, 1:], -truth[:, 1:], CLOSE)
