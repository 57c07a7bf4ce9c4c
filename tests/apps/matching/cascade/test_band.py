"""The borders of uncertain scores: as given, stored with the model, or from its p."""

from dataclasses import replace
from math import inf, log
from pathlib import Path
from typing import Any

import pytest

from al_ray.apps.matching.assignment_rules import Cutoff
from al_ray.apps.matching.cascade.band import choose_band
from al_ray.apps.matching.model import MatchingModel, open_model
from al_ray.apps.matching.options import MatchOptions
from al_ray.core.errors import BadOption
from al_ray.core.scorer import Scorer
from tests.apps.audit.test_audit_job import run_folder

# SCORER of run_folder: p = sigmoid(20 s - 18), so that p = 0.2 at 0.9 - log(4)/20, and 0.8 at 0.9 + log(4)/20.
LOW, HIGH = 0.9 - log(4) / 20, 0.9 + log(4) / 20


@pytest.fixture(scope="module")
def model(make_task, tmp_path_factory) -> MatchingModel:
    return open_model(run_folder(tmp_path_factory.mktemp("band"), make_task(True)))


def chosen(model: MatchingModel, cutoff: float = -inf, **given: Any) -> tuple[float, float, float]:
    options = MatchOptions(left=Path("t.csv"), oracle="judge:label", **given)
    band = choose_band(options, model, Cutoff(cutoff, 10, "a rule"))
    assert band is not None
    return band.low, band.high, band.cutoff


def stored(model: MatchingModel, **thresholds: float | None) -> MatchingModel:
    rules = {"p90": "precision=0.9", "p95": "precision=0.95", "sure": "precision=0.9 guarantee=0.95", "r": "recall=0.9"}
    return replace(model, thresholds={rules[name]: {"cosine": score} for name, score in thresholds.items()})


def test_without_an_oracle_no_score_is_uncertain(model):
    assert choose_band(MatchOptions(left=Path("t.csv")), model, Cutoff(0.5, 10, "a rule")) is None


def test_p_of_the_model_gives_the_borders(model):
    # Without a cutoff every uncertain pair can be a match of the model.
    assert chosen(model) == pytest.approx((LOW, HIGH, LOW))
    assert chosen(model, 0.9) == pytest.approx((LOW, HIGH, 0.9))


def test_the_stored_threshold_of_a_precision_is_the_upper_border_and_a_guarantee_comes_first(model):
    assert chosen(stored(model, p90=0.94, r=0.7), 0.9)[1] == 0.94
    assert chosen(stored(model, p90=0.94, p95=0.96), 0.9)[1] == 0.96
    assert chosen(stored(model, p95=0.96, sure=0.93), 0.9)[1] == 0.93
    # A rule that no threshold satisfies has none.
    assert chosen(stored(model, p95=None), 0.9)[1] == pytest.approx(HIGH)


def test_a_default_gives_way_to_the_cutoff_and_an_option_does_not(model):
    assert chosen(model, 0.7) == pytest.approx((0.7, HIGH, 0.7))
    assert chosen(stored(model, p90=0.91), 0.94)[1:] == (0.94, 0.94)
    with pytest.raises(BadOption, match=r"the cutoff 0.7 \(a rule\) is not among the uncertain scores 0.8 to"):
        chosen(model, 0.7, oracle_low=0.8)
    with pytest.raises(BadOption, match="no score is uncertain"):
        chosen(model, oracle_high=0.5)


def test_a_model_whose_p_does_not_rise_needs_borders(model):
    flat = replace(model, model=replace(model.model, scorer=Scorer(0.0, -1.0, 0.1, "no-variance")))
    with pytest.raises(BadOption, match=r"no score at which its p is 0.8 \(no-variance\); give `oracle_high=S`"):
        chosen(flat)
    assert chosen(flat, oracle_low=0.1, oracle_high=0.2) == (0.1, 0.2, 0.1)
