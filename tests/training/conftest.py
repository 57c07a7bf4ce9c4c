"""What tests of trainings share."""

import numpy as np
import pytest

from al_ray.encoders.transformer import Encoder
from al_ray.training.bi_encoder import Known, Sides


@pytest.fixture
def parts(letters, task) -> tuple[Sides, Known]:
    """Token ids, and labelled pairs of which half are matches."""
    encoder = Encoder.base(letters)
    left, right = (encoder.tokenise(side.texts) for side in (task.left, task.right))
    split = task.split("train")
    pairs = np.concatenate([split.positives[:16], split.stated_negatives[:16]])
    labels = (np.arange(len(pairs)) < 16).astype(np.uint8)
    for array in (pairs, labels):
        array.setflags(write=False)
    return (left, right), (pairs, labels)
