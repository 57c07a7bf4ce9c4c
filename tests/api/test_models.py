"""A loaded model scores with what was fitted to an audit, and says what its scores were checked on."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import al_ray
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.scorer import Scorer
from al_ray.encoders.transformer import Encoder
from al_ray.runs.other_runs import run_of_model
from al_ray.training.saved_model import write_model

AUDIT = {"source": "audit", "weight": 8.0, "bias": -4.0}


@pytest.fixture
def folder(tmp_path: Path, letters: EncoderConfig) -> Path:
    write_model(Encoder.base(letters), Scorer(20.0, -18.0, 0.1, "fitted"), tmp_path / "model", "nothing")
    return tmp_path / "model"


def add(folder: Path, **evidence: Any) -> None:
    path = folder / "scorer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **evidence}))


@pytest.mark.parametrize(
    ("evidence", "source", "boundary"),
    [
        ({}, None, 0.9),
        # What dev measured is of the trained w and b, and may say that p is no probability.
        ({"calibration": {"source": "dev"}}, None, 0.9),
        ({"recalibration": AUDIT}, "audit", 0.5),
        ({"calibration": {"source": "dev"}, "recalibration": AUDIT}, "audit", 0.5),
    ],
)
def test_a_model_scores_with_the_w_and_b_of_an_audit(folder: Path, evidence, source, boundary):
    add(folder, **evidence)
    model = al_ray.load_model(folder)
    assert model.calibrated_on == source
    assert model.boundary == pytest.approx(boundary)


def test_a_scorer_that_an_audit_fitted_keeps_the_neighbourhood(folder: Path):
    add(folder, neighbourhood=0.5, recalibration=AUDIT)
    model = al_ray.load_model(folder)
    assert (model.scorer.weight, model.scorer.neighbourhood) == (8.0, 0.5)
    with pytest.raises(BadOption, match="give score\\(\\) as collection"):
        model.score(["a"], ["b"])
    # A collection that is the pair itself: the cosine is its own mean.
    cosine = model.cosines(["abc"], ["abd"])[0]
    assert model.score(["abc"], ["abd"], ["abd"]) == pytest.approx(Scorer(8.0, -4.0).probability(cosine / 2))


def test_one_text_is_not_a_list_of_its_letters(folder: Path):
    model = al_ray.load_model(folder)
    for encode in (lambda: model.encode("abc"), lambda: model.score("abc", "abd"), lambda: model.cosines(["abc"], "d")):
        with pytest.raises(BadOption, match="give a list of texts, such as \\[text\\], and not one text"):
            encode()


def test_a_collection_changes_nothing_where_the_neighbourhood_is_0_and_an_empty_one_is_refused_elsewhere(folder: Path):
    model = al_ray.load_model(folder)
    assert model.score(["a"], ["b"], ["b"]).tolist() == model.score(["a"], ["b"]).tolist()
    add(folder, neighbourhood=0.5)
    with pytest.raises(BadOption, match="give score"):
        al_ray.load_model(folder).score(["a"], ["b"], [])


@pytest.mark.parametrize("damage", [{"recalibration": {"source": "audit"}}, {"recalibration": [1]}])
def test_a_damaged_calibration_is_an_error(folder: Path, damage):
    add(folder, **damage)
    with pytest.raises(BadFile, match="damaged calibration"):
        al_ray.load_model(folder)


@pytest.mark.parametrize("place", ["copies/mine", "round-old/model", "round-001/copy"])
def test_a_copy_two_levels_below_a_run_takes_its_options_from_its_own_files(folder: Path, tmp_path, place):
    copy = tmp_path / "run" / place
    copy.parent.mkdir(parents=True)
    (tmp_path / "run" / "state.json").write_text('{"round": 1}')
    shutil.copytree(folder, copy)
    assert run_of_model(copy) is None
    assert al_ray.load_model(copy).cosines(["abc"], ["abd"]) == al_ray.load_model(folder).cosines(["abc"], ["abd"])
    assert run_of_model(tmp_path / "run" / "round-001" / "model") == (tmp_path / "run", 1)


@pytest.mark.parametrize("load", [al_ray.load_model, al_ray.load_matcher])
@pytest.mark.parametrize("number", [None, 0, "last"])
def test_a_folder_that_is_no_model_is_said_to_be_none_whatever_round_is_asked_for(tmp_path, load, number):
    with pytest.raises(BadFile, match=r"(holds no scorer.json|nowhere)"):
        load(tmp_path / "nowhere", round=number)
