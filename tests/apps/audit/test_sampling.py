"""An audit reads what the run knows: vectors, if they are those of the audited model, and labels."""

from pathlib import Path

import numpy as np
import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.apps.audit.folder import AuditOptions
from al_ray.apps.audit.sampling import known_labels, with_stored_vectors
from al_ray.cluster.token_store import pool_folder
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.labels import NO, UNSURE, YES, Batch, make_answers
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


def test_of_a_pair_that_was_labelled_both_ways_round_the_later_label_is_known(make_task, tmp_path):
    task = make_task(True)
    space, folder = task.split("dev").space, RunFolder(tmp_path, task)
    first = space.pairs(space.at(np.arange(3)))
    answers = ((first, [YES, NO, UNSURE]), (first[:, ::-1], [NO, YES, YES]))
    for number, (pairs, labels) in enumerate(answers, start=1):
        folder.dev_labels.ledger.add_batch(number, Batch(pairs, np.zeros(3), "uncertainty"))
        folder.dev_labels.ledger.add_answers(number, make_answers(np.arange(3), np.array(labels, np.uint8), "file"))
        folder.dev_labels.ledger.seal(number)
    keys, labels = known_labels(folder, task.split("dev"))
    assert space.pairs(keys).tolist() == first.tolist()
    assert labels.tolist() == [NO, YES, YES]


def test_answers_of_an_open_round_are_known(make_task, tmp_path):
    task = make_task(True)
    space, folder = task.split("train").space, RunFolder(tmp_path, task)
    pairs = space.pairs(space.at(np.arange(3)))
    folder.ledger.add_batch(1, Batch(pairs, np.zeros(3), "uncertainty"))
    folder.ledger.add_answers(1, make_answers(np.array([0, 2]), np.array([YES, UNSURE], np.uint8), "file"))
    keys, labels = known_labels(folder, task.split("train"))
    assert space.pairs(keys).tolist() == pairs[:1].tolist()
    assert labels.tolist() == [YES]
