"""jobs.evaluate: scores made elsewhere by hand-worked values, rounds of a run on a real Ray, and what is refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import accuracy_score, average_precision_score, f1_score

import al_ray
from al_ray.active_learning.config import RunConfig
from al_ray.cli._evaluate.options import EvaluateCommand
from al_ray.cli._evaluate.pipeline import compare_runs, evaluate_run, run_command
from al_ray.cli._evaluate.printout import print_difference
from al_ray.cli._evaluate.scores import run_command as evaluate_scores
from al_ray.cli._shared.entry import parse_options
from al_ray.cli.evaluate import main
from al_ray.cli.prepare import Evaluation, prepare_evaluation
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import EvaluationConfig, SearchConfig, TrainingConfig
from al_ray.core.errors import AlRayError, BadFile, BadOption
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.encoders.transformer import Encoder
from al_ray.runs.evaluation_sets import EvaluationSets
from al_ray.runs.run_folder import RunFolder, bound_config
from al_ray.storage.files import write_json
from al_ray.training.saved_model import read_model
from tests.running import run


def scores_file(path: Path, rows: list[tuple[float, str]]) -> Path:
    scores, strata = zip(*rows, strict=True)
    pq.write_table(pa.table({"score": list(scores), "stratum": list(strata)}), path)
    return path


ROWS = [(0.9, "positive"), (0.5, "positive"), (0.7, "near"), (0.5, "random"), (0.1, "random")]


def test_scores_made_elsewhere_have_the_average_precision_worked_by_hand(tmp_path):
    # 2 positives and 1 near of 103 pairs: the 2 random pairs stand for 100, 50 each.
    # At 0.9: precision 1/1, recall 1/2. At 0.5: 2 positives, 1 near and 50 by the random pair that ties: 2/53.
    evaluation = al_ray.evaluate_scores(scores_file(tmp_path / "s.parquet", ROWS), 103)
    assert evaluation.average_precision.value == pytest.approx((1 + 2 / 53) / 2)
    assert evaluation.precision_at_recall_20.value == 1.0
    # No random pair reaches 0.9. 3.69 * 50 might have been missed, of which no more than the 98 not sampled exist.
    assert evaluation.precision_at_recall_20.low == pytest.approx(1 / (1 + 98))
    content = evaluation.as_dict()
    assert content["sampled_pairs_behind"] == {"average_precision": 1.0, "precision_at_recall_20": 0.0}
    assert [words.partition(" sampled pair")[0] for words in content["warnings"]] == [
        "AP is carried by 1.0",
        "P@R20 is carried by 0.0",
        "96% of AP comes from thresholds that no",
    ]
    assert content["average_precision_over_questions"] is None
    assert (evaluation.total_pairs, evaluation.exact) == (103, False)


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
        evaluate_scores(EvaluateCommand(scores=scores_file(tmp_path / "s.parquet", rows), total_pairs=total))


def test_a_scores_file_without_its_columns_is_refused(tmp_path):
    pq.write_table(pa.table({"score": [0.5]}), tmp_path / "s.parquet")
    with pytest.raises(BadFile, match="no column 'stratum'"):
        evaluate_scores(EvaluateCommand(scores=tmp_path / "s.parquet", total_pairs=9))


def test_an_evaluation_makes_its_folder_and_refuses_a_file_in_its_place(tmp_path):
    write_json(tmp_path / "round-000" / "made.json", {"a": 1})
    assert json.loads((tmp_path / "round-000" / "made.json").read_text()) == {"a": 1}
    with pytest.raises(BadFile, match="cannot be written"):
        write_json(tmp_path / "round-000" / "made.json" / "below.json", {})


@pytest.fixture(scope="module")
def trained(in_process, make_task, tmp_path_factory) -> Path:
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
    run(config, ClusterConfig(timeout=600), root / "run")
    return root / "run"


def test_rounds_are_measured_again_as_the_run_measured_them(trained):
    evaluation, out = evaluate_run(EvaluateCommand(run=trained, exact=True), trained)
    line = json.loads((trained / "metrics.jsonl").read_text())
    assert evaluation.average_precision.value == line["average_precision"]
    assert (evaluation.exact, out) == (True, trained / "evaluation-dev-exact.json")
    untrained, out = evaluate_run(EvaluateCommand(run=trained, round=0, split="train"), trained)
    assert untrained.calibration_error is None
    assert out == trained / "round-000" / "evaluation-train-exact.json"


def test_an_estimate_says_what_it_stands_on(trained):
    exact, _ = evaluate_run(EvaluateCommand(run=trained, exact=True), trained)
    estimate, out = evaluate_run(EvaluateCommand(run=trained, estimate=True), trained)
    assert out == trained / "evaluation-dev.json"
    near, random = estimate.strata
    # The near negatives are all there; 20 random pairs stand for the rest.
    assert (near.name, near.weight, random.name, random.size) == ("near", 1.0, "random", 20)
    assert near.population + random.population == exact.strata[0].population
    assert (estimate.positives, estimate.total_pairs) == (exact.positives, exact.total_pairs)
    number = estimate.average_precision
    assert number.low <= number.value <= number.high


def test_an_evaluation_set_is_made_once_and_the_same_figures_come_of_any_number_of_shards(either_way, trained):
    def measured(shards: int):
        return evaluate_run(EvaluateCommand(run=trained, estimate=True, cluster=ClusterConfig(shards=shards)), trained)[
            0
        ].as_dict()

    once = measured(1)
    assert measured(2) == once
    (stored,) = (trained / "evaluation").iterdir()
    (stored / "0-near.parquet").write_bytes(b"")
    with pytest.raises(BadFile, match=r"0-near\.parquet cannot be read"):
        evaluate_run(EvaluateCommand(run=trained, estimate=True), trained)
    for file in stored.iterdir():
        file.unlink()
    assert measured(1) == once


def test_an_estimate_whose_sample_has_every_pair_is_said_to_count_them(trained, tmp_path, capsys):
    words = "--estimate: its sample has every pair"
    run_command(EvaluateCommand(run=trained, estimate=True, random_pairs=10_000, out=tmp_path / "all.json"))
    assert words in capsys.readouterr().out
    run_command(EvaluateCommand(run=trained, estimate=True, out=tmp_path / "some.json"))
    assert words not in capsys.readouterr().out


def test_sets_prepared_for_a_task_are_those_that_its_runs_take(trained, capsys):
    config = bound_config(trained)
    task = Path(config.task)
    evaluation_options = Evaluation(
        task=task, encoder=config.encoder, encoder_layers=1, max_length=24, threads=1, search=config.search,
        evaluation=replace(config.evaluation, bands=(0.9, 0.5), near_pairs=10),
    )  # fmt: skip
    prepare_evaluation(evaluation_options)
    printed = capsys.readouterr().out
    assert "near from 0.9" in printed
    assert "near below 0.5" in printed
    stored = EvaluationSets([task])
    (folder,) = (task / "evaluation").glob("dev-*")
    about = json.loads((folder / "set.json").read_text())
    result = stored.read(read_task(task).split("dev"), about["made_from"])
    assert result is not None
    assert [(s.name, s.size <= 10, s.population) for s in result.strata][:3] == [
        (s["name"], True, s["population"]) for s in about["strata"]
    ][:3]
    # Other vectors, other neighbours: rounded ones have a set of their own.
    prepare_evaluation(replace(evaluation_options, vectors="fp16"))
    assert len(list((task / "evaluation").glob("dev-*"))) == 2
    (folder / "set.json").write_text(json.dumps({**about, "made_from": {}}))
    with pytest.raises(BadFile, match="was not made from the values in the hash"):
        stored.read(read_task(task).split("dev"), about["made_from"])


def test_two_runs_are_compared_on_the_same_pairs(trained, tmp_path, capsys):
    # The other run: the same folder under another name and seed, so that it would draw another evaluation set.
    other = tmp_path / "other"
    shutil.copytree(trained, other)
    config = json.loads((other / "config.json").read_text())
    write_json(other / "config.json", {**config, "seed": 5})
    result, out = compare_runs(EvaluateCommand(run=trained, split="train", estimate=True), trained, other)
    assert out == trained / "evaluation-train-against-other.json"
    assert (result.difference, result.exact) == (0, False)
    for interval in (result.over_samples, result.over_queries):
        assert interval is not None
        assert (interval.low, interval.high) == (0, 0)
    write_json(other / "config.json", {**config, "encoder_layers": 2})
    shutil.rmtree(other / "pool", ignore_errors=True)
    result, _ = compare_runs(EvaluateCommand(run=trained, split="train", round=0), trained, other)
    assert result.exact
    assert result.difference != 0
    assert result.over_samples.low == result.over_samples.high == result.difference
    assert result.over_queries is not None
    assert result.over_queries.low < result.difference < result.over_queries.high
    assert set(result.as_dict()["average_precision_difference_over_questions"]) == {"value", "low", "high"}
    print_difference(result, "one by the cosine", "other")
    said = f"train: AP of one by the cosine less AP of other: {100 * result.difference:+.2f} points"
    assert capsys.readouterr().out.splitlines()[0] == said


def test_runs_of_different_tasks_are_not_compared(trained, make_task, tmp_path):
    other = make_task(False)
    write_task(other, tmp_path / "task", {})
    shutil.copytree(trained, tmp_path / "other")
    config = json.loads((tmp_path / "other" / "config.json").read_text())
    config |= {"task": str(tmp_path / "task"), "task_digest": other.digest}
    write_json(tmp_path / "other" / "config.json", config)
    with pytest.raises(BadOption, match="runs of different tasks"):
        compare_runs(EvaluateCommand(run=trained), trained, tmp_path / "other")


def test_the_last_round_has_a_name(trained):
    options = parse_options(
        EvaluateCommand, "evaluate", "", ["--run", str(trained), "--split", "train", "--round", "last"]
    )
    evaluation, out = evaluate_run(options, trained)
    by_number, there = evaluate_run(replace(options, round=1), trained)
    assert (evaluation.as_dict(), out) == (by_number.as_dict(), there)
    assert out.parent.name == "round-001"


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"round": 2}, "complete rounds 1 to 1"), ({"round": -1}, "complete rounds"), ({"exact": True}, "exclude")],
)
def test_what_cannot_be_measured_of_a_run_is_refused(trained, changes, words):
    with pytest.raises(BadOption, match=words):
        evaluate_run(EvaluateCommand(run=trained, estimate="exact" in changes, **changes), trained)


def cosines_of(model: Encoder, task: Task, pairs: list[list[int]]) -> np.ndarray:
    """Each pair's cosine, text by text."""

    def vector(text: str) -> np.ndarray:
        tokens = model.tokenise([text])
        return model.embed(tokens, np.array([0]))[0].astype(np.float64)

    return np.array([vector(task.left.texts[a]) @ vector(task.right.texts[b]) for a, b in pairs])


