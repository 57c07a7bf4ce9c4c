"""The cutoff that the options of match give."""

from dataclasses import replace
from pathlib import Path

import pytest

from al_ray.apps.matching.cutoff import choose_cutoff
from al_ray.apps.matching.model import MatchingModel, open_model
from al_ray.apps.matching.options import MatchOptions
from al_ray.core.errors import BadOption
from al_ray.core.scorer import Scorer
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
