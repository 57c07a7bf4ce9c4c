"""The quality of written matches, by hand."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from al_ray.core.errors import BadOption
from al_ray.datasets.task_folder import write_task
from studies.match_quality import Matches, format_quality


def written(folder, task, pairs, clusters=None):
    """A folder of matches of train: (n, 2) rows, and the cluster of each of its texts."""
    folder.mkdir()
    (folder / "match.json").write_text(json.dumps({"split": "train", "task_digest": task.digest}))
    left, right = ([corpus.ids[pair[side]] for pair in pairs] for side, corpus in enumerate((task.left, task.right)))
    pq.write_table(pa.table({"left_id": left, "right_id": right}), folder / "matches.parquet")
    if clusters is not None:
        rows = task.split("train").space.left.tolist()
        table = {"id": [task.left.ids[row] for row in rows], "cluster": [clusters(row) for row in rows]}
        pq.write_table(pa.table(table), folder / "clusters.parquet")


@pytest.mark.parametrize("symmetric", [True, False], ids=["one set", "two sets"])
def test_precision_and_recall_are_of_all_matching_pairs(symmetric, make_task, tmp_path):
    task = make_task(symmetric, clusters=6, members=3)
    write_task(task, tmp_path / "task", {})
    split = task.split("train")
    positives, negatives = split.positives.tolist(), split.stated_negatives.tolist()
    # Three right ones and one wrong one.
    written(tmp_path / "matches", task, [*positives[:3], negatives[0]], (lambda row: row) if symmetric else None)
    results = Matches(tmp_path / "matches", tmp_path / "task").results()
    of = results["matches"]
    assert (of["found"], of["right"], of["positives"]) == (4, 3, len(positives))
    assert (of["precision"], of["recall"]) == (0.75, 3 / len(positives))
    assert of["f1"] == pytest.approx(6 / (4 + len(positives)))
    assert list(results) == ["matches", *["clusters, pairwise", "clusters, B-cubed"] * symmetric]
    assert "75.0" in format_quality(results)


def test_each_text_in_its_own_cluster_has_full_precision_and_the_true_clusters_have_all(make_task, tmp_path):
    task = make_task(True, clusters=6, members=3)
    write_task(task, tmp_path / "task", {})
    of_text = {row: number for number, group in enumerate(groups(task)) for row in group}
    written(tmp_path / "alone", task, [], lambda row: row)
    written(tmp_path / "true", task, task.split("train").positives.tolist(), lambda row: of_text.get(row, 1000 + row))
    alone, true = (Matches(tmp_path / name, tmp_path / "task").results() for name in ("alone", "true"))
    assert alone["clusters, B-cubed"]["precision"] == 1.0
    assert alone["clusters, pairwise"]["recall"] == 0.0
    assert {one["f1"] for one in true.values()} == {1.0}


def groups(task):
    """Texts that positives connect, by merging sets."""
    found = []
    for pair in task.split("train").positives.tolist():
        touched = [group for group in found if group & set(pair)]
        found = [group for group in found if group not in touched] + [set(pair).union(*touched)]
    return found


def test_matches_of_another_task_are_refused(make_task, tmp_path):
    task = make_task(True, clusters=6, members=3)
    write_task(make_task(False, clusters=6, members=3), tmp_path / "task", {})
    written(tmp_path / "matches", task, [])
    with pytest.raises(BadOption, match="another task"):
        Matches(tmp_path / "matches", tmp_path / "task").results()
