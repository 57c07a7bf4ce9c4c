"""limits.json: limits hold until another value is given."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.active_learning.stopping import NEVER, StopConfig
from al_ray.core.config.oracle import OracleConfig
from al_ray.core.errors import BadFile
from al_ray.runs.limits import LIMITS, in_force, write_limits

NO_COSTS = OracleConfig()


def session(folder, oracle_options=NO_COSTS, stop=NEVER):
    """One start of a run: its limits, as the options and the folder give them."""
    limits = in_force(folder, oracle_options, stop)
    write_limits(folder, *limits)
    return limits


def test_limits_hold_in_a_session_that_gives_none(tmp_path):
    given_first = OracleConfig(cost_per_pair=0.5, max_cost=3.0), StopConfig(labels=9, hours=2.0)
    assert session(tmp_path, *given_first) == given_first
    assert session(tmp_path) == given_first
    # Other options of the calls are of the session alone.
    assert session(tmp_path, OracleConfig(retries=1))[0] == OracleConfig(retries=1, cost_per_pair=0.5, max_cost=3.0)
    assert session(tmp_path, OracleConfig(max_cost=4.0))[0].max_cost == 4.0
    assert session(tmp_path)[0].max_cost == 4.0
    oracle_options, stop = session(tmp_path, OracleConfig(max_cost="none"), StopConfig(labels="none"))
    assert (oracle_options.max_cost, stop) == (None, StopConfig(hours=2.0))
    assert session(tmp_path) == (OracleConfig(cost_per_pair=0.5), StopConfig(hours=2.0))


def test_a_run_without_limits_has_no_file(tmp_path):
    assert session(tmp_path) == (NO_COSTS, NEVER)
    assert list(tmp_path.iterdir()) == []


VALUES = st.none() | st.just("none") | st.integers(1, 9)


@given(st.lists(st.tuples(VALUES, VALUES), max_size=6))
def test_the_last_value_that_was_given_holds(tmp_path_factory, sessions):
    folder, cost, labels = tmp_path_factory.mktemp("run"), None, None
    for new_cost, new_labels in sessions:
        cost = {None: cost, "none": None}.get(new_cost, new_cost)
        labels = {None: labels, "none": None}.get(new_labels, new_labels)
        oracle_options, stop = session(folder, OracleConfig(max_cost=new_cost), StopConfig(labels=new_labels))
        assert (oracle_options.max_cost, stop.labels) == (cost, labels)


@pytest.mark.parametrize("content", ["{", "[]", '{"other": 1}', '{"max_cost": "much"}', '{"max_cost": -1}'])
def test_damaged_limits_are_refused(tmp_path, content):
    (tmp_path / LIMITS).write_text(content)
    with pytest.raises(BadFile, match=LIMITS):
        in_force(tmp_path, NO_COSTS, NEVER)


def test_the_file_says_the_limits_by_name(tmp_path):
    session(tmp_path, OracleConfig(max_cost=3.0), StopConfig(patience=2))
    assert json.loads((tmp_path / LIMITS).read_text()) == {"max_cost": 3.0, "patience": 2}
