"""An audit reads the vectors that a run stored, if they are those of the audited model."""

from pathlib import Path

import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.apps.audit.folder import AuditOptions
from al_ray.apps.audit.sampling import with_stored_vectors
from al_ray.cluster.token_store import pool_folder
from al_ray.core.config.cluster import ClusterConfig
from al_ray.runs.run_folder import RunFolder
from al_ray.search.vector_files import vector_folder

DIGEST = "0123456789abcdef" * 4


def options(model: str) -> AuditOptions:
    return AuditOptions("dev", 1 if model else 0, 0, None, None, None, 9, 9, model, "task")


@pytest.mark.parametrize(
    ("stored", "model", "kept"),
    [
        ("trained-0123456789abcdef-left-12-00000.npy", DIGEST, True),
        ("trained-0123456789abcdef-left-12-00000.npy", "other", False),
        ("untrained-0123456789abcdef-left-12-00000.npy", "", True),
        ("trained-0123456789abcdef-left-12-00000.npy", "", False),
        (None, DIGEST, False),
    ],
)
def test_stored_vectors_are_read_if_they_fit(make_task, tmp_path: Path, stored, model, kept):
    task, config, cluster = make_task(True), RunConfig(task="task"), ClusterConfig()
    folder = RunFolder(tmp_path, task)
    if stored is not None:
        vectors = vector_folder(pool_folder(task, config.encoding, tmp_path))
        assert isinstance(vectors, Path)
        vectors.mkdir(parents=True)
        (vectors / stored).touch()
    assert with_stored_vectors(config, cluster, folder, options(model)).keep_vectors == kept
