"""The simulation of rules that choose a model, by figures that are made up."""

import pytest

from al_ray.core.errors import BadOption
from al_ray.storage.files import read_json, write_json
from studies.handover import Handover, format_handover
from tests.apps.reporting.made_runs import made_run
from tests.runs.measured_runs import evaluation, measure


@pytest.fixture
def run(tmp_path, task):
    """Dev: 0.5 without labels, then 0.4, 0.7 and 0.6. Test: 0.5, then 0.4, 0.6 and 0.65."""
    run = measure(made_run(tmp_path / "run", task), [0.4, 0.7, 0.6], 0.5)
    paths = [run / "untrained.json", *(run / f"round-{number:03d}/record.json" for number in (1, 2, 3))]
    for path, value in zip(paths, [0.5, 0.4, 0.6, 0.65], strict=True):
        content = read_json(path, ["evaluations"])
        content["evaluations"]["test"] = evaluation(value, 0.0)
        write_json(path, content)
    return run


def test_each_rule_is_judged_after_each_round(run):
    results = Handover(runs=(run,)).results()
    # After round 1 it is worse than without labels; it loses 0.1 there and nothing after rounds 2 and 3.
    last = results["the last round"]
    assert (last["ends"], last["worse"], last["largest"], last["gain"]) == (
        3,
        pytest.approx(1 / 3),
        pytest.approx(0.1),
        0,
    )
    assert last["loss"] == pytest.approx(0.1 / 3)
    # Round 0, round 2, and the last round.
    other = results["the last or the untrained"]
    assert (other["worse"], other["loss"]) == (0, 0)
    # At the end round 2 is higher on dev, which loses 0.05 on test.
    for name in ("the highest on dev", "the rule"):
        one = results[name]
        assert (one["worse"], one["loss"], one["gain"]) == pytest.approx((0, 0.05 / 3, (0.1 - 0.05) / 3))
    assert format_handover(results).splitlines()[1].split()[-5:] == ["3", "33.3", "3.3", "10.0", "0.0"]


def test_a_run_that_did_not_measure_the_truth_is_refused(run):
    with pytest.raises(BadOption, match="has not measured dev and train in every round"):
        Handover(runs=(run,), truth="train").results()
