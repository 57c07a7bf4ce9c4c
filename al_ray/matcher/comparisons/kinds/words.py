"""Comparisons of the sets of words of two texts, weighted by how rare the words are."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from al_ray.core.pairs import Rows
from al_ray.matcher.comparisons.comparison import MISSING, ColumnValues, Comparison, Scores
from al_ray.matcher.comparisons.frequencies import keys_of, words_of

Floats = npt.NDArray[np.float64]
DIGIT = re.compile(r"\d")
WIDTH = np.iinfo(np.int64).max  # Columns of a matrix of words: their keys.


@dataclass(frozen=True)
class WordSets:
    """Sets of words of (n,) values as a sparse matrix (n, WIDTH) of roots of weights, and the sums (n,) of weights.

    A word has the same weight on both sides, as both have the same counts.
    """

    roots: sparse.csr_array
    sums: Floats


@dataclass(frozen=True)
class Words:
    """The words of values, weighted by how few values have them; and those with a digit, all of weight 1."""

    weighted: WordSets
    with_digits: WordSets


def as_words(column: ColumnValues) -> Words:
    """Return the words of values."""
    numbers = dict[str, int]()
    rows, places = list[int](), list[int]()
    for row, value in enumerate(column.values):
        words = {numbers.setdefault(word, len(numbers)) for word in words_of(value)}
        places += words
        rows += [row] * len(words)
    keys, counted = keys_of(list(numbers)), column.counts.words
    weights = np.log((1 + counted.total) / (1.0 + counted.of(keys))) + 1
    digits = np.array([DIGIT.search(word) is not None for word in numbers], dtype=np.bool_)
    row, place, count = np.array(rows, dtype=np.int64), np.array(places, dtype=np.int64), len(column.values)
    has = digits[place]
    return Words(
        _sets(count, row, keys[place], weights[place] ** 2),
        _sets(count, row[has], keys[place[has]], np.ones(has.sum())),
    )


def _sets(count: int, rows: Rows, keys: Rows, weights: Floats) -> WordSets:
    # In order of key, in which the weights of a value are added whatever the other values are.
    order = np.lexsort((keys, rows))
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])
    matrix = sparse.csr_array((np.sqrt(weights[order]), keys[order], starts), shape=(count, WIDTH))
    return WordSets(matrix, _sums(rows[order], weights[order], count))


def _shared(left: WordSets, left_rows: Rows, right: WordSets, right_rows: Rows) -> Floats:
    """Return the sums (n,) of the weights of the words that both values have, added in order of key."""
    products = left.roots[left_rows].multiply(right.roots[right_rows]).tocsr()
    rows = np.repeat(np.arange(len(left_rows)), np.diff(products.indptr))
    return _sums(rows, products.data, len(left_rows))


def _sums(rows: Rows, weights: Floats, count: int) -> Floats:
    """Return the sums (count,) of the weights (m,) of each row, one added after the other."""
    return np.bincount(rows, weights, minlength=count).astype(np.float64)


def _cosine(left: Words, left_rows: Rows, right: Words, right_rows: Rows) -> Scores:
    shared = _shared(left.weighted, left_rows, right.weighted, right_rows)
    return _ratio(shared, np.sqrt(left.weighted.sums[left_rows] * right.weighted.sums[right_rows]))


def _overlap(left: Words, left_rows: Rows, right: Words, right_rows: Rows) -> Scores:
    shared = _shared(left.weighted, left_rows, right.weighted, right_rows)
    return _ratio(shared, np.minimum(left.weighted.sums[left_rows], right.weighted.sums[right_rows]))


def _digits(left: Words, left_rows: Rows, right: Words, right_rows: Rows) -> Scores:
    shared = _shared(left.with_digits, left_rows, right.with_digits, right_rows)
    return _ratio(shared, left.with_digits.sums[left_rows] + right.with_digits.sums[right_rows] - shared)


def _rarest_common(left: Words, left_rows: Rows, right: Words, right_rows: Rows) -> Scores:
    one, other = left.weighted, right.weighted
    products = one.roots[left_rows].multiply(other.roots[right_rows]).tocsr()
    return _known(np.sqrt(_highest(products, products.data)), one.sums[left_rows], other.sums[right_rows])


def _rarest_alone(lesser: bool) -> Callable[[Words, Rows, Words, Rows], Scores]:
    """Return the function that compares the rarest words of the left and of the right value that the other lacks."""

    def compute(left: Words, left_rows: Rows, right: Words, right_rows: Rows) -> Scores:
        one, other = left.weighted, right.weighted
        # Common words leave 0, the others of the left value are above it, those of the right one below.
        alone = (one.roots[left_rows] - other.roots[right_rows]).tocsr()
        sides = _highest(alone, alone.data), _highest(alone, -alone.data)
        scores = np.minimum(*sides) if lesser else np.maximum(*sides)
        return _known(scores, one.sums[left_rows], other.sums[right_rows])

    return compute


def _highest(matrix: sparse.csr_array, weights: Floats) -> Floats:
    """Return the highest of the weights (m,) of each row of a matrix with m entries, at least 0."""
    starts = matrix.indptr[:-1]
    there = np.diff(matrix.indptr) > 0
    highest = np.zeros(len(starts))
    if there.any():
        highest[there] = np.maximum.reduceat(weights, starts[there])
    return np.maximum(highest, 0)


def _known(scores: Floats, left_sums: Floats, right_sums: Floats) -> Scores:
    return np.where((left_sums > 0) & (right_sums > 0), scores, MISSING).astype(np.float32)


def _ratio(shared: Floats, whole: Floats) -> Scores:
    ratio = np.divide(shared, whole, out=np.full(len(shared), MISSING), where=whole > 0)
    return np.minimum(ratio, 1).astype(np.float32)


WEIGHT = "w = (ln((1 + N) / (1 + d)) + 1)^2, where d of N values have the word"
HIGHEST = 45.0  # ln(2^63) + 1 is 44.7.
TFIDF = Comparison(
    name="TF-IDF of words",
    formula=f"sum of w over the common words / sqrt(sum of w over a * sum of w over b); {WEIGHT}",
    low=0,
    high=1,
    source="Manning et al. (2008), Introduction to Information Retrieval, 6.3.1, terms of a text counted once",
    of=("whole text", "text", "name"),
    prepare=as_words,
    compute=_cosine,
)
OVERLAP = Comparison(
    name="overlap of words",
    formula="sum of w over the common words / min(sum of w over a, sum of w over b); w as in TF-IDF of words",
    low=0,
    high=1,
    source="overlap coefficient, Szymkiewicz (1934) and Simpson (1943), with weights",
    of=("whole text", "text"),
    prepare=as_words,
    compute=_overlap,
)
DIGITS = Comparison(
    name="Jaccard of words with digits",
    formula="|A n B| / |A u B|; A, B: the words of a, b that have a digit; -1 if there are none",
    low=0,
    high=1,
    source="Jaccard (1912)",
    of=("whole text", "text"),
    prepare=as_words,
    compute=_digits,
)
RAREST_COMMON = Comparison(
    name="rarest common word",
    formula="max of sqrt(w) over the common words, 0 if there are none; w as in TF-IDF of words",
    low=0,
    high=HIGHEST,
    source="Sparck Jones (1972), A statistical interpretation of term specificity",
    of=("whole text", "text"),
    prepare=as_words,
    compute=_rarest_common,
)
RAREST_OF_ONE = Comparison(
    name="rarest word of one alone",
    formula="max of sqrt(w) over the words that a or b alone has, 0 if there are none; w as in TF-IDF of words",
    low=0,
    high=HIGHEST,
    source="Sparck Jones (1972), A statistical interpretation of term specificity",
    of=("whole text", "text"),
    prepare=as_words,
    compute=_rarest_alone(lesser=False),
)
RAREST_OF_BOTH = Comparison(
    name="rarest words of both alone",
    formula="min(max of sqrt(w) over the words that a alone has, the same of b), 0 if one has none; w as in TF-IDF",
    low=0,
    high=HIGHEST,
    source="Sparck Jones (1972), A statistical interpretation of term specificity",
    of=("whole text", "text"),
    prepare=as_words,
    compute=_rarest_alone(lesser=True),
)
