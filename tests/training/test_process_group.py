"""Training by several processes: the same steps as one process with the whole batch."""

import math
import multiprocessing
from collections.abc import Generator, Iterable
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.losses import LossConfig
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import TrainingFailed
from al_ray.core.labels import Labelled, Model
from al_ray.core.scorer import Scorer
from al_ray.core.task import Task
from al_ray.encoders.encoder import learn_words, saved, untrained
from al_ray.encoders.tokens import Tokens
from al_ray.encoders.transformer import Encoder
from al_ray.training import process_group as group
from al_ray.training.bi_encoder import pair_cosines
from al_ray.training.checkpoint import NAME
from al_ray.training.losses import SIDE_LOSSES
from al_ray.training.optimizer import Step
from al_ray.training.trainer import Trainer, TrainerSpec

# All processes are forked from one that has imported everything: the network of BERT, too, which is otherwise imported
# with the first encoder of each.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["al_ray.training.trainer", "transformers.models.bert.modeling_bert"])
# Seconds of a wait that ends soon, unless the code is wrong: a busy machine takes long to start a process.
LONG = 600
FAST = TrainingConfig(epochs=2, batch=4, learning_rate=1e-3, weight_decay=0.01, worst_loss=9.0, workers=2, l2_sp=20.0)


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """A process that does not start fails the test instead of blocking it."""
    monkeypatch.setattr(group, "WAIT", timedelta(seconds=LONG))


@pytest.fixture(scope="module")
def small(make_task) -> Task:
    return make_task(False)


@pytest.fixture(scope="module")
def pool_folder(tmp_path_factory, letters, small) -> Path:
    """Token ids of the task, as a trainer reads them."""
    folder, encoder = tmp_path_factory.mktemp("pool"), Encoder.base(letters)
    for side, corpus in (("left", small.left), ("right", small.right)):
        (folder / side).mkdir()
        encoder.tokenise(corpus.texts).write(folder / side)
    return folder


def labelled(task: Task, count: int | None = None) -> Labelled:
    """Pairs of train, every other one positive."""
    split = task.split("train")
    pairs = np.stack([split.positives[:20], split.stated_negatives[:20]], axis=1).reshape(-1, 2)[:count]
    return Labelled().extended(pairs, (np.arange(len(pairs)) % 2 == 0).astype(np.uint8), 1, "seed")


def together(spec: TrainerSpec, known: Labelled, folder: Path) -> Generator[Step | Model, None, None]:
    """Train with one process per worker; this process is the first."""
    first = Trainer(spec)
    place = first.meet("127.0.0.1")
    others = [
        PROCESSES.Process(target=Trainer(replace(spec, rank=rank)).follow, args=(known, 1, None, str(folder), place))
        for rank in range(1, spec.training.workers)
    ]
    for process in others:
        process.start()
    try:
        yield from first.train(known, 1, None, str(folder), place)
        for process in others:
            process.join(LONG)
        assert [process.exitcode for process in others] == [0] * len(others)
    finally:
        for process in others:
            process.kill()
            process.join()


def drain(training: Iterable[Step | Model]) -> tuple[list[Step], Model, Scorer]:
    """All steps of a training, the model and its scorer."""
    *steps, model = training
    assert isinstance(model, Model)
    assert model.scorer is not None
    return [step for step in steps if isinstance(step, Step)], model, model.scorer


def spec_of(pool_folder: Path, letters: EncoderConfig, **changes) -> TrainerSpec:
    spec = TrainerSpec(str(pool_folder), letters, FAST, seed=0, symmetric=False, checkpoint_seconds=0.0)
    return replace(spec, training=replace(FAST, **changes))


