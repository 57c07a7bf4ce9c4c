"""jobs.evaluate: scores made elsewhere by hand-worked values, rounds of a run on a real Ray, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from al_ray.core.config import ClusterConfig, EvaluationConfig, RunConfig, SearchConfig, TrainingConfig
from al_ray.core.errors import AlRayError, BadFile, BadOption
from al_ray.data.evaluation_sets import EvaluationSets
from al_ray.data.files import write_json
from al_ray.data.run_folder import bound_config
from al_ray.data.tables import read_task, write_task
from jobs.evaluate import Options, of_run, of_scores
from jobs.prepare_evaluation import Evaluation, prepare_evaluation
from jobs.run import run


def scores_file(path: Path, rows: list[tuple[float, str]]) -> Path:
    scores, strata = zip(*rows, strict=True)
    pq.write_table(pa.table({"score": list(scores), "stratum": list(strata)}), path)
    return path


ROWS = [(0.9, "positive"), (0.5, "positive"), (0.7, "near"), (0.5, "random"), (0.1, "random")]


def test_scores_made_elsewhere_have_the_average_precision_worked_by_hand(tmp_path):
    # 2 positives and 1 near of 103 pairs: the 2 random pairs stand for 100, 50 each.
    # At 0.9: precision 1/1, recall 1/2. At 0.5: 2 positives, 1 near and 50 by the random pair that ties: 2/53.
    made, out = of_scores(Options(scores=scores_file(tmp_path / "s.parquet", ROWS), total_pairs=103))
    assert made.average_precision.value == pytest.approx((1 + 2 / 53) / 2)
    assert made.precision_at_recall_20.value == 1.0
    assert (made.total_pairs, made.exact, out) == (103, False, None)


@pytest.mark.parametrize(
    ("rows", "total", "words"),
    [
        (ROWS, None, "--total-pairs"),
        (ROWS, 4, "less than the pairs"),
        ([(0.9, "positive"), (0.5, "far")], 10, "far is none of positive, near, random"),
        ([(0.9, "positive"), (float("nan"), "random")], 10, "row 1 has no score"),
        ([(0.9, "near"), (0.1, "random")], 10, "no positive pair"),
        ([(0.9, "positive"), (0.1, "near")], 10, "sample at least one"),
    ],
)
def test_scores_that_cannot_be_measured_are_refused_in_words(tmp_path, rows, total, words):
    with pytest.raises(AlRayError, match=words):
        of_scores(Options(scores=scores_file(tmp_path / "s.parquet", rows), total_pairs=total))


def test_a_scores_file_without_its_columns_is_refused(tmp_path):
    pq.write_table(pa.table({"score": [0.5]}), tmp_path / "s.parquet")
    with pytest.raises(BadFile, match="no column 'stratum'"):
        of_scores(Options(scores=tmp_path / "s.parquet", total_pairs=9))


def test_an_evaluation_makes_its_folder_and_refuses_a_file_in_its_place(tmp_path):
    write_json(tmp_path / "round-000" / "made.json", {"a": 1})
    assert json.loads((tmp_path / "round-000" / "made.json").read_text()) == {"a": 1}
    with pytest.raises(BadFile, match="cannot be written"):
        write_json(tmp_path / "round-000" / "made.json" / "below.json", {})


@pytest.fixture(scope="module")
def trained(local_ray, make_task, tmp_path_factory) -> Path:
    """A run of one round."""
    root = tmp_path_factory.mktemp("evaluate")
    write_task(make_task(True), root / "task", {})
    config = RunConfig(
        task=str(root / "task"),
        rounds=1,
        first_batch=16,
        encoder="random-bert",
        encoder_layers=1,
        max_length=24,
        threads=1,
        search=SearchConfig(neighbours=5),
        training=TrainingConfig(epochs=1, batch=8, worst_loss=100.0),
        evaluation=EvaluationConfig(splits=("dev",), near_neighbours=2, random_pairs=20),
    )
    run(config, ClusterConfig(timeout=120), root / "run")
    return root / "run"


def test_rounds_are_measured_again_as_the_run_measured_them(trained):
    made, out = of_run(Options(run=trained, exact=True), trained)
    line = json.loads((trained / "metrics.jsonl").read_text())
    assert made.average_precision.value == line["average_precision"]
    assert (made.exact, out) == (True, trained / "evaluation-dev-exact.json")
    untrained, out = of_run(Options(run=trained, round=0, split="train"), trained)
    assert untrained.calibration_error is None
    assert out == trained / "round-000" / "evaluation-train-exact.json"


def test_an_estimate_says_what_it_stands_on(trained):
    exact, _ = of_run(Options(run=trained, exact=True), trained)
    estimate, out = of_run(Options(run=trained, estimate=True), trained)
    assert out == trained / "evaluation-dev.json"
    near, random = estimate.strata
    # The near negatives are all there; 20 random pairs stand for the rest.
    assert (near.name, near.weight, random.name, random.size) == ("near", 1.0, "random", 20)
    assert near.population + random.population == exact.strata[0].population
    assert (estimate.positives, estimate.total_pairs) == (exact.positives, exact.total_pairs)
    number = estimate.average_precision
    assert number.low <= number.value <= number.high


def test_an_evaluation_set_is_made_once_and_the_same_figures_come_of_any_number_of_shards(trained):
    def measured(shards: int):
        return of_run(Options(run=trained, estimate=True, cluster=ClusterConfig(shards=shards)), trained)[0].as_dict()

    once = measured(1)
    assert measured(2) == once
    (kept,) = (trained / "evaluation").iterdir()
    (kept / "0-near.parquet").write_bytes(b"")
    with pytest.raises(BadFile, match=r"0-near\.parquet cannot be read"):
        of_run(Options(run=trained, estimate=True), trained)
    for file in kept.iterdir():
        file.unlink()
    assert measured(1) == once


def test_sets_prepared_for_a_task_are_those_that_its_runs_take(trained, capsys):
    config = bound_config(trained)
    task = Path(config.task)
    asked = Evaluation(
        task=task, encoder=config.encoder, encoder_layers=1, max_length=24, threads=1, search=config.search,
        evaluation=replace(config.evaluation, bands=(0.9, 0.5), near_pairs=10),
    )  # fmt: skip
    prepare_evaluation(asked)
    told = capsys.readouterr().out
    assert "near from 0.9" in told
    assert "near below 0.5" in told
    kept = EvaluationSets([task])
    (folder,) = (path for path in (task / "evaluation").iterdir() if path.name.startswith("dev-"))
    about = json.loads((folder / "set.json").read_text())
    found = kept.read(read_task(task).split("dev"), about["made_from"])
    assert found is not None
    assert [(s.name, s.size <= 10, s.population) for s in found.strata][:3] == [
        (s["name"], True, s["population"]) for s in about["strata"]
    ][:3]
    (folder / "set.json").write_text(json.dumps({**about, "made_from": {}}))
    with pytest.raises(BadFile, match="was not written for this split"):
        kept.read(read_task(task).split("dev"), about["made_from"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"round": 2}, "complete rounds 1 to 1"), ({"round": -1}, "complete rounds"), ({"exact": True}, "exclude")],
)
def test_what_cannot_be_measured_of_a_run_is_refused(trained, changes, words):
    with pytest.raises(BadOption, match=words):
        of_run(Options(run=trained, estimate="exact" in changes, **changes), trained)
