"""Vectors of texts that were encoded before, found by digests of the texts' token ids.

A folder holds the vectors of one model. Each pair of files, NAME.keys.npy and NAME.vectors.npy, has the texts that one
shard encoded: sorted digests and their vectors. NAME ends in a digest of its texts, so a file is never replaced by one
of other texts, and an interrupted writer does no harm.
"""

import hashlib
import itertools
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from al_ray.core.pairs import Mask, Rows, is_in
from al_ray.core.vectors import Vectors
from al_ray.encoders.encoder import TextEncoder, embed_batches
from al_ray.encoders.tokens import Tokens, load_array, store_array
from al_ray.storage.download import fetched
from al_ray.storage.uri import StoragePath

logger = logging.getLogger(__name__)
Digests = npt.NDArray[np.uint64]
KEYS, VECTORS = ".keys.npy", ".vectors.npy"
TOKEN_BYTES = 4


def digests_of(tokens: Tokens) -> Digests:
    """Return (n, 2) digests of the token ids of n texts: equal ids have equal digests."""
    starts, ids = tokens.starts.tolist(), np.ascontiguousarray(tokens.ids, dtype="<i4").tobytes()
    texts = (ids[TOKEN_BYTES * start : TOKEN_BYTES * stop] for start, stop in itertools.pairwise(starts))
    packed = b"".join(hashlib.blake2b(text, digest_size=16).digest() for text in texts)
    return np.frombuffer(packed, dtype="<u8").reshape(-1, 2)


class KnownVectors:
    """The vectors of a folder.

    The same text may be stored more than once, with vectors that differ in their last bits, as these depend on the
    batch of a text. The one whose bytes are the least is taken, so the files into which texts were divided decide
    nothing.
    """

    def __init__(self, folder: StoragePath | None, dtype: np.dtype[Any]) -> None:
        """folder: None for one in which nothing is known. dtype: of the vectors; files of another type are not used."""
        self.folder, self.dtype = folder, dtype
        self._files = dict[str, tuple[Digests, Vectors]]()

    def refresh(self) -> None:
        """Open the files that were added since the last call."""
        if self.folder is None or not self.folder.is_dir():
            return
        names = {path.name.removesuffix(KEYS) for path in self.folder.glob(f"*{KEYS}")} - set(self._files)
        if not names:
            return
        local = fetched(self.folder)
        for name in sorted(names):
            try:
                keys, vectors = (load_array(local / f"{name}{kind}") for kind in (KEYS, VECTORS))
            except (OSError, ValueError) as error:
                logger.warning("%s of %s is not used (%s): its texts are encoded again", name, self.folder, error)
                continue
            if (
                vectors.ndim == 2
                and keys.shape == (len(vectors), 2)
                and keys.dtype == np.uint64
                and vectors.dtype == self.dtype
            ):
                self._files[name] = keys, vectors
            else:
                logger.warning("%s of %s is not used (damaged): its texts are encoded again", name, self.folder)

    def take(self, tokens: Tokens) -> tuple[Mask, Vectors]:
        """Return whether each text (n,) is known, and the vectors (k, d) of those that are, in their order."""
        known, taken = np.zeros(len(tokens), dtype=np.bool_), self._zeros(0, 0)
        digests = digests_of(tokens) if self._files else np.empty((0, 2), dtype=np.uint64)
        for keys, vectors in self._files.values():
            rows, places = _found(keys, digests)
            if not len(rows):
                continue
            if not taken.size:
                taken = self._zeros(len(digests), vectors.shape[1])
            fresh = ~known[rows]
            taken[rows[fresh]], known[rows[fresh]] = vectors[places[fresh]], True
            for row, place in zip(rows[~fresh].tolist(), places[~fresh].tolist(), strict=True):
                if _bytes(vectors[place]) < _bytes(taken[row]):
                    taken[row] = vectors[place]
        return known, taken[known] if taken.size else taken

    def _zeros(self, texts: int, dimension: int) -> Vectors:
        return np.zeros((texts, dimension), dtype=self.dtype)

    def add(self, name: str, tokens: Tokens, vectors: Vectors) -> None:
        """Store the vectors (n, d) of those texts that are not known yet; name: how their files begin."""
        assert self.folder is not None
        digests, known = digests_of(tokens), np.zeros(len(tokens), dtype=np.bool_)
        for keys, _ in self._files.values():
            known[_found(keys, digests)[0]] = True
        rows = np.flatnonzero(~known)
        rows = rows[np.lexsort((digests[rows, 1], digests[rows, 0]))]
        first = np.append(True, (np.diff(digests[rows], axis=0) != 0).any(axis=1))[: len(rows)]
        chosen = rows[first]
        groups = np.cumsum(first) - 1
        for group in np.unique(groups[~first]).tolist():
            chosen[group] = min(rows[groups == group].tolist(), key=lambda row: _bytes(vectors[row]))
        if len(chosen):
            name = f"{name}-{hashlib.blake2b(digests[chosen].tobytes(), digest_size=8).hexdigest()}"
            store_array(self.folder / f"{name}{VECTORS}", vectors[chosen])
            # Last: the vectors are there if their keys are.
            store_array(self.folder / f"{name}{KEYS}", digests[chosen])


def embed_unknown(
    known: KnownVectors, encoder: TextEncoder, tokens: Tokens, batches: list[Rows], vectors: Vectors
) -> Iterator[int]:
    """Fill vectors (n, d) with those that are known, and encode the others; yield the number of texts of each batch."""
    there, taken = known.take(tokens)
    if not there.any():
        yield from embed_batches(encoder, tokens, batches, vectors, together=True)
        return
    vectors[there], missing = taken, np.flatnonzero(~there)
    for batch in batches:
        rows = batch[is_in(batch, missing)]
        if len(rows):
            encoded = np.empty((len(rows), vectors.shape[1]), dtype=vectors.dtype)
            for _ in embed_batches(encoder, tokens, [rows], encoded):
                pass
            vectors[np.sort(rows)] = encoded
        yield len(batch)


def _found(keys: Digests, digests: Digests) -> tuple[Rows, Rows]:
    """Return the rows (k,) of digests (n, 2) that are among sorted keys (m, 2), and their places (k,) there.

    If two keys have the first half in common, the second of them is not found, and its text is encoded again.
    """
    if not len(keys):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    places = np.minimum(np.searchsorted(keys[:, 0], digests[:, 0]), len(keys) - 1)
    rows = np.flatnonzero((keys[places] == digests).all(axis=1))
    return rows, places[rows]


def _bytes(vector: Vectors) -> bytes:
    return vector.tobytes()
