"""Counts of all pairs and scores of sampled ones, in float32: every count is that of float64, on each device."""

from dataclasses import replace
from threading import Thread

import faiss
import numpy as np
import pytest
import torch

from al_ray.core.candidates import margin
from al_ray.core.errors import BadFile
from al_ray.core.nearest_means import NearestMeans
from al_ray.core.pair_rule import GroupCodes, PairRule
from al_ray.core.pairs import Pairs, Rows, as_pairs
from al_ray.core.scorer import Scorer
from al_ray.core.vectors import Block, paired_scores, round_to_halves
from al_ray.encoders.products import product
from al_ray.metrics import bootstrap as resampling
from al_ray.metrics import estimator
from al_ray.metrics.average_precision import counts_above
from al_ray.metrics.bootstrap import QueryBootstrap
from al_ray.metrics.estimator import CountRequest, SampleCounter, SampleWeights, count_sample, pieces_of
from al_ray.search import counting
from al_ray.search.counting import count_block, score_pairs
from al_ray.search.paired_products import paired_products


def unit_vectors(count: int, dimension: int = 48, kind: type = np.float32) -> np.ndarray:
    vectors = np.random.default_rng(0).normal(size=(count, dimension))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return vectors if kind == np.float32 else round_to_halves(vectors)


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("queries", [300, 20])
@pytest.mark.parametrize("sides", [0, 1, 2])
def test_sampled_pairs_reach_the_thresholds_that_they_reach_in_float64(kind, queries, device, sides):
    vectors, rows = unit_vectors(300, kind=kind), np.arange(300) * 7
    places = np.random.default_rng(3).permutation(np.argwhere(np.triu(np.ones((queries, 300), bool), 1)))
    offsets, theirs = np.random.default_rng(4).uniform(-1, 1, (2, 300)) * [[sides > 0], [sides > 1]]
    # Fewer pairs than texts are scored in the order of the left texts, more in that of the right ones.
    for pairs in (places, places[:100], places[:0]):
        exact = paired_scores(vectors, pairs[:, 0], vectors, pairs[:, 1]) - (offsets[pairs[:, 0]] + theirs[pairs[:, 1]])
        # Every hundredth cosine is a threshold: its own pair reaches it, whatever float32 would say.
        thresholds = np.unique(np.concatenate([exact[::100], [-1.0, 1.0]]))[::-1]
        left, right = Block(rows[:queries], vectors[:queries]), Block(rows, vectors)
        left = replace(left, offsets=offsets[:queries]) if sides else left
        left = replace(left, right_offsets=NearestMeans(rows, theirs)) if sides > 1 else left
        found = score_pairs(left, right, rows[pairs], thresholds, device)
        assert counts_above(thresholds, found).tolist() == counts_above(thresholds, exact).tolist()
        assert np.abs(found - exact).max(initial=0) < margin(48)
        assert found.tolist() != exact.tolist() or not len(pairs)


def test_a_vector_that_is_not_finite_is_refused():
    vectors = unit_vectors(40)
    vectors[7] = np.nan
    block, thresholds = Block(np.arange(40), vectors), np.array([0.5])
    request = CountRequest(thresholds, QueryBootstrap(np.arange(40), False, thresholds))
    with pytest.raises(BadFile, match="not numbers"):
        score_pairs(block, block, as_pairs([1, 2], [3, 7]), thresholds)
    for device in ("cpu", "cpu:0"):
        with pytest.raises(BadFile, match="not numbers"):
            count_block(block, block, as_pairs([], []), request, None, device=device)


def shifted(left: Block, rows: Rows, shift: float, both: bool) -> Block:
    """Left texts with offsets, of which some are as large as can be; of both sides, the same for the same text."""
    every = NearestMeans(rows, shift * np.sin(rows * np.pi / 2 / 33))
    return replace(left, offsets=every.of(left.rows), right_offsets=every if both else None) if shift else left


