"""Commands on a run with a matcher: what works says p where others say cosine, and what cannot work refuses at once."""

import csv
import json
import math
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import al_ray
from al_ray.active_learning.config import RunConfig
from al_ray.apps.annotating.views import score_words
from al_ray.apps.drift.measure import cosine_of_matches
from al_ray.apps.grid.folder import GridFolder
from al_ray.apps.grid.ray_tune import run_cell
from al_ray.apps.grid.runner import run_grid
from al_ray.apps.grid.shared_artifacts import share
from al_ray.apps.matching.cutoff import choose_cutoff
from al_ray.apps.matching.model import open_model
from al_ray.apps.planning.hardware import BUILT_IN
from al_ray.apps.planning.planned_and_used import plan_of_run
from al_ray.apps.reporting.read_runs import read_run
from al_ray.cli import evaluate, mine, plan
from al_ray.cli._shared import entry
from al_ray.cluster.session import session
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import CandidatesConfig, EvaluationConfig, SearchConfig
from al_ray.core.errors import BadOption
from al_ray.core.progress import no_progress
from al_ray.core.scorer import CANDIDATE
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.runs.importance import read_importance
from al_ray.runs.run_folder import RunFolder
from al_ray.storage.pair_cosines import FIT, SCORES, read_cosines
from tests.apps.grid.parsed import parsed_grid
from tests.ways import HERE, ON_RAY

pytestmark = pytest.mark.usefixtures("in_process")

SMALL = (
    "--matcher on --rounds 2 --first-batch 16 --growth 1 --encoder random-bert --encoder-layers 1 --max-length 24 "
    "--encoder-batch 8 --threads 1 --search.neighbours 5 --search.block 16 --candidates.cosine 5 "
    "--candidates.trigrams 5 --timeout 600"
)


