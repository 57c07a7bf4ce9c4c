"""Simulated runs of adapters: small tasks in which a linear map helps, and slow twins of search and evaluation."""

import csv
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from al_ray.active_learning import loop
from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.strategies import STRATEGIES
from al_ray.core.candidates import HIGHEST, Candidates, Order
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import UNSURE, Batch, Labelled, State
from al_ray.core.neighbourhood import means_in
from al_ray.core.pairs import NO_KEYS, as_pairs
from al_ray.core.scorer import Scorer, refit
from al_ray.core.task import Corpus, Split, Task
from al_ray.datasets.task_folder import sealed, write_task
from al_ray.encoders.pretrained import MINILM
from al_ray.metrics.average_precision import average_precision, count_scores
from al_ray.metrics.bootstrap import poisson_weights
from al_ray.oracles.simulated import SimulatedOracle
from benchmarks.row_file import read_rows
from studies import __main__ as studies
from studies import adapter_services
from studies.adapter import AdapterOptions, SideVectors, train_adapter
from studies.adapter_noise import Noise, NoisyOracle, refit_noisy
from studies.adapter_runs import COLUMNS, Simulate
from studies.adapter_services import (
    UNTRAINED,
    AdapterModels,
    AdapterTrainer,
    ExactEvaluator,
    ExactSearch,
    MemoryJournal,
    SimulatedServices,
)
from studies.adapter_splits import Shares, frozen_vectors, make_splits
from studies.adapter_stopping import kappa
from studies.adapter_strategies import TRIALS, near_probability, on_trial, take_spread
from studies.vector_cache import cached, origin_of

LEFT, RIGHT, SIGNAL, NOISE = 90, 180, 6, 10


def made_task() -> Task:
    """Left text i matches the right texts 2i and 2i + 1. The last 15 left texts are in neither train nor dev."""
    left = Corpus(tuple(f"l{i}" for i in range(LEFT)), tuple(f"question {i}" for i in range(LEFT)))
    right = Corpus(tuple(f"r{i}" for i in range(RIGHT)), tuple(f"answer {i}" for i in range(RIGHT)))
    bare = Task("made", False, left, right, {}, "")
    splits = {}
    for name, rows in (("train", np.arange(LEFT - 30)), ("dev", np.arange(LEFT - 30, LEFT - 15))):
        matches = as_pairs(np.repeat(rows, 2), np.arange(2 * rows[0], 2 * rows[-1] + 2))
        stated = as_pairs(rows, (2 * rows + 7) % RIGHT)
        splits[name] = Split(name, bare.space(rows, np.arange(RIGHT)), matches, stated)
    return sealed("made", False, left, right, splits)


def made_vectors() -> SideVectors:
    """Matching texts share the first numbers; the others are larger and random, so a map that drops them helps."""
    rng = np.random.default_rng(0)
    signal, scale = rng.normal(size=(LEFT, SIGNAL)), 1.5
    left = np.concatenate([signal, scale * rng.normal(size=(LEFT, NOISE))], axis=1)
    right = np.concatenate([np.repeat(signal, 2, axis=0), scale * rng.normal(size=(RIGHT, NOISE))], axis=1)
    return SideVectors(*((side / np.linalg.norm(side, axis=1)[:, None]).astype(np.float32) for side in (left, right)))


TASK, VECTORS = made_task(), made_vectors()
ADAPTER = AdapterOptions(epochs=2, batch=32)


@pytest.fixture
def simulate(tmp_path: Path) -> Simulate:
    write_task(TASK, tmp_path / "task", {})
    origin = origin_of(TASK, EncoderConfig(MINILM, max_length=64, threads=1))
    cached(tmp_path / "vectors.npz", origin, lambda: (VECTORS.left, VECTORS.right))
    return Simulate(
        task=tmp_path / "task",
        cache=tmp_path / "vectors.npz",
        strategies=("uncertainty", "random"),
        seeds=(0, 1),
        first_batch=100,
        rounds=2,
        adapter=ADAPTER,
        out=tmp_path / "runs.csv",
    )


def without_seconds(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{name: value for name, value in row.items() if not name.endswith("_seconds")} for row in rows]


def scores_of(split: Split, vectors: SideVectors, a: float) -> np.ndarray:
    """All scores (l, r) of a split, the slow way."""
    left, right = vectors.left[split.space.left], vectors.right[split.space.right]
    return left.astype(np.float64) @ right.T.astype(np.float64) - a * means_in(right, left)[:, None]


