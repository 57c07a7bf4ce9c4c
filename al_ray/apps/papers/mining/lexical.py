"""Mine by the words that two texts share: BM25 and TF-IDF (paper 004, 2.1). A word is a run of letters and digits.

Candidates that share no word with the query are not mined. BM25 is Lucene's, with k1 1.5 and b 0.75 (the defaults of
bm25s); the documents are the pool's candidates. A word that occurs twice in the query counts twice.
"""

import logging
from collections.abc import Iterable, Iterator

import bm25s
import numpy as np
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfVectorizer

from al_ray.apps.papers.mining.miners import NO_PAIRS, MinedPairs, Pool, highest_above_zero, rank_candidates
from al_ray.core.pairs import Pairs
from al_ray.core.scorer import Floats
from al_ray.core.text import words_of

BLOCK = 512  # Queries whose similarities with all candidates are computed at a time.

# At its default level bm25s logs a line for every index.
logging.getLogger("bm25s").setLevel(logging.WARNING)


def terms(text: str) -> list[str]:
    """Return a text's words, without punctuation."""
    return [word for word in words_of(text) if word[0].isalnum()]


def best_candidates(pool: Pool, similarities: Iterable[Floats], count: int, source: str) -> MinedPairs:
    """Return up to `count` candidates of positive similarity for every query, from (c,) similarities of each query."""
    mined = [NO_PAIRS]
    for query, scores in zip(pool.queries.tolist(), similarities, strict=True):
        places = highest_above_zero(scores, count + 1)
        mined.append(rank_candidates(query, pool.candidates[places], scores[places], count, source))
    return MinedPairs.concatenate(mined)


class Bm25:
    """Scores by the sum over the query's words t of idf(t) * f(t, d) / (f(t, d) + k1 * (1 - b + b * |d| / mean |d|)).

    d is the candidate, f(t, d) how often it has t, |d| how many words it has. Of N candidates n(t) have t:
    idf(t) = ln(1 + (N - n(t) + 1/2) / (n(t) + 1/2)).
    """

    def __init__(self, pool: Pool) -> None:
        """Index the candidates."""
        self.pool = pool
        documents = [terms(pool.texts[row]) for row in pool.candidates.tolist()]
        self.index = bm25s.BM25(dtype="float64") if any(documents) else None
        if self.index is not None:
            self.index.index(documents, show_progress=False)

    def mine(self, count: int) -> MinedPairs:
        """Return `count` candidates of every query, ties by row."""
        return best_candidates(self.pool, map(self._scores_of, self.pool.queries.tolist()), count, "bm25")

    def scores(self, pairs: Pairs) -> Floats:
        """Return the (n,) scores of (n, 2) pairs of a query and a candidate."""
        scores = np.empty(len(pairs))
        for query in np.unique(pairs[:, 0]).tolist():
            own = pairs[:, 0] == query
            scores[own] = self._scores_of(query)[np.searchsorted(self.pool.candidates, pairs[own, 1])]
        return scores

    def _scores_of(self, query: int) -> Floats:
        """Return the (c,) scores of all candidates."""
        words = terms(self.pool.texts[query])
        if self.index is None or not words:
            return np.zeros(len(self.pool.candidates))
        return self.index.get_scores(words)


class Tfidf:
    """Scores by the cosine of tf * idf: idf(t) = 1 + ln((1 + N) / (1 + n(t))) over candidates, as in scikit-learn."""

    def __init__(self, pool: Pool) -> None:
        """Count the candidates' words."""
        self.pool = pool
        self.vectorizer = TfidfVectorizer(analyzer=terms)  # pyright: ignore[reportArgumentType] - it takes functions
        documents = [pool.texts[row] for row in pool.candidates.tolist()]
        # scikit-learn refuses an empty vocabulary.
        self.documents = csr_array(self.vectorizer.fit_transform(documents)) if any(map(terms, documents)) else None

    def mine(self, count: int) -> MinedPairs:
        """Return `count` candidates of every query, ties by row."""
        return NO_PAIRS if self.documents is None else best_candidates(self.pool, self._cosines(), count, "tfidf")

    def scores(self, pairs: Pairs) -> Floats:
        """Return the (n,) cosines of (n, 2) pairs of a query and a candidate."""
        if self.documents is None or not len(pairs):
            return np.zeros(len(pairs))
        right = self.documents[np.searchsorted(self.pool.candidates, pairs[:, 1])]
        return np.asarray(self._vectors(pairs[:, 0]).multiply(right).sum(axis=1)).ravel()

    def _cosines(self) -> Iterator[Floats]:
        """Yield the (c,) cosines of each query with all candidates."""
        assert self.documents is not None
        for start in range(0, len(self.pool.queries), BLOCK):
            yield from (self._vectors(self.pool.queries[start : start + BLOCK]) @ self.documents.T).toarray()

    def _vectors(self, rows: np.ndarray) -> csr_array:
        return csr_array(self.vectorizer.transform([self.pool.texts[row] for row in rows.tolist()]))
