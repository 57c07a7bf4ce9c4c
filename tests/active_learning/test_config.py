"""Options: the paper's budgets, refusals, the streams of chance, and the way through config.json."""

import json
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.apps.cross_encoder.options import TrainConfig
from al_ray.apps.papers.augmentation.options import AugmentConfig
from al_ray.core.config.sections import EvaluationConfig, SearchConfig, TrainingConfig
from al_ray.core.config.serialization import as_dict, from_dict
from al_ray.core.errors import BadOption
from al_ray.core.rng import generator

RUN = RunConfig(task="task")


def test_what_an_encoder_computes_in_goes_from_the_options_of_every_job_to_it():
    train = TrainConfig(task="task", labels="stated", arithmetic="bf16")
    augment = AugmentConfig(gold="stsb:there", arithmetic="bf16")
    for config in (replace(RUN, arithmetic="bf16"), train.run(1), augment, augment.teaching.run(1)):
        assert config.encoding.arithmetic == "bf16"


def test_rounds_grow_by_half_to_the_papers_budgets():
    assert RUN.batches == (2048, 3072, 4608, 6912)
    assert sum(RUN.batches) == 16_640
    qqp = replace(RUN, rounds=10)
    # 2048 = 2^11, so every round is a whole number: 2048 * (1.5^10 - 1) / 0.5, the last 2^11 * 3^9 / 2^9 = 4 * 19,683.
    assert sum(qqp.batches) == 232_100
    assert qqp.batches[-1] == 78_732


@pytest.mark.parametrize("strategy", ["static", "random", "stated", "stratified-match", "stratified-all"])
def test_what_needs_no_model_spends_the_same_budget_at_once(strategy):
    assert replace(RUN, strategy=strategy).batches == (16_640,)


@pytest.mark.parametrize("strategy", ["static", "random", "stated", "uncertainty", "adaptive"])
def test_at_every_budget_all_have_the_same_rounds(strategy):
    assert replace(RUN, strategy=strategy, train_every_budget=True).batches == (2048, 3072, 4608, 6912)


@pytest.mark.parametrize(
    ("changed", "option"),
    [
        ({"rounds": 0}, "`rounds`"),
        ({"first_batch": 0}, "`first_batch`"),
        ({"growth": 0.5}, "`growth`"),
        ({"growth": float("nan")}, "`growth`"),
        ({"seed": -1}, "`seed`"),
        ({"max_length": 2}, "`max_length`"),
        ({"encoder_batch": 0}, "`encoder_batch`"),
        ({"threads": 0}, "`threads`"),
        ({"search": SearchConfig(neighbours=0)}, "`search.neighbours`"),
        ({"search": SearchConfig(nprobe=0)}, "`search.nprobe`"),
        ({"search": SearchConfig(block=0)}, "`search.block`"),
        ({"training": TrainingConfig(batch=1)}, "`training.batch`"),
        ({"training": TrainingConfig(epochs=0)}, "`training.epochs`"),
        ({"training": TrainingConfig(tries=0)}, "`training.tries`"),
        ({"evaluation": EvaluationConfig(near_neighbours=0)}, "`evaluation.near_neighbours`"),
        ({"evaluation": EvaluationConfig(random_pairs=0)}, "`evaluation.random_pairs`"),
    ],
)
def test_what_cannot_be_is_refused_by_its_option_with_the_least_that_can(changed, option):
    with pytest.raises(BadOption, match=rf"^{option} is .*; give at least \d"):
        replace(RUN, **changed)


def test_a_config_does_not_change():
    with pytest.raises(FrozenInstanceError):
        RUN.rounds = 5  # type: ignore[misc]


def test_a_config_comes_back_from_json():
    config = replace(
        RUN,
        encoder_layers=2,
        search=SearchConfig(neighbours=7),
        training=TrainingConfig(epochs=1),
        evaluation=EvaluationConfig(splits=("dev", "test"), bands=(0.9, 0.5)),
        matched=(3, 4),
    )
    assert from_dict(RunConfig, json.loads(json.dumps(as_dict(config)))) == config


@pytest.mark.parametrize("content", [{"task": "t", "colour": 1}, {"task": "t", "search": {"colour": 1}}])
def test_an_option_of_another_version_is_named(content):
    with pytest.raises(BadOption, match="no option colour"):
        from_dict(RunConfig, content)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"matched": (-1, 5)}, "`matched` is -1 5; give how many positives and negatives"),
        ({"matched": (0, 0)}, "`matched` is 0 0"),
        ({"strategy": "stratified-all", "oracle": "file"}, "`strategy='stratified-all'` knows all positives"),
    ],
)
def test_what_stratified_draws_cannot_be_asked_is_refused(changed, words):
    with pytest.raises(BadOption, match=words):
        replace(RUN, **changed)


@pytest.mark.parametrize("matched", [[1], [1, 2, 3], [1, "2"], [1.5, 2]])
def test_a_tuple_of_another_kind_is_refused(matched):
    with pytest.raises(BadOption, match=r"matched is .*, which is no value of it"):
        from_dict(RunConfig, {"task": "t", "matched": matched})


def test_each_purpose_and_round_has_its_own_stream():
    first = {
        (seed, purpose, number): tuple(generator(seed, purpose, number).integers(0, 2**62, 4))
        for seed in (0, 1)
        for purpose in ("random", "train")
        for number in (1, 2)
    }
    assert len(set(first.values())) == 8
    # The streams of a seed: default_rng([seed, *purpose bytes, round])
    wanted = np.random.default_rng([1, *b"train", 2]).integers(0, 2**62, 4)
    assert first[1, "train", 2] == tuple(wanted)


def test_evaluation_counts_every_pair_as_told_and_in_auto_up_to_a_number_of_pairs():
    auto = EvaluationConfig(exact_pairs=10)
    assert (auto.counts_all(10), auto.counts_all(11)) == (True, False)
    assert replace(auto, mode="exact").counts_all(11)
    assert not replace(auto, mode="estimate").counts_all(10)


def test_the_near_pairs_of_a_band_that_come_to_the_driver_have_a_limit():
    assert EvaluationConfig().most_near_pairs == 10_000_000
    assert EvaluationConfig(near_pairs=12).most_near_pairs == 12