def config_of(folder: Path, **options: Any) -> RunConfig:
    return RunConfig(
        task=str(folder), rounds=2, first_batch=16, growth=1.0, encoder="random-bert", encoder_layers=1, max_length=24,
        encoder_batch=8, threads=1, search=SearchConfig(neighbours=5, block=16), matcher="on",
        candidates=CandidatesConfig(cosine=5, trigrams=5), evaluation=EvaluationConfig(splits=("dev",)), **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def task(make_task, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("texts") / "task"
    write_task(make_task(False, clusters=18), folder, {})
    return folder


@pytest.fixture(scope="module")
def run(in_process, task, tmp_path_factory) -> al_ray.Run:
    """A complete run with labels of drawn dev pairs."""
    return al_ray.run(config_of(task, dev_labels=24), tmp_path_factory.mktemp("run") / "run")


def call(monkeypatch, capsys, command, line: str) -> tuple[int, str]:
    """Run a command; return its exit code and what it prints."""
    monkeypatch.setattr(sys, "argv", [f"al-ray {command.__name__.rpartition('.')[2]}", *shlex.split(line)])
    try:
        entry.job(command.main)
    except SystemExit as stop:
        return int(stop.code or 0), capsys.readouterr().err
    return 0, capsys.readouterr().out


def scores_of(run: al_ray.Run, split: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys of all pairs of a split, their scores under the last model, pair by pair, and whether they match."""
    from al_ray.cluster.measurement import deploy_measured

    found = run.folder.task.split(split)
    keys = np.sort(found.space.at(np.arange(found.space.total)))
    with deploy_measured(run.config, ClusterConfig(timeout=600), run.folder.task, run.path, no_progress) as pool:
        scores = pool.scores(run.folder.model(run.rounds), found, found.space.pairs(keys))
    return keys, scores, np.isin(keys, found.positive_keys)


def test_evaluate_finds_the_candidates_of_a_split_that_the_run_never_measured(run):
    keys, scores, matches = scores_of(run, "train")
    assert len(keys) > (scores >= CANDIDATE).sum() > 0
    above = [scores >= score for score in scores[matches]]
    expected = np.mean([matches[one].sum() / one.sum() for one in above])
    assert al_ray.evaluate(run, "train").average_precision.value == pytest.approx(expected, abs=1e-12)
    sharded = al_ray.evaluate(run, "train", cluster=ClusterConfig(shards=2, timeout=600))
    assert sharded.average_precision.value == pytest.approx(expected, abs=1e-12)


def test_evaluate_gives_what_the_run_measured_of_matcher_and_cosine(run):
    line = run.folder.metrics()[-1]
    assert al_ray.evaluate(run, "dev").average_precision.value == line["average_precision"]
    alone = al_ray.evaluate(run, "dev", round=0).average_precision.value
    assert alone == line["candidates"]["dev"]["cosine_average_precision"]


def test_a_chosen_threshold_is_one_of_p(run, monkeypatch, capsys):
    code, said = call(
        monkeypatch, capsys, evaluate, f"--run {run.path} --threshold-for precision=0.5 recall=1 --timeout 600"
    )
    assert code == 0, said
    lines = {line.partition(":")[0]: line for line in said.splitlines()}
    stored = {
        one["rule"]: one for one in json.loads((run.path / "round-002/model/scorer.json").read_text())["thresholds"]
    }
    at = stored["precision=0.5"]
    assert at["p"] == at["cosine"] - 2
    assert lines["precision=0.5"].startswith(f"precision=0.5: p >= {at['p']:.6f}, precision")
    lowest = stored["recall=1"]["cosine"]
    words = f"recall=1: every candidate, and of the other pairs cosine >= {lowest:.6f}, "
    assert lines["recall=1"].startswith(words) if lowest < CANDIDATE else ": p >= " in lines["recall=1"]


def test_stated_pairs_are_ranked_by_both_stages(run, monkeypatch, capsys):
    code, said = call(monkeypatch, capsys, evaluate, f"--run {run.path} --heuristic --timeout 600")
    assert code == 0, said
    said = dict(line.split(" ", 1) for line in said.splitlines())
    split = run.folder.task.split("dev")
    keys, scores, _ = scores_of(run, "dev")
    stated = np.concatenate([split.positives, split.stated_negatives])
    ranked = scores[np.searchsorted(keys, split.space.keys(stated))]
    match = np.arange(len(stated)) < len(split.positives)
    precisions = list[float]()
    for query in np.unique(split.positives[:, 0]):
        own, yes = ranked[stated[:, 0] == query], match[stated[:, 0] == query]
        precisions.append(float(np.mean([yes[own >= one].sum() / (own >= one).sum() for one in own[yes]])))
    assert said["clean_map"] == f"{100 * np.mean(precisions):.2f}%"


def labelled(sheet_path: Path, task: Task, split: str) -> None:
    """Fill in the sheet of an audit with what is known of its pairs."""
    with sheet_path.open(encoding="utf-8-sig", newline="") as sheet:
        rows = list(csv.DictReader(sheet))
    ids = {side: {name: row for row, name in enumerate(getattr(task, side).ids)} for side in ("left", "right")}
    space, known = task.split(split).space, set(task.split(split).positive_keys.tolist())
    for row in rows:
        pair = np.array([[ids["left"][row["left_id"]], ids["right"][row["right_id"]]]])
        row["label"] = "yes" if int(space.keys(pair)[0]) in known else "no"
    # One is wrong, or nothing would say how steeply matches become more frequent.
    next(row for row in rows if row["label"] == "yes")["label"] = "no"
    with sheet_path.open("w", encoding="utf-8", newline="") as sheet:
        writer = csv.DictWriter(sheet, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def test_an_audit_by_score_ranks_by_both_stages_and_shows_p(run, task):
    audit = al_ray.sample_audit(run, al_ray.AuditConfig(split="train", by_score=True, budget=60, top=100))
    key = pq.read_table(audit.path / "audit-key.parquet")
    keys, scores, _ = scores_of(run, "train")
    space = read_task(task).split("train").space
    fresh = ~np.isin(keys, space.keys(run.folder.ledger.labelled().pairs))
    order = np.lexsort((keys[fresh], -scores[fresh]))
    drawn = space.keys(np.stack([key["left"].to_numpy(), key["right"].to_numpy()], axis=1))
    ranks, reach = key["rank"].to_numpy(), pq.read_table(audit.path / "audit-scores.parquet")["label"].null_count
    assert (key["cosine"].to_numpy() == scores[np.searchsorted(keys, drawn)]).all()
    assert 0 < reach <= (scores[fresh] >= CANDIDATE).sum()
    ranked = ranks < reach
    assert (keys[fresh][order][ranks[ranked]] == drawn[ranked]).all()
    labelled(audit.sheet, read_task(task), "train")
    estimate = al_ray.estimate_audit(audit.path)
    assert "\np  " in estimate.text or " p  " in estimate.text
    assert "cosine" not in estimate.text
    for one in estimate.figures["thresholds"]:
        assert one["cosine"] is None
        assert 0 <= one["score"] <= 1
    with pytest.raises(BadOption, match="`at_cosine`: the scores of this audit are p of a matcher"):
        al_ray.estimate_audit(audit.path, at_cosine=[2.5])
    raw = al_ray.estimate_audit(audit.path, at_p=[0.6])
    assert raw.figures["thresholds"][0]["score"] == pytest.approx(0.6, abs=1e-6)
    assert "probability" not in raw.text
    at_p = al_ray.estimate_audit(audit.path, at_p=[0.6], update_scorer=True, threshold_for=["precision=0.5"])
    assert "sigmoid(" in at_p.text
    assert " p -" in at_p.text or " p +" in at_p.text
    assert "precision=0.5: p >= " in at_p.text
    # What was fitted is what p means, in this command and in later ones.
    assert at_p.figures["thresholds"][0]["probability"] == pytest.approx(0.6, abs=1e-6)
    later = al_ray.estimate_audit(audit.path, at_p=[0.6])
    assert later.figures["thresholds"] == at_p.figures["thresholds"]
    assert " p  probability" in later.text


def test_an_audit_of_false_positives_names_p(run):
    config = al_ray.AuditConfig(split="dev", at_recall=0.5, near=3, rand=3)
    audit = al_ray.sample_audit(run, config)
    assert audit.record.scorer is not None
    assert audit.record.scorer.matcher
    assert audit.record.threshold is not None
    assert audit.record.threshold >= CANDIDATE


def test_dev_labels_measure_the_two_stage_score(run):
    folder = run.path / "dev-labels/round-002"
    figures = json.loads((folder / "estimate.json").read_text())
    keys, scores, _ = scores_of(run, "dev")
    batch = pq.read_table(folder / "batch.parquet")
    space = run.folder.task.split("dev").space
    drawn = space.keys(np.stack([batch["left"].to_numpy(), batch["right"].to_numpy()], axis=1))
    assert len(drawn) == 24
    assert (batch["score"].to_numpy() == scores[np.searchsorted(keys, drawn)]).all()
    assert figures["boundary"] in (None, 0.5)
    assert run.folder.metrics()[-1]["boundary"] == 0.5


def test_a_report_shows_p_and_no_score_of_two_stages_as_a_cosine(run, tmp_path):
    read = read_run(run.path, "run")
    last = read.rounds[-1]
    batch = pq.read_table(run.path / "round-002/batch.parquet")["score"].to_numpy()
    assert last.batch_p == pytest.approx(np.clip(batch - CANDIDATE, 1e-6, 1 - 1e-6).mean(), abs=1e-9)
    assert last.boundary == 0.5
    assert last.examples
    assert all(one.cosine is None or abs(one.cosine) <= 1 for one in last.examples)
    assert last.candidates["dev"].cosine == al_ray.evaluate(run, "dev", round=0).average_precision.value
    assert last.candidates["dev"].recall.matches == len(run.folder.task.split("dev").positives)
    assert last.importance == read_importance(run.folder.round(2)) is not None
    first = pq.read_table(run.path / "round-001/batch.parquet")
    assert np.isnan(first["score"].to_numpy()).all()


def test_a_run_stores_the_cosines_of_its_labelled_pairs_beside_their_scores(run):
    home, labelled, texts = run.folder.round(2), run.folder.ledger.labelled(2), run.folder.task.texts_of
    (pairs, cosines), (_, scores) = (read_cosines(home / name) for name in (FIT, SCORES))
    assert pairs.tolist() == labelled.pairs.tolist()
    assert cosines == pytest.approx(run.model(0).cosines(*texts(pairs)), abs=1e-6)
    assert (scores >= CANDIDATE).all()
    # Of matches and of other pairs alike, so a boundary between them can be fitted.
    assert math.isfinite(cosine_of_matches(open_model(run.path)))


def test_a_run_without_measured_splits_shows_p_of_its_labels(in_process, task, tmp_path):
    config = config_of(task)
    plain = al_ray.run(al_ray.RunConfig(**{**vars(config), "evaluation": EvaluationConfig(splits=())}), tmp_path / "r")
    examples = read_run(plain.path, "run").rounds[-1].examples
    assert examples
    assert all(one.cosine is None and one.p is not None and 0 < one.p < 1 for one in examples)


@pytest.mark.parametrize(("score", "words"), [(None, None), (0.25, "Cosine 0.250"), (2.75, "p 0.750")])
def test_annotators_see_p(score, words):
    assert score_words(score) == words


@pytest.mark.parametrize("way", [HERE, pytest.param(ON_RAY, marks=pytest.mark.more)])
def test_a_grid_shares_the_candidates_and_its_runs_are_those_made_alone(request, run, task, tmp_path, way):
    line = f"--task {task} --out {tmp_path / 'grid'} {SMALL} --evaluation.splits dev --dev-labels 24 --seeds 0"
    grid = parsed_grid(shlex.split(f"{line} --strategies uncertainty,random"))
    if way == ON_RAY:
        # A grid has Ray; the run alone had none.
        request.getfixturevalue("local_ray")
        assert [one.trouble for one in run_grid(grid, no_progress, lambda *_: None)] == ["", ""]
    else:
        # What the grid does before its trials, and what each of them does.
        with session(grid.work.cluster):
            share(grid.cells, grid.work.cluster, read_task(task), GridFolder(grid.out).shared, no_progress)
        for cell in grid.cells:
            run_cell(grid, cell, lambda _: None, 0, None)
    inside = RunFolder(tmp_path / "grid" / "runs" / "uncertainty-s0", read_task(task))
    assert not list(inside.path.glob("**/candidates"))
    assert list((tmp_path / "grid").glob("**/candidates/*/*/*/names.json"))
    assert inside.ledger.labelled().pairs.tolist() == run.folder.ledger.labelled().pairs.tolist()
    assert inside.model(2).digest == run.folder.model(2).digest


def test_what_needs_one_cosine_for_all_pairs_refuses(run, task, tmp_path, monkeypatch, capsys):
    has = "has a matcher"
    for load in (lambda: al_ray.load_model(run.path), lambda: run.model(1)):
        with pytest.raises(BadOption, match=f"{has}.*load_model cannot use"):
            load()
    with pytest.raises(BadOption, match=r"has a matcher.*`round=0` without it is the cosine"):
        run.with_neighbourhood(0.0)
    code, said = call(monkeypatch, capsys, mine, f"--task {task} --run {run.path} --out {tmp_path / 'mined'}")
    assert code == 2
    assert f"--run {run.path} has a matcher, which ranks only the candidates of its run" in said
    assert "give a run without a matcher" in said
    code, said = call(monkeypatch, capsys, plan, "--matcher auto")
    assert code == 2
    assert "give --task, or --matcher on or --matcher off" in said


def test_used_resources_are_not_compared_with_a_plan_of_an_encoder_without_files(run):
    with pytest.raises(BadOption, match="random-bert has no files, where plans read the sizes"):
        plan_of_run(run.folder, ClusterConfig(), BUILT_IN["cpu"])


def test_matches_have_the_calibrated_probability_and_suggestions_lie_near_the_cutoff(run, task, tmp_path):
    shutil.copytree(run.path, tmp_path / "run")
    path = tmp_path / "run" / "round-002" / "model" / "scorer.json"
    content = json.loads(path.read_text())
    # Of a score of two stages, which is 2 + p.
    content["recalibration"] = {"source": "audit", "weight": 4.0, "bias": -10.0}
    content["thresholds"] = [{"rule": "recall=1", "cosine": 0.9, "split": "dev"}]
    path.write_text(json.dumps(content))
    copied = al_ray.load_run(tmp_path / "run")
    model = open_model(tmp_path / "run")
    models = model, replace(model, calibrated=None)
    options = {p: al_ray.MatchOptions(left=task, at_p=p) for p in (0.001, 0.6)}
    cutoffs = {p: [choose_cutoff(one, of, "all") for of in models] for p, one in options.items()}
    calibrated, raw = cutoffs[0.6]
    assert calibrated.score == pytest.approx((2 + math.log(0.6 / 0.4)) / 4)
    assert (raw.score, raw.source) == (0.6, "`at_p=0.6`, the p of a matcher that is not calibrated")
    assert [one.score for one in cutoffs[0.001]] == [0.0, 0.001]
    with pytest.raises(BadOption, match=r"`at_p=0.99` is a score of 1.6488, and no pair can reach it"):
        choose_cutoff(al_ray.MatchOptions(left=task, at_p=0.99), model, "all")
    options = al_ray.MatchOptions(left=task, assign="all", at_score=0.58, suggest=5)
    found = al_ray.match(copied, options, tmp_path / "matches", cluster=ClusterConfig(timeout=600))
    matches = found.matches().to_pylist()
    by_model = [row for row in matches if row["probability"] is not None]
    assert by_model
    for row in by_model:
        # A label of people makes it 1.
        expected = 1 / (1 + math.exp(2 - 4 * row["score"]))
        assert row["probability"] in (1, pytest.approx(expected, abs=1e-9))
    assert any(row["probability"] < 1 for row in by_model)
    suggested = pq.read_table(tmp_path / "matches" / "suggested.parquet")["score"].to_numpy()
    assert len(suggested) == 5
    assert (np.abs(suggested - 0.58) < 0.05).all()
    with pytest.raises(BadOption, match=r"recall=1 of .* is reached only with pairs that are no candidates"):
        al_ray.match(copied, replace(options, at_score=None, recall=1.0), tmp_path / "other")
