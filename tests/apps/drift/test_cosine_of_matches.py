"""Which training texts count as matches of each other: from a cosine on, also where scores are no cosines."""

from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest

from al_ray.apps.drift.measure import cosine_of_matches
from al_ray.apps.matching.model import MatchingModel, open_model
from al_ray.core.labels import YES
from al_ray.core.scorer import Scorer
from al_ray.core.task import Task
from al_ray.core.two_stage_score import MATCHED
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.pair_cosines import FIT, write_cosines
from tests.apps.audit.test_audit_job import run_folder


def with_cosines(run: Path, task: Task, no: float, yes: float) -> Path:
    """A run whose labelled pairs have these cosines."""
    labelled = RunFolder(run, task).ledger.labelled(1)
    assert 0 < labelled.positives < len(labelled)
    write_cosines(run / "round-001" / FIT, labelled.pairs, np.where(labelled.labels == YES, yes, no))
    return run


def test_it_is_the_boundary_of_a_model_whose_scores_are_cosines(make_task, tmp_path):
    task = make_task(False)
    run = with_cosines(run_folder(tmp_path, task, Scorer(20.0, -18.0)), task, 0.5, 0.7)
    assert cosine_of_matches(open_model(run)) == pytest.approx(0.9)


@pytest.mark.parametrize("bias", [-5.0, 5.0])
def test_an_infinite_boundary_makes_no_matches(make_task, tmp_path, bias):
    assert cosine_of_matches(open_model(run_folder(tmp_path, make_task(False), Scorer(0.0, bias)))) == inf


def test_with_a_matcher_it_is_fitted_to_the_cosines_of_the_labelled_pairs(make_task, tmp_path):
    task = make_task(False)
    run = run_folder(tmp_path, task)

    def matched() -> MatchingModel:
        model = open_model(run)
        return replace(model, model=replace(model.model, scorer=MATCHED))

    # A run of an earlier version, which stored none.
    assert cosine_of_matches(matched()) == inf
    with_cosines(run, task, 0.5, 0.7)
    assert cosine_of_matches(matched()) == pytest.approx(0.6)


def test_with_a_neighbourhood_it_is_fitted_to_the_cosines_of_the_labelled_pairs(make_task, tmp_path):
    task = make_task(False)
    run = run_folder(tmp_path, task, Scorer(20.0, -6.0, neighbourhood=0.5))
    # The score 0.3 is no cosine, and without cosines of labelled pairs none is known.
    assert cosine_of_matches(open_model(run)) == inf
    # Half way between the highest no and the lowest yes.
    assert cosine_of_matches(open_model(with_cosines(run, task, 0.5, 0.7))) == pytest.approx(0.6)
