"""The nearest by 3-grams against a dense double loop, whatever the chunks, blocks, threads and conditions."""

import math
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.core.pair_rule import GroupCodes, PairRule
from al_ray.core.pairs import NO_PAIRS
from al_ray.core.rng import generator
from al_ray.search.lexical import nearest
from al_ray.search.lexical.conditions import INSIDE, PairConditions
from al_ray.search.lexical.grams import COLUMNS, Grams
from al_ray.search.lexical.nearest import lexical_scores, nearest_among, nearest_lexical, prepare_others
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
            score = np.float32(min(1, sum(own[gram] * its.get(gram, 0) for gram in own) / SCALE**2))
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


@contextmanager
def blocks_of(draw):
    """Blocks of any small size, and few sums that are kept."""
    with pytest.MonkeyPatch.context() as patch:
        for name, most in (("QUERIES", 4), ("OTHERS", 6), ("NUMBERS", 30), ("SPARE", 3), ("ANSWERS", 9)):
            patch.setattr(nearest, name, draw(st.integers(0 if name == "SPARE" else 1, most), label=name))
        yield


@given(TEXTS, TEXTS, st.integers(1, 5), st.integers(1, 12), st.integers(1, 2), st.data())
def test_the_nearest_are_those_of_a_double_loop(left, right, count, size, threads, data):
    weights = weights_for(left, right)
    with blocks_of(data.draw):
        small = nearest_lexical(
            weighed(left, weights), in_chunks(right, weights, size), count, PairConditions(), threads
        )
    assert as_lists(small) == twin(left, right, count, lambda i, j: True, left + right)
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
    with blocks_of(data.draw):
        found = nearest_lexical(weighed(left, weights), in_chunks(right, weights, 5), count, conditions)
    assert as_lists(found) == twin(left, right, count, is_pair, left if symmetric else left + right)


@given(TEXTS, TEXTS, st.data(), st.integers(1, 3))
def test_right_texts_find_left_ones_by_conditions_that_are_turned(left, right, data, count):
    codes = [
        np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(side), max_size=len(side))), dtype=np.int32)
        for side in (left, right, left, right)
    ]
    rule = PairRule(GroupCodes(("x",), codes[0], codes[1]), GroupCodes(("y",), codes[2], codes[3]))
    weights = weights_for(left, right)
    found = nearest_lexical(
        weighed(right, weights), in_chunks(left, weights, 5), count, PairConditions(False, rule).turned
    )

    def is_pair(j, i):
        return bool(rule.allows(np.array([[i, j]]))[0])

    assert as_lists(found) == twin(right, left, count, is_pair, left + right)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("equal", [1, 5, 40, 300])
def test_of_equal_texts_the_first_are_found(equal, threads):
    # In the order in which sparse_dot_topn meets them, any of the equal ones would be kept.
    texts = ["red shoe", *["blue shoe"] * equal, "shoe", *["blue shoe"] * equal]
    weights = weights_for(texts)
    scores, rows = nearest_lexical(
        weighed(texts, weights), in_chunks(texts, weights, 70), 5, PairConditions(True), threads
    )
    blue = [row for row, text in enumerate(texts) if text == "blue shoe"]
    for row in blue:
        others = [other for other in blue if other != row][:5]
        assert rows[row, : len(others)].tolist() == others
        assert scores[row, : len(others)].tolist() == [1] * len(others)


@given(TEXTS, st.permutations(range(12)), st.integers(1, 4))
def test_queries_may_come_in_any_order_and_part_by_part(texts, order, count):
    weights = weights_for(texts)
    order = np.array([row for row in order if row < len(texts)])
    whole = nearest_lexical(weighed(texts, weights), [weighed(texts, weights)], count, PairConditions(True))
    queries = weighed(texts, weights).take(order)
    prepared = list(prepare_others(in_chunks(texts, weights, 3), PairConditions(True)))
    for part in (slice(0, 2), slice(2, None)):
        scores, rows = nearest_among(queries.take(part), prepared, count, PairConditions(True))
        assert scores.tolist() == whole[0][order][part].tolist()
        assert rows.tolist() == whole[1][order][part].tolist()


@given(TEXTS, st.integers(1, 4))
def test_a_score_is_the_same_from_both_sides(texts, count):
    weights = weights_for(texts)
    some = weighed(texts, weights)
    pairs = np.argwhere(np.ones((len(texts), len(texts)), dtype=np.bool_))
    assert lexical_scores(some, some, pairs).tolist() == lexical_scores(some, some, pairs[:, ::-1]).tolist()


def test_no_queries_and_no_others_are_no_error():
    weights = weights_for(["ab"])
    some, none = weighed(["ab", ""], weights), weighed([], weights)
    for queries, others in ((none, [some]), (some, [none]), (some, []), (none, [none])):
        scores, rows = nearest_lexical(queries, others, 3, PairConditions())
        assert scores.tolist() == np.full((len(queries), 3), -np.inf).tolist()
        assert rows.tolist() == np.full((len(queries), 3), -1).tolist()
        assert (scores.dtype, rows.dtype) == (np.float32, np.int64)
    assert len(lexical_scores(some, some, NO_PAIRS)) == 0


def test_a_very_long_text_finds_itself_with_a_score_of_at_most_one():
    # Rounded weights of thousands of 3-grams may be longer than 1 together.
    rng = generator(0, "lexical-long", 0)
    long = " ".join("".join(map(chr, word)) for word in rng.integers(0x4E00, 0x9FFF, (3_000, 3)).tolist())
    texts = [long, long[:-1], "a"]
    weights = weights_for(texts)
    scores, rows = nearest_lexical(weighed(texts, weights), [weighed(texts, weights)], 2, PairConditions())
    assert rows[0].tolist() == [0, 1]
    assert scores.max() <= 1
    assert scores[0, 0] == pytest.approx(1, abs=1e-6)


def test_sums_of_the_worst_texts_and_conditions_have_63_bits():
    # A text has at most COLUMNS 3-grams, each of which rounding can lengthen by a half.
    longest = (SCALE + math.sqrt(COLUMNS) / 2) ** 2
    assert longest < INSIDE
    assert longest + INSIDE < 4 * SCALE**2
    assert longest + INSIDE < 2**63
