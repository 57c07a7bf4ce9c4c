"""Optimizer, head and batches against hand-written twins; saved models, repeated trainings and errors of a trainer."""

import gc
import math
import weakref
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import BadFile, BadOption, TrainingFailed
from al_ray.core.labels import Labelled, Model
from al_ray.core.pairs import as_pairs
from al_ray.core.task import Task
from al_ray.encoders.tokens import Tokens
from al_ray.encoders.transformer import Encoder
from al_ray.storage.pair_cosines import FIT, read_cosines
from al_ray.training import trainer as trainer_module
from al_ray.training.bi_encoder import batch_cosines, fit_scorer, pair_cosines, train
from al_ray.training.head import Head
from al_ray.training.optimizer import Optimiser, WholeGradients, thin_gradients
from al_ray.training.saved_model import read_model
from al_ray.training.trainer import Trainer, TrainerSpec

FAST = TrainingConfig(batch=8, learning_rate=1e-3)


def tokens_of(encoder: Encoder, texts: Sequence[str]) -> Tokens:
    return encoder.tokenise(texts)


def labelled_pairs(task: Task, negatives: int = 60):
    """Every positive of train and some other pairs, with their labels."""
    split = task.split("train")
    others = split.space.draw(negatives, split.positive_keys, np.random.default_rng(0))
    pairs = np.concatenate([split.positives, split.space.pairs(others)])
    return pairs, (np.arange(len(pairs)) < len(split.positives)).astype(np.uint8)


def trained(letters: EncoderConfig, task: Task, config: TrainingConfig, seed: list[int], count: int | None = None):
    """An encoder after training, and the steps it took."""
    encoder = Encoder.base(letters)
    left, right = tokens_of(encoder, task.left.texts), tokens_of(encoder, task.right.texts)
    pairs, labels = labelled_pairs(task)
    # Arrays from Ray are read-only.
    for array in (pairs, labels):
        array.setflags(write=False)
    return encoder, list(train(encoder, (left, right), (pairs[:count], labels[:count]), config, seed))


def adam_by_hand(start, gradients, rates, pulls, config: TrainingConfig):
    """Lists of arrays: parameters, gradients step by step, a peak rate and a pull each -> the parameters at the end."""
    steps, values = len(gradients), [value.copy() for value in start]
    means, squares = [np.zeros_like(v) for v in values], [np.zeros_like(v) for v in values]
    for taken, step in enumerate(gradients):
        norm = math.sqrt(sum(float((g**2).sum()) for g in step))
        shrink = min(1.0, config.clip_norm / (norm + 1e-6))
        warm = config.warmup * steps
        share = min((taken + 1) / (warm + 1), (steps - taken) / (steps - warm))
        for place, gradient in enumerate(step):
            g = gradient * shrink
            means[place] = 0.9 * means[place] + 0.1 * g
            squares[place] = 0.999 * squares[place] + 0.001 * g**2
            m, v = means[place], squares[place]
            if config.bias_correction:
                m, v = m / (1 - 0.9 ** (taken + 1)), v / (1 - 0.999 ** (taken + 1))
            rate = rates[place] * share
            back = rate * pulls[place] * (values[place] - start[place])
            decayed = (values[place] - back) * (1 - rate * config.weight_decay)
            values[place] = decayed - rate * m / (np.sqrt(v) + config.epsilon)
    return values


