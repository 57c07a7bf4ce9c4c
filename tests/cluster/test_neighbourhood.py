"""A run that ranks by scores which compare across left texts, from its first batch to the model that users load."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import al_ray
from al_ray.active_learning.config import RunConfig
from al_ray.cli import evaluate as evaluate_job
from al_ray.cli import labels as labels_job
from al_ray.cluster.pool import score_fit
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import ScoringConfig, SearchConfig, TrainingConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.scorer import refit
from al_ray.core.task import strings_at
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.metrics.neighbourhood_choice import Choice, choose
from al_ray.runs.error_examples import read_examples
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.pair_cosines import FIT, read_cosines, read_fitted
from tests.guides import block
from tests.running import run

CPUS = ClusterConfig(timeout=600)


@pytest.fixture(scope="module")
def asked(make_task, tmp_path_factory) -> RunConfig:
    folder = tmp_path_factory.mktemp("task") / "task"
    write_task(make_task(False), folder, {})
    return RunConfig(
        task=str(folder), rounds=2, first_batch=16, encoder="random-bert", encoder_layers=1, max_length=24,
        encoder_batch=8, threads=1, search=SearchConfig(neighbours=5, block=16), scoring=ScoringConfig(0.5),
        training=TrainingConfig(epochs=1, batch=8, learning_rate=1e-3, worst_loss=100.0),
    )  # fmt: skip


@pytest.fixture(scope="module")
def finished(in_process, asked, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("run") / "run"
    run(asked, replace(CPUS, shards=2), out)
    return out


def collection(asked: RunConfig, split: str) -> list[str]:
    task = read_task(Path(asked.task))
    return strings_at(task.right.texts, task.split(split).space.right)


def test_the_scorer_is_fitted_to_scores_that_a_loaded_model_computes_again(finished, asked):
    model, texts = al_ray.load_model(finished, round="last"), collection(asked, "train")
    assert model.scorer.neighbourhood == 0.5
    last = finished / "round-002"
    pairs, cosines = read_cosines(last / FIT)
    fitted, scores = read_fitted(last)
    assert fitted.tolist() == pairs.tolist()
    task = read_task(Path(asked.task))
    left, right = strings_at(task.left.texts, pairs[:, 0]), strings_at(task.right.texts, pairs[:, 1])
    every = model.encode(texts, "right").astype(np.float64) @ model.encode(left).astype(np.float64).T
    means = np.sort(every, axis=0)[-5:].mean(axis=0)
    assert scores == pytest.approx(cosines - 0.5 * means, abs=1e-6)
    assert model.score(left, right, texts) == pytest.approx(model.scorer.probability(scores), abs=1e-4)
    assert model.score(left, right, model.encode(texts, "right")).tolist() == model.score(left, right, texts).tolist()
    labels = json.loads((last / "record.json").read_text())
    again = refit(scores, al_ray.load_run(finished).labelled().labels)
    assert (again.weight, again.bias) == (labels["model"]["weight"], labels["model"]["bias"])
    assert (model.scorer.weight, model.scorer.bias) == (again.weight, again.bias)


# Short code for readers leaves the file to the interpreter.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_the_recipe_of_the_docs_scores_as_a_loaded_model(finished, asked):
    names: dict[str, Any] = {"json": json, "np": np, "FOLDER": max(finished.glob("round-*")) / "model"}
    exec(block("docs/export.md", "## Scores", "scorer ="), names)
    model, texts = al_ray.load_model(finished, round="last"), collection(asked, "train")
    found = names["scores"](model.encode(texts[:3]), model.encode(texts, "right"))
    for number, row in enumerate(found):
        assert row == pytest.approx(model.score([texts[number]] * len(texts), texts, texts))


def test_a_loaded_model_asks_for_the_collection_that_its_scores_need(finished, letters, tmp_path):
    with pytest.raises(BadOption, match=r"neighbourhood of 0\.5: give score\(\) as collection all right texts"):
        al_ray.load_model(finished, round="last").score(["a"], ["b"])


@pytest.mark.slow
def test_labels_and_models_do_not_depend_on_shards_and_stops(finished, asked, tmp_path):
    out = tmp_path / "run"
    run(replace(asked, rounds=1), CPUS, out)
    # As if the process had ended between the training, which wrote w and b of the cosines, and the fit to scores.
    (out / "state.json").unlink()
    (out / "metrics.jsonl").unlink()
    (out / "round-001" / "scores.parquet").unlink()
    scorer = out / "round-001" / "model" / "scorer.json"
    scorer.write_text(json.dumps({**json.loads(scorer.read_text()), "weight": 1.0, "bias": 0.0, "neighbourhood": 0.0}))
    run(asked, CPUS, out)
    for number in (1, 2):
        one, other = (folder / f"round-{number:03d}" for folder in (finished, out))
        for name in ("batch.parquet", "scores.parquet", "model/scorer.json"):
            assert (one / name).read_bytes() == (other / name).read_bytes(), name
        records = [json.loads((folder / "record.json").read_text()) for folder in (one, other)]
        of_dev = [record["evaluations"]["dev"] for record in records]
        # The calibration error is from products in float32, whose last bits differ.
        assert of_dev[0]["average_precision"] == of_dev[1]["average_precision"]
        assert of_dev[0]["calibration_error"] == pytest.approx(of_dev[1]["calibration_error"], rel=1e-4)


def test_examples_and_evaluations_are_by_score(finished, asked):
    found = al_ray.evaluate(al_ray.load_run(finished), "dev", cluster=CPUS)
    record = json.loads((finished / "round-002" / "record.json").read_text())
    assert found.average_precision.as_dict() == record["evaluations"]["dev"]["average_precision"]
    rows, texts = read_examples(finished / "round-002"), collection(asked, "dev")
    left, right = ([row[name] for row in rows] for name in ("left_text", "right_text"))
    p = al_ray.load_model(finished, round="last").score(left, right, texts)
    assert [row["p"] for row in rows] == pytest.approx(p.tolist(), abs=1e-4)


@pytest.mark.slow
def test_a_finished_run_is_evaluated_with_other_scores_as_a_run_with_them(finished, asked, tmp_path, make_task):
    out, loaded = tmp_path / "cosines", al_ray.load_run(finished)
    # The same labels, so that the weights are the same.
    run(replace(asked, scoring=ScoringConfig("off"), rounds=1), CPUS, out)
    first = al_ray.load_run(out)
    one, other = (al_ray.evaluate(of, "dev", round=1, cluster=CPUS) for of in (first.with_neighbourhood(0.5), loaded))
    assert one.average_precision == other.average_precision
    assert one.calibration_error == pytest.approx(other.calibration_error, rel=1e-4)
    plain = al_ray.evaluate(loaded.with_neighbourhood(0), "dev", round=1, cluster=CPUS)
    assert plain.average_precision == al_ray.evaluate(first, "dev", cluster=CPUS).average_precision
    change = al_ray.compare(first.with_neighbourhood(0.5), first, "dev", cluster=CPUS)
    assert change.difference == one.average_precision.value - plain.average_precision.value != 0
    assert al_ray.load_model(out, round="last").scorer.neighbourhood == 0.0
    with pytest.raises(BadOption, match="round 0 is the untrained encoder"):
        al_ray.evaluate(first.with_neighbourhood(0.5), "dev", round=0)
    with pytest.raises(BadOption, match=r"`scoring\.neighbourhood` is 1\.5; give at most 1"):
        first.with_neighbourhood(1.5)


def neighbourhoods(folder: RunFolder) -> list[float]:
    """Of the models of rounds 1 and 2."""
    scorers = [folder.model(number).scorer for number in (1, 2)]
    return [scorer.neighbourhood for scorer in scorers if scorer is not None]


@pytest.mark.slow
def test_auto_chooses_by_all_batches_so_far(in_process, asked, tmp_path):
    auto = replace(asked, scoring=ScoringConfig("auto"), first_batch=150)
    one, two = (run(auto, replace(CPUS, shards=shards), tmp_path / str(shards)) for shards in (1, 2))
    kept = [json.loads((one.round(number) / "neighbourhood.json").read_text()) for number in (1, 2)]
    batches = [np.array(of_round["log_likelihoods"]) for of_round in kept]
    assert [of_round["batches"] for of_round in kept] == [1, 2]
    assert all(batch.any() for batch in batches)
    choices = [choose(batches[:count], both_sides=False) for count in (1, 2)]
    assert [Choice(*(of_round[name] for name in ("neighbourhood", "low", "high"))) for of_round in kept] == choices
    assert neighbourhoods(one) == neighbourhoods(two) == [choice.neighbourhood for choice in choices]
    # A round that is trained again counts its batch once; what an earlier al_ray kept of another says nothing.
    folder = tmp_path / "1"
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**state, "round": 1}))
    (folder / "round-001" / "neighbourhood.json").write_text(json.dumps({"made_from": "", "choices": []}))
    again = neighbourhoods(run(auto, CPUS, folder))
    assert again == [choices[0].neighbourhood, choose(batches[1:], both_sides=False).neighbourhood]


@pytest.mark.slow
def test_what_auto_chose_is_fitted_and_another_choice_after_a_stop_replaces_it(
    in_process, asked, tmp_path, monkeypatch
):
    auto, folder = replace(asked, scoring=ScoringConfig("auto")), tmp_path / "run"
    monkeypatch.setattr(score_fit, "choose", lambda *_: Choice(0.75, 0.5, 1.0))
    ended = run(auto, CPUS, folder)
    assert neighbourhoods(ended) == [0.75, 0.75]
    scores = read_fitted(ended.round(2))[1]
    cosines = read_cosines(ended.round(2) / FIT)[1]
    assert (scores < cosines).any()
    # The process ended before the round did, and a label was corrected meanwhile: now nothing is sure.
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**state, "round": 1}))
    monkeypatch.setattr(score_fit, "choose", lambda *_: Choice(0.0, 0.0, 0.5))
    monkeypatch.setattr(score_fit, "log_likelihoods", lambda *_: pytest.fail("what the batch says was found again"))
    assert neighbourhoods(run(auto, CPUS, folder)) == [0.75, 0.0]
    assert read_fitted(ended.round(2))[1].tolist() == cosines.tolist()
    assert al_ray.load_model(folder, round="last").scorer == replace(
        refit(cosines, read_labels(folder)), neighbourhood=0.0
    )


def read_labels(folder: Path) -> Any:
    return al_ray.load_run(folder).labelled().labels


def test_corrected_labels_are_those_of_another_evaluation(finished, asked, tmp_path, call):
    out = tmp_path / "run"
    run(replace(asked, scoring=ScoringConfig("off"), rounds=1), CPUS, out)
    labelled = al_ray.load_run(out).labelled()
    task = read_task(Path(asked.task))
    left, right = (side.ids[row] for side, row in zip((task.left, task.right), labelled.pairs[0], strict=True))
    code, _ = call(labels_job, f"correct --run {out} --left-id {left} --right-id {right} --label unsure")
    assert code == 0
    changed = al_ray.evaluate(al_ray.load_run(out).with_neighbourhood(0.5), "dev", cluster=CPUS)
    assert 0 < changed.average_precision.value <= 1
    (out / "round-001" / "fit.parquet").unlink()
    with pytest.raises(BadFile, match=r"fit\.parquet is missing, and no other scores can be fitted without it"):
        al_ray.evaluate(al_ray.load_run(out).with_neighbourhood(0.5), "dev", cluster=CPUS)


def test_the_command_writes_beside_the_files_of_the_runs_own_scores(finished, call, make_task, tmp_path):
    code, printed = call(evaluate_job, f"--run {finished} --neighbourhood 0.25 --shards 1")
    assert code == 0, printed
    assert (finished / "evaluation-dev-neighbourhood-0.25-exact.json").exists()
    assert (finished / "reliability-dev-neighbourhood-0.25.svg").exists()
    assert not (finished / "reliability-dev.svg").exists()
    for line, said in (
        (f"--run {finished} --neighbourhood 0.25 --round 0", "--neighbourhood goes with a trained round; leave"),
        (f"--run {finished} --neighbourhood 0.25 --heuristic", "--neighbourhood goes with --run, and not with"),
        (f"--run {finished} --neighbourhood 2", "--neighbourhood is 2.0; give at most 1"),
    ):
        code, printed = call(evaluate_job, line)
        assert (code, said in printed) == (2, True), printed


@pytest.mark.slow
def test_auto_is_off_for_one_set_of_texts(in_process, asked, make_task, tmp_path):
    write_task(make_task(True), tmp_path / "task", {})
    symmetric = replace(asked, task=str(tmp_path / "task"), scoring=ScoringConfig("auto"), rounds=1)
    scorer = run(symmetric, CPUS, tmp_path / "run").model(1).scorer
    assert scorer is not None
    assert scorer.neighbourhood == 0.0
    assert not (tmp_path / "run" / "round-001" / "neighbourhood.json").exists()
