"""Comparisons of the sets of words of two texts, weighted by how rare the words are."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from al_ray.core.pairs import Rows
from al_ray.matcher.comparisons.comparison import MISSING, ColumnValues, Comparison, Scores
from al_ray.matcher.comparisons.frequencies import keys_of, words_of

Floats = npt.NDArray[np.float64]
WIDTH = np.iinfo(np.int64).max  # Columns of a matrix of words: their keys.


@dataclass(frozen=True)
class WordSets:
    """Sets of words of (n,) values as a sparse matrix (n, WIDTH) of roots of weights, and the sums (n,) of weights."""

    roots: sparse.csr_array
    sums: Floats


def weighted_words(column: ColumnValues) -> WordSets:
    """Return the words of values, weighted by how few values contain them."""
    rows, places, keys = _words(column, lambda _: True)
    counted = column.counts.words
    weights = np.log((1 + counted.total) / (1.0 + counted.of(keys))) + 1
    return _sets(len(column.values), rows, keys[places], weights[places] ** 2)


def words_with_digits(column: ColumnValues) -> WordSets:
    """Return the words of values that have a digit, such as model numbers, all of weight 1."""
    rows, places, keys = _words(column, lambda word: any(map(str.isdigit, word)))
    return _sets(len(column.values), rows, keys[places], np.ones(len(places)))


def _words(column: ColumnValues, takes: Callable[[str], bool]) -> tuple[Rows, Rows, Rows]:
    """Return the value (m,) and number (m,) of each word of a value, once, and the keys (k,) of the distinct words."""
    numbers = dict[str, int]()
    rows, places = list[int](), list[int]()
    for row, value in enumerate(column.values):
        words = {numbers.setdefault(word, len(numbers)) for word in set(words_of(value)) if takes(word)}
        places += words
        rows += [row] * len(words)
    return np.array(rows, dtype=np.int64), np.array(places, dtype=np.int64), keys_of(list(numbers))


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


def _cosine(left: WordSets, left_rows: Rows, right: WordSets, right_rows: Rows) -> Scores:
    shared = _shared(left, left_rows, right, right_rows)
    return _ratio(shared, np.sqrt(left.sums[left_rows] * right.sums[right_rows]))


def _overlap(left: WordSets, left_rows: Rows, right: WordSets, right_rows: Rows) -> Scores:
    shared = _shared(left, left_rows, right, right_rows)
    return _ratio(shared, np.minimum(left.sums[left_rows], right.sums[right_rows]))


def _jaccard(left: WordSets, left_rows: Rows, right: WordSets, right_rows: Rows) -> Scores:
    shared = _shared(left, left_rows, right, right_rows)
    return _ratio(shared, left.sums[left_rows] + right.sums[right_rows] - shared)


def _ratio(shared: Floats, whole: Floats) -> Scores:
    ratio = np.divide(shared, whole, out=np.full(len(shared), MISSING), where=whole > 0)
    return np.minimum(ratio, 1).astype(np.float32)


WEIGHT = "w = (ln((1 + N) / (1 + d)) + 1)^2, where d of N values have the word"
TFIDF = Comparison(
    name="TF-IDF of words",
    formula=f"sum of w over the common words / sqrt(sum of w over a * sum of w over b); {WEIGHT}",
    low=0,
    high=1,
    source="Manning et al. (2008), Introduction to Information Retrieval, 6.3.1, terms of a text counted once",
    of=("whole text", "text"),
    prepare=weighted_words,
    compute=_cosine,
)
OVERLAP = Comparison(
    name="overlap of words",
    formula="sum of w over the common words / min(sum of w over a, sum of w over b); w as in TF-IDF of words",
    low=0,
    high=1,
    source="overlap coefficient, Szymkiewicz (1934) and Simpson (1943), with weights",
    of=("whole text", "text"),
    prepare=weighted_words,
    compute=_overlap,
)
DIGITS = Comparison(
    name="Jaccard of words with digits",
    formula="|A n B| / |A u B|; A, B: the words of a, b that have a digit; -1 if there are none",
    low=0,
    high=1,
    source="Jaccard (1912)",
    of=("whole text", "text"),
    prepare=words_with_digits,
    compute=_jaccard,
)
