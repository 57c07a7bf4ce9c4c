"""Frozen layers: which weights of an architecture still get gradients, and which architectures are refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel

from al_ray.core.errors import BadOption
from al_ray.encoders.cnn import Cnn
from al_ray.encoders.encoder import check_frozen_layers
from al_ray.encoders.frozen_layers import freeze_layers, half_of
from al_ray.encoders.transformer import Encoder
from al_ray.encoders.vocabulary import Vocabulary

SIZES = {"hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 8}
DISTIL = {"dim": 8, "n_layers": 3, "n_heads": 2, "hidden_dim": 8}
MARKS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
IDS = torch.tensor([[1, 7, 8, 9, 2], [1, 9, 9, 3, 2]])


def transformer(kind: str, **sizes: Any) -> Any:
    """A small one with random weights and without dropout."""
    torch.manual_seed(0)
    options = {**MARKS, "vocab_size": 20, "max_position_embeddings": 16, **(sizes or SIZES)}
    return AutoModel.from_config(AutoConfig.for_model(kind, **options)).eval()


def gradients(model: Any) -> dict[str, torch.Tensor]:
    """The gradients of a number that depends on each value of the last layer, by the name of the weight."""
    (model(input_ids=IDS).last_hidden_state ** 3).sum().backward()
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    ("kind", "sizes", "layers", "after"),
    [
        ("bert", SIZES, "encoder.layer", ""),
        ("roberta", SIZES, "encoder.layer", ""),
        # It has a position bias that all layers share.
        ("mpnet", SIZES, "encoder.layer", ""),
        ("electra", {**SIZES, "embedding_size": 4}, "encoder.layer", ""),
        ("distilbert", DISTIL, "transformer.layer", ""),
        ("modernbert", SIZES, "layers", "final_norm."),
        ("llama", SIZES, "layers", "norm."),
    ],
)
def test_weights_above_the_frozen_layers_have_the_gradients_of_an_unfrozen_pass(kind, sizes, layers, after, count):
    whole, frozen = transformer(kind, **sizes), transformer(kind, **sizes)
    freeze_layers(frozen, count, kind)
    wanted = gradients(whole)
    above = tuple(f"{layers}.{number}." for number in range(count, 3)) + ((after,) if after else ())
    assert any(name.startswith(f"{layers}.0.") for name in wanted)
    wanted = {name: value for name, value in wanted.items() if name.startswith(above)}
    assert bool(wanted) == bool(above)
    seen, lists = list[bool](), dict(frozen.named_modules())
    lists[f"{layers}.{count - 1}"].register_forward_hook(lambda one, given, made: seen.append(requires(made)))
    if above:
        found = gradients(frozen)
        assert set(found) == set(wanted)
        for name, value in wanted.items():
            assert torch.equal(found[name], value), name
    else:
        assert not frozen(input_ids=IDS).last_hidden_state.requires_grad
    assert seen == [False], "the pass through the frozen part records nothing"


@pytest.mark.parametrize(("layers", "frozen"), [(1, 0), (2, 1), (3, 1), (6, 3)])
def test_half_of_the_layers_is_rounded_down_and_half_of_one_freezes_nothing(letters, layers, frozen):
    encoder, numbered = (
        Encoder.base(replace(letters, encoder_layers=layers)),
        Encoder.base(replace(letters, encoder_layers=layers)),
    )
    encoder.freeze("half")
    if frozen:
        numbered.freeze(frozen)
    trained = [weight.requires_grad for weight in encoder.network.parameters()]
    assert trained == [weight.requires_grad for weight in numbered.network.parameters()]
    assert all(trained) == (not frozen)


@pytest.mark.parametrize("kind", ["albert", "flaubert"])
def test_half_of_no_layers_is_none(kind):
    assert half_of(transformer(kind)) == 0


def requires(made: Any) -> bool:
    return (made if isinstance(made, torch.Tensor) else made[0]).requires_grad


def test_more_layers_than_there_are_are_refused_with_the_limit(letters):
    encoder = Encoder.base(letters)
    layers = encoder.transformer.config.num_hidden_layers
    with pytest.raises(
        BadOption, match=f"frozen_layers={layers + 1}` is more than .* random-bert; give at most {layers}"
    ):
        encoder.freeze(layers + 1)
    assert all(weight.requires_grad for weight in encoder.network.parameters())


def test_more_layers_than_an_encoder_has_are_refused_without_its_weights(letters, minilm, tmp_path):
    for none in (0, "half"):
        check_frozen_layers(replace(letters, encoder="cnn"), none)
    for name, kept, most in (("random-bert", None, 2), (minilm, None, 6), (minilm, 4, 4)):
        config = replace(letters, encoder=name, encoder_layers=kept)
        check_frozen_layers(config, most)
        with pytest.raises(BadOption, match=f"more than the layers of {name}; give at most {most}"):
            check_frozen_layers(config, most + 1)
    with pytest.raises(BadOption, match="encoder cnn has no layers"):
        check_frozen_layers(replace(letters, encoder="cnn"), 1)
    # What cannot be read here is refused as the encoder is loaded.
    check_frozen_layers(replace(letters, encoder=str(tmp_path), encoder_layers=None), 99)


@pytest.mark.parametrize("kind", ["albert", "flaubert"])
def test_an_architecture_whose_layers_are_not_found_is_refused(kind):
    # ALBERT has one group of layers, and Flaubert a list of each part of a layer.
    with pytest.raises(BadOption, match=f"`training.frozen_layers=1`: al_ray finds no layers in name .{kind}.; leave"):
        freeze_layers(transformer(kind), 1, "name")


def test_the_encoder_cnn_has_no_layers_to_freeze(letters):
    encoder = Cnn.base(
        replace(letters, encoder="cnn-4", encoder_layers=None), Vocabulary.of(["a few words", "a few others"], 100)
    )
    with pytest.raises(BadOption, match="encoder cnn-4 has no layers; leave it out"):
        encoder.freeze(1)
    encoder.freeze("half")
    assert all(weight.requires_grad for weight in encoder.network.parameters())


def test_a_frozen_encoder_has_the_same_vectors_digest_and_files(letters, tmp_path):
    encoder, frozen = Encoder.base(letters), Encoder.base(letters)
    frozen.freeze(1)
    tokens, rows = encoder.tokenise(["abc", "what is this", "x"]), np.arange(3)
    assert torch.equal(frozen.forward(tokens, rows), encoder.forward(tokens, rows))
    assert frozen.digest() == encoder.digest()
    (tmp_path / "model").mkdir()
    frozen.save(tmp_path / "model")
    again = Encoder.saved(str(tmp_path / "model"), letters)
    assert again.digest() == encoder.digest()
    assert all(weight.requires_grad for weight in again.network.parameters())
