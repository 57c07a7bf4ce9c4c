"""Tokens per second of encoders, as runs embed a batch and of the network alone, by batch, length and arithmetic."""

from typing import Any

import numpy as np
import torch

from al_ray.encoders.hardware import settle_arithmetic
from al_ray.encoders.transformer import Encoder, mixed
from benchmarks.gpu_parts.determinism import BACKENDS, only
from benchmarks.gpu_parts.setup import Settings, Shape, product_rate, random_tokens, shapes


def measure(settings: Settings, figures: dict[str, Any]) -> None:
    """Add tokens per second, and the share of the product rate measured here that they are."""
    settle_arithmetic()
    ceilings = {"bf16": product_rate(settings, torch.bfloat16), "fp32": product_rate(settings, torch.float32)}
    batches, lengths = settings.size((64, 256, 1024), (4,)), settings.size((16, 128), (8,))
    for shape in shapes(settings):
        for arithmetic in ("bf16", "fp32"):
            encoder = shape.load(settings, arithmetic)
            for batch in batches:
                for length in lengths:
                    name = f"{shape.name} {arithmetic}, {batch} texts of {length} tokens"
                    figures[name] = rates(settings, shape, encoder, (batch, length), ceilings[arithmetic])
            by_backend(settings, shape, encoder, figures)


def by_backend(settings: Settings, shape: Shape, encoder: Encoder, figures: dict[str, Any]) -> None:
    """Add the tokens per second of one batch, whose texts differ in length, with each backend of attention."""
    tokens = random_tokens(shape, *settings.size((256, 64, 128), (4, 4, 8)))
    rows = np.arange(len(tokens))
    for backend in BACKENDS:
        name = f"{shape.name} {encoder.config.arithmetic}, lengths differ, {backend}"
        try:
            with only(backend):
                figures[name] = len(tokens.ids) / settings.seconds(lambda: encoder.embed(tokens, rows))
        except RuntimeError as error:
            figures[name] = f"unsupported: {str(error).splitlines()[0][:200]}"


def rates(
    settings: Settings, shape: Shape, encoder: Encoder, size: tuple[int, int], ceiling: float
) -> dict[str, float]:
    """Return the tokens per second of a batch. As runs: token ids from the host, padded; vectors back to it.

    size: texts, and tokens of each. ceiling: operations per second of a product.
    With lengths that differ, as in most batches, attention has a mask; the network alone is given none.
    """
    batch, length = size
    equal, padded = random_tokens(shape, batch, length, length), random_tokens(shape, batch, length // 2, length)
    rows = np.arange(batch)
    ids = equal.padded(rows, 0)[0].to(settings.device)

    def network() -> None:
        with torch.inference_mode(), mixed(encoder.config.arithmetic, settings.device):
            encoder.transformer(input_ids=ids)

    as_runs = settings.seconds(lambda: encoder.embed(equal, rows))
    masked = settings.seconds(lambda: encoder.embed(padded, rows))
    alone = settings.seconds(network)
    return {
        "tokens per second as runs": batch * length / as_runs,
        "tokens per second as runs, lengths differ": len(padded.ids) / masked,
        "tokens per second of the network alone": batch * length / alone,
        "share of the product rate as runs": batch * shape.operations(length) / as_runs / ceiling,
        "share of the product rate of the network alone": batch * shape.operations(length) / alone / ceiling,
    }
