"""jobs.evaluate: scores made elsewhere by hand-worked values, rounds of a run on a real Ray, and what is refused."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from al_ray.core.config import ClusterConfig, EvaluationConfig, RunConfig, SearchConfig, TrainingConfig
from al_ray.core.errors import AlRayError, BadFile, BadOption
from al_ray.data.files import write_json
from al_ray.data.tables import write_task
from jobs.evaluate import Options, of_run, of_scores
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
    return run(config, ClusterConfig(timeout=120), root / "run").path


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


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"round": 2}, "complete rounds 1 to 1"), ({"round": -1}, "complete rounds"), ({"exact": True}, "exclude")],
)
def test_what_cannot_be_measured_of_a_run_is_refused(trained, changes, words):
    with pytest.raises(BadOption, match=words):
        of_run(Options(run=trained, estimate="exact" in changes, **changes), trained)
