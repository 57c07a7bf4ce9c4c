"""jobs.plan: a small plan worked by hand, laws of all plans, the command as it is typed, and files of constants."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from typing import Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from al_ray.active_learning.config import RunConfig
from al_ray.api import planning as pipeline
from al_ray.apps.planning import stage_times
from al_ray.apps.planning.hardware import (
    BUILT_IN,
    SPEEDS,
    Constants,
    Speed,
    Time,
    as_content,
    from_content,
    time_of,
)
from al_ray.apps.planning.options import PlanOptions, cluster_of
from al_ray.apps.planning.plan import (
    STAGES,
    Plan,
    cost_rows,
    plan,
    reasons,
    setting_of,
    size_words,
    time_rows,
    time_words,
    warnings,
)
from al_ray.apps.planning.sizes import Sizes
from al_ray.apps.planning.stage_times import cells_of
from al_ray.cli import plan as command
from al_ray.cli._shared.entry import job
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import CandidatesConfig, EvaluationConfig, ScoringConfig, SearchConfig, TrainingConfig
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.datasets.corpus_file import CACHED
from al_ray.datasets.task_folder import write_task

# One layer on 3 word pieces of width 2: 24 * 2^2 * 3 + 4 * 2 * 3^2 = 360 operations a text.
# Parameters: (5 + 514) * 2 + 12 * 2^2 + 13 * 2 = 1112.
SMALL = Sizes(4, None, 2, None, dim=2, layers=1, tokens=3.0, vocabulary=5)
ROUND = {
    **dict.fromkeys(SPEEDS, 1.0),
    "embed": 360.0,
    "layers": 4.0,
    "train": 4320.0,
    "exact": 12.0,
    "count": 2.0,
    "sampled": 8.0,
    "tokenise": 9.0,
    "flat": 32.0,
    "ivf": 1.0,
    "transfer": 4.0,
    "libraries": 1000.0,
}
CONSTANTS = Constants("cpu", "paper", 2, **{name: Speed(value, True, "by hand") for name, value in ROUND.items()})
ONE = ClusterConfig(shards=1, cpus_per_shard=2)
EXACT = RunConfig(
    task="none",
    rounds=1,
    first_batch=2,
    encoder_batch=2,
    search=SearchConfig(kind="exact", block=2),
    training=TrainingConfig(epochs=3, batch=2),
    evaluation=EvaluationConfig(examples=0),
)


def made(config: RunConfig = EXACT, sizes: Sizes = SMALL, cluster: ClusterConfig = ONE, constants=CONSTANTS) -> Plan:
    return plan(setting_of(config, sizes, cluster, constants))


def seconds(made: Plan, number: int) -> dict[str, float]:
    return {name: time.seconds for name, time in made.rounds[number].times.items()}


def of(made: Plan, holder: str, what: str) -> float:
    return sum(part.bytes for part in made.memory if part.holder == holder and part.what.startswith(what))


def test_a_small_exact_plan_is_as_worked_by_hand():
    small = made()
    # The untrained encoder is evaluated like a round.
    untrained = {"embed": 2 + 1 / 4, "evaluate": 0.5}
    assert seconds(small, 0) == {**dict.fromkeys(STAGES, 0), "prepare": (4 + 2) * 3 / 9, **untrained}
    assert seconds(small, 1) == pytest.approx(
        {
            "prepare": 0,
            # 4 texts of the pool in 2 batches, 2 of dev in one: 360 operations a text, a layer a batch.
            "embed": 4 * 360 / 360 + 2 / 4 + 2 * 360 / 360 + 1 / 4,
            # 6 pairs of 2 dimensions.
            "search": 12 / 12,
            "label": 0,
            # 3 steps: 3 passes of one layer, 6 * 2 * 360 operations; then 4 texts in 2 batches.
            "train": 3 * (3 / 4 + 4320 / 4320) + 4 * 360 / 360 + 2 / 4,
            # dev has one pair.
            "evaluate": 1 / 2,
        }
    )
    assert small.time.measured
    # A shard and a trainer of 2 cores; 2 of the 4 wait in every stage, all 4 for nobody.
    assert small.hours()["reserved"] == pytest.approx(4 * small.time.seconds / 3600)
    assert small.hours()["used"] == pytest.approx(2 * small.time.seconds / 3600)
    assert small.hours()["idle, the trainer works"] == pytest.approx(2 * 9.75 / 3600)


MATCHED = replace(
    EXACT, training=TrainingConfig(), search=SearchConfig(kind="exact"), matcher="on", rounds=2, first_batch=1,
    growth=1.0, candidates=CandidatesConfig(cosine=5, trigrams=6, of_right=7),
)  # fmt: skip


def test_a_matcher_has_no_more_labels_than_candidates():
    few, sizes = CandidatesConfig(cosine=5, trigrams=5, of_right=5), replace(SMALL, texts=100, right=100)
    # 5 by each way for each text of either side, of 10,000 pairs.
    config = replace(MATCHED, candidates=few, first_batch=1000, growth=1.0, rounds=2)
    assert made(config, sizes).labels == 2000
    with pytest.raises(BadOption, match="3,000 labels of at most 2,000 candidates"):
        made(replace(config, rounds=3), sizes)
    # A round with a trained encoder has other candidates.
    assert made(replace(config, rounds=3, encoder_every=1), sizes).labels == 3000


def test_a_run_with_a_matcher_finds_candidates_once_and_trains_no_encoder():
    constants = replace(CONSTANTS, grams=Speed(10.0, True, ""), comparisons=Speed(50.0, True, ""))
    constants = replace(constants, trees=Speed(100.0, True, ""))
    two_sided = made(MATCHED, replace(SMALL, right=3, evaluation_right=1), constants=constants)
    setting = two_sided.setting
    # All 12 pairs of the pool and both of dev are candidates, for a text has more nearest than there are texts.
    near = sum(
        stage_times.knn_time(setting, *sides).seconds
        for sides in ((4, 3, 5), (3, 4, 7), (2, 1, 5), (1, 2, 7))
    )  # fmt: skip
    # Each text shares 5 3-grams with each text of the other side.
    grams = 5 * 2 * (4 * 3 + 2 * 1) / 10
    assert seconds(two_sided, 0)["search"] == pytest.approx(near + grams + (12 + 2) * 25 / 50)
    assert seconds(two_sided, 0)["embed"] == pytest.approx((4 + 3 + 2 + 1) * 360 / 360 + (2 + 2 + 1 + 1) / 4)
    first, second = (seconds(two_sided, number) for number in (1, 2))
    assert [first["embed"], second["embed"]] == [0, 0]
    assert [first["search"], second["search"]] == [12 / 100] * 2
    assert [first["train"], second["train"]] == [200 / 100, 2 * 200 / 100]
    assert first["evaluate"] == pytest.approx(2 / 2 + 2 / 100)
    assert two_sided.hours()["reserved"] == pytest.approx(2 * two_sided.time.seconds / 3600), "there is no trainer"
    assert of(two_sided, "shard", "candidates") == 14 * (4 * 25 + 25)
    assert not [part for part in two_sided.memory if part.holder == "trainer"]


@pytest.mark.parametrize(("adds", "looked_at"), [(0, 5), ("auto", 30 + 30), (1.5, 30 + 30)])
def test_a_twentieth_of_the_texts_is_planned_as_dense_and_the_nearest_of_more_are_counted(adds, looked_at):
    none, some = (
        made(
            replace(MATCHED, candidates=replace(MATCHED.candidates, of_dense=count, more_of_dense=adds))
        ).setting
        for count in (0, 40)
    )  # fmt: skip
    assert stage_times.candidate_pairs(some, 100, None) - stage_times.candidate_pairs(none, 100, None) == 5 * 40
    more = stage_times.candidates_time(some, 100, None).seconds - stage_times.candidates_time(none, 100, None).seconds
    search = stage_times.knn_time(some, looked_at, 100, 40).seconds
    assert more == pytest.approx(search + some.on_host(5 * 40 / some.shards * 25, "comparisons").seconds)


def test_a_round_that_trains_the_encoder_embeds_and_finds_candidates_again():
    every = made(replace(MATCHED, encoder_every=2, training=TrainingConfig(epochs=3, batch=2)))
    before, first, second = (seconds(every, number) for number in (0, 1, 2))
    assert first["train"] == 200
    assert first["embed"] == 0
    assert second["embed"] == pytest.approx(before["embed"])
    training = stage_times.train_time(every.setting, 2).seconds
    assert second["train"] == pytest.approx(400 + training + before["search"])
    assert every.hours()["reserved"] == pytest.approx(4 * every.time.seconds / 3600)


def test_a_training_with_half_of_the_layers_frozen_is_as_worked_by_hand(monkeypatch):
    # Two layers: 720 operations a text, 74 parameters in each.
    sizes = replace(SMALL, layers=2)
    frozen = replace(EXACT, training=replace(EXACT.training, frozen_layers="half"))
    half = made(frozen, sizes)
    # 4 texts in 2 batches of 2 layers for the refit, and half as much for the outputs of the frozen layer.
    refit, outputs = 4 * 720 / 360 + 2 * 2 / 4, 4.5
    # 3 steps: 3 passes of the upper layer, half of 6 * 2 * 720 operations.
    step = 3 / 4 + 4320 / 4320
    assert seconds(half, 1)["train"] == pytest.approx(3 * step + refit + outputs)
    assert of(half, "trainer", "weights") == 4 * (1112 + 74) + 12 * 74
    momentum = made(replace(frozen, training=replace(frozen.training, loss="momentum")), sizes)
    assert of(momentum, "trainer", "weights") == 8 * (1112 + 74) + 12 * 74, "the encoder of keys is a whole one"
    assert of(half, "trainer", "a step") == of(made(), "trainer", "a step"), "that of one layer"
    # Outputs that are not stored: one pass more of the lower layer, and a third of 4320 operations.
    monkeypatch.setattr(stage_times, "MOST_BYTES", 0)
    step = 4 / 4 + 5760 / 4320
    assert seconds(made(frozen, sizes), 1)["train"] == pytest.approx(3 * step + refit)
    assert seconds(made(frozen), 1) == seconds(made(), 1), "half of one layer is none"


def test_presumed_non_matches_take_steps_and_are_not_fitted():
    times = [
        seconds(made(replace(EXACT, first_batch=labels, training=replace(EXACT.training, presumed=presumed))), 1)[
            "train"
        ]
        for labels, presumed in ((4, 0.0), (2, 1.0), (2, 0.0))
    ]
    # The steps of 4 labels, and the fit of 2, whose 4 texts are 4 * 360 operations in 2 batches.
    assert times[1] == pytest.approx(times[0] - (4 * 360 / 360 + 2 / 4))
    assert times[2] < times[1]


def test_a_pull_towards_the_initial_weights_keeps_a_copy_of_them():
    pulled = made(replace(EXACT, training=replace(EXACT.training, l2_sp=1.0)))
    assert of(pulled, "trainer", "weights") == of(made(), "trainer", "weights") * 20 / 16


def test_a_training_by_two_workers_is_as_worked_by_hand():
    two = made(replace(EXACT, first_batch=4, training=replace(EXACT.training, workers=2)))
    # 3 steps of 2 pairs a worker, which gets half of 1112 gradients of 4 bytes twice; then 8 texts in 4 batches.
    step = 3 / 4 + 4320 / 4320 + 2 * 1112 * 4 / 2 / 4
    assert seconds(two, 1)["train"] == pytest.approx(3 * step + 8 * 360 / 360 + 4 / 4)
    # A shard and two workers of 2 cores each: the shard's wait in a training.
    assert two.units == 6
    assert two.hours()["idle, the trainer works"] == pytest.approx(2 * seconds(two, 1)["train"] / 3600)
    assert of(two, "trainer", "weights") == 20 * 1112
    assert cluster_of(8, 1, None, 2, trainers=3).shards == 5
    with pytest.raises(BadOption, match="8 training workers among them"):
        cluster_of(8, 1, None, 2, trainers=8)


def test_a_small_search_by_neighbours_is_as_worked_by_hand():
    config = replace(EXACT, search=SearchConfig(kind="knn", neighbours=1, block=2))
    # Flat: 4 queries x 4 texts x 2 = 32 multiply-adds.
    assert seconds(made(config), 1)["search"] == pytest.approx(32 / 32)
    # Two shards hold 2 texts each; queries of 2 * 4 bytes and 2 answers of 12 travel.
    two = made(config, cluster=replace(ONE, shards=2))
    assert seconds(two, 1)["search"] == pytest.approx(16 / 32 + 4 * (2 * 4 + 2 * 12) / 4)
    # 1 of 2 cells. 10 rounds of 4 texts and 4 texts put into cells, queries to 2 centres, and to half of the texts.
    ivf = replace(config, search=replace(config.search, index="IVF2,Flat", nprobe=1))
    centres = ((10 * 4 + 4) + 4) * 2 * 2
    assert seconds(made(ivf), 1)["search"] == pytest.approx(centres / 32 + 16 / 1)
    # Two shards share rounds and texts. In each round 2 centres of 2 numbers travel: sums of 8 bytes, and twice 4.
    centres, travelled = ((10 * 2 + 2) + 2) * 2 * 2, 10 * 2 * 2 * 16 + 4 * (2 * 4 + 2 * 12)
    shared = centres / 32 + 8 / 1 + travelled / 4
    assert seconds(made(ivf, cluster=replace(ONE, shards=2)), 1)["search"] == pytest.approx(shared)
    # Of other kinds one of the shards learns, from 4 vectors of 8 bytes.
    other = replace(ivf, search=replace(ivf.search, index="IVF2_HNSW32,Flat"))
    alone = ((10 * 4 + 2) + 2) * 2 * 2 / 32 + 8 / 1 + (4 * 2 * 4 + 4 * (2 * 4 + 2 * 12)) / 4
    assert seconds(made(other, cluster=replace(ONE, shards=2)), 1)["search"] == pytest.approx(alone)


def test_many_shards_give_few_neighbours_each():
    # 41 nearest, the text itself among them, are 10.25 of each of four shards, and 4 * 3.2 more: 24, and one.
    quick = {name: Speed(1e30, True, "") for name in SPEEDS} | {"transfer": Speed(1.0, True, "")}
    config = replace(EXACT, search=SearchConfig(kind="knn", neighbours=40))
    of_four = made(config, replace(SMALL, texts=400), replace(ONE, shards=4), replace(CONSTANTS, **quick))
    assert seconds(of_four, 1)["search"] == pytest.approx(400 * (2 * 4 + 12 * 25))


def test_vectors_of_an_exact_search_travel_half_way_or_all_the_way():
    # Two shards of 3 pairs each, or of 8: 4 vectors of 8 bytes, of which a symmetric pool sends half.
    for right, pairs, travelled in ((None, 3, 16), (4, 8, 32)):
        found = seconds(made(sizes=replace(SMALL, right=right), cluster=replace(ONE, shards=2)), 1)["search"]
        assert found == pytest.approx(pairs * 2 / 12 + travelled / 4)


def test_a_gpu_joins_larger_blocks():
    config = replace(EXACT, search=SearchConfig(kind="exact"))
    constants = replace(CONSTANTS, device="cuda")
    found = made(config, replace(SMALL, texts=2**10), replace(ONE, gpus_per_shard=1), constants)
    # A product of 8 bytes a cell, a block of visitors and all own texts of 6 bytes a number, and 2 candidates.
    assert of(found, "shard", "search blocks") == 2**27 * 8 + (2**14 + 2**10) * 2 * 6 + 2 * 1.25 * 32


def test_scores_with_a_neighbourhood_embed_the_pool_after_each_training_and_search_it_once_more():
    sizes = replace(SMALL, right=4, evaluation_right=2)
    config = replace(EXACT, rounds=2, growth=1.0)
    plain, scored, auto = (
        made(replace(config, scoring=ScoringConfig(neighbourhood)), sizes) for neighbourhood in ("off", 0.5, "auto")
    )
    for number, more in ((1, 1), (2, 0)):
        off, on, chosen = (seconds(one, number) for one in (plain, scored, auto))
        # A search in round 2 finds the vectors that the fit to scores of round 1 asked for.
        pool = 8 * 360 / 360 + 2 * 2 / 4
        assert on["embed"] - off["embed"] == pytest.approx(more * pool)
        assert chosen["embed"] == on["embed"]
        # 16 pairs of 2 dimensions.
        means = 16 * 2 / 32
        assert on["train"] - off["train"] == pytest.approx(means)
        assert chosen["train"] - off["train"] == pytest.approx(2 * means)
        of_dev = 4 * 2 / 32
        assert on["evaluate"] - off["evaluate"] == pytest.approx(of_dev)
    # One set of texts has no such scores of the left side alone.
    assert made(replace(EXACT, scoring=ScoringConfig("auto"))).time == made(EXACT).time


def test_scores_of_both_sides_search_the_neighbours_of_right_texts_too():
    sizes, config = replace(SMALL, right=4, evaluation_right=2), replace(EXACT, rounds=1)
    off, left, both = (
        seconds(made(replace(config, scoring=scoring), sizes), 1)
        for scoring in (ScoringConfig(), ScoringConfig(0.5), ScoringConfig(0.5, "both"))
    )
    # As many right texts as left ones.
    for stage in ("train", "evaluate"):
        more = left[stage] - off[stage]
        assert more > 0
        assert both[stage] - left[stage] == pytest.approx(more)
    assert both["embed"] == left["embed"]
    # In one set of texts they are the same.
    off, both = (
        seconds(made(replace(config, scoring=scoring)), 1) for scoring in (ScoringConfig(), ScoringConfig(0.5, "both"))
    )
    assert both["train"] > off["train"]


def test_error_examples_are_one_search_of_a_split_in_every_round():
    kept = EvaluationConfig(examples=20, splits=("dev", "test"))
    for search, each in (
        # The one pair of dev, and 2 x 2 by Flat.
        (EXACT.search, 2 / 12),
        (SearchConfig(kind="knn", neighbours=1, block=2), 8 / 32),
    ):
        for strategy in ("random", "uncertainty"):
            asked = replace(EXACT, strategy=strategy, search=search)
            without, found = made(asked), made(replace(asked, evaluation=kept))
            added = seconds(found, 1)["search"] - seconds(without, 1)["search"]
            assert added == pytest.approx(each)
    assert made(replace(EXACT, evaluation=replace(kept, splits=()))).stage("search") == made().stage("search")


def test_indexes_are_counted_as_they_exist_together():
    knn, sizes = SearchConfig(kind="knn", neighbours=1, block=2), replace(SMALL, evaluation=6)
    estimate = EvaluationConfig(mode="estimate", examples=0)
    for search, evaluation, texts in (
        # Vectors of 2 numbers: of the 4 texts of the pool, or of 6 of dev for examples, by different models.
        (knn, EvaluationConfig(examples=0), 4),
        (knn, EvaluationConfig(), 6),
        # By one model: for near pairs of dev, and of test, and for the pool.
        (knn, estimate, 6 + 4),
        (knn, replace(estimate, splits=("dev", "test")), 6 + 6 + 4),
        (EXACT.search, estimate, 6),
        (EXACT.search, EvaluationConfig(), 0),
    ):
        found = made(replace(EXACT, search=search, evaluation=evaluation), sizes)
        assert of(found, "shard", "indexes") == texts * 2 * 4


def test_an_index_learns_from_a_sample_once():
    quick = {name: Speed(1e30, True, "") for name in SPEEDS} | {"flat": Speed(1.0, True, "")}
    config = replace(EXACT, search=SearchConfig(kind="knn", index="IVF2,Flat"))
    found = made(config, replace(SMALL, texts=100_000), constants=replace(CONSTANTS, **quick))
    # 10 rounds of 20,000 texts; then all texts, and all queries, are compared with 2 centres of 2 numbers.
    assert seconds(found, 1)["search"] == pytest.approx((10 * 20_000 + 2 * 100_000) * 2 * 2)


def test_an_estimate_makes_its_sets_before_the_first_round():
    asked = EvaluationConfig(mode="estimate", near_neighbours=1, random_pairs=5)
    sizes = replace(SMALL, evaluation=6)
    estimated = made(replace(EXACT, evaluation=asked), sizes)
    before = seconds(estimated, 0)
    # 6 texts in 3 batches; 6 x 6 x 2 by Flat.
    assert before["embed"] == pytest.approx(6 + 3 / 4)
    assert before["search"] == pytest.approx(72 / 32)
    both = made(replace(EXACT, evaluation=replace(asked, splits=("dev", "test"))), sizes)
    for name in ("embed", "search"):
        assert seconds(both, 0)[name] == pytest.approx(2 * before[name])
    assert seconds(both, 1)["evaluate"] == pytest.approx(2 * seconds(estimated, 1)["evaluate"])
    assert of(estimated, "shard", "evaluation sets") == 11 * (8 + 16)
    assert of(made(), "shard", "evaluation sets") == 0
    # All 6 near pairs on the shard, 5 draws, and 6 rows. The first has the keys of the sample: 2 of each band.
    assert of(estimated, "shard", "near pairs") == 32 * 6 + 48 * 5 + 24 * 6
    few = replace(asked, near_pairs=2)
    for bands, near in (((), 2), ((0.5,), 4), ((0.9, 0.5, 0.1), 6)):
        sampled = made(replace(EXACT, evaluation=replace(few, bands=bands)), sizes)
        assert of(sampled, "shard", "evaluation sets") == (near + 5) * (8 + 16)
        assert of(sampled, "shard", "near pairs") == of(estimated, "shard", "near pairs")
    # 6 near pairs and 5 random ones.
    assert seconds(estimated, 1)["evaluate"] == pytest.approx(11 / 8)
    # Two shards with up to 4 of the 6 texts: vectors of 8 bytes for their pairs travel.
    two = seconds(made(replace(EXACT, evaluation=asked), sizes, replace(ONE, shards=2)), 1)["evaluate"]
    own = 11 * 4 / 6
    assert two == pytest.approx(own / 8 + 8 * own / 4)


def test_memory_is_as_worked_by_hand():
    small = made()
    # 4 texts and 2 of dev, of 2 numbers of 4 bytes; 3 ids of 4 bytes each, and 5 x 8 bytes for each of 4 places.
    assert of(small, "shard", "vectors") == 6 * 2 * 4
    assert of(small, "shard", "token ids") == 6 * 3 * 4 + 40 * 4
    assert of(small, "shard", "encoder weights") == 4 * 1112
    assert of(small, "trainer", "weights") == 16 * 1112
    momentum = made(replace(EXACT, training=replace(EXACT.training, loss="momentum")))
    assert of(momentum, "trainer", "weights") == 20 * 1112, "and an encoder of keys"
    assert of(small, "trainer", "outputs of frozen") == 0
    frozen = made(replace(EXACT, training=replace(EXACT.training, frozen_layers=1)))
    # 2 labels: 4 texts of 3 tokens, of 2 numbers of 4 bytes each.
    assert of(frozen, "trainer", "outputs of frozen") == 4 * 3 * 2 * 4
    assert of(made(sizes=replace(SMALL, vectors=2)), "shard", "vectors") == 6 * 2 * 2
    # Room for 4 texts of 8 bytes: those of the pool. Beyond it, none or all of a part.
    for room, memory, mapped in ((32, 4, 2), (31, 2, 4), (0, 0, 6), (48, 6, 0)):
        bound = made(cluster=replace(ONE, mapped_above=room / 2**30)).memory
        found = {
            part.where: part.bytes for part in bound if part.what.startswith("vectors of") and part.holder == "shard"
        }
        assert found == {"host": memory * 8, "disk": mapped * 8}
    kept = made(cluster=replace(ONE, keep_vectors=True)).memory
    # Those of the untrained encoder and of the last model.
    assert [part.bytes for part in kept if part.where == "disk"] == [0, 2 * 6 * 8]
    # Two shards have a batch of two texts each, and one of them that of dev too.
    assert of(made(cluster=replace(ONE, shards=2)), "shard", "vectors") == 4 * 2 * 4
    assert of(made(replace(EXACT, rounds=2, growth=1.0)), "driver", "labels") == 40 * 4
    # 4 texts and 2 of dev: 8 bytes of row each; an offset and 5 letters of an id, an offset and 15 letters of a text.
    assert of(made(), "driver", "rows of its splits") == 6 * 8
    assert of(made(), "driver", "texts and ids read last") == 6 * (8 + 5 + 8 + 15)
    large = made(sizes=replace(SMALL, texts=10**6, right=3))
    assert of(large, "driver", "texts and ids read last") == (CACHED + 3) * (8 + 5 + 8 + 15), "of each side the last"
    knn = replace(EXACT, search=SearchConfig(kind="knn", index="IVF2,PQ1", neighbours=3, block=2))
    # A byte of code and 8 of number for each of 4 texts, and 2 centres of 2 float32.
    assert of(made(knn), "shard", "index") == 4 * 9 + 2 * 2 * 4
    halves = replace(knn, search=replace(knn.search, index="SQfp16"))
    assert of(made(halves), "shard", "index") == 4 * 2 * 2
    # 1 shard x 2 queries x 12 neighbours (3, the text itself and 8 more) of 80 bytes.
    assert of(made(knn), "shard", "answers") == 2 * 12 * 80
    # 4 shards x 2 queries x 25 neighbours of 100 bytes; 40 nearest of 92.
    many = replace(knn, search=replace(knn.search, neighbours=40))
    assert of(made(many, cluster=replace(ONE, shards=4)), "shard", "answers") == 2 * (4 * 25 * 100 + 40 * 92)


def test_each_process_on_a_gpu_has_a_context_and_flat_there_keeps_the_vectors_as_they_are():
    knn = replace(EXACT, search=SearchConfig(kind="knn", neighbours=1, block=2))
    ivf = replace(knn, search=replace(knn.search, index="IVF2,Flat", nprobe=1))
    half, gpu, cuda = replace(SMALL, vectors=2), replace(ONE, gpus_per_shard=1), replace(CONSTANTS, device="cuda")
    for holder in ("shard", "trainer"):
        assert of(made(cluster=gpu, constants=cuda), holder, "CUDA context") == 2**29
        assert of(made(), holder, "CUDA context") == 0
    # 4 texts of 2 numbers, and a product of 2 queries with them; no copy in float32, which Faiss makes: of 4 vectors
    # with their numbers and of 2 centres, and 256 MiB.
    assert of(made(knn, half, cluster=gpu, constants=cuda), "shard", "indexes, without Faiss") == 4 * 2 * 2 + 4 * 2 * 4
    assert of(made(knn, cluster=gpu, constants=cuda), "shard", "indexes, without Faiss") == 4 * 2 * 4 + 4 * 2 * 4
    assert (
        of(made(ivf, half, cluster=gpu, constants=cuda), "shard", "indexes of Faiss")
        == 4 * (2 * 4 + 8) + 2 * 2 * 4 + 2**28
    )
    assert of(made(knn, half), "shard", "indexes of Faiss") == 4 * 2 * 4
    many = replace(half, texts=10**9)
    wide = replace(knn, search=replace(knn.search, block=1024))
    # A product has 512 MiB at most.
    assert of(made(wide, many, cluster=gpu, constants=cuda), "shard", "indexes") == 10**9 * 4 + 2**29


def test_minilm_has_its_parameters():
    # 22,713,216 as the library counts them, 147,840 of which are a pooler that takes no part.
    assert Sizes(2, None, 2, None).parameters == pytest.approx(22_713_216 - 147_840, rel=1e-3)


def test_a_dense_layer_makes_vectors_of_another_dimension_than_the_layers_before_it():
    # Layers of width 2 as in SMALL, and 2 * 5 + 5 parameters of the Dense layer.
    wide = replace(SMALL, dim=5, hidden=2)
    assert (wide.operations, wide.parameters) == (360, 1112 + 15)
    assert of(made(sizes=wide), "shard", "vectors") == 6 * 5 * 4
    assert of(made(sizes=wide), "shard", "a batch") == of(made(), "shard", "a batch")


KINDS: st.SearchStrategy[Literal["exact", "knn"]] = st.sampled_from(["exact", "knn"])
SIZES = st.builds(
    Sizes,
    texts=st.integers(2_000, 10**8),
    right=st.none() | st.integers(2_000, 10**8),
    evaluation=st.integers(2, 10**6),
    evaluation_right=st.none() | st.integers(1, 10**6),
    dim=st.integers(1, 2000),
    layers=st.integers(1, 30),
    tokens=st.floats(1, 128),
)
MACHINES = st.sampled_from([CONSTANTS, *BUILT_IN.values()])


@st.composite
def plans(draw: st.DrawFn) -> tuple[RunConfig, Sizes, ClusterConfig, Constants]:
    search = SearchConfig(kind=draw(KINDS), index=draw(st.sampled_from(["Flat", "IVF100,Flat", "IVF64,PQ16"])))
    config = RunConfig(
        task="none",
        strategy=draw(st.sampled_from(["uncertainty", "adaptive", "static", "random", "stated"])),
        rounds=draw(st.integers(1, 6)),
        first_batch=draw(st.integers(2, 3000)),
        growth=draw(st.floats(1, 2)),
        train_every_budget=draw(st.booleans()),
        search=search,
        evaluation=EvaluationConfig(mode=draw(st.sampled_from(["exact", "estimate"]))),
    )
    cluster = ClusterConfig(shards=draw(st.integers(1, 64)), cpus_per_shard=2, gpus_per_shard=1)
    return config, draw(SIZES), cluster, draw(MACHINES)


@given(plans())
def test_stages_add_up_to_rounds_and_rounds_to_the_run_and_labels_are_the_configs(asked):
    foreseen = made(*asked)
    for one in foreseen.rounds:
        assert one.time.seconds == pytest.approx(sum(one.times[name].seconds for name in STAGES))
    assert foreseen.time.seconds == pytest.approx(sum(foreseen.stage(name).seconds for name in STAGES))
    assert tuple(one.labels for one in foreseen.rounds) == (0, *asked[0].batches)
    hours = foreseen.hours()
    assert hours["reserved"] == pytest.approx(sum(value for name, value in hours.items() if name != "reserved"))
    assert min(hours.values()) >= -1e-9 * hours["reserved"]


@given(plans(), st.integers(1, 64))
def test_more_shards_hold_no_more_each_but_for_the_answers_they_merge(asked, more):
    config, sizes, cluster, constants = asked
    few, many = made(*asked), made(config, sizes, replace(cluster, shards=cluster.shards + more), constants)
    kept = [part.what for part in few.memory if part.holder == "shard" and not part.what.startswith("answers")]
    assert len(kept) == 8 + 2 * (config.evaluation.mode == "estimate") + (constants.device == "cuda")
    for what in kept:
        start = re.split(r" of [\d,]+ texts", what)[0]
        assert of(many, "shard", start) <= of(few, "shard", start)


@given(plans(), st.integers(1, 10**7), st.booleans())
def test_more_texts_take_no_less_time_and_memory(asked, more, right):
    config, sizes, cluster, constants = asked
    right = right and sizes.right is not None
    grown = replace(sizes, right=sizes.right + more) if right else replace(sizes, texts=sizes.texts + more)
    few, many = made(*asked), made(config, grown, cluster, constants)
    # Where one of more than 1,024 chunks is new, all chunks, and with them the largest shard, are a little smaller.
    least = 1 - 2e-3
    for name in STAGES:
        assert many.stage(name).seconds >= few.stage(name).seconds * least
    assert sum(part.bytes for part in many.memory) >= sum(part.bytes for part in few.memory) * least


@given(plans())
def test_a_time_is_measured_only_if_all_its_constants_are(asked):
    config, sizes, cluster, constants = asked
    foreseen = made(*asked)
    assert foreseen.time.assumed <= {name for name in SPEEDS if not getattr(constants, name).measured}
    assert len(warnings(foreseen)) == len(foreseen.time.assumed)
    # Whichever constant is taken away, some time that asked for it changes its mark.
    for name in foreseen.time.assumed:
        slower = replace(constants, **{name: Speed(getattr(constants, name).value / 1e15, False, "")})
        assert made(config, sizes, cluster, slower).time.seconds > foreseen.time.seconds


def test_static_at_every_budget_embeds_and_searches_before_each_training_and_takes_as_long_as_adaptive():
    rounds = replace(EXACT, rounds=2)
    static = made(replace(rounds, strategy="static", train_every_budget=True))
    # 2 and 3 of the 6 pairs.
    assert [one.labels for one in static.rounds] == [0, 2, 3]
    assert [one.times for one in static.rounds] == [
        one.times for one in made(replace(rounds, strategy="adaptive")).rounds
    ]
    assert static.stage("train").seconds > made(replace(rounds, strategy="static")).stage("train").seconds
    drawn = made(replace(rounds, strategy="random", train_every_budget=True))
    assert [seconds(drawn, number)["search"] for number in (0, 1, 2)] == [0, 0, 0]
    assert reasons(static, static.setting.config)[0].startswith("strategy: static; the time of")
    stated = reasons(static, replace(static.setting.config, strategy="stated"))[0]
    assert stated.startswith(
        "strategy: stated; takes all stated pairs, whatever the labels below; to plan for N of them"
    )
    assert "at once" in reasons(static, replace(rounds, strategy="static"))[0]


def test_no_work_asks_no_constant():
    unmeasured = replace(CONSTANTS, sampled=Speed(8.0, False, ""))
    assert time_of(0, unmeasured, "sampled") == Time()
    assert time_of(16, unmeasured, "sampled", 2) == Time(1.0, frozenset(["sampled"]))


def test_stages_that_a_run_measured_take_as_much_longer_and_are_not_assumed():
    cuda = replace(ONE, gpus_per_shard=1)
    plain = made(EXACT, cluster=cuda, constants=BUILT_IN["h200"])
    scaled = plan(setting_of(EXACT, SMALL, cuda, BUILT_IN["h200"], {"embed": 3.0, "train": 0.5}))
    assert scaled.stage("embed") == Time(3.0 * plain.stage("embed").seconds)
    assert scaled.stage("train").seconds == pytest.approx(0.5 * plain.stage("train").seconds)
    assert scaled.stage("search") == plain.stage("search")
    assert not scaled.stage("search").measured
    assert scaled.memory == plain.memory


def test_auto_takes_exact_up_to_its_limit():
    auto = replace(EXACT, search=SearchConfig(kind="auto", exact_pairs=6))
    assert made(auto).setting.kind == "exact"  # 4 texts have 6 pairs.
    assert made(auto, replace(SMALL, texts=5)).setting.kind == "knn"


def test_cores_that_were_not_tried_are_said_to_be_assumed():
    assert warnings(made()) == []
    (said,) = warnings(made(cluster=replace(ONE, cpus_per_shard=8)))
    assert "from 2 measured threads to 8" in said
    # Four times the cores: what is arithmetic of the device is done in a quarter of the time, kernel starts are not.
    eight = seconds(made(cluster=replace(ONE, cpus_per_shard=8)), 1)["embed"]
    assert eight == pytest.approx((4 + 2) / 4 + 2 / 4 + 1 / 4)


def test_draws_ask_no_model():
    for strategy in ("random", "stated"):
        drawn = made(replace(EXACT, strategy=strategy))
        assert drawn.stage("search") == Time()
        assert drawn.stage("embed").seconds == pytest.approx(2 * (2 + 1 / 4))  # dev alone, untrained and trained


def test_gpus_are_shared_out_and_the_trainer_has_its_own():
    assert cluster_of(8, 1, None, 2) == ClusterConfig(shards=7, cpus_per_shard=2, gpus_per_shard=1)
    assert cluster_of(1, 0.5, None, 2).shards == 1
    assert cluster_of(2, 0.25, 3, 2).shards == 3
    assert cluster_of(0, 1, None, 2) == ClusterConfig(shards=1, cpus_per_shard=2)
    for gpus, each, shards in ((1, 1, None), (8, 1, 8), (3, 2, None), (0.5, 1, None)):
        with pytest.raises(BadOption, match="fewer `shards`"):
            cluster_of(gpus, each, shards, 2)


def test_while_the_trainer_works_the_other_gpus_are_idle():
    foreseen = made(cluster=cluster_of(8, 1, None, 2), constants=BUILT_IN["h200"])
    train = foreseen.stage("train").seconds / 3600
    assert foreseen.hours()["idle, the trainer works"] == pytest.approx(7 * train)
    assert foreseen.hours()["reserved"] == pytest.approx(8 * foreseen.time.seconds / 3600)
    # Seven search and embed; the evaluation and the tokens are the CPUs'.
    searching = (foreseen.stage("embed").seconds + foreseen.stage("search").seconds) / 3600
    assert foreseen.hours()["used"] == pytest.approx(train + 7 * searching)


def test_what_is_paid_is_what_is_reserved():
    foreseen = made(sizes=replace(SMALL, texts=10**6), cluster=cluster_of(8, 1, None, 2), constants=BUILT_IN["h200"])
    rows = {row[0]: row[1] for row in cost_rows(foreseen, 0.5, 3600.0)}
    assert rows["cost of labels"] == "1.00"  # Two labels.
    assert rows["cost of GPU-hours"] == f"{3600 * foreseen.hours()['reserved']:,.2f} a"
    assert rows["total cost"] == f"{1 + 3600 * foreseen.hours()['reserved']:,.2f} a"
    assert "labels of dev pairs" not in rows


def test_labels_of_dev_are_paid_beside_those_of_the_rounds():
    asked = replace(EXACT, rounds=3, first_batch=16, growth=1.0, dev_labels=100)
    foreseen = made(asked, replace(SMALL, texts=100))
    rows = {row[0]: row[1] for row in cost_rows(foreseen, 0.5, 0.0)}
    assert (foreseen.labels, rows["labels of dev pairs"]) == (48, "300")
    assert rows["cost of labels"] == "174.00"
    assert rows["total cost"].startswith("174.00 ")


def test_no_figure_of_a_gpu_that_nobody_measured_is_called_measured():
    foreseen = made(cluster=cluster_of(8, 1, None, 2), constants=BUILT_IN["a100"])
    cells = [cell for row in time_rows(foreseen)[1:] for cell in row[2:]]
    assert any(cell.endswith(" a") for cell in cells)
    assert not any(cell.endswith(" m") for cell in cells)
    assert all("not measured" in line for line in warnings(foreseen))


def test_figures_are_said_in_the_unit_that_suits_them():
    assert [time_words(Time(s)) for s in (0, 0.5, 90, 119, 150, 7200, 5e5)] == [
        *("-", "0.50 s m", "90 s m", "119 s m", "2.5 min m", "2.0 h m", "5.8 d m")
    ]
    assert time_words(Time(1.0, frozenset(["sampled"]))) == "1.00 s a"
    assert [size_words(b) for b in (0, 1, 1024, 1.5 * 1024**3, 1024.0**6)] == [
        *("0.0 B", "1.0 B", "1.0 KiB", "1.5 GiB", "1,048,576.0 TiB")
    ]
    assert [cells_of(index) for index in ("Flat", "IVF1000,Flat", "IVF65536_HNSW32,PQ16", "HNSW32")] == [
        *(0, 1000, 65536, 0)
    ]


def here(monkeypatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["plan.py", *arguments])
    command.main()


def test_the_command_prints_every_stage_with_labels_memory_and_cost():
    asked = ["--texts", "1000000", "--dim", "384", "--gpus", "8", "--cost-per-pair", "0.5", "--gpu-hour-cost", "3"]
    done = subprocess.run(
        [sys.executable, "-m", "jobs.plan", *asked], capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stderr == ""
    (head,) = [line for line in done.stdout.splitlines() if "prepare" in line]
    assert head.split()[:8] == ["round", "labels", *STAGES]
    # 2048 + 3072 + 4608 + 6912 labels at a half each.
    assert "16,640" in done.stdout
    assert re.search(r"cost of labels +8,320\.00", done.stdout)
    assert "knn, by auto: 499,999,500,000 pairs are more than 20,000,000,000 (--search.exact-pairs)" in done.stdout
    assert "estimate, by auto: 124,999,750,000 pairs" in done.stdout
    assert "GPU-hours idle, the trainer works" in done.stdout
    for what in ("vectors of", "token ids", "indexes, without Faiss", "search blocks", "CUDA context", "driver"):
        assert what in done.stdout
    assert "not measured: embed" in done.stdout


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_task_gives_the_numbers_of_texts(tmp_path, make_task, symmetric):
    task = make_task(symmetric)
    write_task(task, tmp_path / "task", {})
    sizes = PlanOptions(task=str(tmp_path / "task")).sizes
    train, dev = task.split("train").space, task.split("dev").space
    assert (sizes.texts, sizes.pairs) == (len(train.left), train.total)
    assert (sizes.evaluation, sizes.evaluation_pairs) == (len(dev.left), dev.total)
    assert (sizes.right is None) == symmetric
    with pytest.raises(BadOption, match="`task` has its numbers of texts; leave out `texts`"):
        _ = PlanOptions(task=str(tmp_path / "task"), texts=100).sizes
    with pytest.raises(WrongFolder, match=r"nowhere holds no task\.json"):
        _ = PlanOptions(task="nowhere").sizes


def test_auto_takes_what_a_run_takes_if_only_some_pairs_can_match(tmp_path, make_ruled):
    task = make_ruled(True)
    write_task(task, tmp_path / "task", {})
    pool, dev = (task.split(name).space.total for name in ("train", "dev"))
    search, evaluation = SearchConfig(kind="auto", exact_pairs=pool), EvaluationConfig(exact_pairs=dev)
    config = {"task": str(tmp_path / "task"), "search": search, "evaluation": evaluation, "first_batch": 2, "rounds": 1}
    options = PlanOptions(**config)
    made = setting_of(options, options.sizes, options.workers, BUILT_IN["cpu"])
    # With all pairs of the texts both would be above their limits.
    assert (made.kind, made.counted) == (RunConfig(**config).settled(pool).search.kind, True) == ("exact", True)
    with pytest.raises(BadOption, match=f"{pool + 1:,} labels of {pool:,} pairs"):
        plan(setting_of(replace(options, first_batch=pool + 1), options.sizes, options.workers, BUILT_IN["cpu"]))


def test_a_cpu_cluster_is_planned_from_measured_constants(monkeypatch, capsys):
    here(monkeypatch, "--texts", "20000", "--gpus", "0", "--shards", "1", "--cpus-per-shard", "2")
    out = capsys.readouterr().out
    assert "exact, by auto: 199,990,000 pairs are at most" in out
    assert "core-hours reserved" in out
    assert "GPU " not in out
    assert "assumed:" not in out
    assert "not measured" not in out
    here(monkeypatch, "--texts", "20000", "--shards", "2", "--search.kind", "knn")
    out = capsys.readouterr().out
    assert "knn; auto would take exact" in out
    assert "not measured: transfer" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--texts", "-5"), "--texts is -5"),
        (("--texts", "many"), "--texts"),
        (("--texts", "1" + "0" * 400), "--texts is 1"),
        (("--texts", "30"), "16,640 labels of 435 pairs"),
        (("--right-texts", "0"), "--right-texts is 0"),
        (("--evaluation-texts", "1"), "--evaluation-texts is 1"),
        (("--dim", "0"), "--dim is 0"),
        (("--layers", "0"), "--layers is 0"),
        (("--vocabulary", "0"), "--vocabulary is 0"),
        (("--tokens", "nan"), "--tokens is nan"),
        (("--tokens", "500"), "--max-length 128"),
        (("--cost-per-pair", "nan"), "--cost-per-pair is nan"),
        (("--cost-per-pair", "-1"), "--cost-per-pair is -1"),
        (("--gpu-hour-cost", "inf"), "--gpu-hour-cost is inf"),
        (("--gpus", "-1"), "--gpus is -1"),
        (("--gpus", "nan"), "--gpus is nan"),
        (("--gpus", "1"), "1 GPUs hold 1 actors of 1, and 2 are asked for"),
        (("--gpus", "8", "--shards", "8"), "fewer --shards"),
        (("--gpus", "8", "--gpus-per-shard", "0"), "--gpus-per-shard is 0"),
        (("--gpu", "tpu"), "--gpu"),
        (("--shards", "0"), "--shards is 0"),
        (("--cpus-per-shard", "0.5"), "--cpus-per-shard is 0.5"),
        (("--rounds", "0"), "--rounds is 0"),
        (("--search.kind", "magic"), "--search.kind"),
        (("--measure",), "--constants FILE"),
        (("--measure", "--constants", "."), "is a folder"),
        (("--run", "nowhere"), "nowhere/planned.json is missing; the command run writes it"),
        (("--constants", "nowhere.json"), "nowhere.json cannot be read; make it with: python -m jobs.plan --measure"),
        (("--constants", "broken.json"), "broken.json cannot be read; make it with"),
        (("--constants", "other.json"), "other.json holds no constants"),
        (("--measure", "--constants", "c.json", "--gpus", "2"), "there is no CUDA device here"),
    ],
)
def test_a_bad_option_ends_in_one_line_and_code_2(monkeypatch, capsys, tmp_path, arguments, said):
    (tmp_path / "broken.json").write_text('{"constants": ')
    (tmp_path / "other.json").write_text("[1, 2]")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["plan.py", *arguments])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as stop:
        job(command.main)
    assert stop.value.code == 2
    written = capsys.readouterr()
    assert len(written.err.splitlines()) == 1
    assert written.err.startswith("error: ")
    assert said in written.err
    assert written.out == ""


@pytest.mark.parametrize("constants", BUILT_IN.values(), ids=BUILT_IN.keys())
def test_what_is_written_of_constants_is_what_is_read(constants):
    content = json.loads(json.dumps(as_content(constants, "2026-11-21")))
    assert from_content(content, "c.json") == constants


@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        (lambda c: c["constants"].pop("embed"), "embed is unknown or missing"),
        (lambda c: c["constants"].update(warp=c["constants"]["sampled"]), "warp is unknown or missing"),
        (lambda c: c["constants"]["sampled"].update(value=0), "sampled is 0"),
        (lambda c: c["constants"]["sampled"].update(value=float("nan")), "sampled is nan"),
        (lambda c: c["constants"]["sampled"].update(value="quick"), "holds no constants"),
        (lambda c: c["constants"]["sampled"].update(measured="perhaps"), "measured perhaps"),
        (lambda c: c["constants"]["sampled"].pop("source"), "holds no constants"),
        (lambda c: c.pop("threads"), "holds no constants"),
        (lambda c: c.update(threads=0), "with 0 threads"),
        (lambda c: c.update(threads=float("inf")), "holds no constants"),
        (lambda c: c.update(device="tpu"), "device 'tpu'"),
        (lambda c: c.update(constants=[]), "holds no constants"),
    ],
)
def test_broken_constants_are_refused_by_the_name_of_their_file(breaks, said):
    content = json.loads(json.dumps(as_content(CONSTANTS, "2026-11-21")))
    breaks(content)
    with pytest.raises(BadFile, match=r"^c\.json.*measure=True") as refused:
        from_content(content, "c.json")
    assert said in str(refused.value)


def test_measure_writes_constants_that_later_plans_read(monkeypatch, capsys, tmp_path):
    file = tmp_path / "c.json"
    monkeypatch.setattr(pipeline, "TEXTS", 128)
    monkeypatch.setattr(pipeline, "VECTORS", 4096)
    monkeypatch.setattr(pipeline, "RECORDS", 1024)
    asked = "--encoder", "random-bert", "--encoder-layers", "1", "--max-length", "24"
    here(monkeypatch, "--measure", "--constants", str(file), *asked, "--cpus-per-shard", "1", "--texts", "5000")
    first = capsys.readouterr().out
    read = from_content(json.loads(file.read_text()), str(file))
    assert (read.device, read.threads) == ("cpu", 1)
    assert [name for name in SPEEDS if not getattr(read, name).measured] == ["transfer"]
    assert "random-bert" in read.embed.source
    assert re.search(r"\d{4}-\d\d-\d\d", read.embed.source)
    here(monkeypatch, "--constants", str(file), "--max-length", "24", "--cpus-per-shard", "1", "--texts", "5000")
    assert capsys.readouterr().out == first
    with pytest.raises(BadOption, match="was measured on cpu"):
        here(monkeypatch, "--constants", str(file), "--gpus", "8")
