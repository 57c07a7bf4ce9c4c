"""Outputs of frozen layers, computed once before the first step of a training and used again in every step.

They are the hidden states after the last frozen layer, for each distinct text of the labelled pairs. Texts are encoded
in fixed batches, so that a resumed training has the same states. A step runs the transformer's own forward pass, in
which the frozen layers return the stored states; the embeddings run too, and nothing uses their result.

The encoder has no dropout in training (paper, A.1), so a frozen layer returns the same states in each step. The last
bits of a stored state are those of its fixed batch, and not of the batch of a step.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.pairs import Pairs, Rows
from al_ray.encoders.encoder import TextEncoder
from al_ray.encoders.frozen_layers import find_layers
from al_ray.encoders.tokens import Tokens, batch_order, batches
from al_ray.encoders.transformer import Encoder, computes_in_bf16

logger = logging.getLogger(__name__)

Sides = tuple[Tokens, Tokens]
"""Token ids of the left and of the right texts."""
MOST_BYTES = 2**31  # Of the states that a process stores; a training with more computes them in each step.
# Largest difference between the vectors of both ways, as a share of the largest component; in bf16, which rounds to 8
# bits, and otherwise.
TOLERANCE_BF16, TOLERANCE = 0.05, 1e-5


class FrozenStates:
    """An encoder whose frozen layers return stored states. Its texts are given by the places of their tokens.

    places: Tokens whose "ids" are rows of `states`, so that they are cut, joined and padded as token ids are.
    """

    def __init__(self, encoder: Encoder, layers: int, ids: torch.Tensor, states: torch.Tensor, outputs: int) -> None:
        """layers: number of frozen ones. ids, states: (t + 1,) token ids on the host and (t + 1, d) float32 states of
        all tokens, and last of the padding. outputs: size of the tuple that a layer returns, 0 if it returns a tensor.
        """  # fmt: skip
        self.encoder, self.layers, self.ids, self.states, self.outputs = encoder, layers, ids, states, outputs
        self.frozen = frozen_layers(encoder, layers)[0]

    @property
    def config(self) -> EncoderConfig:
        """Return the options of the encoder."""
        return self.encoder.config

    @property
    def device(self) -> str:
        """Return the device of the encoder and of the states."""
        return self.encoder.device

    def of(self, encoder: TextEncoder) -> "FrozenStates":
        """Return the same states for another encoder, whose frozen layers and embeddings have the same weights."""
        assert isinstance(encoder, Encoder)
        return FrozenStates(encoder, self.layers, self.ids, self.states, self.outputs)

    def forward(self, places: Tokens, rows: Rows) -> torch.Tensor:
        """(r,) rows of `places` -> vectors (r, d), as the encoder's own `forward` returns for their tokens."""
        return self.encode(*places.padded(rows, len(self.ids) - 1), places.prompt)

    def encode(self, where: torch.Tensor, mask: torch.Tensor, prompt: int) -> torch.Tensor:
        """(r, l) places and (r, l) mask of the tokens, both on the host -> vectors (r, d), as `forward` does."""
        states = torch.nn.functional.embedding(where.to(self.device, non_blocking=True), self.states)
        output = (states, *[None] * (self.outputs - 1)) if self.outputs else states
        with returning(self.frozen, lambda: output):
            return self.encoder.encode(self.ids[where], mask, prompt)


def store_states(
    encoder: TextEncoder, tokens: Sides, pairs: Pairs, layers: int
) -> tuple[FrozenStates, Sides] | tuple[TextEncoder, Sides]:
    """Return what encodes the texts of (n, 2) pairs in a training, and its tokens by side.

    These are stored states and places if `layers` are frozen, if the states take at most MOST_BYTES, and if the
    architecture gives the same vectors with them, which is tested on a few texts. Otherwise they are the encoder and
    its tokens, and a line is logged unless no layer is frozen. The choice depends on texts, options and architecture.
    """
    if not layers or not isinstance(encoder, Encoder):
        return encoder, tokens
    if tokens[0] is tokens[1]:
        sides = [(tokens[0], np.unique(pairs))]
    else:
        sides = [(own, np.unique(rows)) for own, rows in zip(tokens, pairs.T, strict=True)]
    size = sum(int(own.lengths(rows).sum()) for own, rows in sides) * encoder.hidden * 4
    if size > MOST_BYTES:
        logger.info(
            "the outputs of frozen layers would take %.1f GiB, more than %.1f: each step computes them",
            size / 2**30, MOST_BYTES / 2**30,
        )  # fmt: skip
        return encoder, tokens
    fixed = [(own, batches(own, rows, encoder.config.encoder_batch)) for own, rows in sides]
    alike = all(_agree(encoder, layers, own, rows) for own, rows in sides)
    found = _stored(encoder, layers, fixed) if alike else None
    if found is None:
        kind = encoder.transformer.config.model_type
        logger.info("the outputs of frozen layers of %s cannot be stored: each step computes them", kind)
        return encoder, tokens
    states, places = found
    texts = sum(len(rows) for _, rows in sides)
    logger.info("stored the outputs of %d frozen layers for %d texts: %.1f MB", layers, texts, size / 1e6)
    return states, (places[0], places[-1])


