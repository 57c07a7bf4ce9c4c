"""jobs.train: both kinds of models and of labels, resuming, evaluation, re-ranking and errors."""

import json
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from ray.util import placement_group_table

from al_ray.apps.cross_encoder import pipeline
from al_ray.apps.cross_encoder.folder import CrossEncoderFolder
from al_ray.apps.cross_encoder.options import TrainConfig
from al_ray.apps.cross_encoder.sharded_scorer import CrossEncoderJob, ShardedPairScorer, deploy_scorer, texts_of
from al_ray.cli._evaluate.options import EvaluateCommand
from al_ray.cli._evaluate.pipeline import evaluate_cross_encoder
from al_ray.cli.train import TrainCommand
from al_ray.cli.train import run_command as train
from al_ray.cluster.workers import workers_in_this_process
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import EvaluationConfig, SearchConfig, TrainingConfig
from al_ray.core.errors import AlRayError, BadFile, WrongFolder
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.encoders.cross_encoder import CrossEncoder
from al_ray.encoders.transformer import Encoder
from al_ray.runs.run_folder import RunFolder, bound_config

CPUS = ClusterConfig(timeout=600)
# Other random pairs than those of the bi-encoder's run.
MEASURED = EvaluationConfig(splits=("dev",), near_neighbours=2, random_pairs=25)


@pytest.fixture(scope="module")
def folder(make_task, tmp_path_factory) -> Path:
    """A symmetric and a two-sided task."""
    root = tmp_path_factory.mktemp("train")
    write_task(make_task(True), root / "task", {})
    write_task(make_task(False), root / "sides", {})
    return root


def options(folder: Path, out: str | Path, **changes) -> TrainCommand:
    """A small training on the stated pairs of the symmetric task."""
    training = TrainingConfig(epochs=1, learning_rate=1e-3)
    if changes.get("model") == "cosine":
        changes = {"training": replace(training, batch=8, worst_loss=100.0), **changes}
    else:
        changes = {"concat_batch": 16, "slice_pairs": 16, **changes}
    small = TrainConfig(
        task=str(folder / "task"), labels="stated", encoder="random-bert", encoder_layers=1,
        max_length=24, encoder_batch=8, threads=1, training=training,
        search=SearchConfig(neighbours=5, block=16),
        evaluation=EvaluationConfig(splits=("dev",), near_neighbours=2, random_pairs=20, examples=0),
    )  # fmt: skip
    of_config = {one.name for one in fields(TrainConfig)} & set(changes)
    config = replace(small, **{name: changes.pop(name) for name in of_config})
    return replace(TrainCommand(config=config, out=folder / out, cluster=CPUS), **changes)


@pytest.fixture(scope="module")
def cosine(in_process, folder) -> Path:
    """A bi-encoder of the stated pairs."""
    train(options(folder, "cosine", model="cosine"))
    return folder / "cosine"


@pytest.fixture(scope="module")
def concat(in_process, cosine, folder) -> Path:
    """A cross-encoder of the labels of the bi-encoder's folder, and both stages."""
    train(options(folder, "concat", labels=str(cosine), rerank=cosine, top=60, evaluation=MEASURED))
    return folder / "concat"


def read(path: Path):
    return json.loads(path.read_text())


def test_a_cosine_model_of_stated_pairs_is_a_run_of_one_round(cosine, folder):
    task, config = read_task(folder / "task"), bound_config(cosine)
    labelled = RunFolder(cosine, task).state().labelled
    split = task.split("train")
    stated = np.concatenate([split.space.keys(split.positives), split.space.keys(split.stated_negatives)])
    assert sorted(split.space.keys(labelled.pairs)) == sorted(stated)
    assert labelled.positives == len(split.positives)
    assert (config.rounds, config.first_batch) == (1, len(stated))
    assert 0 < read(cosine / "round-001" / "record.json")["evaluations"]["dev"]["average_precision"]["value"] <= 1


def test_a_cross_encoder_is_evaluated_by_the_scores_of_each_pair(concat, folder):
    task = read_task(folder / "task")
    result, split = read(concat / "evaluation-dev.json"), task.split("dev")
    assert result["exact"] is False
    assert result["positives"] == len(split.positives)
    assert sum(one["population"] for one in result["strata"]) + result["positives"] == split.space.total
    model = CrossEncoder.saved(str(concat / "model"))
    by_hand = weighted_average_precision(concat, task, lambda left, right: float(model.scores([(left, right)], 1)[0]))
    assert result["average_precision"]["value"] == pytest.approx(by_hand, rel=1e-6)


