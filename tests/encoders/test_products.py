"""Products by oneDNN against torch's own."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from al_ray.core.config.encoder import EncoderConfig
from al_ray.encoders import products
from al_ray.encoders.products import OneDnnLinear, has_onednn, product, use_onednn
from al_ray.encoders.transformer import Encoder

pytestmark = pytest.mark.skipif(not has_onednn(), reason="torch has no oneDNN here")


@pytest.fixture(params=[0, products.LEAST], ids=["oneDNN", "as large as usual"], autouse=True)
def least(request, monkeypatch):
    monkeypatch.setattr(products, "LEAST", request.param)
    monkeypatch.setattr(products, "prefers_onednn", lambda: True)


def test_cpus_without_avx_512_multiply_by_torch(monkeypatch):
    monkeypatch.setattr(products, "prefers_onednn", lambda: False)
    network = torch.nn.Sequential(torch.nn.Linear(3, 2))
    use_onednn(network)
    assert type(network[0]) is torch.nn.Linear
    left, right = torch.randn(3, 4), torch.randn(5, 4)
    assert torch.equal(product(left, right), left @ right.T)


@pytest.mark.parametrize(("ones", "others", "width"), [(3, 5, 4), (1, 1, 1), (0, 5, 4), (3, 0, 4), (300, 257, 384)])
def test_products_are_those_of_float64(ones, others, width):
    chance = torch.Generator().manual_seed(0)
    left, right = torch.randn(ones, width, generator=chance), torch.randn(others, width, generator=chance)
    found = product(left, right)
    assert found.shape == (ones, others)
    assert found.dtype == torch.float32
    # The bound of any sum of so many products in float32.
    bound = width * 2.0**-24 * (left.double().abs() @ right.double().abs().T)
    assert ((found - left.double() @ right.double().T).abs() <= bound).all()


def test_products_of_other_kinds_are_torchs_own():
    for kind in (torch.float64, torch.bfloat16):
        left, right = torch.ones(2, 3, dtype=kind), torch.ones(4, 3, dtype=kind)
        assert torch.equal(product(left, right), torch.full((2, 4), 3.0, dtype=kind))


@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_and_its_gradients_are_those_of_torch(bias):
    chance = torch.Generator().manual_seed(0)
    plain = torch.nn.Linear(6, 4, bias=bias)
    other = torch.nn.Sequential(copy.deepcopy(plain))
    use_onednn(other)
    assert type(other[0]) is OneDnnLinear
    inputs = torch.randn(2, 3, 6, generator=chance)
    found, wanted = (inputs.clone().requires_grad_() for _ in range(2))
    weights = torch.randn(2, 3, 4, generator=chance)
    (other(found) * weights).sum().backward()
    (plain(wanted) * weights).sum().backward()
    assert torch.allclose(other(inputs), plain(inputs), atol=1e-6)
    assert found.grad is not None
    assert wanted.grad is not None
    assert torch.allclose(found.grad, wanted.grad, atol=1e-6)
    for ours, theirs in zip(other.parameters(), plain.parameters(), strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        assert torch.allclose(ours.grad, theirs.grad, atol=1e-5)


def test_a_layer_keeps_names_and_copies_and_its_gradients_are_only_those_wanted():
    network = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1))
    names = list(network.state_dict())
    use_onednn(network)
    assert list(network.state_dict()) == names
    twin = copy.deepcopy(network)
    twin.requires_grad_(False)
    twin[1].weight.requires_grad_(True)
    twin(torch.ones(1, 3)).sum().backward()
    assert [weight.grad is not None for weight in twin.parameters()] == [False, False, True, False]
    assert all(weight.grad is None for weight in network.parameters())


def test_a_layer_that_was_moved_to_another_device_is_torchs(monkeypatch):
    layer = torch.nn.Sequential(torch.nn.Linear(3, 2))
    use_onednn(layer)
    monkeypatch.setattr(products, "_Linear", None)
    # As in training on a GPU: weights of float32, which autocast there makes bf16.
    assert layer.to("meta")(torch.ones(1, 3, device="meta")).device.type == "meta"


def test_bf16_and_empty_inputs_go_to_torch():
    layer = torch.nn.Sequential(torch.nn.Linear(3, 2))
    use_onednn(layer)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(torch.ones(1, 3)).dtype == torch.bfloat16
    assert layer(torch.ones(0, 3)).shape == (0, 2)


class Attentions(TorchDispatchMode):
    """Writes down the kind of numbers of each attention of torch, forward and backward."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: list[torch.dtype] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "scaled_dot_product" in str(func):
            self.kinds.append(args[0].dtype)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("arithmetic", "trained", "read"), [("bf16", "float32", "bfloat16"), ("fp32", *["float32"] * 2)]
)
def test_attention_has_float32_where_it_has_gradients(arithmetic, trained, read, tmp_path):
    encoder = Encoder.base(EncoderConfig("random-bert", 2, 24, 8, 1, arithmetic=arithmetic))
    # The second text makes a mask.
    tokens = encoder.tokenise(["one text", "another one that is longer"])
    with Attentions() as with_gradients:
        encoder.forward(tokens, np.arange(2)).sum().backward()
    with Attentions() as without:
        encoder.embed(tokens, np.arange(2))
    # Two layers, forward and backward.
    assert with_gradients.kinds == [getattr(torch, trained)] * 4
    assert without.kinds == [getattr(torch, read)] * 2
    encoder.save(tmp_path)
    assert "sdpa" not in (tmp_path / "config.json").read_text()
