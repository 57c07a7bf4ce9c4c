"""The candidates of a split that one shard owns, in a folder of the pool: keys, cosines, ways, and what a matcher sees.

keys.npy             (n,) sorted keys of pairs
cosines.npy          (n,) float64
ways.npy             (n,) uint8: bit k is set if the k-th way found the pair
left.npy right.npy   (texts, 2 * ways) of each text of the task by row: the mean and the highest score by each way
features-NNNNN.npy   (CHUNK, F) float32 of the next pairs
names.json           the F names; written last, so that a folder without it is not complete
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from al_ray.core.candidates import Order
from al_ray.core.errors import BadFile
from al_ray.core.labels import SavedReference
from al_ray.core.pairs import NO_KEYS, Keys, Pairs, PairSpace
from al_ray.core.scorer import Floats
from al_ray.encoders.tokens import load_array, store_array
from al_ray.search.candidate_ranks import Features
from al_ray.search.shard_spec import ShardSpec
from al_ray.storage.download import fetched
from al_ray.storage.files import read_json, write_json
from al_ray.storage.uri import StoragePath, storage_path

CHUNK = 2**17
NAMES = "names.json"
Ways = npt.NDArray[np.uint8]
# Of keys, cosines, ways, left and right: types and dimensions.
KINDS = [(np.int64, 1), (np.float64, 1), (np.uint8, 1), (np.float64, 2), (np.float64, 2)]


@dataclass(frozen=True)
class OwnRequest:
    """Where the candidates of a split are kept. texts: of the task on each side.

    reference: the frequencies by which they are compared; None for those of the task.
    """

    place: str
    texts: tuple[int, int]
    symmetric: bool
    reference: SavedReference | None = None

    def folder(self, spec: ShardSpec) -> StoragePath:
        """Return the folder of a shard."""
        return storage_path(self.place) / f"{spec.shard}-of-{spec.shards}"

    def is_beside(self, place: str) -> bool:
        """Return whether candidates that are kept in a place were found in the same way, such as of another split."""
        return storage_path(place).parent == storage_path(self.place).parent

    def keys(self, pairs: Pairs) -> Keys:
        """(n, 2) pairs -> (n,) keys."""
        return self._space.keys(pairs)

    def pairs(self, keys: Keys) -> Pairs:
        """(n,) keys -> (n, 2) pairs."""
        return self._space.pairs(keys)

    @property
    def _space(self) -> PairSpace:
        return PairSpace(NO_KEYS, NO_KEYS, self.texts[1], self.symmetric)


@dataclass(frozen=True)
class LeastRequest:
    """Asks for the `count` candidates of least cost; spread: of each left text only the one of least cost."""

    order: Order
    count: int
    spread: bool


@dataclass(frozen=True)
class OwnedCandidates:
    """What the folder holds; features: memory-mapped chunks (up to CHUNK, F), one after the other."""

    keys: Keys
    cosines: Floats
    ways: Ways
    left: Floats
    right: Floats
    features: tuple[Features, ...]
    names: tuple[str, ...]


def has_candidates(folder: StoragePath) -> bool:
    """Return whether a folder is complete."""
    return (folder / NAMES).is_file()


def write_found(folder: StoragePath, arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays of a folder, except the features."""
    for name, array in arrays.items():
        store_array(folder / f"{name}.npy", array)


def write_features(folder: StoragePath, number: int, features: Features) -> None:
    """Write chunk `number` of the features."""
    store_array(folder / f"features-{number:05}.npy", features)


def finish(folder: StoragePath, names: tuple[str, ...]) -> None:
    """Make a folder complete."""
    write_json(folder / NAMES, {"names": list(names)})


def read_candidates(folder: StoragePath) -> OwnedCandidates:
    """Read a complete folder; BadFile if its files do not fit together."""
    fix = f"delete {folder} and run again"
    names = read_json(folder / NAMES, ["names"], fix)["names"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadFile(f"{folder / NAMES} has no list of names; {fix}")
    names, local = tuple(names), fetched(folder)
    try:
        keys, cosines, ways, left, right = (
            load_array(local / f"{name}.npy") for name in ("keys", "cosines", "ways", "left", "right")
        )
        chunks = range(-(-len(keys) // CHUNK))
        features = tuple(load_array(local / f"features-{number:05}.npy") for number in chunks)
        rows = sum(len(chunk) for chunk in features)
        kinds = [(array.dtype, array.ndim) for array in (keys, cosines, ways, left, right)]
        whole = kinds == KINDS and len(keys) == len(cosines) == len(ways) == rows
        whole = whole and all(
            chunk.dtype == np.float32 and chunk.shape[1:] == (len(names),) and np.isfinite(chunk).all()
            for chunk in features
        )
    except (OSError, ValueError, IndexError, TypeError) as error:
        raise BadFile(f"candidates in {folder} cannot be read ({error}); {fix}") from error
    # Keys out of order would be looked for in vain.
    if not whole or not (np.diff(keys) > 0).all() or not np.isfinite(cosines).all():
        raise BadFile(f"candidates in {folder} are truncated or damaged; {fix}")
    return OwnedCandidates(np.array(keys), np.array(cosines), np.array(ways), left, right, features, names)
