"""A matcher beside an encoder that is trained every second round: candidates by its cosines, and the files of a run."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import al_ray
from al_ray.active_learning.config import RunConfig
from al_ray.cluster.candidates.matcher_trainer import MatcherTrainer
from al_ray.cluster.services import deploy_pool
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import CandidatesConfig, EvaluationConfig, TrainingConfig
from al_ray.core.errors import AlRayError, BadFile, BadOption
from al_ray.core.labels import Labelled
from al_ray.core.progress import no_progress
from al_ray.core.scorer import CANDIDATE
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.runs.importance import read_importance
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.uri import storage_path
from al_ray.training.label_halves import label_halves
from al_ray.training.saved_model import read_model
from tests.cluster.outcomes import figures, results
from tests.running import run

pytestmark = pytest.mark.usefixtures("in_process")

COSINES = ("cosine_average_precision", "untrained_average_precision")
WHERE = ClusterConfig(shards=2, timeout=600)


@pytest.fixture(scope="module")
def asked(make_task, tmp_path_factory) -> RunConfig:
    folder = tmp_path_factory.mktemp("task") / "task"
    write_task(make_task(False, clusters=18), folder, {})
    return RunConfig(
        task=str(folder), rounds=3, first_batch=16, growth=1.0, encoder="random-bert", encoder_layers=1,
        max_length=24, encoder_batch=8, threads=1, matcher="on", encoder_every=2,
        candidates=CandidatesConfig(cosine=5, trigrams=5), evaluation=EvaluationConfig(splits=("dev",)),
        training=TrainingConfig(epochs=3),
    )  # fmt: skip


@pytest.fixture(scope="module")
def made(in_process, asked, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run"
    run(asked, WHERE, path)
    return path


def test_only_every_second_round_trains_the_encoder(asked, made):
    folder = RunFolder(made, read_task(storage_path(asked.task)))
    models = [folder.model(number) for number in (1, 2, 3)]
    encoder = read_model(made / "round-002" / "encoder")
    assert encoder is not None
    assert [model.path for model in models] == ["", encoder.path, encoder.path]
    assert [model.weights for model in models[1:]] == [encoder.digest] * 2
    assert models[0].weights != encoder.digest
    assert not (made / "round-001" / "encoder").exists()
    assert not (made / "round-003" / "encoder").exists()


def test_the_encoder_learns_from_half_of_the_texts_and_the_matcher_from_the_others(asked, made, tmp_path, monkeypatch):
    seen, train = list[Labelled](), MatcherTrainer._train_encoder

    def train_seen(trainer, training, labelled, number, start):
        seen.append(labelled)
        train(trainer, training, labelled, number, start)

    monkeypatch.setattr(MatcherTrainer, "_train_encoder", train_seen)
    run(asked, WHERE, tmp_path / "run")
    every = RunFolder(tmp_path / "run", read_task(storage_path(asked.task))).ledger.labelled().decided
    encoder, matcher = label_halves(every, 2)
    assert 0 < encoder.sum() < 32
    assert [labelled.pairs.tolist() for labelled in seen] == [every.pairs[encoder].tolist()]
    learned = [found.pairs for number in (1, 2, 3) if (found := read_importance(made / f"round-{number:03}"))]
    assert learned == [16, int((matcher & (every.rounds <= 2)).sum()), int(matcher.sum())]


def test_every_round_is_measured_by_its_own_encoder(made):
    opened, lines = al_ray.load_run(made), figures(made)
    for number, line in enumerate(lines, 1):
        again = al_ray.evaluate(opened, "dev", round=number, cluster=WHERE).average_precision.value
        assert again == line["average_precision"]
    cosine, untrained = ([line["candidates"]["dev"][name] for line in lines] for name in COSINES)
    assert untrained == [cosine[0]] * 3, "the untrained encoder is measured once"
    assert cosine[1] == cosine[2] != cosine[0]


def test_a_pair_that_is_no_candidate_has_the_cosine_of_the_trained_encoder(asked, made):
    task = read_task(storage_path(asked.task))
    model, split = RunFolder(made, task).model(3), task.split("dev")
    with deploy_pool(asked, WHERE, task, made, no_progress) as pool:
        pairs = split.space.pairs(np.sort(split.space.at(np.arange(split.space.total))))
        scores, cosines, first = (pool.scores(one, split, pairs) for one in (model, model.by_cosine, pool.untrained()))
    far = scores < 2
    assert far.any()
    assert not far.all()
    assert scores[far].tolist() == cosines[far].tolist() != first[far].tolist()


def test_a_run_that_stopped_after_its_encoder_resumes_to_the_same_bits(asked, made, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(made, path)
    (path / "state.json").write_text(json.dumps({"round": 1, "labels": 16}))
    shutil.rmtree(path / "round-003")
    for name in ("record.json", "model/matcher.safetensors", "model/scorer.json"):
        (path / "round-002" / name).unlink()
    (path / "metrics.jsonl").write_text((made / "metrics.jsonl").read_text().splitlines(keepends=True)[0])
    weights = next((path / "round-002" / "encoder").glob("*.safetensors"))
    before = weights.stat().st_mtime_ns
    run(asked, ClusterConfig(shards=1, timeout=600), path)
    assert results(path) == results(made)
    assert weights.stat().st_mtime_ns == before, "the encoder is not trained again"
    for number in (1, 2, 3):
        name = f"round-{number:03}/model/matcher.safetensors"
        assert (path / name).read_bytes() == (made / name).read_bytes()


def test_a_run_without_the_weights_of_its_encoder_is_told_so(made, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(made, path)
    next((path / "round-002" / "encoder").glob("*.safetensors")).unlink()
    with pytest.raises(BadFile, match=r"round-002/encoder has no weights .* restore it"):
        al_ray.evaluate(al_ray.load_run(path), "dev", cluster=WHERE)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"matcher": "off"}, "`encoder_every` is of a run with `matcher='on'`"),
        ({"encoder_every": 0}, "leave out all options of training"),
    ],
)
def test_options_that_do_not_go_together(asked, changed, words):
    with pytest.raises(BadOption, match=words):
        replace(asked, **changed)


def test_a_trained_encoder_goes_with_its_matcher_into_match_and_python_and_not_with_a_copy(made, asked, tmp_path):
    task = read_task(storage_path(asked.task))
    model, split = RunFolder(made, task).model(3), task.split("dev")
    with deploy_pool(asked, WHERE, task, made, no_progress) as pool:
        pairs = split.space.pairs(np.sort(split.space.at(np.arange(split.space.total))))
        scores = pool.scores(model, split, pairs)
    expected = {
        (task.left.ids[left], task.right.ids[right]): score - CANDIDATE
        for (left, right), score in zip(pairs.tolist(), scores.tolist(), strict=True)
        if score >= CANDIDATE
    }
    options = al_ray.MatchOptions(left=storage_path(asked.task), split="dev", assign="all", at_score=0.0)
    found = al_ray.match(al_ray.load_run(made), options, tmp_path / "matches", cluster=WHERE).matches().to_pylist()
    by_model = {(row["left_id"], row["right_id"]): row["score"] for row in found if row["decided_by"] != "label"}
    assert by_model == expected
    texts, others = [*task.left.texts[:9]], [*task.right.texts[:9]]
    wanted = al_ray.load_matcher(made).score(texts, others)
    copy = tmp_path / "copy"
    shutil.copytree(made / "round-003" / "model", copy)
    with pytest.raises(BadFile, match=r"has no encoder: copy round-002/encoder of its run to .*/copy/encoder"):
        al_ray.load_matcher(copy)
    shutil.copytree(made / "round-002" / "encoder", copy / "encoder")
    assert al_ray.load_matcher(copy).score(texts, others).p.tolist() == wanted.p.tolist()
    shutil.rmtree(copy / "encoder")
    shutil.copytree(made / "round-001" / "model", copy / "encoder")
    with pytest.raises(AlRayError):
        al_ray.load_matcher(copy)
