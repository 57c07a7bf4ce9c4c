"""A cross-encoder as the oracle: --oracle model:PATH."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from al_ray.cli.run import parse_arguments, run
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import BadOption
from al_ray.core.labels import NO, OPEN, YES, Batch, Model
from al_ray.core.progress import no_progress
from al_ray.core.scorer import sigmoid
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.encoders.cross_encoder import CrossEncoder
from al_ray.oracles.cross_encoder import CrossEncoderOracle
from al_ray.runs.run_folder import RunFolder
from al_ray.training.cross_encoder import PairTrainer, PairTrainerSpec


@pytest.fixture
def model(letters, tmp_path) -> Model:
    """A cross-encoder that says yes to some and no to others."""
    config = replace(letters, max_length=40)
    pairs = [("aa", "aa"), ("bb", "bb"), ("aa", "zz"), ("zz", "bb")] * 8
    trainer = PairTrainer(PairTrainerSpec(config, TrainingConfig(epochs=2, batch=4, learning_rate=3e-3), 0))
    made = list(trainer.train(pairs, np.tile([1, 1, 0, 0], 8).astype(np.uint8), str(tmp_path / "cross" / "model")))[-1]
    assert isinstance(made, Model)
    return made


@pytest.mark.parametrize("path", ["cross/model", "cross", "."])
def test_it_says_what_the_model_says_with_its_p(model, task, tmp_path, path, monkeypatch):
    monkeypatch.setattr("al_ray.oracles.cross_encoder.PAIRS_AT_ONCE", 7)
    oracle = CrossEncoderOracle(f"model:{tmp_path / path}", task, 1, no_progress)
    pairs = task.split("train").space.pairs(task.split("train").space.at(np.arange(20)))
    texts = [(task.left.texts[left], task.right.texts[right]) for left, right in pairs.tolist()]
    logits = CrossEncoder.saved(model.path).scores(texts, 1)
    # Half of these pairs are to be told from the others.
    with torch.no_grad():
        oracle.model.transformer.classifier.bias.sub_(float(np.median(logits)))
    chances = sigmoid(logits - np.median(logits))
    missing = np.arange(3, 20)
    said = list(oracle.label(1, Batch(pairs, np.full(20, np.nan), "x"), missing))
    assert [len(part.rows) for part in said] == [7, 7, 3], "each call's answers are kept before the next"
    labels, confidences = np.full(20, OPEN), np.full(20, np.nan)
    for part in said:
        labels[part.rows], confidences[part.rows] = part.labels, part.confidences
        assert part.cost == 0
        assert part.by.endswith(model.digest[:12])
    assert set(labels[3:].tolist()) == {YES, NO}
    assert (labels[:3] == OPEN).all(), "what is answered is not asked again"
    assert (labels[3:] == np.where(chances[3:] >= 0.5, YES, NO)).all()
    assert confidences[3:] == pytest.approx(np.maximum(chances, 1 - chances)[3:], abs=1e-5)


def test_a_run_buys_its_labels_from_a_cross_encoder(model, make_task, tmp_path, in_process):
    write_task(make_task(True), tmp_path / "task", {})
    oracle = f"model:{model.path}"
    asked = parse_arguments(
        f"--task {tmp_path / 'task'} --out {tmp_path / 'run'} --oracle {oracle} --rounds 1 --first-batch 24 "
        "--threads 1 --encoder random-bert --encoder-layers 1 --max-length 24 --training.epochs 1 "
        "--training.worst-loss 9".split()
    )
    run(asked.run, asked.cluster, asked.out)
    task = read_task(tmp_path / "task")
    bought = RunFolder(tmp_path / "run", task).state().labelled
    texts = list(zip(*task.texts_of(bought.pairs), strict=True))
    said = CrossEncoder.saved(model.path).scores(texts, 8) >= 0
    assert bought.labels.tolist() == said.astype(int).tolist()


def test_a_folder_without_a_cross_encoder_is_refused(tmp_path, task):
    with pytest.raises(BadOption, match=r"holds no cross-encoder; make one: `al_ray.train_cross_encoder`"):
        CrossEncoderOracle(f"model:{tmp_path}", task, 1, no_progress)
