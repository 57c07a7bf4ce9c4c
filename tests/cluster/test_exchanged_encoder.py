"""An encoder folder whose content is exchanged under a run: no round is trained from other weights."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import EvaluationConfig, SearchConfig, TrainingConfig
from al_ray.core.errors import BadFile
from al_ray.datasets.task_folder import write_task
from al_ray.encoders.transformer import Encoder
from tests.running import run

CPUS = ClusterConfig(timeout=600)


@pytest.fixture
def encoders(tmp_path, letters) -> tuple[Path, Path]:
    """Two encoder folders that differ in one weight."""
    one, other = Encoder.base(letters), Encoder.base(letters)
    next(iter(other.network.parameters())).data[0, 0] += 1.0
    for encoder, name in ((one, "one"), (other, "other")):
        (tmp_path / name).mkdir()
        encoder.save(tmp_path / name)
    return tmp_path / "one", tmp_path / "other"


def test_a_run_whose_encoder_was_exchanged_does_not_go_on(in_process, make_task, encoders, tmp_path):
    write_task(make_task(True), tmp_path / "task", {})
    encoder, other = encoders
    asked = RunConfig(
        task=str(tmp_path / "task"), encoder=str(encoder), rounds=1, first_batch=16, max_length=24, threads=1,
        search=SearchConfig(neighbours=5), evaluation=EvaluationConfig(splits=()),
        training=TrainingConfig(epochs=1, worst_loss=100.0),
    )  # fmt: skip
    run(asked, CPUS, tmp_path / "run")
    kept: Path = shutil.copytree(encoder, tmp_path / "kept")
    shutil.copytree(other, encoder, dirs_exist_ok=True)
    with pytest.raises(
        BadFile, match=r"one has changed since .*/run began .* take the labels along \(`al_ray.import_labels"
    ):
        run(replace(asked, rounds=2), CPUS, tmp_path / "run")
    assert not (tmp_path / "run" / "round-002").exists(), "no label was bought"
    shutil.copytree(kept, encoder, dirs_exist_ok=True)
    assert run(replace(asked, rounds=2), CPUS, tmp_path / "run").last == 2
