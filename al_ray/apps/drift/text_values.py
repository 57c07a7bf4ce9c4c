"""Values of single texts: characters, unknown words, and the distance to the nearest training text.

A training text is compared with the other training texts. Those that match it are left out, as far as the model tells:
many texts to match have no match in training, and would else look new beside training texts, all of which have one.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from al_ray.core.pairs import Rows
from al_ray.core.scorer import Floats
from al_ray.core.vectors import Vectors

WORD = re.compile(r"\w+")
MOST_MATCHES = 10
"""At most as many matches of a training text are left out: its nearest."""
BLOCK = 512  # Texts that are compared with all training texts at once.


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, in order: runs of letters, digits and underscores."""
    return WORD.findall(text.lower())


def count_texts(texts: Sequence[str]) -> Counter[str]:
    """Return in how many of the texts each word occurs."""
    return Counter(word for text in texts for word in set(words_of(text)))


def unknown_shares(texts: Sequence[str], known: Mapping[str, int]) -> Floats:
    """(n,) texts -> (n,) share of the words of each that occur in no training text; 0 for a text without words.

    known: in how many training texts each word occurs.
    """
    return np.array([_share(words_of(text), known, Counter()) for text in texts], dtype=np.float64)


def unknown_in_training(texts: Sequence[str], known: Mapping[str, int], matches: Sequence[Rows]) -> Floats:
    """(n,) training texts -> (n,) share of the words of each that occur in no training text but it and its matches.

    known: in how many training texts each word occurs, these included. matches: for each text the places of others
    among these.
    """
    words = [words_of(text) for text in texts]
    shares = np.empty(len(texts))
    for place, others in enumerate(matches):
        near = Counter(word for other in (place, *others.tolist()) for word in set(words[other]))
        shares[place] = _share(words[place], known, near)
    return shares


def _share(words: Sequence[str], known: Mapping[str, int], near: Counter[str]) -> float:
    """Return the share of the words that occur in no training text beyond those counted in `near`."""
    unknown = sum(word not in known or known[word] - near[word] < 1 for word in words)
    return unknown / len(words) if words else 0.0


def distance_to(training: Vectors, vectors: Vectors) -> Floats:
    """(m, d) and (n, d) unit vectors -> (n,) distance, 1 - cosine, of each to the nearest training text.

    Infinite if there is no training text.
    """
    nearest = np.full(len(vectors), -np.inf)
    for start in range(0, len(vectors) if len(training) else 0, BLOCK):
        here = slice(start, start + BLOCK)
        nearest[here] = _products(vectors[here], training).max(axis=1)
    return 1.0 - nearest


def distance_within(training: Vectors, boundary: float) -> tuple[Floats, list[Rows]]:
    """Return the distance (m,) of each training text to the nearest other that is no match of it, and its matches.

    Matches are the others with at least the cosine `boundary`, MOST_MATCHES at most. NaN for a text without any other
    training text.
    """
    distances, matches = np.empty(len(training)), list[Rows]()
    most = min(MOST_MATCHES + 1, len(training) - 1)
    for start in range(0, len(training), BLOCK):
        cosines = _products(training[start : start + BLOCK], training)
        cosines[np.arange(len(cosines)), start + np.arange(len(cosines))] = -np.inf
        # Equal cosines in order of place, the highest first; the text itself is last and not among them.
        nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :most]
        values = np.take_along_axis(cosines, nearest, axis=1)
        for row, (near, of_near) in enumerate(zip(nearest, values, strict=True)):
            count = min(int((of_near >= boundary).sum()), MOST_MATCHES)
            matches.append(near[:count])
            distances[start + row] = 1.0 - of_near[count] if count < len(near) else np.nan
    return distances, matches


def _products(ones: Vectors, others: Vectors) -> Floats:
    return (ones.astype(np.float32) @ others.astype(np.float32).T).astype(np.float64)