@pytest.mark.parametrize("strategy", ["uncertainty", "adaptive", "static", "random", "capped-3", "near-20"])
@pytest.mark.parametrize("a", [0.0, 0.5])
def test_the_labels_of_a_run_are_those_of_the_task(strategy, a):
    pool, measured = make_splits(TASK, "fold-1", Shares(), 0)
    journal = MemoryJournal(lambda state, evaluations: None)
    services = SimulatedServices(pool, measured, AdapterTrainer(AdapterModels(VECTORS), pool, ADAPTER, a, 0), journal)
    with on_trial():
        evaluation = EvaluationConfig(splits=("dev",), examples=0)
        config = RunConfig(
            task="t", strategy=strategy, first_batch=100, rounds=3, train_every_budget=True, evaluation=evaluation
        )
        *_, last = loop.run(config, pool, services, State())
    assert len(last.labelled) == 100 + 150 + 225
    keys = pool.space.keys(last.labelled.pairs)
    assert len(np.unique(keys)) == len(keys)
    assert pool.space.holds(last.labelled.pairs).all()
    expected = last.labelled.pairs[:, 1] // 2 == last.labelled.pairs[:, 0]
    assert last.labelled.labels.tolist() == expected.astype(int).tolist()
    assert last.model is not None
    assert last.model.scorer is not None
    assert last.model.scorer.neighbourhood == a


