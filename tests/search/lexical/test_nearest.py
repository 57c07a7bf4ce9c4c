"""The nearest by 3-grams against a dense double loop, whatever the chunks, blocks, threads and conditions."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.pair_rule import GroupCodes, PairRule
from al_ray.search.lexical import nearest
from al_ray.search.lexical.conditions import PairConditions
from al_ray.search.lexical.grams import Grams
from al_ray.search.lexical.nearest import lexical_scores, nearest_lexical
from al_ray.search.lexical.weights import SCALE, DocumentFrequencies, GramWeights

WORDS = ["a", "ab", "abc", "abd", "bcd", "xyz", "Abc", "é", "日本語", ""]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), min_size=1, max_size=12)


def grams_of(text):
    """The slow twin of the hash: 3-grams as strings."""
    words = [f" {word} " for word in text.lower().split()]
    return Counter(word[at : at + 3] for word in words for at in range(len(word) - 2))


def weights_of(text, corpus):
    """Whole numbers for each 3-gram of a text, by the formula."""
    df, n = Counter(gram for one in corpus for gram in grams_of(one)), len(corpus)
    values = {gram: tf * (math.log((1 + n) / (1 + df[gram])) + 1) for gram, tf in grams_of(text).items()}
    length = math.sqrt(sum(value**2 for value in values.values()))
    return {gram: round(value / length * SCALE) for gram, value in values.items()}


def twin(left, right, count, is_pair, corpus):
    """For each left text, a loop over all right texts."""
    found = []
    for i, text in enumerate(left):
        own, scored = weights_of(text, corpus), []
        for j, other in enumerate(right):
            its = weights_of(other, corpus)
            score = np.float32(min(1, np.float32(sum(own[gram] * its.get(gram, 0) for gram in own)) / SCALE**2))
            if score > 0 and is_pair(i, j):
                scored.append((-score, j))
        found.append([(float(-score), j) for score, j in sorted(scored)[:count]])
    return found


def as_lists(neighbors):
    return [
        [(float(score), row) for score, row in zip(scores, rows.tolist(), strict=True) if row >= 0]
        for scores, rows in zip(*neighbors, strict=True)
    ]


def weighed(texts, weights, rows=None):
    return weights.weigh(np.arange(len(texts)) if rows is None else rows, Grams.of(texts))


def weights_for(*sides):
    frequencies = DocumentFrequencies.of([Grams.of(texts) for texts in sides])
    return GramWeights(frequencies, frequencies.most)


def in_chunks(texts, weights, size):
    return [
        weighed(texts[at : at + size], weights, np.arange(at, min(at + size, len(texts))))
        for at in range(0, len(texts), size)
    ]


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(nearest, "QUERIES", 3)
    monkeypatch.setattr(nearest, "OTHERS", 4)
    monkeypatch.setattr(nearest, "SPARE", 1)
    monkeypatch.setattr(nearest, "ANSWERS", 5)


@given(TEXTS, TEXTS, st.integers(1, 5), st.integers(1, 12), st.integers(1, 2))
def test_the_nearest_are_those_of_a_double_loop(left, right, count, size, threads):
    weights = weights_for(left, right)
    found = nearest_lexical(weighed(left, weights), in_chunks(right, weights, size), count, PairConditions(), threads)
    assert found[0].shape == found[1].shape == (len(left), count)
    assert as_lists(found) == twin(left, right, count, lambda i, j: True, left + right)


@given(TEXTS, TEXTS, st.data())
def test_scores_of_pairs_are_those_of_the_search(left, right, data):
    weights = weights_for(left, right)
    texts, others = weighed(left, weights), weighed(right, weights)
    scores, rows = nearest_lexical(texts, [others], len(right), PairConditions())
    found = {(i, j): score for i in range(len(left)) for score, j in zip(scores[i], rows[i].tolist(), strict=True)}
    pairs = np.array([(i, j) for i in range(len(left)) for j in range(len(right))])
    pairs = pairs[data.draw(st.permutations(range(len(pairs))))]
    assert lexical_scores(texts, others, pairs).tolist() == [found.get((i, j), 0) for i, j in pairs.tolist()]


@given(TEXTS, TEXTS, st.data(), st.integers(1, 3), st.sampled_from(["same", "different", "both"]), st.booleans())
def test_pairs_that_cannot_match_leave_room_for_others(left, right, data, count, kind, symmetric):
    right = left if symmetric else right
    groups = {}
    for name in ("same", "different") if kind == "both" else (kind,):
        sides = [data.draw(st.lists(st.integers(0, 2), min_size=len(s), max_size=len(s))) for s in (left, right)]
        codes = [np.array(side, dtype=np.int32) for side in sides]
        groups[name] = GroupCodes(("x",), codes[0], codes[0] if symmetric else codes[1])
    rule = PairRule(**groups)

    def is_pair(i, j):
        return bool(rule.allows(np.array([[i, j]]))[0]) and not (symmetric and i == j)

    weights = weights_for(left) if symmetric else weights_for(left, right)
    conditions = PairConditions(symmetric, rule)
    found = nearest_lexical(weighed(left, weights), in_chunks(right, weights, 5), count, conditions)
    assert as_lists(found) == twin(left, right, count, is_pair, left if symmetric else left + right)
