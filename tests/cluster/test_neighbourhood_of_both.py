"""A run that ranks by the neighbourhood of both texts, of one set of texts and of two; and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import al_ray
from al_ray.active_learning.config import RunConfig
from al_ray.cli import evaluate as evaluate_job
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import ScoringConfig, SearchConfig, TrainingConfig
from al_ray.core.errors import BadOption
from al_ray.core.scorer import refit
from al_ray.core.task import strings_at
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.storage.pair_cosines import FIT, read_cosines, read_fitted
from tests.guides import block
from tests.running import run

CPUS = ClusterConfig(timeout=600)


@pytest.fixture(scope="module", params=[False, True], ids=["two sets", "one set"])
def finished(request, in_process, make_task, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    write_task(make_task(request.param), folder / "task", {})
    asked = RunConfig(
        task=str(folder / "task"), rounds=2, first_batch=16, encoder="random-bert", encoder_layers=1, max_length=24,
        encoder_batch=8, threads=1, search=SearchConfig(neighbours=5, block=16), scoring=ScoringConfig(0.5, "both"),
        training=TrainingConfig(epochs=1, batch=8, learning_rate=1e-3, worst_loss=100.0),
    )  # fmt: skip
    run(asked, replace(CPUS, shards=2), folder / "run")
    return folder / "run"


# Short code for readers leaves the file to the interpreter.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_the_scorer_is_fitted_to_scores_that_vectors_give_again(finished):
    loaded = al_ray.load_run(finished)
    task, model = loaded.folder.task, al_ray.load_model(finished, round="last")
    assert (model.scorer.neighbourhood, model.scorer.both_sides) == (0.5, True)
    last, space = finished / "round-002", task.split("train").space
    assert json.loads((last / "model/scorer.json").read_text())["both_sides"] is True
    pairs, cosines = read_cosines(last / FIT)
    scores = read_fitted(last)[1]
    left = model.encode(strings_at(task.left.texts, space.left)).astype(np.float64)
    right = left if task.symmetric else model.encode(strings_at(task.right.texts, space.right), "right")
    every = left @ right.astype(np.float64).T
    if task.symmetric:
        np.fill_diagonal(every, -np.inf)
    means = [np.sort(every, axis=axis).take(range(-5, 0), axis=axis).mean(axis=axis) for axis in (1, 0)]
    h, k = means[0][np.searchsorted(space.left, pairs[:, 0])], means[1][np.searchsorted(space.right, pairs[:, 1])]
    assert scores == pytest.approx(cosines - 0.5 * (h + k), abs=1e-6)
    again = refit(scores, loaded.labelled().labels)
    assert (model.scorer.weight, model.scorer.bias) == (again.weight, again.bias)
    if not task.symmetric:
        # The program of the docs, by the vectors of all texts.
        names: dict[str, Any] = {"json": json, "np": np, "FOLDER": last / "model"}
        exec(block("docs/export.md", "## Scores", "scorer ="), names)
        at = np.searchsorted(space.left, pairs[:, 0]), np.searchsorted(space.right, pairs[:, 1])
        p = names["scores"](left, right)[at]
        assert p == pytest.approx(model.scorer.probability(scores), abs=1e-4)
    # As a run that is opened again has it, and evaluates.
    assert loaded.folder.model(2).scorer == model.scorer
    record = json.loads((last / "record.json").read_text())
    found = al_ray.evaluate(loaded, "dev", cluster=CPUS)
    assert found.average_precision.as_dict() == record["evaluations"]["dev"]["average_precision"]


def test_a_loaded_model_gives_cosines_and_says_that_scores_need_all_texts(finished):
    model = al_ray.load_model(finished, round="last")
    assert model.cosines(["a b"], ["a b"]).tolist() == [1.0]
    with pytest.raises(
        BadOption, match=r"`RunConfig\.scoring\.neighbourhood_sides='both'`\), and its scores need the nearest"
    ):
        model.score(["a"], ["b"], ["b", "c"])


def test_a_finished_run_is_evaluated_with_other_sides(finished, call):
    two = not read_task(Path(al_ray.load_run(finished).config.task)).symmetric
    code, printed = call(evaluate_job, f"--run {finished} --neighbourhood 0.25 --neighbourhood-sides left --shards 1")
    assert (code, (finished / "evaluation-dev-neighbourhood-0.25-left-exact.json").exists()) == (0 if two else 2, two)
    assert two or "give jobs.run --scoring.neighbourhood-sides both" in printed
    code, printed = call(evaluate_job, f"--run {finished} --neighbourhood 0 --shards 1")
    assert code == 0, printed
    code, printed = call(evaluate_job, f"--run {finished} --neighbourhood 0.25 --shards 1")
    assert code == 0, printed
    # By default the sides are those of the run.
    sides = al_ray.load_run(finished).with_neighbourhood(0.25).config.scoring
    assert sides == ScoringConfig(0.25, "both")
    for line in ("--neighbourhood-sides both", "--neighbourhood 0 --neighbourhood-sides both"):
        code, printed = call(evaluate_job, f"--run {finished} {line}")
        assert (code, "--neighbourhood-sides goes with --neighbourhood A" in printed) == (2, True), printed


def test_sides_without_a_number_and_an_index_by_cells_are_refused():
    with pytest.raises(BadOption, match=r"`scoring\.neighbourhood_sides='both'` is about a neighbourhood"):
        ScoringConfig("off", "both")
    assert ScoringConfig("auto", "both").weight is None
    with pytest.raises(BadOption, match=r"`search\.index='IVF4,Flat'` finds the nearest by cosine alone"):
        RunConfig(task="t", scoring=ScoringConfig(0.5, "both"), search=SearchConfig(index="IVF4,Flat"))


@pytest.mark.slow
def test_auto_chooses_a_number_for_both_sides_of_one_set_of_texts(in_process, make_task, tmp_path):
    write_task(make_task(True), tmp_path / "task", {})
    asked = RunConfig(
        task=str(tmp_path / "task"), rounds=1, first_batch=150, encoder="random-bert", encoder_layers=1, max_length=24,
        encoder_batch=8, threads=1, search=SearchConfig(neighbours=5), scoring=ScoringConfig("auto", "both"),
        training=TrainingConfig(epochs=1, batch=8, learning_rate=1e-3, worst_loss=100.0),
    )  # fmt: skip
    found = run(asked, CPUS, tmp_path / "run")
    scorer = found.model(1).scorer
    assert scorer is not None
    assert json.loads((found.round(1) / "neighbourhood.json").read_text())["log_likelihoods"]
    assert scorer.both_sides == (scorer.neighbourhood > 0)
