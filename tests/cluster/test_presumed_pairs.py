"""Presumed non-matches of a training: which pairs are drawn, what learns from them, and what a run says of them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import al_ray
from al_ray.active_learning.config import RunConfig
from al_ray.cluster.measurement import deploy_measured
from al_ray.cluster.presumed import PresumedPairs
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import CandidatesConfig, SearchConfig, TrainingConfig
from al_ray.core.labels import Labelled, Model
from al_ray.core.pairs import is_in
from al_ray.core.progress import no_progress
from al_ray.core.scorer import refit
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.runs.presumed_figures import PresumedFigures, presumed_by_training
from al_ray.runs.round_table import format_round
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.pair_cosines import FIT, read_cosines
from al_ray.storage.uri import StoragePath
from al_ray.training.trainer import Trainer, TrainerSpec
from tests.running import run

pytestmark = pytest.mark.usefixtures("in_process")
CPUS = ClusterConfig(timeout=600)
FAST = TrainingConfig(epochs=1, batch=8, learning_rate=1e-3, worst_loss=100.0)


def config_of(folder: StoragePath, presumed: float, **options: Any) -> RunConfig:
    return RunConfig(
        task=str(folder), rounds=2, first_batch=16, growth=1.0, encoder="random-bert", encoder_layers=1, max_length=24,
        encoder_batch=8, threads=1, search=SearchConfig(neighbours=5, block=16),
        training=replace(FAST, presumed=presumed), **options,
    )  # fmt: skip


@pytest.fixture(scope="module", params=[False, True], ids=["two sets", "one set"])
def folder(request, make_task, tmp_path_factory) -> Path:
    """The folder of a task and of a run of two rounds without presumed non-matches."""
    folder = tmp_path_factory.mktemp("presumed")
    write_task(make_task(request.param), folder / "task", {})
    return folder


@pytest.fixture(scope="module")
def plain(in_process, folder) -> RunFolder:
    return run(config_of(folder / "task", 0.0), CPUS, folder / "plain")


@contextmanager
def drawing(plain: RunFolder, task: Task, presumed: float, seed: int = 0) -> Iterator[PresumedPairs]:
    """What draws pairs for the rounds of a run, on its pool. The labels of the task may be partial."""
    config = config_of(plain.path.parent / "task", presumed)
    with deploy_measured(config, CPUS, task, plain.path, no_progress) as pool:
        yield PresumedPairs(pool, plain, config.training, seed)


def test_pairs_without_a_label_are_drawn_for_each_label(plain, folder):
    task, labelled = read_task(folder / "task"), plain.ledger.labelled(2)
    space = task.split("train").space
    with drawing(plain, task, 1.5) as presumed:
        found = presumed.add(labelled, 2, presumed.pool.untrained())
        keys = space.keys(found.presumed)
        assert len(set(keys.tolist())) == 48 == 1.5 * len(labelled)
        assert space.holds(found.presumed).all()
        assert not is_in(keys, np.sort(space.keys(labelled.pairs))).any()
        # All matches of the task are known, and so are those among the drawn pairs.
        matches = is_in(keys, task.split("train").positive_keys).mean()
        assert plain.presumed == PresumedFigures(48, matches, True)
        # The labels are those there were.
        assert (len(found), found.positives, found.rounds is labelled.rounds) == (32, labelled.positives, True)
        draws = [
            draw.add(labelled, number, draw.pool.untrained()).presumed
            for draw, number in ((presumed, 2), (presumed, 1), (replace(presumed, seed=1), 2))
        ]
    # Another round, and another seed, draw others.
    assert [np.array_equal(draw, found.presumed) for draw in draws] == [True, False, False]


def test_where_few_pairs_have_no_label_all_of_them_are_drawn(plain, folder):
    task, labelled = read_task(folder / "task"), plain.ledger.labelled(2)
    space = task.split("train").space
    with drawing(plain, task, 100.0) as presumed:
        found = presumed.add(labelled, 2, presumed.pool.untrained()).presumed
    # In a task of two sets, 32 labels are few of all pairs.
    assert len(found) == min(3200, space.total - 32)
    if space.total < 3232:
        every = np.sort(np.concatenate([space.keys(found), space.keys(labelled.pairs)]))
        assert np.array_equal(every, np.sort(space.at(np.arange(space.total))))


def test_elsewhere_a_scorer_of_the_labels_alone_says_how_many_match(plain, folder):
    task, labelled = replace(read_task(folder / "task"), labels_are="partial"), plain.ledger.labelled(2)
    labels = (np.arange(32) % 2).astype(np.uint8)
    with drawing(plain, task, 1.0) as presumed:
        split, before = task.split("train"), plain.model(1)
        found = presumed.add(replace(labelled, labels=labels), 2, before).presumed
        cosines = [presumed.pool.scores(before.by_cosine, split, pairs) for pairs in (labelled.pairs, found)]
        fitted = refit(cosines[0], labels)
        share = float(np.mean(fitted.weight * cosines[1] + fitted.bias >= 0))
        assert plain.presumed == PresumedFigures(32, share, False)
        # p of labels of one kind is that of the label.
        presumed.add(replace(labelled, labels=np.ones(32, dtype=np.uint8)), 2, before)
        assert plain.presumed == PresumedFigures(32, None, False)


def test_a_run_learns_from_them_and_stores_no_label(plain, folder):
    asked = config_of(folder / "task", 2.0)
    one, two = run(asked, CPUS, folder / "one"), run(asked, replace(CPUS, shards=2), folder / "two")
    assert [one.model(number).digest for number in (1, 2)] == [two.model(number).digest for number in (1, 2)]
    assert one.model(1).digest != plain.model(1).digest
    for line, known in zip(one.metrics(), plain.metrics(), strict=True):
        found = presumed_by_training(line)
        assert found is not None
        assert found.share is not None
        assert (found.number, found.counted) == (2 * line["labels"], True)
        assert line["labels"] == known["labels"]
        assert "presumed" not in known
        said = f"presumed non-matches of the training: {found.number}, of which "
        assert any(text.startswith(said) for text in format_round(line).splitlines())
        # Of a small pool more than 1% match.
        warned = any(text.endswith("(`RunConfig.training.presumed`)") for text in line["warnings"])
        assert warned == (found.share > 0.01)
    # The scorer is fitted to the labels alone.
    pairs, cosines = read_cosines(one.round(2) / FIT)
    assert np.array_equal(pairs, one.ledger.labelled(2).pairs)
    assert one.model(2).scorer == refit(cosines, one.ledger.labelled(2).labels)
    assert len(al_ray.load_run(folder / "one").labelled().labels) == 32


def test_a_training_is_that_of_the_labels_and_of_as_many_non_matches(plain, folder):
    """As a twin with these pairs among its labels has it: weights to the bit."""
    task, labelled = read_task(folder / "task"), plain.ledger.labelled(1)
    with drawing(plain, task, 1.0) as presumed:
        extended = presumed.add(labelled, 1, presumed.pool.untrained())
    zeros = np.zeros(len(extended.presumed), dtype=np.uint8)
    twin = Labelled().extended(
        np.concatenate([labelled.pairs, extended.presumed]), np.concatenate([labelled.labels, zeros]), 1, "seed"
    )
    pool = next(path for path in (plain.path / "pool").iterdir() if (path / "left").exists())
    spec = TrainerSpec(str(pool), config_of(folder, 0.0).encoding, FAST, 0, task.symmetric)
    *_, by_twin = Trainer(spec).train(twin, 1, None, str(folder / "twin" / "model"))
    *_, by_ours = Trainer(spec).train(extended, 1, None, str(folder / "ours" / "model"))
    assert isinstance(by_twin, Model)
    assert isinstance(by_ours, Model)
    assert by_ours.digest == by_twin.digest != plain.model(1).digest
    assert len(read_cosines(folder / "ours" / FIT)[0]) == len(labelled)
    # The model of the labels alone is another one, and is not read in its place.
    *steps, other = Trainer(spec).train(labelled, 1, None, str(folder / "ours" / "model"))
    assert steps
    assert isinstance(other, Model)
    assert other.digest == plain.model(1).digest


def test_the_encoder_beside_a_matcher_learns_from_them_too(folder):
    candidates = CandidatesConfig(cosine=5, trigrams=5, presumed=12)
    asked = config_of(folder / "task", 1.0, matcher="on", encoder_every=2, candidates=candidates)
    first, second, third = run(replace(asked, rounds=3), CPUS, folder / "matcher").metrics()
    # Only round 2 trains the encoder; the matcher presumes in each.
    assert [presumed_by_training(line) for line in (first, third)] == [None, None]
    found = presumed_by_training(second)
    assert found is not None
    # As many as there are labels of the encoder, which has those of half of the left texts.
    assert 0 < found.number < 32
    assert [line["candidates"]["presumed"]["number"] for line in (first, second, third)] == [12, 12, 12]
    assert json.loads((folder / "matcher/round-002/record.json").read_text())["presumed"] == found.as_dict()