def counted(
    vectors, hidden: Pairs, symmetric: bool, rule: PairRule | None, device: str, threads: int, shift: float = 0.0,
    both: bool = False,
):  # fmt: skip
    """The count of the pairs of the texts 100 to 199 with all, at every fiftieth of their scores. shift: of offsets."""
    rows, before = np.arange(len(vectors)), torch.get_num_threads()
    left, right = Block(rows[100:200], vectors[100:200]), Block(rows, vectors)
    left = shifted(left, rows, shift, both)
    cosines = paired_scores(vectors, np.repeat(rows[100:200], len(rows)), vectors, np.tile(rows, 100))
    cosines = left.scores(np.repeat(np.arange(100), len(rows)), np.tile(rows, 100), cosines)
    thresholds = np.unique(cosines[::50])[::-1]
    request = CountRequest(thresholds, QueryBootstrap(rows // 2, symmetric, thresholds[::20]))
    torch.set_num_threads(threads)
    try:
        return cosines, count_block(left, right, hidden, request, Scorer(9.0, -3.0), rule, device), request
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("device", "threads"), [("cpu", 1), ("cpu", 3), ("cpu:0", 1)])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("symmetric", "shift", "both"),
    [(False, 0.0, False), (True, 0.0, False), (False, 1.0, False), (False, 1.0, True), (True, 1.0, True)],
)
@pytest.mark.parametrize("ruled", [False, True])
def test_all_pairs_are_counted_as_in_float64_on_each_device(
    monkeypatch, kind, symmetric, shift, both, ruled, device, threads
):
    monkeypatch.setattr(counting, "COLUMNS", 70)
    # Of 100 queries: 110 columns.
    monkeypatch.setattr(counting, "GPU_CELLS", 11_000)
    vectors, groups = unit_vectors(300, kind=kind), (np.arange(300) % 3).astype(np.int32)
    rule = PairRule(same=GroupCodes(("g",), groups, groups)) if ruled else None
    hidden = as_pairs([100, 101, 150], [250, 299, 160])
    cosines, found, request = counted(vectors, hidden, symmetric, rule, device, threads, shift, both)
    left, right = np.repeat(np.arange(100, 200), 300), np.tile(np.arange(300), 100)
    shown = ~np.isin(left * 300 + right, hidden[:, 0] * 300 + hidden[:, 1])
    shown &= (left < right) | (not symmetric)
    shown &= (groups[left] == groups[right]) | (not ruled)
    assert found.above.tolist() == counts_above(request.thresholds, cosines[shown]).tolist()
    replicates = request.bootstrap.of_negatives(as_pairs(left[shown], right[shown]), cosines[shown])
    assert found.replicates.tolist() == replicates.tolist()
    assert found.reliability is not None
    assert found.reliability.weight.sum() == shown.sum()


@pytest.mark.parametrize("dimension", [1, 2, 3, 16, 48, 300, 384, 768, 1024, 1536, 3072, 4096])
def test_products_in_float32_are_within_the_margin_of_their_dimension(dimension):
    rng = np.random.default_rng(dimension)
    worst, shape = 0.0, (128, dimension)
    # Also positive numbers: partial sums are large, and most pairs are near 1.
    for drawn in (rng.normal(size=shape), 1 + 0.1 * rng.random(shape), rng.random(shape) ** 8):
        vectors = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
        tensor, index = torch.from_numpy(vectors), faiss.IndexFlatIP(dimension)
        index.add(vectors)
        exact = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
        cosines, places = index.search(vectors, len(vectors))
        left, right = np.divmod(np.arange(exact.size), len(vectors))
        for found, true in (
            (vectors @ vectors.T, exact),
            (torch.mm(tensor, tensor.T).numpy(), exact),
            (product(tensor, tensor).numpy(), exact),
            (product(tensor.repeat(32, 1), tensor).numpy()[:128], exact),
            (cosines, np.take_along_axis(exact, places, axis=1)),
            (paired_products(vectors, left, vectors, right), exact.ravel()),
            (paired_products(vectors, left, vectors, right, "cpu:0"), exact.ravel()),
        ):
            worst = max(worst, float(np.abs(found - true).max()))
    assert worst < margin(dimension)


