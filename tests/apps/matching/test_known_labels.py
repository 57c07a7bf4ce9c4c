"""Labels of a run for the pairs to match."""

import numpy as np

from al_ray.apps.matching.decisions import known_decisions
from al_ray.apps.matching.model import open_model
from al_ray.datasets.task_folder import read_task, sealed
from tests.apps.audit.test_audit_job import run_folder


def test_a_run_without_dev_pairs_has_labels(make_task, tmp_path):
    whole = make_task(True)
    task = sealed("all train", True, whole.left, whole.right, {"train": whole.split("train")})
    model = open_model(run_folder(tmp_path, task))
    assert model.run is not None
    task = read_task(tmp_path / "task")
    found = known_decisions(model, task, task.split("train").space)
    labelled = model.run.ledger.labelled()
    assert len(found.yes) + len(found.no) == len(labelled.pairs) == 20
    assert np.array_equal(found.no, np.sort(task.split("train").space.keys(labelled.pairs[labelled.labels == 0])))
