"""What `al_ray.sample_audit` refuses before it starts Ray."""

import pytest

import al_ray
from al_ray.core.errors import BadOption
from al_ray.storage.uri import storage_path


def test_an_audit_of_a_run_on_an_object_store_needs_a_local_folder():
    run = al_ray.Run(storage_path("s3://bucket/run"), al_ray.RunConfig(task="task"))
    with pytest.raises(BadOption, match="people cannot open files; give `out`, a local folder"):
        al_ray.sample_audit(run)