@pytest.mark.parametrize(("pairs", "texts"), [(1, 1), (7, 2), (30, 3), (1000, 1), (5, 1000)])
def test_pieces_of_a_sample_have_few_pairs_or_few_left_texts(monkeypatch, pairs, texts):
    monkeypatch.setattr(estimator, "COUNTED", 40)
    keys = np.sort(np.random.default_rng(4).permutation(2500)[:700])
    pieces = [keys[here] for here in pieces_of(keys, 50, pairs, texts)]
    assert np.concatenate(pieces).tolist() == keys.tolist()
    for piece in pieces:
        assert 0 < len(piece) <= 40
        assert len(piece) <= pairs or len(np.unique(piece // 50)) <= texts
    assert list(pieces_of(keys[:0], 50, pairs, texts)) == []


@pytest.mark.parametrize("wanted", [0, 5, 200])
def test_places_of_few_and_of_many_rows_are_the_same(wanted):
    rng = np.random.default_rng(1)
    rows = np.sort(rng.permutation(5000)[:1000])
    places = rng.integers(1000, size=wanted)
    assert counting._places(rows, rows[places]).tolist() == places.tolist()
    assert counting._places(rows[:0], rows[:0]).tolist() == []


@pytest.mark.parametrize("at_a_time", [1, 70, 10**6])
def test_a_sample_is_counted_the_same_however_many_pairs_at_a_time(monkeypatch, at_a_time):
    rng, width = np.random.default_rng(2), 50
    cosines, thresholds = rng.uniform(-1, 1, 400), np.linspace(0.9, -0.5, 30)
    keys = np.sort(rng.permutation(width * width)[:400])
    request = CountRequest(thresholds, QueryBootstrap(np.arange(width), True, thresholds[::3]), compared=True)
    weights, scorer = SampleWeights(width, (2.5, 1.0)), Scorer(9.0, -3.0)
    whole = [
        count_sample(request, of, as_pairs(*np.divmod(of, width)), scores, scorer.logit(scores), weight)
        for of, scores, weight in ((keys, cosines, 2.5), (keys[:0], cosines[:0], 1.0))
    ]
    monkeypatch.setattr(estimator, "COUNTED", at_a_time)
    counter = SampleCounter(request, weights, scorer)
    for start in range(0, 400, 30):
        counter.add(0, keys[start : start + 30], cosines[start : start + 30])
    for found, expected in zip(counter.result(), whole, strict=True):
        assert found.above.tolist() == expected.above.tolist()
        assert found.replicates.tolist() == expected.replicates.tolist()
        np.testing.assert_array_equal(found.resampled, expected.resampled)
        for name in ("weight", "confidence", "positives", "squares"):
            # Sums in another order.
            ours, theirs = (getattr(one.reliability, name) for one in (found, expected))
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_threads_that_count_together_get_the_weights_of_their_own_queries(monkeypatch):
    bootstrap, others = QueryBootstrap(np.arange(100), False, np.array([0.5])), list[Thread]()
    plain = resampling.poisson_weights

    def interrupted(queries: Rows, seed: int) -> np.ndarray:
        """Let another thread ask for other queries while the first computes weights."""
        weights = plain(queries, seed)
        if not others:
            others.append(Thread(target=counting.weights_of, args=(bootstrap, np.arange(50, 80))))
            others[0].start()
            # Returns at once if the thread is through.
            others[0].join(0.1)
        return weights

    resampling._hashed.cache_clear()
    monkeypatch.setattr(resampling, "poisson_weights", interrupted)
    counting.weights_of(bootstrap, np.arange(40))
    others[0].join()
    for queries in (np.arange(40), np.arange(50, 80)):
        assert counting.weights_of(bootstrap, queries).tolist() == plain(queries, bootstrap.seed).tolist()