@pytest.mark.parametrize(
    ("workers", "count", "presumed", "steps"),
    # Two epochs. Of 39 pairs four whole batches of 2 * 4 each; 7 pairs are one batch, shared out as 3, 2, 2.
    [(2, 39, 0, 8), (3, 7, 0, 2), (2, 30, 9, 8)],
)
def test_workers_take_the_steps_of_one_with_the_batch_of_all(
    pool_folder, letters, small, tmp_path, workers, count, presumed, steps
):
    known = replace(labelled(small, count), presumed=small.split("train").stated_negatives[20 : 20 + presumed])
    assert len(known.presumed) == presumed
    alone = Trainer(spec_of(pool_folder, letters, workers=1, batch=workers * FAST.batch))
    wanted, one, fitted = drain(alone.train(known, 1, None, str(tmp_path / "one" / "model")))
    spec = spec_of(pool_folder, letters, workers=workers)
    taken, model, scorer = drain(together(spec, known, tmp_path / "several" / "model"))
    assert [(step.step, step.steps) for step in taken] == [(n + 1, steps) for n in range(steps)]
    # In nats, of losses up to some 20.
    assert [step.loss for step in taken] == pytest.approx([step.loss for step in wanted], abs=1e-3)
    assert scorer.weight == pytest.approx(fitted.weight, rel=1e-4)
    assert scorer.bias == pytest.approx(fitted.bias, rel=1e-4)
    encoders = [Encoder.saved(model.path, letters) for model in (one, model)]
    start, first, second = (e.transformer.state_dict() for e in (Encoder.base(letters), *encoders))
    moved = max(float((first[name] - value).abs().max()) for name, value in start.items())
    for name, value in first.items():
        torch.testing.assert_close(second[name], value, rtol=0, atol=1e-3 * moved)
    left, right = (Tokens.read(pool_folder / side) for side in ("left", "right"))
    by_one, by_all = (pair_cosines(encoder, left, right, known.pairs) for encoder in encoders)
    assert by_all == pytest.approx(by_one, abs=1e-5)