def test_stated_pairs_of_a_symmetric_task_have_the_accuracy_and_f1_of_their_logits(trained, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["evaluate", "--run", str(trained), "--split", "train", "--heuristic"])
    main()
    result = json.loads((trained / "heuristic-train.json").read_text())
    folder = RunFolder(trained, read_task(trained.parent / "task"))
    model = folder.model(1)
    assert model.scorer is not None
    encoder = Encoder.saved(model.path, bound_config(trained).encoding)
    scored = {}
    for split in (folder.task.split("train"), folder.task.split("dev")):
        logits = model.scorer.logit(cosines_of(encoder, folder.task, [*split.positives, *split.stated_negatives]))
        scored[split.name] = logits, np.repeat([1, 0], [len(split.positives), len(split.stated_negatives)])
    logits, labels = scored["train"]
    assert (result["split"], result["round"], result["pairs"]) == ("train", 1, len(labels))
    assert result["accuracy"] == pytest.approx(accuracy_score(labels, logits >= 0))
    assert result["f1"] == pytest.approx(f1_score(labels, logits >= 0))
    # The best threshold is dev's, wherever it is used.
    logits, labels = scored["dev"]
    best = max(accuracy_score(labels, logits >= threshold) for threshold in [*logits, np.inf])
    calls = scored["train"][0] >= result["f1_threshold"] - 1e-4
    assert result["thresholds_chosen_on"] == "dev"
    assert result["f1_best"] == pytest.approx(f1_score(scored["train"][1], calls))
    main_on_dev = ["evaluate", "--run", str(trained), "--heuristic", "--out", str(trained / "dev.json")]
    monkeypatch.setattr("sys.argv", main_on_dev)
    main()
    assert json.loads((trained / "dev.json").read_text())["accuracy_best"] == pytest.approx(best)
    assert "accuracy_best" in capsys.readouterr().out


