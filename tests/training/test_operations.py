"""Budgets of the operations of a training step and of an embedded batch: each costs a GPU's host some microseconds.

BUDGETS is the one place to change. A failure prints the counts that were measured, in the form of its lines.
"""

from collections import Counter, deque
from itertools import product

import numpy as np
import pytest
import torch

from al_ray.core.config.encoder import Arithmetic, EncoderConfig
from al_ray.core.config.sections import TrainingConfig
from al_ray.encoders.transformer import Encoder
from al_ray.training.bi_encoder import train
from tests.training.operation_counts import Counts, count

# `auto` is bf16 on a GPU, and fp32 on "cpu:0". On a GPU bf16 has 8 casts a layer fewer: attention stays in bf16.
CASES = list(product(("embed", "train"), ("fp32", "bf16"), ("equal", "mixed")))
# Work, arithmetic and lengths of texts: operations, kernels, casts, reads and moves, with 2 layers. One of the reads is
# of a mask on the host; each step on "cpu:0" reads its loss, and on a GPU one in fifty steps reads those of all.
# What the code does today: `pytest -rP tests/training/test_operations.py` prints lines of the table.
BUDGETS = {
    ("embed", "fp32", "equal"): Counts(115, 50, 1, 1, 3),
    ("embed", "fp32", "mixed"): Counts(149, 70, 3, 2, 3),
    ("embed", "bf16", "equal"): Counts(150, 85, 36, 1, 3),
    ("embed", "bf16", "mixed"): Counts(184, 105, 38, 2, 3),
    ("train", "fp32", "equal"): Counts(457, 179, 2, 2, 4),
    ("train", "fp32", "mixed"): Counts(491, 199, 4, 3, 4),
    ("train", "bf16", "equal"): Counts(532, 266, 89, 2, 4),
    ("train", "bf16", "mixed"): Counts(566, 286, 91, 3, 4),
}
BATCH = 16
TEXTS = {
    "equal": [f"{word} {number}" for number in range(10, 26) for word in ("how", "why")],
    "mixed": [f"{word} {number}" for number in range(10, 26) for word in ("how", "why not now")],
}


def measured(work: str, arithmetic: Arithmetic, lengths: str, layers: int) -> tuple[Counts, Counter[str]]:
    """The counts of one batch that is embedded, or of one training step."""

    def counted(epochs: int) -> tuple[Counts, Counter[str]]:
        encoder = Encoder.base(EncoderConfig("random-bert", layers, 32, BATCH, 1, arithmetic=arithmetic), "cpu:0")
        tokens, rows = encoder.tokenise(TEXTS[lengths]), np.arange(BATCH)
        if work == "embed":
            return count(lambda: encoder.embed(tokens, rows))
        labelled = np.stack([rows, rows + 16], axis=1), (rows % 2).astype(np.uint8)
        config = TrainingConfig(epochs=epochs, batch=BATCH)
        return count(lambda: deque(train(encoder, (tokens, tokens), labelled, config, [0, 0, 1]), maxlen=0))

    if work == "embed":
        return counted(0)
    # An epoch is a step. What a training does once, and reads once in many steps, is in both.
    (more, names), (fewer, less) = counted(3), counted(2)
    return more.beyond(fewer), names - less


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_operations_stay_within_their_budget(case):
    found, names = measured(*case, layers=2)
    print(f"    {case}: {found},".replace("'", '"'))
    if not found.within(BUDGETS[case]):
        layer = found.beyond(measured(*case, layers=1)[0])
        often = ", ".join(f"{name} {number}" for name, number in names.most_common(25))
        pytest.fail(
            f"more than {BUDGETS[case]}. Find the new operations, or change the line in BUDGETS:\n"
            f"    {case}: {found},\nof these in each layer: {layer}\n{often}"
        )


def test_counts_are_those_worked_out_by_hand():
    table, rows = torch.ones(3, 4), torch.ones(2, 4)

    def work() -> None:
        rows.to("cpu:0").to(rows.device)  # A move that copies, and none: it asks for where it is.
        near = torch.nn.functional.linear(rows, table)  # A view of the table, and a product.
        half = near.view(3, 2).to(torch.bfloat16)  # A view, and a cast.
        float(half.float().sum())  # A cast, a sum, and a value that is read.
        half.cpu()  # A move.

    by_hand = Counts(operations=8, kernels=5, casts=2, reads=1, moves=2)
    found = count(work)[0]
    with torch.inference_mode():
        assert (found, count(work)[0]) == (by_hand, by_hand)
    assert found.within(by_hand)
    assert not found.within(Counts(8, 5, 2, 0, 2))
