"""The pairs of a round to look at, by hand; what they need not be; and folders that were made before there were any."""

import json

import numpy as np
import pyarrow as pa
import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.core.candidates import NO_CANDIDATES, Candidates
from al_ray.core.config.sections import EvaluationConfig
from al_ray.core.config.serialization import as_dict
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.pairs import NO_KEYS, PairSpace, as_pairs
from al_ray.core.scorer import Scorer
from al_ray.core.task import Split
from al_ray.metrics.error_examples import KINDS, collect_examples, main_split
from al_ray.runs.error_examples import read_examples, write_examples
from al_ray.runs.run_folder import bound_config
from al_ray.storage.files import write_parquet

# Four left texts and three right ones; pairs (0, 0), (1, 1), (2, 2), (3, 0) match. Keys are left * 3 + right.
SPLIT = Split(
    "dev",
    PairSpace(np.arange(4), np.arange(3), 3, symmetric=False),
    as_pairs([0, 1, 2, 3], [0, 1, 2, 0]),
    np.empty((0, 2), dtype=np.int64),
)
COSINES = np.array([0.9, 0.1, 0.5, 0.1])


def test_examples_are_high_negatives_low_positives_and_pairs_near_the_boundary_by_hand():
    high = Candidates(np.array([1, 5]), np.array([0.8, 0.7]))
    near = Candidates(np.array([8, 5]), np.array([0.5, 0.7]))
    found = collect_examples(SPLIT, Scorer(10.0, -5.0), COSINES, high, near)
    assert found.split == "dev"
    assert found.kinds == (KINDS[0],) * 2 + (KINDS[1],) * 2 + (KINDS[2],) * 2
    # Of the positives at 0.1 both are taken, the lower key first; pair 8 = (2, 2) near the boundary is a match.
    assert found.pairs.tolist() == [[0, 1], [1, 2], [1, 1], [3, 0], [2, 2], [1, 2]]
    assert found.labels.tolist() == [0, 0, 1, 1, 1, 0]
    assert found.cosines.tolist() == [0.8, 0.7, 0.1, 0.1, 0.5, 0.7]
    # p = 1 / (1 + exp(5 - 10 * cosine))
    assert found.p == pytest.approx([1 / (1 + np.exp(-x)) for x in (3, 2, -4, -4, 0, 2)])


def test_where_nothing_is_found_there_are_no_examples():
    found = collect_examples(SPLIT, Scorer(10.0, -5.0), COSINES, NO_CANDIDATES, NO_CANDIDATES)
    assert len(found) == 0
    assert found.pairs.shape == (0, 2)
    assert np.array_equal(NO_CANDIDATES.keys, NO_KEYS)


def test_a_run_is_told_by_dev_where_dev_is_measured():
    assert main_split(("test", "dev")) == "dev"
    assert main_split(("test", "train")) == "test"
    assert main_split(()) is None


def test_examples_come_back_from_their_file_with_both_texts(task, tmp_path):
    split = task.split("dev")
    high = Candidates(split.space.at(np.arange(3)), np.array([0.9, 0.8, 0.7]))
    found = collect_examples(split, Scorer(1.0, 0.0), np.linspace(0, 1, len(split.positives)), high, NO_CANDIDATES)
    assert read_examples(tmp_path) == []
    write_examples(tmp_path, found, task)
    rows = read_examples(tmp_path)
    assert len(rows) == 6
    for row, pair, cosine in zip(rows, found.pairs.tolist(), found.cosines.tolist(), strict=True):
        assert [row["left"], row["right"], row["cosine"]] == [*pair, cosine]
        assert [row["left_text"], row["right_text"]] == [task.left.texts[pair[0]], task.right.texts[pair[1]]]


def test_a_file_of_other_columns_is_no_examples(tmp_path):
    write_parquet(tmp_path / "examples.parquet", pa.table({"left": [1]}))
    with pytest.raises(BadFile, match="not what this al_ray wrote"):
        read_examples(tmp_path)


def test_a_folder_from_before_there_were_examples_has_the_default(tmp_path):
    content = as_dict(RunConfig(task="task"))
    del content["evaluation"]["examples"]
    (tmp_path / "config.json").write_text(json.dumps({**content, "task_digest": "d"}))
    assert bound_config(tmp_path) == RunConfig(task="task")


def test_fewer_than_no_examples_cannot_be_kept():
    with pytest.raises(BadOption, match=r"`evaluation\.examples` is -1; give at least 0"):
        RunConfig(task="task", evaluation=EvaluationConfig(examples=-1))
