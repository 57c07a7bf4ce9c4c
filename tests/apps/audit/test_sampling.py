"""An audit reads the vectors that a run stored, if they are those of the audited model and of as many shards."""

from pathlib import Path

import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.apps.audit.folder import AuditOptions
from al_ray.apps.audit.sampling import with_stored_vectors
from al_ray.cluster.token_store import pool_folder
from al_ray.core.config.cluster import ClusterConfig
from al_ray.runs.run_folder import RunFolder

DIGEST = "0123456789abcdef" * 4


def options(model: str) -> AuditOptions:
    return AuditOptions("dev", 1 if model else 0, 0, None, None, None, 9, 9, model, "task")


@pytest.mark.parametrize(
    ("stored", "model", "shards", "kept"),
    [
        ("trained-0123456789abcdef-left-12-0-of-2.npy", DIGEST, 2, True),
        ("trained-0123456789abcdef-left-12-0-of-2.npy", DIGEST, 1, False),
        ("trained-0123456789abcdef-left-12-0-of-2.npy", "other", 2, False),
        ("untrained-0123456789abcdef-left-12-0-of-2.npy", "", 2, True),
        ("trained-0123456789abcdef-left-12-0-of-2.npy", "", 2, False),
        (None, DIGEST, 2, False),
    ],
)
def test_stored_vectors_are_read_if_they_fit(make_task, tmp_path: Path, caplog, stored, model, shards, kept):
    task, config, cluster = make_task(True), RunConfig(task="task"), ClusterConfig(shards=shards)
    folder = RunFolder(tmp_path, task)
    if stored is not None:
        vectors = pool_folder(task, config.encoding, tmp_path) / "vectors"
        assert isinstance(vectors, Path)
        vectors.mkdir(parents=True)
        (vectors / stored).touch()
    assert with_stored_vectors(config, cluster, folder, options(model)).keep_vectors == kept
    # Those of another number of shards are not used, as that would delete them; the user can.
    assert ("--shards 2; they are encoded again for 1" in caplog.text) == (shards == 1)
