"""Miners and filters: hand-worked values, slow twins, and one contract for every miner."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.apps.papers.mining.dense import PoolVectors, build_miner
from al_ray.apps.papers.mining.lexical import Bm25, Tfidf, terms
from al_ray.apps.papers.mining.miners import (
    DRAWN,
    MINERS,
    Hardest,
    MinedPairs,
    Pool,
    Random,
    balance_bins,
    deduplicate,
    highest_above_zero,
)
from al_ray.apps.papers.mining.negatives import (
    KnownMatches,
    NegativesConfig,
    filter_mined,
    first_per_query,
    lowest_positive_scores,
    mine_negatives,
)
from al_ray.core.errors import BadOption
from al_ray.core.pairs import as_pairs
from al_ray.core.rng import generator
from al_ray.encoders.encoder import untrained

WORDS = st.sampled_from(["ant", "bee", "cat", "dog", "eel", ".", "?"])
TEXTS = st.lists(st.lists(WORDS, max_size=6).map(" ".join), min_size=2, max_size=12)


def pool_of(texts, queries=None, candidates=None) -> Pool:
    every = np.arange(len(texts))
    return Pool(
        tuple(texts),
        every if queries is None else np.array(queries),
        every if candidates is None else np.array(candidates),
    )


def mined_of(pairs, scores=None, ranks=None) -> MinedPairs:
    pairs = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    count = len(pairs)
    return MinedPairs(
        pairs, np.full(count, "hand"), np.array(scores if scores is not None else np.zeros(count), dtype=np.float64),
        np.array(ranks if ranks is not None else np.arange(1, count + 1), dtype=np.int64),
    )  # fmt: skip


def slow_bm25(query: str, documents: list[str], k1: float = 1.5, b: float = 0.75) -> list[float]:
    split = [terms(document) for document in documents]
    mean = sum(map(len, split)) / len(split)
    scores = []
    for words in split:
        counts, total = Counter(words), 0.0
        for word in terms(query):
            n = sum(word in other for other in split)
            idf = math.log(1 + (len(split) - n + 0.5) / (n + 0.5))
            if counts[word]:
                total += idf * counts[word] / (counts[word] + k1 * (1 - b + b * len(words) / mean))
        scores.append(total)
    return scores


def slow_tfidf(query: str, documents: list[str]) -> list[float]:
    split = [terms(document) for document in documents]
    known = {word for words in split for word in words}
    idf = {word: 1 + math.log((1 + len(split)) / (1 + sum(word in words for words in split))) for word in known}

    def vector(words):
        weights = {word: count * idf[word] for word, count in Counter(words).items() if word in known}
        norm = math.sqrt(sum(weight**2 for weight in weights.values()))
        return {word: weight / norm for word, weight in weights.items()}

    query_vector = vector(terms(query))
    return [sum(query_vector.get(word, 0.0) * weight for word, weight in vector(words).items()) for words in split]


@pytest.mark.parametrize(("kind", "twin"), [(Bm25, slow_bm25), (Tfidf, slow_tfidf)])
@given(texts=TEXTS, data=st.data())
def test_a_lexical_miner_is_its_slow_twin(kind, twin, texts, data):
    candidates = sorted(data.draw(st.sets(st.integers(0, len(texts) - 1), min_size=1)))
    pool = pool_of(texts, candidates=candidates)
    miner = kind(pool)
    documents = [texts[row] for row in candidates]
    if not any(map(terms, documents)):
        assert len(miner.mine(3)) == 0
        return
    mined = miner.mine(3)
    for query in range(len(texts)):
        expected = twin(texts[query], documents)
        pairs = as_pairs([query] * len(candidates), candidates)
        assert miner.scores(pairs) == pytest.approx(expected, abs=1e-9)
        result = mined.select(mined.pairs[:, 0] == query)
        # Rounded: equal scores may differ in their last bits.
        best = sorted(
            (-round(score, 9), row)
            for row, score in zip(candidates, expected, strict=True)
            if row != query and score > 0
        )
        assert result.scores == pytest.approx([-score for score, _ in best[:3]], abs=1e-8)
        assert result.ranks.tolist() == list(range(1, len(result) + 1))


def test_words_are_runs_of_letters_and_digits_in_lower_case():
    assert terms("A cat's 2nd (Über)!") == ["a", "cat", "s", "2nd", "über"]


def test_bm25_by_hand():
    # Two candidates, of 1 and 3 words, 2 in the mean; "cat" occurs in one of them, twice.
    # idf = ln(1 + 1.5 / 1.5) = ln 2; f / (f + 1.5 * (0.25 + 0.75 * 3 / 2)) = 2 / (2 + 2.0625)
    miner = Bm25(pool_of(["dog", "cat cat bee", "Cat!"], queries=[2], candidates=[0, 1]))
    result = miner.mine(5)
    assert result.pairs.tolist() == [[2, 1]]
    assert result.scores == pytest.approx([math.log(2) * 2 / 4.0625])


def test_tfidf_by_hand():
    # Each word occurs in one of two candidates: idf is the same, and the cosine is that of counts, 1 / sqrt(2).
    result = Tfidf(pool_of(["ant bee", "cat", "bee"], queries=[2], candidates=[0, 1])).mine(5)
    assert result.pairs.tolist() == [[2, 0]]
    assert result.scores == pytest.approx([1 / math.sqrt(2)])


def test_the_highest_are_in_order_and_equal_ones_by_place():
    assert highest_above_zero(np.array([0.0, 2.0, 1.0, 2.0, 1.0, 3.0]), 4).tolist() == [5, 1, 3, 2]
    assert highest_above_zero(np.array([0.0, 0.0]), 4).tolist() == []


@pytest.mark.parametrize("name", MINERS)
@given(texts=TEXTS, data=st.data())
def test_every_miner_keeps_the_contract(name, texts, data):
    rows = st.sets(st.integers(0, len(texts) - 1), min_size=1).map(sorted)
    pool, count = pool_of(texts, data.draw(rows), data.draw(rows)), data.draw(st.integers(1, 4))
    # Vectors without an encoder: what a text is does not matter here.
    vectors = np.random.default_rng(0).normal(size=(len(texts), 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    embedded = PoolVectors(np.arange(len(texts)), vectors)
    result, again = (build_miner(name, pool, embedded, 3, np.random.default_rng(1)).mine(count) for _ in range(2))
    assert np.isin(result.pairs[:, 0], pool.queries).all()
    assert np.isin(result.pairs[:, 1], pool.candidates).all()
    assert (result.pairs[:, 0] != result.pairs[:, 1]).all(), "a text is no pair with itself"
    assert len(np.unique(result.pairs, axis=0)) == len(result), "a candidate of a query is offered once"
    assert all(source == name for source in result.sources)
    assert result.pairs.tolist() == again.pairs.tolist(), "the same draw, the same pairs"
    for query in pool.queries.tolist():
        own = result.select(result.pairs[:, 0] == query)
        others = int((pool.candidates != query).sum())
        assert len(own) <= min(count, others)
        if name in ("random", "neighbours"):
            assert len(own) == min(count, others)
        if name == "random":
            assert (own.ranks == DRAWN).all()
            assert np.isnan(own.scores).all()
        else:
            assert own.ranks.tolist() == list(range(1, len(own) + 1))
            assert (np.diff(own.scores) <= 0).all()
    scores = build_miner(name, pool, embedded, 3, np.random.default_rng(1)).scores(result.pairs)
    assert scores == pytest.approx(result.scores, abs=1e-6, nan_ok=True)


def test_neighbours_are_those_of_all_cosines(letters):
    texts = ["ant", "ants", "bee", "beetle", "cat", "cart"]
    pool = pool_of(texts, queries=[0, 2], candidates=[0, 1, 3, 4, 5])
    embedded = PoolVectors.encode(untrained(letters, None), pool)  # type: ignore[arg-type]
    assert np.linalg.norm(embedded.vectors, axis=1) == pytest.approx(np.ones(6), abs=1e-5)
    result = build_miner("neighbours", pool, embedded, 0, generator(0, "x")).mine(2)
    cosines = embedded.vectors @ embedded.vectors.T
    for query in (0, 2):
        others = [row for row in pool.candidates.tolist() if row != query]
        expected = sorted(others, key=lambda row: -cosines[query, row])[:2]
        assert result.select(result.pairs[:, 0] == query).pairs[:, 1].tolist() == expected


def test_the_hardest_are_the_highest_of_a_new_sample_in_each_call():
    pool = pool_of(["x"] * 40, queries=[0])
    miner = Hardest(pool, lambda pairs: pairs[:, 1].astype(np.float64), 10, np.random.default_rng(0))
    one, other = miner.mine(3), miner.mine(3)
    assert (np.diff(one.pairs[:, 1]) < 0).all()
    assert one.pairs.tolist() != other.pairs.tolist()
    everything = Hardest(pool, lambda pairs: pairs[:, 1].astype(np.float64), 99, np.random.default_rng(0)).mine(3)
    assert everything.pairs.tolist() == [[0, 39], [0, 38], [0, 37]]


def test_each_filter_by_hand():
    pool = pool_of([f"t{row}" for row in range(8)])
    # 0-1 and 1-2 are labelled, so that 0, 1 and 2 are one component; the lowest positive of query 0 scores 0.8.
    known = KnownMatches(np.array([[0, 1], [1, 2]]), np.array([0, 0, 0, 1, 2, 3, 4, 5]))
    mined = mined_of([[0, 1], [0, 2], [0, 3], [0, 4], [0, 5], [0, 6]], [0.9, 0.85, 0.79, 0.7, 0.5, 0.1])

    def left(**options) -> list[int]:
        config = NegativesConfig(per_text=5, **options)
        return filter_mined(mined, pool, known, config, np.full(8, 0.8)).pairs[:, 1].tolist()

    assert left() == [3, 4, 5, 6], "1 is a labelled positive, 2 is of its component"
    assert left(first_rank=4) == [4, 5, 6]
    assert left(last_rank=5) == [3, 4, 5]
    assert left(ceiling=0.7) == [4, 5, 6], "0.7 itself is not above the ceiling"
    assert left(margin=0.1) == [4, 5, 6], "0.79 > 0.8 - 0.1, and 0.7 is not"
    assert left(margin=0.0) == [3, 4, 5, 6]
    alone = KnownMatches(known.positives, np.arange(8))
    selected = filter_mined(mined, pool, alone, NegativesConfig(), np.empty(0)).pairs[:, 1].tolist()
    assert selected == [2, 3, 4, 5, 6], "without components the labelled positive alone goes"


def test_the_margin_is_below_the_lowest_positive_of_a_text():
    pool = pool_of([f"t{row}" for row in range(5)])
    known = KnownMatches(np.array([[0, 1], [2, 0]]), np.array([0, 0, 0, 1, 2]))
    scores_of = {(0, 1): 0.9, (1, 0): 0.8, (2, 0): 0.7, (0, 2): 0.45}
    miner = Hardest(pool, lambda pairs: np.array([scores_of[one, other] for one, other in pairs.tolist()]), 1, None)  # type: ignore[arg-type]
    floor = lowest_positive_scores(miner, pool, known)
    assert floor.tolist() == [0.45, 0.8, 0.7, np.inf, np.inf]
    mined = mined_of([[0, 3], [0, 4], [3, 4]], [0.5, 0.3, 0.9])
    result = filter_mined(mined, pool, known, NegativesConfig(margin=0.1), floor)
    # 0.45 - 0.1 = 0.35: the pair of 0.5 goes. Text 3 has no positive, and no margin.
    assert result.pairs.tolist() == [[0, 4], [3, 4]]


def test_random_pairs_pass_the_filters_of_rank_and_score_alone():
    pool = pool_of(["a", "b", "c"])
    known = KnownMatches(np.array([[0, 1]]), np.array([0, 0, 1]))
    drawn = mined_of([[0, 1], [0, 2]], [np.nan, np.nan], [DRAWN, DRAWN])
    config = NegativesConfig(first_rank=3, ceiling=0.1, margin=0.5)
    assert filter_mined(drawn, pool, known, config, np.full(3, 0.7)).pairs.tolist() == [[0, 2]]


def test_the_first_of_each_query_in_their_order():
    mined = mined_of([[3, 0], [1, 0], [3, 1], [3, 2], [1, 2]])
    assert first_per_query(mined, 2).pairs.tolist() == [[3, 0], [1, 0], [3, 1], [1, 2]]


def test_a_share_of_the_negatives_is_drawn():
    pool = pool_of([f"word{row % 4} and {row}" for row in range(30)])
    known = KnownMatches(np.empty((0, 2), dtype=np.int64), np.arange(30))
    config = NegativesConfig(per_text=5, random_share=0.4)
    result = mine_negatives(Bm25(pool), Random(pool, np.random.default_rng(0)), pool, known, config)
    assert set(result.sources.tolist()) == {"bm25", "random"}
    assert len(np.unique(result.pairs, axis=0)) == len(result), "mined pairs are not drawn again"
    for query in range(30):
        own = result.sources[result.pairs[:, 0] == query]
        assert (own == "random").sum() == 2
        assert (own == "bm25").sum() == 3


def test_every_candidate_is_as_likely_to_be_among_the_first_drawn():
    draws, times = Random(pool_of(["x"] * 31, queries=[0]), np.random.default_rng(0)), np.zeros(31)
    for _ in range(3000):
        times[first_per_query(draws.mine(6), 1).pairs[:, 1]] += 1
    assert times[0] == 0
    # Each of the 30 others about 100 times; six standard deviations are 59.
    assert (np.abs(times[1:] - 100) < 59).all()


@given(st.data())
def test_negatives_pass_all_filters_for_any_miner(data):
    count = data.draw(st.integers(2, 12))
    pairs = data.draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=8))
    positives = np.array([pair for pair in pairs if pair[0] != pair[1]], dtype=np.int64).reshape(-1, 2)
    component = np.arange(count)
    for one, other in positives.tolist():
        component[component == component[other]] = component[one]
    pool, known = pool_of(["ant bee"] * count), KnownMatches(positives, component)
    config = NegativesConfig(per_text=data.draw(st.integers(1, 4)), random_share=data.draw(st.floats(0, 1)))
    result = mine_negatives(Bm25(pool), Random(pool, np.random.default_rng(0)), pool, known, config)
    assert (component[result.pairs[:, 0]] != component[result.pairs[:, 1]]).all()
    assert len(np.unique(result.pairs, axis=0)) == len(result), "a candidate of a query comes once"
    assert (np.bincount(result.pairs[:, 0], minlength=count) <= config.per_text).all()


def test_a_pair_is_mined_once_in_either_order_and_never_if_excluded():
    pool = pool_of(["a", "b", "c"])
    mined = mined_of([[0, 1], [1, 0], [2, 1], [0, 2]])
    assert deduplicate(mined, pool).pairs.tolist() == [[0, 1], [2, 1], [0, 2]]
    assert deduplicate(mined, pool, pool.keys(np.array([[1, 2]]))).pairs.tolist() == [[0, 1], [0, 2]]


def test_scores_in_balance_by_hand():
    scores = np.array([0.0, 0.05, 0.1, 0.5, 0.55, 0.99, 1.0, 0.07])
    selected = balance_bins(scores, 2, 10, np.random.default_rng(0))
    # Bins of tenths: {0, 1, 7}, {2}, {3, 4}, {5, 6}: of the first, two.
    assert len(selected) == 7
    assert set(range(2, 7)) <= set(selected.tolist())
    assert (np.diff(selected) > 0).all()
    assert len({tuple(balance_bins(scores, 2, 10, np.random.default_rng(seed))) for seed in range(20)}) == 3


def test_an_empty_range_of_ranks_is_refused():
    with pytest.raises(BadOption, match="`last_rank=3` is before `first_rank=4`"):
        NegativesConfig(first_rank=4, last_rank=3)
    with pytest.raises(BadOption, match=r"`random_share` is 1\.5"):
        NegativesConfig(random_share=1.5)
