"""The highest scores of known records on disk, in neighbours/ of a store, so that a start compares what is new alone.

Texts that are ranked by a neighbourhood of both sides have them, too, by cosine alone.

neighbours/NAME/         NAME: digest of all that decides them: the records of both sides, and the reference
  0.npy 1.npy            scores and partners by cosine (best_scores.py); rows in the order of the ids
  2.npy 3.npy            by 3-grams
  floors.npy             (ways, n) by each way
  records.npy            (n, 2) uint64 digest of each known record and its vector
  about.json             digest of what decides them beside the known records; written last

An earlier al_ray wrote the first four alone, with fewer scores.
"""

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from al_ray.apps.serving.records.best_scores import NONE, BestScores
from al_ray.apps.serving.records.known_records import Best, RecordSide, text_of
from al_ray.apps.serving.records.ways import Counts
from al_ray.core.errors import BadFile
from al_ray.core.pairs import Rows
from al_ray.encoders.tokens import load_array, store_array
from al_ray.storage.files import read_json, write_json
from al_ray.storage.lock import locked
from al_ray.training.saved_model import input_digest

ABOUT, FLOORS, RECORDS = "about.json", "floors.npy", "records.npy"
FOREVER = -1.0
SHARE = 4
"""If more than one in SHARE of the known records is new, all are compared at once, which is faster for so many."""
Digests = npt.NDArray[np.uint64]


class KnownScores(Protocol):
    """Known texts with their highest scores: KnownRecords, KnownSides."""

    @property
    def best(self) -> Best | None:
        """Return the highest scores, by each way."""
        ...

    @property
    def counts(self) -> Sequence[Counts]:
        """Return how many are kept, by each way."""
        ...

    @property
    def digest(self) -> str:
        """Return the digest of what scores depend on beside the texts and their vectors."""
        ...

    @property
    def symmetric(self) -> bool:
        """Return whether there is one set of texts."""
        ...

    def find_best(self) -> Best:
        """Find the highest scores of all known texts."""
        ...

    def use(self, best: Best, fresh: Rows = ...) -> None:
        """Take the highest scores of all known texts, but for those of (m,) rows, which are found now."""
        ...


class StoredScores:
    """The scores of the known texts of a store, by one digest and one encoder. All are present.

    Records are in the order of their ids.
    """

    def __init__(self, folder: Path, records: KnownScores, known: RecordSide, others: RecordSide | None) -> None:
        """folder: neighbours/ of the store. records: of known and others."""
        self.folder, self.records = folder, records
        self._digests = _digests(known)
        content = hashlib.sha256()
        for side in (known,) if others is None else (known, others):
            content.update(np.ascontiguousarray(side.vectors).data)
            content.update(repr([text_of(cells) for cells in side.cells]).encode("utf-8", "surrogatepass"))
        beside = [] if others is None else [_digests(others)]
        widths = [one.needed for one in records.counts]
        self._name = input_digest([content.hexdigest(), records.digest, widths])[:32]
        self._beside = input_digest([known.vectors.shape[1], records.digest, widths], *beside)

    def use(self) -> None:
        """Give the scores to the records: those on disk, or the ones of earlier records and what changed since."""
        with locked(self.folder, FOREVER):
            if self._is_there(self.folder / self._name):
                self.records.use(self._read(self.folder / self._name))
                return
            earlier = [path.parent for path in self.folder.glob(f"*/{ABOUT}") if self._fits(path)]
            if not earlier or not self._use_earlier(earlier[0]):
                self.records.use(self.records.find_best())
            self.write()
            for path in earlier:
                shutil.rmtree(path)

    def _fits(self, about: Path) -> bool:
        """Return whether a folder has scores that only the known records distinguish from these."""
        return read_json(about, {"beside": str}, _fix(about.parent))["beside"] == self._beside

    def _use_earlier(self, folder: Path) -> bool:
        """Take over the scores of records that are there now, too; False if these are few."""
        before = _array(folder, RECORDS)
        row_of = _matched(before, self._digests)
        now = np.flatnonzero(row_of >= 0)
        fresh = np.flatnonzero(row_of < 0)
        if len(fresh) * SHARE > len(row_of):
            return False
        place_of = np.full(len(before), NONE)
        place_of[row_of[now]] = now
        gone = np.flatnonzero(place_of == NONE)
        stored = self._read(folder)
        best = list[BestScores]()
        for one in stored:
            if self.records.symmetric:
                one.drop(gone)
            width = one.scores.shape[1]
            lists = BestScores.empty(len(row_of), width)
            lists.put(now, one.take(row_of[now], place_of if self.records.symmetric else None))
            best.append(lists)
        self.records.use(tuple(best), fresh)
        return True

    def _is_there(self, folder: Path) -> bool:
        return all((folder / f"{number}.npy").exists() for number in self._numbers)

    @property
    def _numbers(self) -> range:
        """Return the numbers of the files: of each way the scores and the partners."""
        return range(2 * len(self.records.counts))

    def _read(self, folder: Path) -> Best:
        arrays = [_array(folder, f"{number}.npy") for number in self._numbers]
        if len({len(array) for array in arrays}) > 1 or arrays[0].shape != arrays[1].shape:
            raise BadFile(f"the files in {folder} do not fit together; {_fix(folder)}")
        floors = _array(folder, FLOORS) if (folder / FLOORS).exists() else [array[:, -1] for array in arrays[::2]]
        best = list[BestScores]()
        for number, counts in enumerate(self.records.counts):
            scores, partners = arrays[2 * number : 2 * number + 2]
            lists = BestScores.empty(len(scores), counts.kept)
            width = min(scores.shape[1], counts.kept)
            lists.scores[:, :width], lists.partners[:, :width] = scores[:, :width], partners[:, :width]
            best.append(BestScores(lists.scores, lists.partners, np.array(floors[number])))
        return tuple(best)

    def write(self) -> None:
        """Write the scores that the records have."""
        assert self.records.best is not None
        folder = self.folder / self._name
        for number, one in enumerate(self.records.best):
            store_array(folder / f"{2 * number}.npy", one.scores)
            store_array(folder / f"{2 * number + 1}.npy", one.partners)
        store_array(folder / FLOORS, np.stack([one.floor for one in self.records.best]))
        store_array(folder / RECORDS, self._digests)
        write_json(folder / ABOUT, {"beside": self._beside})


def _digests(side: RecordSide) -> Digests:
    """Return (n, 2) the digest of each record and its vector."""
    vectors = np.ascontiguousarray(side.vectors)
    digests = [
        hashlib.sha256(vector.tobytes() + text_of(cells).encode("utf-8", "surrogatepass")).digest()[:16]
        for vector, cells in zip(vectors, side.cells, strict=True)
    ]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64).reshape(-1, 2)


def _matched(before: Digests, now: Digests) -> Rows:
    """Return for each of (n, 2) digests now its row among those before, NONE for a new one; each row once.

    Records of one digest are the same, so it does not matter which of them is which.
    """
    rows_of = dict[tuple[int, ...], list[int]]()
    for row, digest in enumerate(map(tuple, before.tolist())):
        rows_of.setdefault(digest, []).append(row)
    found = [rows_of[digest].pop() if rows_of.get(digest) else NONE for digest in map(tuple, now.tolist())]
    return np.array(found, dtype=np.int64)


def _array(folder: Path, name: str) -> np.ndarray:
    try:
        return np.array(load_array(folder / name))
    except (OSError, ValueError) as error:
        raise BadFile(f"{folder / name} cannot be read ({error}); {_fix(folder)}") from error


def _fix(folder: Path) -> str:
    return f"delete {folder} and start again"
