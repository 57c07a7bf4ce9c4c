"""jobs.match by scores that know the neighbourhood of both texts, against a twin of all pairs; what is refused."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from al_ray.core.scorer import Scorer
from al_ray.core.task import Task
from tests.apps.audit.test_audit_job import run_folder
from tests.apps.matching.test_match_job import cutoff_near, do, labelled, refused, scores_by_loops, tables, written

BOTH = Scorer(20.0, -6.0, 0.1, "fitted", 0.5, both_sides=True)


@pytest.fixture(scope="module", params=[True, False], ids=["one table", "two tables"])
def ran(request, in_process, make_task, tmp_path_factory) -> tuple[Path, Task]:
    task = make_task(request.param, clusters=12, members=4)
    return run_folder(tmp_path_factory.mktemp("ran"), task, BOTH), task


def scores_of_both(run: Path, task: Task) -> dict[tuple[str, str], float]:
    """The cosine of each pair of train, less half the mean of the 5 nearest of either text."""
    cosines, near = scores_by_loops(run, task), defaultdict[tuple[str, str], list[float]](list)
    other = "left" if task.symmetric else "right"
    for (one, another), cosine in cosines.items():
        near["left", one].append(cosine)
        near[other, another].append(cosine)
    means = {text: float(np.mean(sorted(own)[-5:])) for text, own in near.items()}
    return {pair: cosine - 0.5 * (means["left", pair[0]] + means[other, pair[1]]) for pair, cosine in cosines.items()}


def test_all_pairs_of_at_least_a_score_are_matches(ran, monkeypatch, tmp_path):
    run, task = ran
    scores, yes, no = scores_of_both(run, task), labelled(run, "yes"), labelled(run, "no")
    cutoff = cutoff_near(scores, 30)
    do(monkeypatch, f"--model {run} {tables(task, tmp_path)} --assign all --at-score {cutoff} --out {tmp_path / 'out'}")
    found = written(tmp_path / "out")
    assert set(found) == {pair for pair, score in scores.items() if score >= cutoff and pair not in no} | yes
    assert [row["score"] for row in found.values()] == pytest.approx([scores[pair] for pair in found], abs=1e-6)


@pytest.mark.parametrize("rule", ["best", "mutual", "one-to-one"])
def test_each_assignment_is_that_of_the_nearest_by_score_however_they_are_searched(ran, monkeypatch, tmp_path, rule):
    run, task = ran
    scores = scores_of_both(run, task)
    line = f"--model {run} {tables(task, tmp_path)} --assign {rule} --at-score {cutoff_near(scores, 30)}"
    kinds = ["exact"] if rule == "mutual" and not task.symmetric else ["exact", "knn --search.neighbours 200"]
    found = []
    for kind in kinds:
        do(monkeypatch, f"{line} --search.kind {kind} --out {tmp_path / kind[:3]}")
        found.append({pair: row["score"] for pair, row in written(tmp_path / kind[:3]).items()})
        assert [*found[-1].values()] == pytest.approx([scores[pair] for pair in found[-1]], abs=1e-6)
    assert found[0] == found[-1]
    if rule == "mutual":
        by_model = {pair for pair, row in written(tmp_path / "exa").items() if row["decided_by"] == "model"}
        for pair in by_model:
            ours = [one for one in scores if set(one) & set(pair)] if task.symmetric else [
                one for one in scores if one[0] == pair[0] or one[1] == pair[1]
            ]  # fmt: skip
            no = labelled(run, "no")
            assert scores[pair] == max(scores[one] for one in ours if one not in no)


def test_indexes_that_miss_neighbours_are_refused(ran, monkeypatch, capsys, tmp_path):
    run, task = ran
    line = f"--model {run} {tables(task, tmp_path)} --assign all --best 9 --out {tmp_path / 'out'}"
    error = refused(monkeypatch, capsys, f"{line} --search.kind knn --search.index IVF2,Flat")
    assert "give --search.index Flat" in error
