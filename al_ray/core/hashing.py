"""Named draws by hash: each depends on a seed, a purpose and its own key or number alone.

The generators of core/rng.py draw in sequence, so one process draws everything. A draw by hash can be made anywhere, in
any order: every shard makes its own, and together they are the draws of one process.
"""

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from al_ray.core.pairs import Keys

BLOCK = 2**14  # Hashes computed at a time: they stay in the processor's cache.

Hashes = npt.NDArray[np.uint64]


def mix(keys: Hashes) -> Hashes:
    """Hash keys of any shape by splitmix64 (Steele, Lea and Flood, 2014); distinct keys have distinct hashes.

    Each input bit flips half of the output bits.
    """
    mixed = keys + np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def hash_keys(keys: Keys, seed: int, purpose: str) -> Hashes:
    """(n,) keys -> (n,) hashes, uniform over 64 bits. Hashes of another seed or purpose are independent of them.

    Distinct keys have distinct hashes, so that their order has no ties.
    """
    salt = blake2b(f"{seed} {purpose}".encode(), digest_size=16).digest()
    first, second = np.frombuffer(salt, dtype="<u8")
    hashes = np.empty(len(keys), dtype=np.uint64)
    for start in range(0, len(keys), BLOCK):
        part = slice(start, start + BLOCK)
        # Mixed twice: hashes of neighbouring keys by one splitmix64 fail strict tests of randomness.
        hashes[part] = mix(mix(keys[part].astype(np.uint64) + first) ^ second)
    return hashes


def uniform_at(numbers: npt.NDArray[np.int64], seed: int, purpose: str, total: int) -> npt.NDArray[np.int64]:
    """(n,) numbers of draws -> (n,) positions, uniform over [0, total) without bias; total is at least 1.

    A hash in the last, incomplete run of `total` values is rejected and replaced by that of another purpose.
    """
    positions = np.empty(len(numbers), dtype=np.int64)
    highest, left, attempt = np.uint64(2**64 // total * total - 1), np.arange(len(numbers)), 0
    while len(left):
        hashes = hash_keys(numbers[left], seed, f"{purpose} {attempt}")
        positions[left] = hashes % np.uint64(total)
        left, attempt = left[hashes > highest], attempt + 1
    return positions
