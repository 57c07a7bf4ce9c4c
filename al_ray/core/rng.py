"""Named random generators. The only other source of randomness is the hashes of core/hashing.py."""

import numpy as np


def generator(seed: int, purpose: str, number: int = 0) -> np.random.Generator:
    """Return the random generator of a seed, a purpose and a number, such as a round.

    Streams of different names are independent, so a new use of randomness changes no other draw.
    """
    return np.random.default_rng([seed, *purpose.encode(), number])