@pytest.mark.parametrize("loss", ["ghm", *SIDE_LOSSES])
def test_workers_take_the_steps_of_one_by_losses_that_see_more_than_their_own_pairs(
    pool_folder, letters, small, tmp_path, loss
):
    known, ends = labelled(small, 39), []
    for workers in (1, 2):
        # Three epochs of four whole batches of eight; in the second worker's share are matches of the first one's.
        options = {"loss": loss, "losses": LossConfig(ghm_bins=4, queue=20, key_momentum=0.5), "epochs": 3}
        spec = spec_of(pool_folder, letters, workers=workers, batch=8 // workers, head_rate=200.0, **options)
        folder = tmp_path / f"by-{workers}" / "model"
        training = Trainer(spec).train(known, 1, None, str(folder)) if workers == 1 else together(spec, known, folder)
        steps, model, _ = drain(training)
        ends.append((steps, Encoder.saved(model.path, letters).network.state_dict()))
    (alone, one), (several, other) = ends
    assert len(alone) == 12
    assert [step.loss for step in several] == pytest.approx([step.loss for step in alone], rel=1e-3)
    start = Encoder.base(letters).network.state_dict()
    moved = max(float((one[name] - value).abs().max()) for name, value in start.items())
    assert moved > 1e-4
    for name, value in one.items():
        torch.testing.assert_close(other[name], value, rtol=0, atol=0.01 * moved)


@pytest.mark.parametrize("head", ["cosine", "batch-norm"])
def test_workers_start_at_the_same_refit_and_freeze_the_same_layers(pool_folder, letters, small, tmp_path, head):
    known, ends, config = labelled(small, 39), [], replace(letters, encoder_layers=2)
    for workers in (1, 2):
        options = {"head": head, "head_start": "refit", "frozen_layers": 1, "head_rate": 200.0}
        spec = spec_of(pool_folder, config, workers=workers, batch=8 // workers, **options)
        folder = tmp_path / f"by-{workers}" / "model"
        training = Trainer(spec).train(known, 1, None, str(folder)) if workers == 1 else together(spec, known, folder)
        steps, model, _ = drain(training)
        ends.append((steps, Encoder.saved(model.path, config).network.state_dict()))
    (alone, one), (several, other) = ends
    assert [step.loss for step in several] == pytest.approx([step.loss for step in alone], rel=1e-3)
    start = Encoder.base(config).network.state_dict()
    moved = {name for name, value in start.items() if not torch.equal(value, other[name])}
    assert moved == {name for name in start if name.startswith("encoder.layer.1.")}
    most = max(float((one[name] - start[name]).abs().max()) for name in moved)
    for name in moved:
        torch.testing.assert_close(other[name], one[name], rtol=0, atol=0.01 * most)


def test_workers_train_the_encoder_cnn_as_one_process_does(letters, small, tmp_path):
    config = replace(letters, encoder="cnn-4", encoder_layers=None)
    learn_words(small.left.texts + small.right.texts, config, tmp_path)
    for side, corpus in (("left", small.left), ("right", small.right)):
        (tmp_path / side).mkdir()
        untrained(config, tmp_path).tokenise(corpus.texts).write(tmp_path / side)
    known, states = labelled(small), []
    for workers in (1, 2):
        spec = spec_of(tmp_path, config, workers=workers, batch=8 // workers, head_rate=200.0)
        folder = tmp_path / f"by-{workers}" / "model"
        training = Trainer(spec).train(known, 1, None, str(folder)) if workers == 1 else together(spec, known, folder)
        steps, model, _ = drain(training)
        states.append((steps, saved(model.path, config).network.state_dict()))
    (alone, one), (several, other) = states
    assert [step.loss for step in several] == pytest.approx([step.loss for step in alone], abs=1e-3)
    start = untrained(config, tmp_path).network.state_dict()
    for name, value in start.items():
        moved = float((one[name] - value).abs().max())
        assert moved > 1e-4
        torch.testing.assert_close(other[name], one[name], rtol=0, atol=0.05 * moved)


def test_resumed_workers_end_with_the_weights_of_uninterrupted_ones(pool_folder, letters, small, tmp_path):
    spec, known = spec_of(pool_folder, letters), labelled(small)
    unbroken, wanted, fitted = drain(together(spec, known, tmp_path / "unbroken" / "model"))
    folder = tmp_path / "stopped" / "model"
    stopped = together(spec, known, folder)
    begun = list(islice(stopped, 5))
    stopped.close()
    assert (folder.parent / NAME).exists()
    rest, model, scorer = drain(together(spec, known, folder))
    assert [math.isnan(step.loss) for step in rest] == [step.step <= 5 for step in unbroken], "five are not taken again"
    assert begun + rest[5:] == unbroken
    assert model.digest == wanted.digest
    assert scorer == fitted
    assert {path.name for path in folder.parent.iterdir()} == {"model", "fit.parquet"}


def test_workers_repeat_a_training_together_and_fail_with_the_same_error(pool_folder, letters, small, tmp_path):
    training, steps = together(spec_of(pool_folder, letters, worst_loss=0.0), labelled(small), tmp_path / "model"), []
    with pytest.raises(TrainingFailed, match="round 1: 3 trainings on 40 pairs"):
        steps.extend(training)
    assert [step.step for step in steps] == 3 * list(range(1, 11))


@pytest.mark.parametrize(("workers", "pairs"), [(3, 2), (2, 1), (1000, 40)])
def test_fewer_pairs_than_workers_are_refused_with_the_fix(pool_folder, letters, small, tmp_path, workers, pairs):
    # One process is enough to raise it.
    trainer = Trainer(spec_of(pool_folder, letters, workers=workers))
    wanted = f"{pairs} labelled pairs are too few to train on by {workers} workers; give .* fewer `training.workers`"
    with pytest.raises(TrainingFailed, match=wanted):
        list(trainer.train(labelled(small, pairs), 1, None, str(tmp_path / "model")))