@pytest.mark.parametrize("maps", ["shared", "separate"])
@pytest.mark.parametrize("head", ["cosine", "batch-norm"])
def test_training_raises_average_precision_where_a_linear_map_helps(simulate, maps, head):
    options = AdapterOptions(maps=maps, head=head, head_rate=1.0, epochs=40, rate=0.01, decay=0.0)
    rows = replace(simulate, strategies=("uncertainty",), seeds=(0,), first_batch=500, adapter=options).results()
    first, *_, last = (float(row["ap"]) for row in rows)
    assert last > 2 * first
    # Two thirds of the 60 left texts of train are the pool.
    assert {row["positives"] for row in rows} == {"80"}
    assert [row["labels"] for row in rows] == ["0", "500", "1250"]
    # Of the untrained encoder, among the 500 nearest pairs.
    pool, _ = make_splits(TASK, "fold-0", Shares(), 0)
    pairs = np.stack(np.meshgrid(pool.space.left, pool.space.right, indexing="ij"), axis=-1).reshape(-1, 2)
    nearest = pairs[np.argsort(-VECTORS.cosines(pairs), kind="stable")[:500]]
    wanted = average_precision_score(nearest[:, 1] // 2 == nearest[:, 0], VECTORS.cosines(nearest))
    assert [row["first_ap"] for row in rows] == ["", f"{wanted:.6f}", f"{wanted:.6f}"]


def test_strong_decay_leaves_the_untrained_encoder():
    pairs, labels = TASK.splits["train"].positives, np.ones(120, dtype=np.uint8)
    labels[::2] = 0
    rate = 1e-3
    free, decayed = (
        train_adapter(VECTORS, pairs, labels, AdapterOptions(rate=rate, decay=decay), np.random.default_rng(0))
        for decay in (0.0, 0.5 / rate)
    )
    assert 0 < np.abs(decayed.maps.detach().numpy()).max() < np.abs(free.maps.detach().numpy()).max() / 2


def test_a_second_call_reads_the_file_and_trains_nothing(simulate, monkeypatch):
    before = simulate.results()
    written = simulate.out.read_text()

    def refuse(*_):
        raise AssertionError("an adapter is trained again")

    with monkeypatch.context() as patch:
        patch.setattr(adapter_services, "train_adapter", refuse)
        assert simulate.results() == before
        # Fewer rounds are there, too.
        assert replace(simulate, rounds=1).results() == [row for row in before if int(row["round"]) <= 1]
        with pytest.raises(AssertionError, match="again"):
            replace(simulate, neighbourhood=(0.5,)).results()
    assert simulate.out.read_text() == written
    # A run whose last line is missing is computed again, and only that line is added.
    simulate.out.write_text("".join(written.splitlines(keepends=True)[:-1]))
    assert without_seconds(simulate.results()) == without_seconds(before)
    assert without_seconds(read_rows(simulate.out, COLUMNS)) == without_seconds(before)


def test_the_same_seed_gives_the_same_lines_and_another_seed_others(simulate):
    rows = without_seconds(simulate.results())
    simulate.out.unlink()
    assert without_seconds(simulate.results()) == rows
    assert len({row["ap"] for row in rows if row["strategy"] == "random" and row["round"] == "2"}) == 2


@pytest.mark.parametrize("a", [0.0, 0.5])
@pytest.mark.parametrize("order", [HIGHEST, Order(0.2), Order(-np.inf)])
def test_the_search_finds_what_sorting_all_scores_finds(a, order, monkeypatch):
    monkeypatch.setattr(adapter_services, "ROWS", 7)
    pool = TASK.splits["train"]
    models, model = AdapterModels(VECTORS), replace(UNTRAINED, scorer=Scorer(1.0, 0.0, neighbourhood=a))
    scores = scores_of(pool, VECTORS, a).ravel()
    keys = pool.space.at(np.arange(pool.space.total))
    labelled = np.sort(Candidates(keys, scores).least(order, 300).keys[::2])
    expected = Candidates(keys, scores).least(order, 550).keys
    expected = expected[~np.isin(expected, labelled)]
    assert ExactSearch(models, pool).least(model, order, 400, labelled).keys.tolist() == expected.tolist()


@pytest.mark.parametrize("a", [0.0, 0.5])
def test_the_evaluation_counts_every_pair(a, monkeypatch):
    monkeypatch.setattr(adapter_services, "ROWS", 4)
    dev = TASK.splits["dev"]
    scores = scores_of(dev, VECTORS, a).astype(np.float32)
    matches = np.isin(dev.space.at(np.arange(dev.space.total)), dev.positive_keys)
    expected = average_precision(count_scores(scores.ravel()[matches], [scores.ravel()[~matches]]), np.ones(1))
    evaluation = ExactEvaluator(AdapterModels(VECTORS), dev).evaluate_scores(UNTRAINED, a)
    assert evaluation.average_precision.value == pytest.approx(expected)
    assert (evaluation.positives, evaluation.total_pairs) == (30, 15 * RIGHT)


@pytest.mark.parametrize("a", [0.0, 0.5])
def test_replicates_are_those_of_ap_with_left_texts_drawn_again(a, monkeypatch):
    monkeypatch.setattr(adapter_services, "ROWS", 4)
    dev = TASK.splits["dev"]
    scores = scores_of(dev, VECTORS, a).astype(np.float32)
    matches = np.isin(dev.space.at(np.arange(dev.space.total)), dev.positive_keys).reshape(scores.shape)
    evaluation = ExactEvaluator(AdapterModels(VECTORS), dev).evaluate_scores(UNTRAINED, a)
    assert evaluation.over_queries is not None
    assert evaluation.over_queries.value == pytest.approx(evaluation.average_precision.value)
    weights = poisson_weights(dev.space.left, 0)
    for replicate in (0, 1, 199):
        drawn = np.repeat(weights[:, replicate].astype(float), scores.shape[1])
        order = np.argsort(-scores.ravel(), kind="stable")
        true, every = np.cumsum((drawn * matches.ravel())[order]), np.cumsum(drawn[order])
        gains = np.diff(true, prepend=0.0)
        expected = (gains / true[-1] * true / np.maximum(every, 1e-9)).sum()
        assert evaluation.over_queries.values[replicate] == pytest.approx(expected, rel=1e-6)


def test_kappa_is_as_worked_by_hand():
    one = np.array([True] * 3 + [False] * 7)
    other = np.array([True] * 2 + [False] * 7 + [True])
    # 8 of 10 alike; by chance 0.3 * 0.3 + 0.7 * 0.7.
    assert kappa(one, other) == pytest.approx((0.8 - 0.58) / (1 - 0.58))
    assert kappa(one, one) == 1.0
    assert kappa(one, ~one) < 0
    assert kappa(np.zeros(4, dtype=bool), np.zeros(4, dtype=bool)) == 1.0


def test_signs_to_stop_compare_a_round_with_the_one_before(simulate):
    rows = replace(simulate, seeds=(0,), strategies=("uncertainty",), rounds=3).results()
    # The untrained encoder calls no pair a match, and has AP.
    assert [row["kappa"] == "" for row in rows] == [True, True, False, False]
    assert [row["gain"] == "" for row in rows] == [True, False, False, False]
    for before, row in pairwise(rows):
        assert float(row["gain"]) == pytest.approx(float(row["ap"]) - float(before["ap"]), abs=2e-6)
        assert float(row["gain_low"]) <= float(row["gain"]) <= float(row["gain_high"])


def test_folds_divide_train_and_hold_no_left_text_of_dev():
    train, rows = TASK.splits["train"], []
    for measured in ("fold-0", "fold-1", "fold-2"):
        pool, fold = make_splits(TASK, measured, Shares(), 0)
        assert np.union1d(pool.space.left, fold.space.left).tolist() == train.space.left.tolist()
        assert np.isin(fold.positives[:, 0], fold.space.left).all()
        assert len(fold.positives) + len(pool.positives) == len(train.positives)
        rows += fold.space.left.tolist()
    assert sorted(rows) == train.space.left.tolist()
    pool, measured = make_splits(TASK, "dev", Shares(), 0)
    assert (len(pool.positives), len(measured.positives)) == (120, 30)


def test_shares_keep_the_stated_pairs_of_what_is_left():
    pool, fold = make_splits(TASK, "fold-0", Shares(left=0.5, distractors=20), 3)
    assert len(pool.space.left) == 20
    assert len(pool.positives) == 40
    stated = np.concatenate([part for one in (pool, fold) for part in (one.positives, one.stated_negatives)])[:, 1]
    assert len(pool.space.right) == len(np.unique(stated)) + 20
    assert np.isin(stated, pool.space.right).all()
    assert pool.space.right.tolist() == fold.space.right.tolist()


def request_of(scorer: Scorer, size: int) -> loop.RoundRequest:
    pool = TASK.splits["train"]
    models, model = AdapterModels(VECTORS), replace(UNTRAINED, scorer=scorer)
    config, services = RunConfig(task="t", first_batch=size), SimulatedServices.__new__(SimulatedServices)
    services.retriever, services.trainer = ExactSearch(models, pool), AdapterTrainer(models, pool, ADAPTER, 0.0, 0)
    services.seconds = {}
    return loop.make_request(config, pool, services, State(1, Labelled(), model), 1)


def test_a_pass_takes_so_many_pairs_of_every_left_text_in_order_of_cost():
    width = RIGHT
    keys = np.array([3, 1, 2, width + 5, width + 4, 2 * width])
    candidates = Candidates(keys, np.linspace(0.9, 0.4, 6))
    request = request_of(Scorer(1.0, 0.0), 4)
    # One of each of three texts, then the second of the first text.
    assert take_spread(candidates, request, 1).keys.tolist() == [3, width + 5, 2 * width, 1]
    assert take_spread(candidates, request, 2).keys.tolist() == [3, 1, width + 5, width + 4]
    assert take_spread(candidates, request, 10).keys.tolist() == keys[:4].tolist()


def test_near_probability_a_half_is_uncertainty_and_a_lower_one_lies_below():
    # p = 1/2 at 0.2; p = 0.2 where the logit is log(1/4) = -1.386, at 0.2 - 0.1386.
    request = request_of(Scorer(10.0, -2.0), 50)
    assert near_probability(request, 0.5).keys.tolist() == STRATEGIES["uncertainty"].choose(request).keys.tolist()
    lower = request.search(request.trained, Order(0.2 + 0.1 * np.log(0.25)), 50, NO_KEYS)
    assert near_probability(request, 0.2).keys.tolist() == lower.keys.tolist()


def test_strategies_on_trial_leave_the_registry():
    before = dict(STRATEGIES)
    with on_trial():
        assert set(TRIALS) <= set(STRATEGIES)
    assert dict(STRATEGIES) == before


def test_vectors_are_written_once_and_those_of_test_stay_zero(tmp_path):
    config = EncoderConfig(encoder="random-bert", encoder_layers=1, max_length=24, encoder_batch=8, threads=1)
    vectors = frozen_vectors(TASK, tmp_path / "new" / "vectors", config)
    assert (frozen_vectors(TASK, tmp_path / "new" / "vectors", config).left == vectors.left).all()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["vectors"]
    vectors = frozen_vectors(TASK, tmp_path / "v.npz", config)
    lengths = np.linalg.norm(vectors.left, axis=1)
    assert lengths[:-15] == pytest.approx(1, abs=1e-5)
    assert (lengths[-15:] == 0).all()
    again = frozen_vectors(TASK, tmp_path / "v.npz", config)
    assert (again.right == vectors.right).all()
    for other in (replace(config, encoder="unknown"), replace(config, encoder_layers=2), replace(config, max_length=8)):
        with pytest.raises(BadFile, match="another task, encoder or --threads, or of another benchmark; give"):
            frozen_vectors(TASK, tmp_path / "v.npz", other)
    np.savez(tmp_path / "v.npz", left=vectors.left, right=vectors.right)
    with pytest.raises(BadFile, match="another task, encoder or --threads"):
        frozen_vectors(TASK, tmp_path / "v.npz", config)


def test_lines_of_another_encoder_are_not_taken_for_those_asked_for(simulate):
    simulate.results()
    with pytest.raises(BadFile, match="another task, encoder or --threads"):
        replace(simulate, encoder_layers=2).results()


def test_the_command_prints_a_line_for_each_strategy_and_round(simulate, monkeypatch, capsys):
    line = ["simulate", "--task", simulate.task, "--cache", simulate.cache, "--out", simulate.out]
    line += ["--strategies", "random", "capped-1", "--seeds", 0, 1, "--first-batch", 100, "--rounds", 1]
    monkeypatch.setattr(sys, "argv", ["studies", *map(str, line)])
    studies.main()
    header, *lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert header[:3] == ["a", "strategy", "round"]
    assert [line[1:5] for line in lines] == [
        [name, str(number), str(100 * number), "2"] for name in ("random", "capped-1") for number in (0, 1)
    ]
    with simulate.out.open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 8


def test_options_that_cannot_be_are_refused(simulate, make_task):
    with pytest.raises(BadOption, match="--strategies is best"):
        replace(simulate, strategies=("best",)).results()
    with pytest.raises(BadOption, match="--neighbourhood is 2"):
        replace(simulate, neighbourhood=(2.0,)).results()
    with pytest.raises(BadOption, match="one set of texts"):
        make_splits(make_task(True), "dev", Shares(), 0)
    simulate.out.write_text("a,b\n")
    with pytest.raises(BadFile, match="other columns"):
        simulate.results()


def test_a_labeller_errs_as_often_as_told_and_on_hard_pairs_if_told():
    frozen, split = made_vectors(), made_task().split("train")
    pairs = split.space.pairs(split.space.at(np.arange(split.space.total)))
    batch = Batch(pairs, np.full(len(pairs), np.nan), "")
    rows, truth = np.arange(len(batch.pairs)), SimulatedOracle(split)
    (right,) = truth.label(1, batch, rows)
    cosines = frozen.cosines(batch.pairs)
    for noise in (Noise(0.2), Noise(0.2, hard=True)):
        (answers,) = NoisyOracle(truth, noise, frozen, 0).label(1, batch, rows)
        wrong = answers.labels != right.labels
        assert wrong.mean() == pytest.approx(0.2, abs=0.01)
        negatives = right.labels == 0
        median = np.median(cosines[negatives])
        easy, hard = (wrong[negatives & (side)].mean() for side in (cosines < median, cosines > median))
        assert (easy, hard) == pytest.approx((0.0, 0.4) if noise.hard else (0.2, 0.2), abs=0.03)


def test_a_second_labeller_confirms_each_yes():
    frozen, split = made_vectors(), made_task().split("train")
    pairs = split.space.pairs(split.space.at(np.arange(split.space.total)))
    batch, rows, truth = Batch(pairs, np.full(len(pairs), np.nan), ""), np.arange(len(pairs)), SimulatedOracle(split)
    (right,) = truth.label(1, batch, rows)
    (once,) = NoisyOracle(truth, Noise(0.2), frozen, 0).label(1, batch, rows)
    (twice,) = NoisyOracle(truth, Noise(0.2, confirm=True), frozen, 0).label(1, batch, rows)
    assert (twice.labels[once.labels == 0] == 0).all()
    negatives = right.labels == 0
    # Both err on a negative with probability 0.2 * 0.2, and one of them on a match that the first finds with 0.2.
    assert [(negatives & (of.labels == 1)).sum() / negatives.sum() for of in (once, twice)] == pytest.approx(
        [0.2, 0.04], abs=0.01
    )
    # Either errs with 0.2 and the other does not, of negatives and of matches.
    assert (twice.labels == UNSURE).mean() == pytest.approx(0.2 * 0.8, abs=0.01)


def test_a_scorer_that_knows_how_often_labels_are_wrong_is_that_of_right_labels():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=40_000)
    right = (rng.random(40_000) < 1 / (1 + np.exp(-(3 * scores - 1)))).astype(np.uint8)
    noisy = np.where(rng.random(40_000) < 0.2, 1 - right, right).astype(np.uint8)
    wanted, biased, found = refit(scores, right), refit(scores, noisy), refit_noisy(scores, noisy, 0.2)
    assert biased.weight < 0.6 * wanted.weight
    assert (found.weight, found.bias) == pytest.approx((wanted.weight, wanted.bias), abs=0.15)
    assert refit_noisy(scores, noisy, 0.0) == biased