def frozen_layers(encoder: Encoder, layers: int) -> tuple[list[torch.nn.Module], list[torch.nn.Module]]:
    """Return the frozen and the other layers of an encoder."""
    found = find_layers(encoder.transformer)
    assert found is not None, "layers are frozen"
    return found[1][:layers], found[1][layers:]


@contextmanager
def returning(layers: Sequence[torch.nn.Module], output: Callable[[], Any]) -> Iterator[None]:
    """Context in which layers compute nothing and return an output."""
    for layer in layers:
        layer.forward = lambda *_, **__: output()
    try:
        yield
    finally:
        for layer in layers:
            # The method of the class is visible again.
            del layer.__dict__["forward"]


def _agree(encoder: Encoder, layers: int, tokens: Tokens, rows: Rows) -> bool:
    """Return whether some of the texts of a side have the same vectors by stored states as by the encoder alone.

    They are a short, a middle and a long text in one batch with more padding than where their states were made, so that
    states that depend on padding are found, and the longest text without padding. A text of the maximum length has no
    position for padding, and is never padded.
    """
    order = batch_order(tokens.lengths(rows), rows)
    shorter = order[tokens.lengths(order) < encoder.config.max_length]
    bf16 = computes_in_bf16(encoder.config.arithmetic, encoder.device)
    tolerance = TOLERANCE_BF16 if bf16 else TOLERANCE
    padded = [(shorter[[0, len(shorter) // 2, -1]], 1)] if len(shorter) else []
    for chosen, more in (*padded, (order[-1:], 0)):
        found = _stored(encoder, layers, [(tokens, [chosen])])
        if found is None:
            return False
        states, (places,) = found
        # With gradients enabled, as in `_outputs`.
        wanted = encoder.encode(*_wider(tokens, chosen, encoder.pad, more), tokens.prompt).detach()
        vectors = states.encode(*_wider(places, chosen, len(states.ids) - 1, more), tokens.prompt).detach()
        # A difference that is no number is not near.
        if not bool((vectors - wanted).abs().max() <= tolerance * wanted.abs().max()):
            return False
    return True


def _wider(tokens: Tokens, rows: Rows, pad: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pad texts as a batch does, and by some columns more: numbers (r, l) and mask (r, l)."""
    numbers, mask = tokens.padded(rows, pad)
    wider = torch.nn.functional.pad
    return wider(numbers, (0, columns), value=pad), wider(mask, (0, columns), value=False)


def _stored(
    encoder: Encoder, layers: int, sides: Sequence[tuple[Tokens, Sequence[Rows]]]
) -> tuple[FrozenStates, list[Tokens]] | None:
    """Return the states of texts and their places by side, or None if `_outputs` has none.

    sides: token ids, and the batches of those of their rows that are encoded.
    """
    places = _places(sides)
    count = sum(len(own.ids) for own in places)
    ids = torch.full((count + 1,), encoder.pad)
    states = torch.zeros((count + 1, encoder.hidden), device=encoder.device)
    outputs = 0
    for (tokens, own), where in zip(sides, places, strict=True):
        for rows in own:
            found, mask = tokens.padded(rows, encoder.pad)
            hidden = _outputs(encoder, layers, found, mask)
            if hidden is None:
                return None
            here = where.padded(rows, count)[0][mask]
            ids[here] = found[mask]
            states[here.to(encoder.device)] = hidden[0][mask.to(encoder.device)].float()
            outputs = hidden[1]
    return FrozenStates(encoder, layers, ids, states, outputs), places


def _places(sides: Sequence[tuple[Tokens, Sequence[Rows]]]) -> list[Tokens]:
    """Return the places of the tokens of each side: those of the first side come first, each text's in a run."""
    places, first = list[Tokens](), 0
    for tokens, own in sides:
        rows, lengths = np.concatenate(own), np.zeros(len(tokens), dtype=np.int64)
        lengths[rows] = tokens.lengths(rows)
        ends = np.concatenate([[0], np.cumsum(lengths)])
        places.append(Tokens(np.arange(first, first + ends[-1], dtype=np.int32), ends, tokens.prompt))
        first += int(ends[-1])
    return places


def _outputs(encoder: Encoder, layers: int, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, int] | None:
    """Return the hidden states (r, l, d) after the last frozen layer, and the size of the tuple that it returns, or 0.

    None if a training would change the hidden states, if they have another shape, or if a layer returns more than them.
    """
    returned = list[Any]()
    frozen, others = frozen_layers(encoder, layers)
    hooks = [layer.register_forward_hook(lambda *given: returned.append(given[-1])) for layer in frozen]
    try:
        # With gradients enabled, as in a step: without them attention in bf16 rounds differently on a CPU.
        with returning(others, lambda: returned[-1]):
            encoder.encode(ids, mask, 0)
    finally:
        for hook in hooks:
            hook.remove()
    tuples = [one if isinstance(one, tuple) else (one,) for one in returned]
    sizes = {len(one) if isinstance(one, tuple) else 0 for one in returned}
    if len(returned) != layers or len(sizes) > 1 or any(value is not None for one in tuples for value in one[1:]):
        return None
    hidden = tuples[-1][0]
    if hidden.shape != (*ids.shape, encoder.hidden) or hidden.requires_grad:
        return None
    return hidden, sizes.pop()
