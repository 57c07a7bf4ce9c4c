"""Freezing the embeddings and the lowest layers of a transformer, so that a training does not change them."""

from typing import Any, Literal

import torch

from al_ray.core.errors import BadOption
from al_ray.core.naming import option

FrozenLayers = int | Literal["half"]
"""As --training.frozen-layers."""


def freeze_layers(transformer: Any, count: int, name: str) -> None:
    """Turn off the gradients of the embeddings and of the lowest `count` layers, and of what these share with others.

    A position bias of all layers is such a shared part. What follows the layers, such as a final norm, stays trained.
    As no frozen weight and no token id needs gradients, the forward pass through the frozen part records nothing, and
    the backward pass ends above it. BadOption if there are fewer layers. name: of the encoder, for the error.
    """
    found = find_layers(transformer)
    if found is None:
        kind = transformer.config.model_type
        raise BadOption(
            f"{option('training.frozen_layers', count)}: al_ray finds no layers in {name} ({kind}); leave it out"
        )
    path, layers = found
    if count > len(layers):
        raise too_many(count, name, len(layers))
    parts = dict(transformer.named_children())
    last = [*parts].index(path.split(".")[0])
    trained = [*layers[count:], *[*parts.values()][last + 1 :]]
    kept = {id(parameter) for part in trained for parameter in part.parameters()}
    for parameter in transformer.parameters():
        if id(parameter) not in kept:
            parameter.requires_grad_(False)


def half_of(transformer: Any) -> int:
    """Return half of the number of layers, rounded down; 0 for an architecture whose layers are not found."""
    found = find_layers(transformer)
    return 0 if found is None else len(found[1]) // 2


def too_many(count: int, name: str, layers: int) -> BadOption:
    """Return the error for more frozen layers than an encoder has."""
    return BadOption(
        f"{option('training.frozen_layers', count)} is more than the layers of {name}; give at most {layers}"
    )


def find_layers(transformer: Any) -> tuple[str, list[torch.nn.Module]] | None:
    """Return the name and the layers of the only list of modules with as many as the transformer has layers.

    None for an architecture that has no such list or several, such as ALBERT, whose layers share their weights.
    """
    number = getattr(transformer.config, "num_hidden_layers", -1)
    lists = ((path, part) for path, part in transformer.named_modules() if isinstance(part, torch.nn.ModuleList))
    found = [(path, list(part)) for path, part in lists if len(part) == number]
    return found[0] if len(found) == 1 else None