def weighted_average_precision(path: Path, task: Task, score: Callable[[str, str], float]) -> float:
    """AP on dev by a folder's evaluation set: every pair of it scored alone, counted by weight from the highest on."""
    split = task.split("dev")
    (about,) = (path / "evaluation").glob("dev-*/set.json")
    groups = [(split.positive_keys, 1.0, 1)]
    for one in read(about)["strata"]:
        keys = pq.read_table(about.parent / one["file"])["key"].to_numpy()
        groups.append((keys, one["population"] / max(1, len(keys)), 0))
    weighted: list[tuple[float, float, int]] = []
    for keys, weight, label in groups:
        for left, right in zip(*task.texts_of(split.space.pairs(keys)), strict=True):
            weighted.append((score(left, right), weight, label))
    weighted.sort(key=lambda row: -row[0])
    above = true = total = 0.0
    for _, weight, label in weighted:
        above, true = above + weight, true + label
        total += label * true / above
    return total / len(split.positives)


def test_both_stages_are_what_sorting_every_pair_gives(concat, cosine, folder):
    task, config = read_task(folder / "task"), bound_config(cosine)
    split, result = task.split("dev"), read(concat / "rerank-dev.json")
    encoder = Encoder.saved(str(cosine / "round-001" / "model"), config.encoding)
    second = CrossEncoder.saved(str(concat / "model"))
    keys = np.sort(split.space.at(np.arange(split.space.total)))
    texts_of = list(zip(*task.texts_of(split.space.pairs(keys)), strict=True))
    vectors = dict(zip(task.left.texts, embedded(encoder, task), strict=True))
    cosines = np.array([float(vectors[one] @ vectors[other]) for one, other in texts_of])
    order = np.lexsort((keys, -cosines))
    top, rest = order[:60], order[60:]
    scores = second.scores([texts_of[at] for at in top], 4)
    ranked = np.isin(keys[np.concatenate([top[np.argsort(-scores)], rest])], split.positive_keys)
    precision = np.cumsum(ranked) / np.arange(1, len(ranked) + 1)
    assert result["average_precision"]["value"] == pytest.approx(precision[ranked].mean(), rel=1e-6)
    assert result["exact"] is True
    assert (result["top"], result["total_pairs"]) == (60, split.space.total)
    difference = result["average_precision"]["value"] - result["first_stage"]["average_precision"]["value"]
    assert abs(difference) > 0.01
    assert result["difference"]["average_precision_difference"]["value"] == pytest.approx(difference)


def job_at(path: Path, cluster: ClusterConfig = CPUS) -> CrossEncoderJob:
    folder = CrossEncoderFolder(path)
    return CrossEncoderJob(folder, folder.config, read_task(Path(folder.config.task)), cluster, lambda *_: None)


def test_scorers_and_pool_have_their_places_in_one_group_so_that_two_jobs_never_wait_for_each_other(
    request, concat, cosine, tmp_path, folder, monkeypatch
):
    shutil.copytree(concat, tmp_path / "concat")
    (tmp_path / "concat" / "rerank-dev.json").unlink()
    # The bundles of each placement group at the time of the re-ranking.
    reserved, rerank = list[list[int]](), pipeline.evaluate_reranking

    def rerank_and_count(*arguments):
        table = placement_group_table().values()
        reserved.append([len(group["bundles"]) for group in table if group["state"] == "CREATED"])
        return rerank(*arguments)

    monkeypatch.setattr(pipeline, "evaluate_reranking", rerank_and_count)
    request.getfixturevalue("local_ray")
    with workers_in_this_process(False):
        train(options(folder, tmp_path / "concat", labels=str(cosine), rerank=cosine, top=60, evaluation=MEASURED))
    assert reserved == [[2]]
    assert read(tmp_path / "concat" / "rerank-dev.json") == read(concat / "rerank-dev.json")


