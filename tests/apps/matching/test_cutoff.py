"""The cutoff that the options of match give."""

from dataclasses import replace
from pathlib import Path

import pytest

from al_ray.apps.matching.cutoff import choose_cutoff
from al_ray.apps.matching.model import MatchingModel, open_model
from al_ray.apps.matching.options import MatchOptions
from al_ray.core.errors import BadOption
from al_ray.core.scorer import Scorer
from al_ray.storage.files import read_json, write_json
from tests.apps.audit.test_audit_job import run_folder


def model(make_task, folder: Path, neighbourhood: float) -> MatchingModel:
    scorer = Scorer(20.0, -18.0, 0.1, "fitted", neighbourhood)
    return open_model(run_folder(folder, make_task(False), scorer))


def test_a_cosine_is_the_score_of_a_model_without_neighbourhoods(make_task, tmp_path):
    matching, options = model(make_task, tmp_path, 0.0), MatchOptions(left=Path("t.csv"), at_cosine=0.75)
    cutoff = choose_cutoff(options, matching, "all")
    assert (cutoff.score, cutoff.source) == (0.75, "--at-cosine 0.75")
    assert replace(cutoff, source="") == replace(
        choose_cutoff(replace(options, at_cosine=None, at_score=0.75), matching, "all"), source=""
    )


def test_a_cosine_is_no_cutoff_where_neighbours_are_part_of_the_score(make_task, tmp_path):
    options = MatchOptions(left=Path("t.csv"), at_cosine=0.75)
    with pytest.raises(BadOption, match=r"--at-cosine: scores of .* are no cosines.*give --at-score"):
        choose_cutoff(options, model(make_task, tmp_path, 0.5), "all")


def test_an_evaluation_on_dev_makes_no_probabilities(make_task, tmp_path):
    run = run_folder(tmp_path, make_task(False), Scorer(20.0, -18.0, 0.1, "fitted"))
    path, options = run / "round-001/model/scorer.json", MatchOptions(left=Path("t.csv"), at_p=0.5)
    # Half of the pairs match where p is 0.99 on average.
    bins = [{"low": 0.9, "high": 1.0, "weight": 40.0, "mean_p": 0.99, "share": {"value": 0.5, "low": 0.4, "high": 0.6}}]
    evidence = {"calibration": {"source": "dev", "split": "dev", "pairs": 1000, "reliability": bins}}
    write_json(path, {**read_json(path, []), **evidence})
    assert open_model(run).calibrated is None
    with pytest.raises(BadOption, match=r"--at-p needs probabilities.*jobs\.run --dev-labels, or jobs\.audit sample"):
        choose_cutoff(options, open_model(run), "all")
    # An audit fitted w and b: p is 0.5 at 0.95.
    recalibration = {"source": "audit", "weight": 40.0, "bias": -38.0}
    write_json(path, {**read_json(path, []), "recalibration": recalibration})
    assert choose_cutoff(options, open_model(run), "all").score == pytest.approx(0.95)
