"""Copies between host and device, a checkpoint of a training, and a process group of one rank."""

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from al_ray.core.config.sections import TrainingConfig
from al_ray.encoders.hardware import settle_arithmetic
from al_ray.training.checkpoint import NAME, Checkpoint, restored
from al_ray.training.head import Head
from al_ray.training.optimizer import Optimiser
from al_ray.training.process_group import join_group, open_store
from benchmarks.gpu_parts.setup import Settings, shapes


def measure(settings: Settings, figures: dict[str, Any]) -> None:
    """Add bytes per second of copies and of a checkpoint, and what the process group computed."""
    settle_arithmetic()
    figures["copies, bytes per second"] = copies(settings)
    figures["checkpoint"] = checkpoint(settings)
    figures["group of one rank"] = group(settings)


def copies(settings: Settings) -> dict[str, float]:
    """Measure copies from and to memory of the host, pageable and, for a GPU, pinned."""
    plain = torch.zeros(settings.size(2**28, 2**14), dtype=torch.float32)
    blocks = {"pageable": plain, **({"pinned": plain.pin_memory()} if settings.cuda else {})}
    there, figures = plain.to(settings.device), dict[str, float]()
    for name, block in blocks.items():
        figures[f"to the device, {name}"] = block.nbytes / settings.seconds(lambda block=block: there.copy_(block))
        figures[f"from the device, {name}"] = block.nbytes / settings.seconds(lambda block=block: block.copy_(there))
    return figures


def checkpoint(settings: Settings) -> dict[str, float]:
    """Measure a checkpoint of the largest shape after a step; RuntimeError if it is read with other values."""
    encoder, config = shapes(settings)[-1].load(settings), TrainingConfig()
    optimiser = Optimiser.of(encoder, Head(config).to(settings.device), config, 10)
    for parameter in optimiser.all:
        parameter.grad = torch.ones_like(parameter)
    optimiser.step()
    with tempfile.TemporaryDirectory() as folder:
        file = Checkpoint(Path(folder) / NAME, "same", 0.0)
        written = settings.seconds(lambda: file.write({"encoder": encoder.network.state_dict()}, optimiser.adam, 1), 1)
        read = settings.seconds(file.read, 1)
        size, (_, parts) = (Path(folder) / NAME).stat().st_size, file.read()
    restored(optimiser.adam, parts["optimiser"])
    if any(
        not torch.equal(value.cpu(), parts["encoder"][name]) for name, value in encoder.network.state_dict().items()
    ):
        raise RuntimeError("the weights of the checkpoint are not those of the encoder")
    return {"bytes": float(size), "bytes written per second": size / written, "bytes read per second": size / read}


def group(settings: Settings) -> dict[str, Any]:
    """Join a group of one rank with nccl, or gloo on a CPU, and add up a tensor over its ranks."""
    # The group takes any other name for that of a GPU.
    device = settings.device if settings.cuda else "cpu"
    with join_group(open_store("127.0.0.1"), 0, 1, device):
        ones = torch.ones(settings.size(2**26, 2**10), device=device)
        seconds = settings.seconds(lambda: distributed.all_reduce(ones))
        backend = distributed.get_backend_config()
    if not bool((ones == 1).all()):
        raise RuntimeError("the sum over one rank is not the tensor itself")
    return {"backend": str(backend), "bytes summed per second": ones.nbytes / seconds}