def test_candidates_of_questions_have_the_map_of_the_untrained_cosines_and_no_call_at_a_half(
    in_process, make_task, tmp_path, monkeypatch
):
    task = make_task(False)
    write_task(task, tmp_path / "task", {})
    config = RunConfig(task=str(tmp_path / "task"), encoder="random-bert", encoder_layers=1, max_length=24, threads=1)
    RunFolder(tmp_path / "run", task).bind(config)
    monkeypatch.setattr("sys.argv", ["evaluate", "--run", str(tmp_path / "run"), "--heuristic"])
    main()
    result = json.loads((tmp_path / "run" / "heuristic-dev.json").read_text())
    dev = task.split("dev")
    assert len(dev.stated_negatives)
    pairs = [*dev.positives.tolist(), *dev.stated_negatives.tolist()]
    cosines = cosines_of(Encoder.base(config.encoding), task, pairs)
    labels = np.repeat([1, 0], [len(dev.positives), len(dev.stated_negatives)])
    precisions = []
    for question in {left for left, _ in pairs}:
        own = np.array([left == question for left, _ in pairs])
        if set(labels[own].tolist()) == {0, 1}:
            precisions.append(average_precision_score(labels[own], cosines[own]))
    assert result["clean_queries"] == len(precisions)
    assert result["clean_map"] == pytest.approx(np.mean(precisions))
    assert result["a_f1"] is None
    assert 0 < result["a_f1_best"] <= 1
    assert (result["queries"], result["positives"]) == (len({left for left, _ in pairs}), len(dev.positives))


