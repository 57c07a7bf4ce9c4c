"""What torch computes on a CPU more slowly than it could: products in float32, and gradients of attention in bf16.

torch's own products are by MKL, which leaves AVX-512 unused on CPUs that are not Intel's: there oneDNN takes half the
time, but half a millisecond more for each new shape, in which it makes a kernel. On a CPU without AVX-512 oneDNN takes
up to a fifth longer than MKL, so MKL stays. A product of a shape has the same bits each time; the two libraries differ
in the last ones.
"""

from functools import cache
from typing import Any

import torch
from torch.autograd.function import once_differentiable

LEAST = 2**24  # Multiplications of a product that oneDNN takes: by MKL it would take a fifth of a millisecond or more.
ATTENTION = "sdpa_float32_on_cpu"  # Its name among the kinds of attention of transformers.


@cache
def has_onednn() -> bool:
    """Whether torch has oneDNN here. torch's compiler uses the same operator, which is not a public one."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@cache
def prefers_onednn() -> bool:
    """Whether oneDNN computes large products here: where torch has it and the CPU has AVX-512."""
    return has_onednn() and torch.backends.cpu.get_cpu_capability() == "AVX512"


def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """(a, d) and (b, d) vectors -> (a, b) inner products, on any device."""
    if left.device.type != "cpu" or left.dtype != torch.float32 or not prefers_onednn():
        return torch.mm(left, right.T)
    return _linear(left, right, None)


def use_onednn(network: torch.nn.Module) -> None:
    """Let the linear layers of a network compute by oneDNN, on a CPU where that is faster."""
    if not prefers_onednn():
        return
    for part in network.modules():
        if type(part) is torch.nn.Linear and part.weight.device.type == "cpu":
            part.__class__ = OneDnnLinear


def use_torch(network: Any) -> None:
    """Undo `use_onednn` and `use_float32_attention`: a graph can be made of torch's own operators alone."""
    for part in network.modules():
        if type(part) is OneDnnLinear:
            part.__class__ = torch.nn.Linear  # pyright: ignore[reportAttributeAccessIssue] (its base has the same fields)
    if network.config._attn_implementation == ATTENTION:
        network.set_attn_implementation("sdpa")


class OneDnnLinear(torch.nn.Linear):
    """A linear layer with the same weights and names; of bf16, or on a GPU, torch takes the product itself."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """(..., inputs) -> (..., outputs)."""
        # A network of a CPU may have been moved to a GPU.
        if input.device.type != "cpu" or input.dtype != torch.float32 or torch.is_autocast_enabled("cpu"):
            return super().forward(input)
        return _Linear.apply(input, self.weight, self.bias)


class _Linear(torch.autograd.Function):
    """x W^T + b, and its gradients."""

    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        ctx.save_for_backward(inputs, weight)
        return _linear(inputs, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride] (the decorator has no names)
        ctx: Any, *gradients: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        inputs, weight = ctx.saved_tensors
        of_inputs, of_weight, of_bias = ctx.needs_input_grad
        flat = gradients[0].reshape(-1, gradients[0].shape[-1])
        return (
            _linear(flat, weight.T, None).view(inputs.shape) if of_inputs else None,
            _linear(flat.T, inputs.reshape(-1, inputs.shape[-1]).T, None) if of_weight else None,
            flat.sum(dim=0) if of_bias else None,
        )


def _linear(inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """(..., d), (n, d) and (n,) -> (..., n)."""
    if inputs.numel() * len(weight) < LEAST:
        return torch.nn.functional.linear(inputs, weight, bias)
    return torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")


def use_float32_attention(transformer: Any) -> None:
    """Let a transformer that trains in bf16 on a CPU compute attention in float32, if it calls torch's attention."""
    if transformer.config._attn_implementation == "sdpa":
        _register_attention()
        transformer.set_attn_implementation(ATTENTION)


@cache
def _register_attention() -> None:
    """Add torch's attention with gradients in float32 to those of transformers: in bf16 they take six times as long."""
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    def attention(
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        **options: Any,
    ) -> tuple[torch.Tensor, None]:
        kind = query.dtype
        if kind == torch.float32 or not torch.is_grad_enabled():
            return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        query, key, value = query.float(), key.float(), value.float()
        with torch.autocast("cpu", enabled=False):
            found, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        return found.to(kind), None

    AttentionInterface.register(ATTENTION, attention)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)
