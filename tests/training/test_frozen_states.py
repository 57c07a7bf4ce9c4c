"""Stored outputs of frozen layers: the vectors, gradients and trainings of the encoder alone, and when it is alone."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.pairs import Pairs, as_pairs
from al_ray.encoders.modules import Modules, Pooling
from al_ray.encoders.random_bert import letters_tokenizer
from al_ray.encoders.tokens import Tokens
from al_ray.encoders.transformer import Encoder
from al_ray.training import frozen_states
from al_ray.training.bi_encoder import Known, Sides, batch_cosines, train
from al_ray.training.checkpoint import NAME, Checkpoint
from al_ray.training.frozen_states import FrozenStates, returning, store_states
from al_ray.training.losses import SIDE_LOSSES

CONFIG = TrainingConfig(epochs=2, batch=8, learning_rate=1e-3, weight_decay=0.01, frozen_layers=1, head_rate=200.0)
SIZES = {"hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 8}
DISTIL = {"dim": 8, "n_layers": 3, "n_heads": 2, "hidden_dim": 8}
XLNET = {"d_model": 8, "n_layer": 3, "n_head": 2, "d_inner": 8}
MARKS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
TEXTS = ["abc", "what is this", "x", "some words", "other words", "yz", "the longest of all texts"]
PAIRS = np.array([[0, 1], [2, 3], [4, 5], [6, 0], [3, 3]])
STORED, PLAIN = "stored the outputs of", "each step computes them"


@pytest.fixture
def two_layers(letters) -> EncoderConfig:
    return replace(letters, encoder_layers=2)


@pytest.fixture(autouse=True)
def lines(caplog):
    caplog.set_level(logging.INFO, logger=frozen_states.__name__)


def small(kind: str, config: EncoderConfig, sizes: dict[str, int]) -> Encoder:
    """A small encoder of an architecture, with random weights."""
    tokenizer = letters_tokenizer()
    torch.manual_seed(0)
    positions = {} if kind == "xlnet" else {"max_position_embeddings": 64}
    options: dict[str, Any] = {**MARKS, "vocab_size": len(tokenizer), **positions, **sizes}
    return Encoder(AutoModel.from_config(AutoConfig.for_model(kind, **options)), tokenizer, config)


def stored(encoder: Encoder, tokens: Sides, pairs: Pairs, layers: int) -> tuple[FrozenStates, Sides]:
    """Stored states; fails if there are none."""
    states, places = store_states(encoder, tokens, pairs, layers)
    assert isinstance(states, FrozenStates)
    return states, places


def trained(config: EncoderConfig, tokens: Sides, known: Known, training: TrainingConfig):
    """The losses and the weights of a training."""
    encoder = Encoder.base(config)
    return [step.loss for step in train(encoder, tokens, known, training, [0, 0, 1])], encoder.network.state_dict()


def assert_near(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor], start: dict[str, Any], share: float):
    """The weights differ by a share of what the training changed, at most."""
    moved = max(float((wanted[name] - value).abs().max()) for name, value in start.items())
    assert moved > 1e-6
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=share * moved)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("bert", SIZES),
        ("roberta", SIZES),
        ("xlm-roberta", SIZES),
        # It has a position bias, and its layers return tuples.
        ("mpnet", SIZES),
        ("electra", {**SIZES, "embedding_size": 4}),
        ("distilbert", DISTIL),
        ("deberta-v2", {**SIZES, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
        ("modernbert", SIZES),
        ("llama", {**SIZES, "num_key_value_heads": 2}),
    ],
)
def test_cosines_and_gradients_are_those_of_the_encoder_alone(letters, kind, sizes, count):
    encoder = small(kind, letters, sizes)
    encoder.freeze(count)
    tokens = encoder.tokenise(TEXTS)
    states, (left, right) = stored(encoder, (tokens, tokens), PAIRS, count)
    found = []
    for way, sides in ((encoder, (tokens, tokens)), (states, (left, right))):
        cosines = batch_cosines(way, sides[0], sides[1], PAIRS)
        if count < 3:
            (cosines**2).sum().backward()
        found.append(
            (cosines.detach(), {n: p.grad for n, p in encoder.network.named_parameters() if p.grad is not None})
        )
        encoder.network.zero_grad(set_to_none=True)
    (cosines, gradients), (again, others) = found
    assert len(set(cosines.tolist())) > 3
    torch.testing.assert_close(again, cosines, rtol=0, atol=1e-6)
    assert set(others) == set(gradients)
    assert bool(gradients) == (count < 3)
    for name, value in gradients.items():
        torch.testing.assert_close(others[name], value, rtol=1e-3, atol=1e-5 * float(value.abs().max()) + 1e-8)


@pytest.mark.parametrize("loss", ["bce", *SIDE_LOSSES])
def test_a_training_has_the_losses_and_weights_of_one_that_stores_nothing(two_layers, parts, loss, monkeypatch, caplog):
    config = replace(CONFIG, loss=loss)
    losses, weights = trained(two_layers, parts[0], parts[1], config)
    assert STORED in caplog.text
    caplog.clear()
    monkeypatch.setattr(frozen_states, "MOST_BYTES", 0)
    wanted, plain = trained(two_layers, parts[0], parts[1], config)
    assert PLAIN in caplog.text
    assert len(losses) == 8
    assert losses == pytest.approx(wanted, rel=1e-4)
    assert_near(weights, plain, Encoder.base(two_layers).network.state_dict(), 0.01)


def test_a_training_of_minilm_has_the_weights_of_one_that_stores_nothing(minilm, letters, monkeypatch):
    config = replace(letters, encoder=minilm, encoder_layers=None)
    tokens = Encoder.base(config).tokenise(TEXTS)
    known = PAIRS, np.array([1, 0, 1, 0, 1], dtype=np.uint8)
    training = replace(CONFIG, frozen_layers=4, batch=4, epochs=3, learning_rate=2e-5)
    losses, weights = trained(config, (tokens, tokens), known, training)
    monkeypatch.setattr(frozen_states, "MOST_BYTES", 0)
    wanted, plain = trained(config, (tokens, tokens), known, training)
    assert losses == pytest.approx(wanted, rel=1e-4)
    assert_near(weights, plain, Encoder.base(config).network.state_dict(), 0.01)


def test_in_bf16_a_step_has_nearly_the_vectors_of_the_encoder_alone(two_layers):
    encoder = Encoder.base(replace(two_layers, arithmetic="bf16"))
    encoder.freeze(1)
    tokens = encoder.tokenise(TEXTS)
    states, (places, _) = stored(encoder, (tokens, tokens), PAIRS, 1)
    rows = np.arange(len(TEXTS))
    found, wanted = states.forward(places, rows), encoder.forward(tokens, rows)
    assert found.requires_grad
    # Numbers in bf16 have 8 significant bits.
    assert torch.cosine_similarity(found, wanted).tolist() == pytest.approx([1.0] * len(rows), abs=1e-3)


def test_prompts_of_different_lengths_are_left_out_as_by_the_encoder_alone(two_layers):
    parts, modules = Encoder.base(two_layers), Modules(pooling=Pooling(include_prompt=False))
    encoder = Encoder(parts.transformer, parts.tokenizer, two_layers, modules=modules)
    encoder.freeze(1)
    left, right = (replace(encoder.tokenise(TEXTS), prompt=prompt) for prompt in (1, 2))
    states, places = stored(encoder, (left, right), PAIRS, 1)
    assert [side.prompt for side in places] == [1, 2]
    found = batch_cosines(states, places[0], places[1], PAIRS).detach()
    wanted = batch_cosines(encoder, left, right, PAIRS).detach()
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)
    without = batch_cosines(encoder, replace(left, prompt=0), replace(right, prompt=0), PAIRS).detach()
    assert float((wanted - without).abs().max()) > 1e-3


def test_each_text_of_a_pair_is_stored_once_and_others_are_not(two_layers):
    encoder = Encoder.base(two_layers)
    encoder.freeze(1)
    # [CLS], the letters and [SEP]: 3, 4 and 5 tokens.
    tokens = Tokens.of([[2, 9, 3], [2, 9, 9, 3], [2, 9, 9, 9, 3], [2, 3]])
    pairs = np.array([[0, 2], [2, 0], [0, 2]])
    same, _ = stored(encoder, (tokens, tokens), pairs, 1)
    assert same.states.shape == (3 + 5 + 1, 32), "and a row of padding"
    assert not same.states[-1].any()
    two_sided, _ = stored(encoder, (tokens, replace(tokens)), pairs, 1)
    assert two_sided.states.shape == (2 * (3 + 5) + 1, 32)


def test_steps_do_not_run_the_frozen_layer(two_layers, parts, monkeypatch):
    def passes(epochs: int) -> Sequence[int]:
        encoder, calls = Encoder.base(two_layers), [0, 0]
        for number in (0, 1):
            part = encoder.transformer.encoder.layer[number].intermediate

            def count(*_: Any, number: int = number) -> None:
                calls[number] += 1

            part.register_forward_hook(count)
        for _ in train(encoder, parts[0], parts[1], replace(CONFIG, epochs=epochs), [0, 0, 1]):
            pass
        return calls

    (lower, upper), (lower_more, upper_more) = passes(1), passes(3)
    assert lower_more == lower > 0
    # Two more epochs of four steps; a step of eight pairs has two passes of eight texts.
    assert upper_more == upper + 2 * 4 * 2
    monkeypatch.setattr(frozen_states, "MOST_BYTES", 0)
    assert passes(3)[0] == passes(1)[0] + 2 * 4 * 2


@pytest.mark.parametrize("loss", ["bce", "momentum"])
@pytest.mark.parametrize("stop", [1, 5])
def test_a_resumed_training_has_the_bits_of_an_uninterrupted_one(two_layers, parts, tmp_path, loss, stop, caplog):
    config = replace(CONFIG, loss=loss)
    losses, weights = trained(two_layers, parts[0], parts[1], config)
    checkpoint = Checkpoint(tmp_path / NAME, "same", 0.0)
    stopped = train(Encoder.base(two_layers), parts[0], parts[1], config, [0, 0, 1], checkpoint)
    assert len(list(islice(stopped, stop))) == stop
    encoder, checkpoint = Encoder.base(two_layers), Checkpoint(checkpoint.path, "same", 0.0)
    rest = [step.loss for step in train(encoder, parts[0], parts[1], config, [0, 0, 1], checkpoint)]
    assert rest[stop:] == losses[stop:]
    assert caplog.text.count(STORED) == 3
    for name, value in encoder.network.state_dict().items():
        assert torch.equal(value, weights[name]), name


def test_states_of_more_bytes_than_the_bound_are_not_stored(two_layers, monkeypatch, caplog):
    encoder = Encoder.base(two_layers)
    encoder.freeze(1)
    tokens = Tokens.of([[2, 9, 3], [2, 9, 9, 3]])
    # 3 + 4 tokens of 32 numbers of 4 bytes.
    monkeypatch.setattr(frozen_states, "MOST_BYTES", 7 * 32 * 4)
    stored(encoder, (tokens, tokens), np.array([[0, 1]]), 1)
    assert STORED in caplog.text
    caplog.clear()
    monkeypatch.setattr(frozen_states, "MOST_BYTES", 7 * 32 * 4 - 1)
    found, same = store_states(encoder, (tokens, tokens), np.array([[0, 1]]), 1)
    assert found is encoder
    assert same == (tokens, tokens)
    assert PLAIN in caplog.text


def test_without_frozen_layers_nothing_is_stored_or_said(two_layers, caplog):
    encoder = Encoder.base(two_layers)
    tokens = encoder.tokenise(TEXTS)
    assert store_states(encoder, (tokens, tokens), PAIRS, 0) == (encoder, (tokens, tokens))
    assert not caplog.records


# XLNet's states have another shape. ConvBERT mixes neighbouring tokens, of which some are padding.
@pytest.mark.parametrize(("kind", "sizes"), [("xlnet", XLNET), ("convbert", {**SIZES, "embedding_size": 8})])
def test_other_architectures_are_trained_without_stored_states_and_a_line_says_so(letters, kind, sizes, caplog):
    encoder = small(kind, letters, sizes)
    tokens, before = encoder.tokenise(TEXTS), {n: v.clone() for n, v in encoder.network.state_dict().items()}
    known = PAIRS, np.array([1, 0, 1, 0, 1], dtype=np.uint8)
    losses = [step.loss for step in train(encoder, (tokens, tokens), known, replace(CONFIG, batch=4), [0, 0, 1])]
    assert len(losses) == 2
    assert [record.message for record in caplog.records if record.name == frozen_states.__name__] == [
        f"the outputs of frozen layers of {kind} cannot be stored: each step computes them"
    ]
    changed = {name for name, value in encoder.network.state_dict().items() if not torch.equal(value, before[name])}
    assert changed
    assert not any(".0." in name or "embedding" in name for name in changed)


def test_an_architecture_that_mixes_padding_is_found_where_all_texts_of_a_side_are_of_one_length(letters, caplog):
    encoder = small("convbert", letters, {**SIZES, "embedding_size": 8})
    tokens = encoder.tokenise(["abc", "abd", "xyz"]), encoder.tokenise(TEXTS)
    pairs = as_pairs([0, 1, 2], [0, 1, 2])
    encoder.freeze(1)
    assert store_states(encoder, tokens, pairs, 1)[0] is encoder
    assert "cannot be stored" in caplog.text


# MPNet and RoBERTa count positions from behind the padding's number.
@pytest.mark.parametrize(("kind", "positions"), [("bert", 12), ("electra", 12), ("mpnet", 14), ("roberta", 14)])
@pytest.mark.parametrize("texts", [["abc", "what is this", "x"], ["what is this"]])
def test_a_text_that_takes_all_positions_is_stored(letters, kind, positions, texts):
    sizes = {**SIZES, "max_position_embeddings": positions}
    # 12 tokens: [CLS], ten letters and [SEP].
    encoder = small(kind, replace(letters, max_length=12), sizes)
    encoder.freeze(1)
    tokens = encoder.tokenise(texts)
    assert int(tokens.lengths(np.arange(len(texts))).max()) == 12
    pairs = np.repeat(np.arange(len(texts)), 2).reshape(-1, 2)
    stored(encoder, (tokens, tokens), pairs, 1)


def test_states_that_a_training_changes_are_not_stored(two_layers):
    encoder = Encoder.base(two_layers)
    tokens = encoder.tokenise(TEXTS)
    # Nothing is frozen.
    assert store_states(encoder, (tokens, tokens), PAIRS, 1)[0] is encoder


def test_layers_compute_again_after_the_context_even_if_it_fails(two_layers):
    layer, values = Encoder.base(two_layers).transformer.encoder.layer[0], torch.ones(1, 2, 32)
    wanted = layer(values)
    with returning([layer], lambda: "stored"):
        assert layer(values) == "stored"
    assert torch.equal(layer(values), wanted)
    with pytest.raises(KeyError), returning([layer], lambda: "stored"):
        raise KeyError
    assert torch.equal(layer(values), wanted)