def test_logits_made_elsewhere_have_the_heuristic_figures_worked_by_hand(tmp_path, monkeypatch):
    # Question a: positives at ranks 1 and 3; b: at rank 2; c has none. MAP (5/6 + 1/2) / 2, MRR (1 + 1/2) / 2.
    # Tops: a 0.9 right, b 2.0 wrong, c 0.3 wrong. At 0 one of three answers is right, two questions have one: 2 / 5.
    # No threshold is better: at 2.0 one wrong answer, at 0.9 one right of two: 2 / (2 + 2) = 1/2, which is.
    rows = [("a", 0.9, 1), ("a", 0.5, 0), ("a", 0.1, 1), ("b", 2, 0), ("b", 1, 1), ("c", 0.3, 0)]
    query, score, label = zip(*rows, strict=True)
    path = tmp_path / "h.parquet"
    pq.write_table(pa.table({"score": [float(s) for s in score], "query": list(query), "label": list(label)}), path)
    out = tmp_path / "made.json"
    monkeypatch.setattr("sys.argv", ["evaluate", "--scores", str(path), "--heuristic", "--out", str(out)])
    main()
    result = json.loads(out.read_text())
    assert result["clean_map"] == pytest.approx((5 / 6 + 1 / 2) / 2)
    assert result["clean_mrr"] == pytest.approx(3 / 4)
    assert result["a_f1"] == pytest.approx(2 / 5)
    assert (result["a_f1_best"], result["a_f1_threshold"]) == (pytest.approx(1 / 2), 0.9)
    assert result["thresholds_chosen_on"] == "h.parquet"


def test_thresholds_are_chosen_on_dev_and_kept_with_the_model_whose_weights_stay(
    drawn, trained, tmp_path, monkeypatch, capsys
):
    run_folder = shutil.copytree(trained, tmp_path / "run")
    path = run_folder / "round-001" / "model" / "scorer.json"
    before = json.loads(path.read_text())
    out = tmp_path / "made" / "dev.json"

    def choose(*rules: str) -> dict:
        line = ["evaluate", "--run", str(run_folder), "--exact", "--out", str(out), "--threshold-for", *rules]
        monkeypatch.setattr("sys.argv", line)
        main()
        return json.loads(path.read_text())

    choose("recall=0.5", "costs=10,1")
    stored = choose("recall=0.5", "precision=0.01")
    # The first rule anew, the other beside it; all else as it was.
    assert [one["rule"] for one in stored["thresholds"]] == ["costs=10,1", "recall=0.5", "precision=0.01"]
    assert {name: stored[name] for name in before} == before
    evaluation = json.loads(out.read_text())
    assert evaluation["thresholds"] == stored["thresholds"][1:]
    for name in ("calibration_error", "l2_calibration_error", "reliability"):
        assert stored["calibration"][name] == evaluation[name]
    assert sum(row["weight"] for row in evaluation["reliability"]) == pytest.approx(evaluation["total_pairs"])
    (one,) = [one for one in stored["thresholds"] if one["rule"] == "recall=0.5"]
    assert (one["split"], one["pairs"]) == ("dev", evaluation["total_pairs"])
    assert one["logit"] == pytest.approx(before["weight"] * one["cosine"] + before["bias"])
    # The model is the one that was read before, and its weights are its digest's.
    model = RunFolder(run_folder, read_task(trained.parent / "task")).model(1)
    assert read_model(path.parent) == model
    assert Encoder.saved(model.path, bound_config(run_folder).encoding).digest() == model.digest
    # By hand: the highest cosine that half of the positives reach.
    task = read_task(trained.parent / "task")
    positives = np.sort(cosines_of(Encoder.saved(model.path, bound_config(run_folder).encoding), task, [
        *task.split("dev").positives
    ]))[::-1]  # fmt: skip
    assert one["cosine"] == pytest.approx(positives[-(-len(positives) // 2) - 1], abs=1e-5)
    assert "recall=0.5: cosine >= " in capsys.readouterr().out
    for name in ("reliability-dev", "precision-recall-dev"):
        assert (out.parent / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (out.parent / f"{name}.svg").read_bytes()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"digest": "other"}, "belongs to another model"),
        ({"thresholds": {}}, "is not a list"),
        ({"thresholds": [1]}, "not a list"),
    ],
)
def test_a_scorer_file_that_is_not_the_rounds_takes_no_threshold(trained, tmp_path, content, words):
    folder = RunFolder(shutil.copytree(trained, tmp_path / "run"), read_task(trained.parent / "task"))
    path = folder.round(1) / "model" / "scorer.json"
    write_json(path, {**json.loads(path.read_text()), **content})
    with pytest.raises(BadFile, match=words):
        folder.keep_calibration(1, {}, [])
