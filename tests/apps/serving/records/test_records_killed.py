"""jobs.serve of records on a real Ray Serve: processes are killed, and nothing that was acknowledged is lost."""

import signal
from typing import Any

import pytest

from al_ray.apps.matching.model import open_model
from al_ray.apps.serving.known import fill_store
from al_ray.apps.serving.options import ServeOptions
from al_ray.apps.serving.records.record_matcher import load_matcher
from al_ray.apps.serving.store import read_store
from tests.apps.matching.incremental.test_matched_into import ran, table
from tests.apps.serving.records.test_put_records import before, body
from tests.apps.serving.records.test_records_as_match import ASKED, asked
from tests.apps.serving.serving_process import ServingProcess

__all__ = ["ran"]
pytestmark = [pytest.mark.faults, pytest.mark.long]
NEW: dict[str, Any] = {"records": [{"name": ASKED["new"][0], "price": ASKED["new"][1]}], "limit": 1000}


def found(server: ServingProcess, sequence: int) -> dict[str, float]:
    """The scores of a record by each of several requests, which replicas answer in turn."""
    answers = list[dict[str, float]]()
    for _ in range(8):
        code, answer = server.call("POST", "/match", NEW | {"at_least": sequence})
        assert code == 200, answer
        answers.append({one["id"]: one["score"] for one in answer["results"][0]})
    assert all(one == pytest.approx(answers[0], rel=0, abs=1e-12) for one in answers)
    return answers[0]


def test_records_that_were_put_are_there_after_processes_are_killed(ran, tmp_path):
    run, sides = ran
    rows = sides.get("right", sides["left"])
    first, store = before(rows), tmp_path / "store"
    known = table(tmp_path / "first.csv", first)
    line = {"model": run, "known": known, "store": store, "limit": 1000, "at-score": 0, "replicas": 2}
    options = [each for name, value in line.items() for each in (f"--{name}", str(value))]
    server = ServingProcess(options, "0123456789abcdef")
    try:
        new = {one: row for one, row in rows.items() if first.get(one) != row}
        code, answer = server.call("PUT", "/texts", body(new))
        assert (code, answer["sequence"]) == (200, 1), answer
        server.replicas("Matcher")[0].send_signal(signal.SIGKILL)
        assert server.call("DELETE", "/texts", {"ids": ["gone"]})[1] == {"sequence": 2, "removed": 1, "unknown": 0}
        whole = ServeOptions(
            model=run, known=table(tmp_path / "whole.csv", rows), store=tmp_path / "whole", limit=1000, at_score=0
        )
        expected = anew(whole)
        assert found(server, 2) == pytest.approx(expected, rel=0, abs=1e-12)
        server.kill_everything()
        assert len(read_store(store).changes) == 2
        server = ServingProcess(options, "0123456789abcdef")
        assert found(server, 2) == pytest.approx(expected, rel=0, abs=1e-12)
        assert server.stop() == 0
    finally:
        if server.process.poll() is None:
            server.kill_everything()


def anew(options: ServeOptions) -> dict[str, float]:
    """The scores of a service that starts with the whole table."""
    model = open_model(options.model)
    fill_store(options, model)
    [answer] = load_matcher(options, model).answer([asked(ASKED["new"])])
    return {one.id: one.score for one in answer.found[0]}