@pytest.mark.parametrize("bias_correction", [False, True])
@pytest.mark.parametrize(("weight_decay", "l2_sp"), [(0.0, 0.0), (0.3, 0.0), (0.0, 40.0), (0.3, 40.0)])
def test_the_optimiser_is_adam_by_hand(letters, bias_correction, weight_decay, l2_sp):
    config = TrainingConfig(learning_rate=0.01, head_rate=7.0, bias_correction=bias_correction)
    config = replace(config, weight_decay=weight_decay, l2_sp=l2_sp)
    encoder, head = Encoder.base(letters), Head(config).double()
    encoder.transformer = encoder.transformer.double()
    parameters = [*encoder.transformer.parameters(), *head.parameters()]
    rates = [0.01] * (len(parameters) - 2) + [0.07] * 2
    # The head, which has learned nothing before, is not pulled.
    pulls = [l2_sp] * (len(parameters) - 2) + [0.0] * 2
    optimiser, rng = Optimiser.of(encoder, head, config, steps=10), np.random.default_rng(0)
    start = [p.detach().numpy().copy() for p in parameters]
    # The first gradients exceed the clipping norm, the last do not.
    gradients = [[rng.standard_normal(p.shape) * 10.0 ** -(2 + t // 2) for p in parameters] for t in range(10)]
    for step in gradients:
        for parameter, gradient in zip(parameters, step, strict=True):
            parameter.grad = torch.tensor(gradient)
        optimiser.step()
    for parameter, value in zip(parameters, adam_by_hand(start, gradients, rates, pulls, config), strict=True):
        assert parameter.detach().numpy() == pytest.approx(value, rel=1e-9, abs=1e-12)


def test_a_weight_without_a_gradient_goes_a_share_of_the_way_back():
    encoder = torch.nn.Linear(1, 1, bias=False)
    encoder.weight.data.fill_(1.0)
    config = TrainingConfig(learning_rate=0.1, warmup=0.0, l2_sp=2.0)
    optimiser = Optimiser([(encoder, 0.1)], config, 2, "cpu")
    encoder.weight.data.fill_(3.0)
    found = []
    for _ in range(2):
        encoder.weight.grad = torch.zeros(1, 1)
        optimiser.step()
        found.append(float(encoder.weight.detach()))
    # 3 - 0.1 * 2 * (3 - 1) = 2.6 at the peak rate, then 2.6 - 0.05 * 2 * (2.6 - 1) = 2.44 at half of it.
    assert found == pytest.approx([2.6, 2.44])
    # Without the option no weight is copied, and none is touched.
    assert Optimiser([(encoder, 0.1)], replace(config, l2_sp=0.0), 2, "cpu").pulled == []


def test_a_pull_beyond_the_start_is_refused():
    assert TrainingConfig(learning_rate=1e-3, l2_sp=1000.0).l2_sp == 1000
    with pytest.raises(BadOption, match=r"`training.l2_sp=1001` times .* above 1, .*; give at most 1000"):
        TrainingConfig(learning_rate=1e-3, l2_sp=1001.0)


def test_the_stronger_the_pull_the_nearer_the_weights_stay(letters, make_task):
    start, distances = Encoder.base(letters).network.state_dict(), list[float]()
    for l2_sp in (0.0, 300.0, 1000.0):
        encoder, _ = trained(letters, make_task(False), replace(FAST, l2_sp=l2_sp), [0, 0, 1])
        weights = encoder.network.state_dict()
        distances.append(float(sum(((weights[name] - value) ** 2).sum() for name, value in start.items())))
    assert distances[0] > 2 * distances[1] > 4 * distances[2] > 0


def test_with_correction_and_no_schedule_the_optimiser_is_torchs(letters):
    config = TrainingConfig(learning_rate=0.01, bias_correction=True, warmup=0.0, clip_norm=1e9, head_rate=1.0)
    encoder, head = Encoder.base(letters), Head(config)
    parameters = [*encoder.transformer.parameters(), *head.parameters()]
    twins = [torch.nn.Parameter(p.detach().clone()) for p in parameters]
    theirs = torch.optim.AdamW(twins, lr=0.01, eps=config.epsilon, weight_decay=0.0)
    ours, chance = Optimiser.of(encoder, head, config, steps=4), torch.Generator().manual_seed(0)
    for taken in range(4):
        for parameter, twin in zip(parameters, twins, strict=True):
            parameter.grad = torch.randn(parameter.shape, generator=chance)
            twin.grad = parameter.grad.clone()
        theirs.param_groups[0]["lr"] = 0.01 * (4 - taken) / 4
        ours.step()
        theirs.step()
    for parameter, twin in zip(parameters, twins, strict=True):
        torch.testing.assert_close(parameter, twin, rtol=1e-5, atol=1e-7)


def test_the_rate_rises_during_warm_up_and_falls_to_the_last_step(letters):
    # 20 steps, 10% of them warm-up: by thirds up to the peak, then by eighteenths down to one.
    config = TrainingConfig()
    optimiser = Optimiser.of(Encoder.base(letters), Head(config), config, steps=20)
    shares = [optimiser.factor() for optimiser.taken in range(20)]
    assert shares == pytest.approx([1 / 3, 2 / 3, *(left / 18 for left in range(18, 0, -1))])


def test_the_head_learns_ten_thousand_times_faster(letters):
    config = TrainingConfig(learning_rate=2e-5)
    encoder, head = Encoder.base(letters), Head(config)
    optimiser = Optimiser.of(encoder, head, config, steps=1)
    for parameter in (*encoder.transformer.parameters(), *head.parameters()):
        parameter.grad = torch.ones_like(parameter)
    optimiser.step()
    slow, fast = (group["lr"] for group in optimiser.adam.param_groups)
    assert fast / slow == pytest.approx(1e4)
    assert head.weight.grad is None


def test_the_head_normalises_a_batch_without_learnt_scale():
    head = Head(TrainingConfig(initial_weight=10.0, initial_bias=-50.0))
    # Mean 0.5; mean square of the rest (0.09 + 0.01 + 0.01 + 0.09) / 4 = 0.05.
    logits = head(torch.tensor([0.2, 0.4, 0.6, 0.8]))
    expected = [10 * off / math.sqrt(0.05 + 1e-8) - 50 for off in (-0.3, -0.1, 0.1, 0.3)]
    assert logits.tolist() == pytest.approx(expected, rel=1e-5)
    assert sorted(name for name, _ in head.named_parameters()) == ["bias", "weight"]
    # Equal cosines have no variance; their logits are the bias, not NaN.
    assert head(torch.tensor([0.7, 0.7])).tolist() == pytest.approx([-50, -50], abs=0.01)


def test_a_negative_w_is_set_to_zero():
    for weight, after in ((-3.0, 0.0), (3.0, 3.0)):
        head = Head(TrainingConfig(initial_weight=weight))
        head.keep_increasing()
        assert head.weight.item() == after


@pytest.mark.parametrize(
    ("pairs", "batch", "steps"),
    # Two epochs: of 19 pairs two whole batches of 8 each; 5 pairs are one batch of 5; 16 are two.
    [(19, 8, 4), (5, 16, 2), (16, 8, 4), (2, 16, 2)],
)
def test_a_last_partial_batch_is_dropped_and_few_pairs_are_one_batch(letters, make_task, pairs, batch, steps):
    _, taken = trained(letters, make_task(True), replace(FAST, batch=batch), [0, 0, 1], pairs)
    assert [(step.step, step.steps) for step in taken] == [(n + 1, steps) for n in range(steps)]
    assert all(math.isfinite(step.loss) for step in taken)


@pytest.mark.parametrize("pairs", [0, 1])
def test_fewer_than_two_pairs_are_refused_with_the_fix(letters, make_task, pairs):
    with pytest.raises(TrainingFailed, match=f"^{pairs} labelled pairs are too few.*give more labels"):
        trained(letters, make_task(True), FAST, [0, 0, 1], pairs)


def test_training_has_no_dropout(letters, make_task):
    task = make_task(True)
    encoder, _ = trained(letters, task, FAST, [0, 0, 1])
    assert encoder.transformer.config.hidden_dropout_prob > 0, "or the test says nothing"
    assert not any(module.training for module in encoder.transformer.modules())
    tokens, pairs = tokens_of(encoder, task.left.texts), task.split("train").positives
    assert torch.equal(*(batch_cosines(encoder, tokens, tokens, pairs) for _ in range(2)))


def test_the_cosines_of_a_batch_keep_the_order_of_its_pairs(letters, make_task):
    # More texts than in one pass, of all lengths.
    task, encoder = make_task(False), Encoder.base(letters)
    left, right = tokens_of(encoder, task.left.texts), tokens_of(encoder, task.right.texts)
    pairs = as_pairs(np.arange(20), np.arange(20)[::-1])
    together = batch_cosines(encoder, left, right, pairs).tolist()
    alone = [batch_cosines(encoder, left, right, pairs[n : n + 1]).item() for n in range(20)]
    assert together == pytest.approx(alone, abs=1e-5)


def test_sparse_gradients_equal_dense_ones_step_after_step(letters, make_task):
    task = make_task(False)
    plain, thin = Encoder.base(letters), Encoder.base(letters)
    left, right = tokens_of(plain, task.left.texts), tokens_of(plain, task.right.texts)
    thin_gradients(thin.network)
    whole = WholeGradients(thin.network.parameters())
    # Each batch has texts of its own, whose words leave nothing in the gradients of the next.
    for batch in (as_pairs(np.arange(20), np.arange(20)[::-1]), as_pairs(np.arange(3), np.arange(3))):
        for encoder in (plain, thin):
            encoder.network.zero_grad(set_to_none=True)
            batch_cosines(encoder, left, right, batch).sum().backward()
        assert sum(one.grad.is_sparse for one in thin.network.parameters() if one.grad is not None) == 3
        whole.make()
        for one, other in zip(plain.network.parameters(), thin.network.parameters(), strict=True):
            assert (one.grad is None) == (other.grad is None)
            if one.grad is not None:
                torch.testing.assert_close(other.grad, one.grad, rtol=1e-4, atol=1e-7)


def test_pair_cosines_are_those_of_a_loop(letters, task):
    encoder = Encoder.base(letters)
    left, right = tokens_of(encoder, task.left.texts), tokens_of(encoder, task.right.texts)
    pairs = labelled_pairs(task)[0]
    alone = []
    for a, b in pairs.tolist():
        x, y = encoder.embed(left, np.array([a]))[0], encoder.embed(right, np.array([b]))[0]
        alone.append(math.fsum(float(s) * float(t) for s, t in zip(x, y, strict=True)))
    assert pair_cosines(encoder, left, right, pairs) == pytest.approx(alone, abs=1e-5)


def test_the_seed_decides_every_bit_of_the_weights(letters, make_task):
    task = make_task(False)
    seeds = ([3, 0, 1], [3, 0, 1], [4, 0, 1], [3, 1, 1], [3, 0, 2])
    digests = [trained(letters, task, FAST, seed)[0].digest() for seed in seeds]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 4, "another seed, try or round is another order"


def test_training_separates_matches_from_non_matches(letters, make_task):
    task = make_task(True)
    pairs, labels = labelled_pairs(task)
    gaps = []
    for encoder in (Encoder.base(letters), trained(letters, task, replace(FAST, epochs=6), [0, 0, 1])[0]):
        tokens = tokens_of(encoder, task.left.texts)
        cosines = pair_cosines(encoder, tokens, tokens, pairs)
        gaps.append((cosines[labels == 1].mean() - cosines[labels == 0].mean()) / cosines.std())
    before, after = gaps
    assert after > before + 0.3
    assert fit_scorer(cosines, labels, FAST)[1]


def test_a_refit_is_good_up_to_the_worst_loss():
    # Four cosines, half of each positive: w = 0, and the loss is log 2 = 0.693.
    cosines, labels = np.array([0.1, 0.1, 0.9, 0.9]), np.array([0, 1, 0, 1], dtype=np.uint8)
    assert not fit_scorer(cosines, labels, TrainingConfig())[1]
    assert fit_scorer(cosines, labels, TrainingConfig(worst_loss=0.7))[1]
    assert not fit_scorer(np.array([0.1, np.nan]), np.array([0, 1], dtype=np.uint8), TrainingConfig())[1]


@pytest.fixture
def pool_folder(tmp_path, letters, make_task) -> Path:
    """Token ids of the two-sided task, as a trainer reads them."""
    task, encoder = make_task(False), Encoder.base(letters)
    for side, corpus in (("left", task.left), ("right", task.right)):
        (tmp_path / "pool" / side).mkdir(parents=True)
        tokens_of(encoder, corpus.texts).write(tmp_path / "pool" / side)
    return tmp_path / "pool"


def labelled(task: Task, flipped: int = 0) -> Labelled:
    pairs, labels = labelled_pairs(task)
    labels = labels ^ (np.arange(len(labels)) < flipped)
    return Labelled().extended(pairs, labels.astype(np.uint8), 1, "seed")


def test_a_trainer_trains_a_model_once_and_again_for_other_labels(pool_folder, letters, make_task, tmp_path):
    task, folder = make_task(False), tmp_path / "round-001" / "model"
    trainer = Trainer(TrainerSpec(str(pool_folder), letters, replace(FAST, worst_loss=9.0), seed=0, symmetric=False))
    *steps, first = trainer.train(labelled(task), 1, None, str(folder))
    assert isinstance(first, Model)
    assert first.scorer is not None
    assert len(steps) == 2 * (len(labelled(task)) // 8)
    assert Encoder.saved(str(folder), letters).digest() == first.digest
    assert read_model(folder) == first
    assert list(trainer.train(labelled(task), 1, None, str(folder))) == [first]
    *steps, other = trainer.train(labelled(task, flipped=3), 1, None, str(folder))
    assert steps
    assert isinstance(other, Model)
    assert other.digest != first.digest
    assert read_model(folder) == other
    assert {path.name for path in folder.parent.iterdir()} == {"model", FIT}, "what was written aside is gone"
    # The cosines to which the scorer was fitted.
    pairs, cosines = read_cosines(folder.parent / FIT)
    assert np.array_equal(pairs, labelled(task).pairs)
    assert other.scorer is not None
    refitted, _ = fit_scorer(cosines, labelled(task, flipped=3).labels, trainer.spec.training)
    assert refitted == other.scorer
    for spec in (replace(trainer.spec, seed=1), replace(trainer.spec, training=replace(FAST, worst_loss=8.0))):
        assert len(list(Trainer(spec).train(labelled(task, flipped=3), 1, None, str(folder)))) > 1


def test_nothing_refers_to_a_trained_model_when_memory_is_given_back(
    pool_folder, letters, make_task, tmp_path, monkeypatch
):
    loaded, given = list[weakref.ref[Encoder]](), list[tuple[str, bool]]()

    def load(*arguments: Any) -> Encoder:
        encoder = Encoder.base(letters)
        loaded.append(weakref.ref(encoder))
        return encoder

    def give_back(device: str) -> None:
        gc.collect()
        given.append((device, loaded[-1]() is None))

    monkeypatch.setattr(trainer_module, "load", load)
    monkeypatch.setattr(trainer_module, "give_back_memory", give_back)
    trainer = Trainer(TrainerSpec(str(pool_folder), letters, replace(FAST, worst_loss=9.0), seed=0, symmetric=False))
    assert list(trainer.train(labelled(make_task(False)), 1, None, str(tmp_path / "model")))
    assert given == [("cpu", True)]


def test_a_training_that_starts_from_the_untrained_encoder_starts_from_the_one_it_is_told(
    pool_folder, letters, make_task, tmp_path
):
    known, untrained = labelled(make_task(False)), Encoder.base(letters).digest()
    trainer = Trainer(TrainerSpec(str(pool_folder), letters, replace(FAST, worst_loss=9.0), seed=0, symmetric=False))
    *_, model = trainer.train(known, 1, None, str(tmp_path / "model"))
    assert list(trainer.train(known, 1, Model("", untrained), str(tmp_path / "model"))) == [model]
    with pytest.raises(BadFile, match="random-bert are not those the run made"):
        list(trainer.train(known, 2, Model("", "0" * 64), str(tmp_path / "model")))


def test_a_training_can_start_from_the_weights_of_another_model(pool_folder, letters, make_task, tmp_path):
    task, known = make_task(False), labelled(make_task(False))
    trainer = Trainer(TrainerSpec(str(pool_folder), letters, replace(FAST, worst_loss=9.0), seed=0, symmetric=False))
    *_, first = trainer.train(known, 1, None, str(tmp_path / "first"))
    *_, anew = trainer.train(known, 2, None, str(tmp_path / "second"))
    assert isinstance(first, Model)
    assert isinstance(anew, Model)
    *steps, further = trainer.train(known, 2, first, str(tmp_path / "second"))
    assert steps, "another start is another model"
    assert isinstance(further, Model)
    encoder = Encoder.saved(first.path, letters)
    sides = tokens_of(encoder, task.left.texts), tokens_of(encoder, task.right.texts)
    for _ in train(encoder, sides, (known.pairs, known.labels), FAST, [0, 0, 2]):
        pass
    assert further.digest == encoder.digest() != anew.digest
    (tmp_path / "first" / "model.safetensors").write_bytes((tmp_path / "second" / "model.safetensors").read_bytes())
    with pytest.raises(BadFile, match="are not those the run made"):
        list(trainer.train(known, 3, first, str(tmp_path / "third")))


@pytest.mark.parametrize("frozen", [0, 1])
@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_weights_lie_between_those_of_the_start_and_the_trained_ones(
    pool_folder, letters, make_task, tmp_path, share, frozen
):
    known, config = labelled(make_task(False)), replace(FAST, worst_loss=9.0, frozen_layers=frozen)
    two = replace(letters, encoder_layers=2)
    spec = TrainerSpec(str(pool_folder), two, config, seed=0, symmetric=False)
    *_, trained = Trainer(spec).train(known, 1, None, str(tmp_path / "trained"))
    between = replace(spec, training=replace(config, interpolation=share))
    *_, model = Trainer(between).train(known, 1, None, str(tmp_path / "between"))
    assert isinstance(trained, Model)
    assert isinstance(model, Model)
    assert model.scorer is not None
    start, end, found = Encoder.base(two), Encoder.saved(trained.path, two), Encoder.saved(model.path, two)
    for before, after, now in zip(*(one.network.parameters() for one in (start, end, found)), strict=True):
        torch.testing.assert_close(now, (1 - share) * before + share * after)
        # Of a frozen layer, to the bit.
        assert torch.equal(now, before) or not torch.equal(after, before)
    # The scorer is fitted to the cosines of these weights.
    assert (model.digest == trained.digest) == (share == 1)
    assert (model.digest == start.digest()) == (share == 0)
    _, cosines = read_cosines(tmp_path / FIT)
    assert fit_scorer(cosines, known.labels, config)[0] == model.scorer


def test_a_loss_above_the_worst_three_times_fails_with_the_fix(pool_folder, letters, make_task, tmp_path):
    config = replace(FAST, worst_loss=0.0, tries=3)
    trainer = Trainer(TrainerSpec(str(pool_folder), letters, config, seed=0, symmetric=False))
    with pytest.raises(TrainingFailed, match=r"round 2: 3 trainings on .* `training\.worst_loss` 0\.0; label more"):
        list(trainer.train(labelled(make_task(False)), 2, None, str(tmp_path / "model")))
    assert not (tmp_path / "model").exists()


def test_every_try_is_a_training_in_another_order(pool_folder, letters, make_task, tmp_path):
    config = replace(FAST, worst_loss=0.0, tries=3)
    trainer = Trainer(TrainerSpec(str(pool_folder), letters, config, seed=0, symmetric=False))
    steps, training = [], trainer.train(labelled(make_task(False)), 2, None, str(tmp_path / "model"))
    with pytest.raises(TrainingFailed):
        steps.extend(training)
    per_try = steps[0].steps
    assert [step.step for step in steps] == 3 * list(range(1, per_try + 1))
    assert len({tuple(step.loss for step in steps[n * per_try : (n + 1) * per_try]) for n in range(3)}) == 3


def test_a_training_with_infinite_losses_fails(pool_folder, letters, make_task, tmp_path):
    config = replace(FAST, learning_rate=1e30, clip_norm=1e30, tries=2)
    trainer = Trainer(TrainerSpec(str(pool_folder), letters, config, seed=0, symmetric=False))
    with pytest.raises(TrainingFailed, match="refitted losses inf, inf"):
        list(trainer.train(labelled(make_task(False)), 1, None, str(tmp_path / "model")))


@pytest.mark.parametrize("label", [0, 1])
def test_labels_of_one_kind_pass(pool_folder, letters, make_task, tmp_path, label):
    pairs = labelled_pairs(make_task(False))[0]
    known = Labelled().extended(pairs, np.full(len(pairs), label, dtype=np.uint8), 1, "seed")
    config = replace(FAST, worst_loss=0.0)
    trainer = Trainer(TrainerSpec(str(pool_folder), letters, config, seed=0, symmetric=False))
    *_, model = trainer.train(known, 1, None, str(tmp_path / "model"))
    assert isinstance(model, Model)
    assert model.scorer is not None
    assert model.scorer.outcome == "one-class"


def test_a_damaged_scorer_is_named(tmp_path):
    (tmp_path / "scorer.json").write_text('{"weight": 1')
    with pytest.raises(BadFile, match=r"scorer\.json cannot be read"):
        read_model(tmp_path)
