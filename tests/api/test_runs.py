"""A run that was opened stays what it is, wherever the program works."""

import al_ray
from al_ray.core.scorer import Scorer
from tests.apps.audit.test_audit_job import run_folder


def test_a_run_opened_by_a_relative_path_is_that_run_in_every_folder(make_task, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    run_folder(tmp_path, make_task(True), Scorer(20.0, -18.0, 0.1, "fitted"))
    monkeypatch.chdir(tmp_path)
    run = al_ray.load_run("run")
    before = run.rounds, run.metrics().num_rows, run.labels().num_rows
    assert before[0] == 1
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert (run.rounds, run.metrics().num_rows, run.labels().num_rows) == before
