"""A match compares records by the frequencies of the run: its own texts have the scores that the run measured."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import al_ray
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.errors import BadFile
from al_ray.core.scorer import CANDIDATE
from al_ray.datasets.task_folder import write_task
from tests.cluster.candidates.test_commands import config_of, scores_of

pytestmark = pytest.mark.usefixtures("in_process")


@pytest.fixture(scope="module")
def task(make_task, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("texts") / "task"
    write_task(make_task(False, clusters=18), folder, {})
    return folder


@pytest.fixture(scope="module")
def run(in_process, task, tmp_path_factory) -> al_ray.Run:
    return al_ray.run(config_of(task), tmp_path_factory.mktemp("run") / "run")


def test_matches_of_the_tasks_own_texts_have_the_scores_of_the_run_to_the_bit(run, task, tmp_path):
    keys, scores, _ = scores_of(run, "train")
    options = al_ray.MatchOptions(left=task, assign="all", at_score=0.0)
    found = al_ray.match(run, options, tmp_path / "matches", cluster=ClusterConfig(shards=2, timeout=600))
    of, candidate = run.folder.task, scores >= CANDIDATE
    left, right = ({name: row for row, name in enumerate(side.ids)} for side in (of.left, of.right))
    by_model = [row for row in found.matches().to_pylist() if row["decided_by"] != "label"]
    pairs = np.array([[left[row["left_id"]], right[row["right_id"]]] for row in by_model])
    expected = dict(zip(keys[candidate].tolist(), (scores[candidate] - CANDIDATE).tolist(), strict=True))
    assert len(by_model) > len(expected) / 2
    assert [row["score"] for row in by_model] == [expected[key] for key in of.split("train").space.keys(pairs).tolist()]


def test_a_model_that_lost_its_frequencies_is_not_used_and_one_of_an_earlier_version_is(run, task, tmp_path):
    shutil.copytree(run.path, tmp_path / "run")
    (tmp_path / "run" / "round-002" / "model" / "records.safetensors").unlink()
    options = al_ray.MatchOptions(left=task, assign="all", at_score=0.2)
    with pytest.raises(BadFile, match=r"records.safetensors cannot be read as the frequencies of a matcher"):
        al_ray.match(al_ray.load_run(tmp_path / "run"), options, tmp_path / "matches")
    path = tmp_path / "run" / "round-002" / "record.json"
    content = json.loads(path.read_text())
    del content["model"]["reference_digest"]
    path.write_text(json.dumps(content))
    earlier = al_ray.match(
        al_ray.load_run(tmp_path / "run"), options, tmp_path / "matches", cluster=ClusterConfig(timeout=600)
    )
    assert earlier.matches().num_rows