def test_stored_slices_are_not_scored_again_and_others_get_the_same_scores(either_way, concat, tmp_path):
    shutil.copytree(concat, tmp_path / "copy")
    job = job_at(tmp_path / "copy")
    split = job.task.split("dev")
    # Without actors, because all slices of the positives are stored.
    stored = ShardedPairScorer([], job.model(), job).scores(split, split.positives)
    assert len(np.unique(stored)) > 16, "more than one slice"
    turned = ShardedPairScorer([], job.model(), job).scores(split, split.positives[::-1, ::-1])
    assert turned.tolist() == stored[::-1].tolist()
    with deploy_scorer(job_at(tmp_path / "copy", replace(CPUS, shards=2))) as scorer:
        for path in (tmp_path / "copy" / "scores").iterdir():
            path.unlink()
        recomputed = scorer.scores(split, split.positives)
    assert recomputed.tolist() == stored.tolist()
    assert len(list((tmp_path / "copy" / "scores").iterdir())) == -(-len(stored) // 16)


def test_a_cross_encoder_keeps_its_model_if_its_task_has_another_path(concat, cosine, folder, tmp_path):
    shutil.copytree(folder / "task", tmp_path / "moved")
    shutil.copytree(concat, tmp_path / "concat")
    weights = tmp_path / "concat" / "model" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    asked = options(folder, tmp_path / "concat", labels=str(cosine), evaluation=MEASURED)
    train(replace(asked, config=replace(asked.config, task=str(tmp_path / "moved"))))
    assert weights.stat().st_mtime_ns == before
    assert read(tmp_path / "concat" / "config.json")["task"] == str(tmp_path / "moved")
    with pytest.raises(WrongFolder, match=r"task: .*; task_digest: "):
        train(replace(asked, config=replace(asked.config, task=str(folder / "sides"), labels="stated")))


def test_a_slice_of_other_pairs_is_refused(concat, tmp_path):
    folder, keys = CrossEncoderFolder(tmp_path), np.array([3, 5])
    folder.write_scores("d", keys, np.array([0.5, 1.5]))
    assert folder.scores("d", keys).tolist() == [0.5, 1.5]  # pyright: ignore[reportOptionalMemberAccess]
    assert folder.scores("e", keys) is None, "another model's"
    (path,) = (tmp_path / "scores").iterdir()
    pq.write_table(pq.read_table(path).slice(0, 1), path)
    with pytest.raises(BadFile, match="other pairs"):
        folder.scores("d", keys)


def test_a_cross_encoder_is_evaluated_on_stated_pairs(concat, folder):
    evaluate_cross_encoder(EvaluateCommand(run=concat, heuristic=True, cluster=CPUS), concat)
    result, split = read(concat / "heuristic-dev.json"), read_task(folder / "task").split("dev")
    job = job_at(concat)
    pairs = np.concatenate([split.positives, split.stated_negatives])
    scores = CrossEncoder.saved(str(concat / "model")).scores(texts_of(job.task, pairs), 4)
    right = (scores[: len(split.positives)] >= 0).sum() + (scores[len(split.positives) :] < 0).sum()
    assert result["accuracy"] == pytest.approx(right / len(pairs))
    assert result["pairs"] == len(pairs)


@pytest.mark.slow
def test_a_cross_encoder_and_a_run_are_compared_on_the_same_pairs(concat, cosine, folder):
    evaluate_cross_encoder(EvaluateCommand(run=concat, against=cosine, cluster=CPUS), concat)
    result = read(concat / "evaluation-dev-against-cosine.json")
    difference = result["average_precision_difference"]
    assert difference["low"] <= difference["value"] <= difference["high"]
    assert difference["low"] < difference["high"], "pairs were sampled"
    own = read(concat / "evaluation-dev.json")["average_precision"]["value"]
    task = read_task(folder / "task")
    encoder = Encoder.saved(str(cosine / "round-001" / "model"), bound_config(cosine).encoding)
    vectors = dict(zip(task.left.texts, embedded(encoder, task), strict=True))
    other = weighted_average_precision(concat, task, lambda left, right: float(vectors[left] @ vectors[right]))
    assert difference["value"] == pytest.approx(own - other, rel=1e-5)


@pytest.mark.faults
def test_a_driver_that_was_killed_while_scoring_resumes_with_the_next_slice(concat, cosine, folder):
    line = (
        f"--task {folder}/task --labels {cosine} --out {folder}/killed --encoder random-bert --encoder-layers 1 "
        "--max-length 24 --encoder-batch 8 --threads 1 --concat-batch 16 --slice-pairs 16 --search.neighbours 5 "
        "--search.block 16 --training.epochs 1 --training.learning-rate 1e-3 "
        "--evaluation.near-neighbours 2 --evaluation.random-pairs 25 --evaluation.examples 20 "
        "--evaluation.near-pairs 1000000"
    )
    dying = Path(__file__).resolve().parents[2] / "cluster" / "dying.py"
    command = [sys.executable, str(dying), "score", "first", str(folder / "log"), *shlex.split(line)]
    died = subprocess.run(command, cwd=folder, check=False, capture_output=True, timeout=1800)
    assert died.returncode == -signal.SIGKILL, died.stderr
    stored = {path: path.stat().st_mtime_ns for path in (folder / "killed" / "scores").iterdir()}
    assert 0 < len(stored) < len(list((concat / "scores").iterdir()))
    train(options(folder, "killed", labels=str(cosine), evaluation=replace(MEASURED, near_pairs=1_000_000)))
    assert read(folder / "killed" / "evaluation-dev.json") == read(concat / "evaluation-dev.json")
    assert {path: path.stat().st_mtime_ns for path in stored} == stored


def test_a_dry_run_prints_the_work_to_do(cosine, folder, capsys):
    train(options(folder, "planned", dry_run=True, rerank=cosine, top=7))
    output = capsys.readouterr().out.splitlines()
    split, dev = (read_task(folder / "task").split(name) for name in ("train", "dev"))
    count = len(split.positives) + len(split.stated_negatives)
    assert output == [
        f"labels: {count} pairs, {len(split.positives)} of them matches",
        f"training: 1 epochs, {count // 16} steps, concat from random-bert",
        f"dev: at most {len(dev.positives) + 2 * len(dev.space.left) + 20} of {dev.space.total} pairs to score, "
        "and 7 to rank",
    ]
    assert not (folder / "planned").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labels": "nowhere.csv"}, "`labels='nowhere.csv'` does not exist"),
        ({"labels": ""}, "give a run folder, a table, or stated"),
        ({"labels": "{folder}/task"}, "holds no config.json; give the folder of a run"),
        ({"labels": "{folder}/concat"}, "is not a run"),
        ({"task": "{folder}/sides", "labels": "{folder}/cosine"}, "belongs to another task"),
        ({"task": "{folder}/sides", "rerank": "{folder}/cosine"}, "run of another task"),
        ({"model": "cosine", "rerank": "{folder}/cosine"}, "are for --model concat"),
        ({"model": "cosine", "out": "{folder}/concat"}, "holds a cross-encoder"),
        ({"model": "cosine", "out": "{folder}/cosine", "labels": "{folder}/few.csv"}, "holds other labels"),
        ({"out": "{folder}/cosine"}, "holds no cross-encoder; give another `out`"),
        ({"out": "{folder}/concat", "labels": "stated", "seed": 1}, "seed: 0 there, 1 here"),
        ({"out": "{folder}/concat", "labels": "{folder}/few.csv"}, "labels_digest"),
        ({"out": "{folder}/task"}, "is a task folder"),
        ({"top": 0}, "`top` is 0"),
        ({"columns": "a"}, "`columns` is a"),
        ({"concat_batch": 0}, "`concat_batch` is 0"),
        ({"evaluation": EvaluationConfig(mode="exact")}, "counts cosines"),
        ({"training": TrainingConfig(workers=2)}, "`training.workers` is for"),
        ({"training": TrainingConfig(frozen_layers=1)}, "`training.frozen_layers` is for `model='cosine'`"),
        ({"training": TrainingConfig(head="cosine")}, "`training.head` is for `model='cosine'`"),
        ({"training": TrainingConfig(head_start="refit")}, "`training.head_start` is for `model='cosine'`"),
        ({"training": TrainingConfig(loss="focal")}, "`training.loss='focal'` is for `model='cosine'`"),
        ({"rerank": "{folder}/concat"}, "give the folder of a run"),
        ({"like": "{folder}/concat"}, "give the folder of a run"),
        ({"like": "nowhere"}, "nowhere holds no config.json"),
    ],
)
def test_invalid_options_are_refused_before_any_actor_starts(concat, folder, changes, words):
    (folder / "few.csv").write_text("left_id,right_id,label\nt0,t1,1\nt0,t4,0\n")
    filled = {name: value.format(folder=folder) if isinstance(value, str) else value for name, value in changes.items()}
    filled |= {name: Path(filled[name]) for name in ("out", "rerank") if name in filled}
    with pytest.raises(AlRayError, match=words):
        train(options(folder, **{"out": folder / "new", **filled}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"round": 1}, "leave out --round"),
        ({"exact": True}, "leave out --round"),
        ({"split": "test"}, "has no test pairs"),
        ({"against": Path("nowhere")}, "nowhere holds no config.json"),
    ],
)
def test_invalid_evaluations_of_a_cross_encoder_are_refused(concat, changes, words):
    with pytest.raises(AlRayError, match=words):
        evaluate_cross_encoder(EvaluateCommand(run=concat, **changes), concat)


def embedded(encoder: Encoder, task: Task):
    """(n, d) unit vectors of the texts in float64."""
    tokens = encoder.tokenise(task.left.texts)
    return np.concatenate([encoder.embed(tokens, np.array([row])) for row in range(len(tokens))]).astype(np.float64)
