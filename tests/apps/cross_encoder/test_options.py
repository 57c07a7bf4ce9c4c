"""Options of training on existing labels."""

import pytest

from al_ray.apps.cross_encoder.options import TrainConfig
from al_ray.core.config.sections import TrainingConfig
from al_ray.core.errors import BadOption


def config(**changes) -> TrainConfig:
    return TrainConfig(task="task", labels="stated", **changes)


def test_each_kind_of_model_has_its_own_batch():
    # 100 labels, two epochs: 3 whole batches of 32, or 6 of 16.
    assert config().steps(100) == 2 * 3
    assert config(model="cosine").steps(100) == 2 * 6
    # Fewer labels than a batch are one batch.
    assert config().steps(5) == 2
    assert config(concat_batch=7).concat_training == TrainingConfig(batch=7)


def test_a_run_of_a_cosine_model_has_the_limits_of_any_run():
    assert config(max_length=99).run(40).batches == (40,)
    with pytest.raises(BadOption, match="`max_length` is 2"):
        config(max_length=2)
