"""Versions, what torch prefers for attention, and the rates of copies and matrix products that nothing exceeds."""

import importlib.util
import platform
from typing import Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend

from al_ray.encoders.hardware import describe_hardware, device_fault, settle_arithmetic
from benchmarks.gpu_parts.setup import Settings, product_rate

OPTIONAL = ("ray", "faiss", "tyro", "pyarrow", "psutil", "pytest", "sentence_transformers", "scipy")


def measure(settings: Settings, figures: dict[str, Any]) -> None:
    """Add versions, attention backends before and after al_ray's settings, and rates."""
    figures["versions"] = {"python": platform.python_version(), "numpy": np.__version__}
    figures["absent packages"] = [name for name in OPTIONAL if importlib.util.find_spec(name) is None]
    fault = device_fault(settings.device)
    if fault:
        raise RuntimeError(f"{settings.device}: the process {fault}")
    figures["hardware"] = list(describe_hardware(settings.device))
    figures["attention before settle_arithmetic"] = attention(settings)
    figures["fp32 product before settle_arithmetic"] = product_rate(settings, torch.float32)
    settle_arithmetic()
    figures["attention after settle_arithmetic"] = attention(settings)
    figures["tf32 after settle_arithmetic"] = torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32
    rates = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    figures["product, operations per second"] = {name: product_rate(settings, kind) for name, kind in rates.items()}
    block = torch.empty(settings.size(2**31, 2**16), dtype=torch.uint8, device=settings.device)
    seconds = settings.seconds(block.clone)
    figures["copy on the device, bytes read and written per second"] = 2 * block.nbytes / seconds


def attention(settings: Settings) -> dict[str, Any]:
    """Return which backends of attention are on, torch's order of them, and its choice with and without a mask."""
    order = getattr(torch._C, "_get_sdp_priority_order", list)()
    backends = torch.backends.cuda
    on = {
        "flash": backends.flash_sdp_enabled(), "efficient": backends.mem_efficient_sdp_enabled(),
        "math": backends.math_sdp_enabled(), "cudnn": backends.cudnn_sdp_enabled(),
    }  # fmt: skip
    query = torch.randn(8, 12, 64, 32, device=settings.device, dtype=torch.bfloat16)
    mask = torch.ones(8, 1, 64, 64, device=settings.device, dtype=torch.bool)
    choice = getattr(torch, "_fused_sdp_choice", lambda *_: -1)
    chosen = {
        "choice without mask": SDPBackend(choice(query, query, query)).name,
        "choice with mask": SDPBackend(choice(query, query, query, mask)).name,
    }
    return {
        "on": [name for name, value in on.items() if value],
        "order": [SDPBackend(one).name for one in order],
        **chosen,
    }
