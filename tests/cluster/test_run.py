"""Runs: the same labels whatever the shards and stops, every strategy once, and what is refused."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import average_precision_score

from al_ray.active_learning import loop
from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.stopping import StopConfig
from al_ray.apps.planning.planned_and_used import STAGES
from al_ray.apps.reporting.read_runs import read_runs
from al_ray.cli import run as run_job
from al_ray.cli._shared.entry import job
from al_ray.cluster.pool import sharded_evaluator
from al_ray.cluster.pool.sharded_evaluator import PoolEvaluator
from al_ray.cluster.pool.sharded_pool import ShardedPool
from al_ray.cluster.pool.sharded_retriever import PoolSearch
from al_ray.cluster.pool.sharded_strata import load_strata
from al_ray.cluster.services import RayRunServices, TrainerActor, deploy_pool, deploy_services
from al_ray.core.candidates import HIGHEST, Order
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import EvaluationConfig, SearchConfig, TrainingConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.core.labels import State
from al_ray.core.pairs import NO_KEYS
from al_ray.core.scorer import Scorer
from al_ray.core.task import Task
from al_ray.datasets.task_folder import read_task, write_task
from al_ray.metrics.calibration import reliability
from al_ray.metrics.error_examples import KINDS
from al_ray.oracles.simulated import SimulatedOracle
from al_ray.runs.error_examples import read_examples
from al_ray.runs.evaluation_sets import EvaluationSets
from al_ray.runs.run_folder import opened
from tests.cluster.drawn_sets import drawn_set
from tests.cluster.outcomes import figures
from tests.running import run

CPUS = ClusterConfig(timeout=600)


def config(task: Path, **changes) -> RunConfig:
    """Two small rounds with the random encoder; no training is bad enough to be repeated."""
    small = RunConfig(
        task=str(task),
        rounds=2,
        first_batch=16,
        encoder="random-bert",
        encoder_layers=1,
        max_length=24,
        encoder_batch=8,
        threads=1,
        search=SearchConfig(neighbours=5, block=16),
        training=TrainingConfig(epochs=1, batch=8, learning_rate=1e-3, worst_loss=100.0),
    )
    return replace(small, **changes)


def quiet(stage: str, done: int, total: int) -> None:
    """Report nothing."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory, make_task) -> dict[str, Path]:
    """Task folders: a symmetric one, a two-sided one, and one without a single match."""
    root = tmp_path_factory.mktemp("tasks")
    tasks = {"TASK": make_task(True), "TWO": make_task(False), "LONELY": make_task(True, members=1)}
    for name, task in tasks.items():
        write_task(task, root / name, {})
    return {name: root / name for name in tasks}


@pytest.fixture(scope="module")
def unbroken(in_process, folders, tmp_path_factory) -> Path:
    """A run of two rounds on one shard, from end to end."""
    path = tmp_path_factory.mktemp("runs") / "unbroken"
    run(config(folders["TASK"]), CPUS, path)
    return path


def tables(path: Path) -> list:
    # Answers hold NaN where there is no confidence, and are no part of the promise.
    kept = [*path.glob("round-*/batch.parquet"), *path.glob("round-*/labels.parquet")]
    return [pq.ParquetFile(file).read() for file in sorted(kept)]


def test_a_run_stopped_after_a_round_goes_on_elsewhere_as_if_it_had_not_stopped(
    either_way, unbroken, folders, tmp_path
):
    # The first round on two shards, the second on three.
    asked, out = config(folders["TASK"]), tmp_path / "stopped"
    task = read_task(folders["TASK"])
    with opened(out, task) as journal:
        journal.bind(asked)
        with deploy_services(
            asked, replace(CPUS, shards=2), journal, SimulatedOracle(task.split("train")), quiet
        ) as world:
            state = next(loop.run(asked, task.split("train"), world, State()))
            assert state.round == 1
    assert len(figures(out)) == 1
    went_on = run(asked, replace(CPUS, shards=3), out)
    assert went_on.state().round == 2
    assert tables(out) == tables(unbroken)
    for here, there in zip(figures(out), figures(unbroken), strict=True):
        # Sums of p over pairs are added in another order, and of cosines whose last bits depend on the block.
        assert here.pop("calibration_error") == pytest.approx(there.pop("calibration_error"), rel=1e-5)
        assert here == there
    for number in (1, 2):
        assert (
            went_on.model(number).digest
            == json.loads((unbroken / f"round-{number:03d}" / "record.json").read_text())["model"]["digest"]
        )


@pytest.fixture(scope="module")
def at_once(in_process, folders, tmp_path_factory) -> Path:
    """A run of static that buys its whole budget at once."""
    path = tmp_path_factory.mktemp("runs") / "at-once"
    run(config(folders["TASK"], strategy="static"), CPUS, path)
    return path


@pytest.mark.slow
def test_static_stopped_between_budgets_goes_on_to_what_it_buys_at_once(at_once, folders, tmp_path, capsys):
    asked = config(folders["TASK"], strategy="static", train_every_budget=True)
    # The first round on one shard; then without the limit, which holds; then it is lifted, on two shards.
    for stop in (StopConfig(labels=16), StopConfig()):
        run(asked, CPUS, tmp_path / "out", stop=stop)
        said = capsys.readouterr().out
        assert "stopped after round 1 of 2 by --stop.labels 16: the run has 16" in said
        assert [line["labels"] for line in figures(tmp_path / "out")] == [16]
        assert read_runs(tmp_path / "out")[0].trouble == ""
    run(asked, replace(CPUS, shards=2), tmp_path / "out", stop=StopConfig(labels="none"))
    assert "stopped" not in capsys.readouterr().out
    (whole,), parts = (
        [table.drop_columns(["round"]) for table in tables(path) if "label" in table.column_names]
        for path in (at_once, tmp_path / "out")
    )
    assert [len(part) for part in parts] == [16, 24]
    assert pa.concat_tables(parts) == whole
    # Trained on the same pairs, in round 2 instead of 1.
    assert figures(tmp_path / "out")[1]["positives"] == figures(at_once)[0]["positives"]


def test_a_run_ends_by_a_small_gain_until_that_limit_is_lifted(unbroken, folders, tmp_path, capsys):
    shutil.copytree(unbroken, tmp_path / "out")
    longer, metrics = config(folders["TASK"], rounds=3), tmp_path / "out/metrics.jsonl"
    # Dev of this small task has too few texts with a match for an interval.
    first, last = map(json.loads, metrics.read_text().splitlines())
    assert last["average_precision_gain"] is None
    last["average_precision_gain"] = {"value": 0.01, "low": -0.3, "high": 0.3}
    metrics.write_text("".join(f"{json.dumps(line)}\n" for line in (first, last)))
    # Every change is less than 100 points. The limit is kept for the command without it.
    for stop in (StopConfig(gain=1.0), StopConfig()):
        run(longer, CPUS, tmp_path / "out", stop=stop)
        said = capsys.readouterr().out
        assert "stopped after round 2 of 3 by --stop.gain 1: average precision changed by" in said
        assert len(figures(tmp_path / "out")) == 2
    run(longer, CPUS, tmp_path / "out", stop=StopConfig(gain="none"))
    assert len(figures(tmp_path / "out")) == 3


def test_a_finished_run_is_left_as_it_is(unbroken, folders):
    before = {path: path.stat().st_mtime_ns for path in unbroken.rglob("*") if path.is_file()}
    run(config(folders["TASK"]), CPUS, unbroken)
    assert {path: path.stat().st_mtime_ns for path in unbroken.rglob("*") if path.is_file()} == before


def test_what_a_run_bought_is_labelled_as_its_task_says(unbroken, folders):
    split = read_task(folders["TASK"]).split("train")
    positives = {tuple(pair) for pair in split.positives.tolist()}
    bought = []
    for number, size in ((1, 16), (2, 24)):
        rows = pq.ParquetFile(unbroken / f"round-{number:03d}" / "labels.parquet").read().to_pylist()
        assert len(rows) == size
        assert {row["round"] for row in rows} == {number}
        assert {row["source"] for row in rows} == {"seed" if number == 1 else "uncertainty"}
        assert all(row["label"] == ((row["left"], row["right"]) in positives) for row in rows)
        bought += [(row["left"], row["right"]) for row in rows]
    assert len(set(bought)) == 40
    assert split.space.holds(np.array(bought)).all()
    assert figures(unbroken)[-1]["positives"] == sum(pair in positives for pair in bought)


def test_stratified_match_draws_as_many_of_each_kind_as_a_run_bought(unbroken, folders, tmp_path, monkeypatch, capsys):
    asked = ["--task", str(folders["TASK"]), "--out", str(tmp_path / "out"), "--config", str(unbroken)]
    monkeypatch.setattr(sys, "argv", ["run", *asked, "--strategy", "stratified-match", "--match", str(unbroken)])
    run_job.main()
    assert "planned by speeds of 2 cores of an AMD EPYC, 2026-11-21, and used:\n" in capsys.readouterr().out
    used = json.loads((tmp_path / "out" / "planned.json").read_text())
    assert {name for name, one in used["seconds"].items() if one["used"] > 0} == set(STAGES)
    # A process that has imported torch.
    assert all(one["used"] > 100 * 2**20 for one in used["memory"].values())
    (line,), bought = figures(tmp_path / "out"), figures(unbroken)[-1]
    assert (line["labels"], line["positives"]) == (bought["labels"], bought["positives"])
    assert {row["source"] for table in tables(tmp_path / "out") for row in table.to_pylist()} == {"stratified-match"}
    (unbroken / "state.json").rename(tmp_path / "state.json")
    with pytest.raises(BadOption, match=r"has 0 of 2 rounds; run it to its end first"):
        run_job.main()
    (tmp_path / "state.json").rename(unbroken / "state.json")
    with pytest.raises(BadOption, match="give `match=RUN`"):
        run(config(folders["TASK"], strategy="stratified-match"), CPUS, tmp_path / "other")


@pytest.fixture(scope="module")
def two_sided(in_process, folders, tmp_path_factory):
    """The actors of a run on the two-sided task: its world on two shards, which serves other runs of the same kind."""
    asked, task = config(folders["TWO"]), read_task(folders["TWO"])
    with (
        opened(tmp_path_factory.mktemp("world"), task) as journal,
        deploy_services(asked, replace(CPUS, shards=2), journal, SimulatedOracle(task.split("train")), quiet) as world,
    ):
        yield world


@pytest.mark.parametrize(
    ("changes", "labels"),
    # The whole budget is 16 + 24; stated takes what there is.
    [
        ({"strategy": "adaptive"}, [16, 40]),
        ({"strategy": "uncertainty", "seeding": "stated"}, [16, 40]),
        ({"strategy": "static"}, [40]),
        ({"strategy": "random"}, [40]),
        ({"strategy": "stated"}, [None]),
        ({"strategy": "static", "train_every_budget": True}, [16, 40]),
        ({"strategy": "random", "train_every_budget": True}, [16, 40]),
        ({"strategy": "stated", "train_every_budget": True}, [16, None]),
    ],
)
def test_every_strategy_runs(two_sided, folders, tmp_path, changes, labels):
    evaluation = EvaluationConfig(splits=("dev",), mode="estimate", random_pairs=50, near_neighbours=2)
    asked, task = config(folders["TWO"], evaluation=evaluation, **changes), read_task(folders["TWO"])
    split = task.split("train")
    everything = len(split.positives) + len(split.stated_negatives)
    with opened(tmp_path / "out", task) as journal:
        trainer = TrainerActor(two_sided.trainer.training, two_sided.pool, journal, quiet)
        world = RayRunServices(asked, two_sided.pool, trainer, journal, SimulatedOracle(split))
        states = list(loop.run(asked, split, world, State()))
    assert [len(state.labelled) for state in states] == [everything if n is None else n for n in labels]
    assert [line["labels"] for line in figures(tmp_path / "out")] == [len(state.labelled) for state in states]
    assert all(0 < line["average_precision"] <= 1 for line in figures(tmp_path / "out"))


def test_the_encoder_that_learns_words_runs_and_its_labels_do_not_depend_on_shards(in_process, folders, tmp_path):
    asked = config(folders["TASK"], encoder="cnn-4", encoder_layers=None)
    one = run(asked, CPUS, tmp_path / "one")
    two = run(asked, replace(CPUS, shards=2), tmp_path / "two")
    assert tables(tmp_path / "one") == tables(tmp_path / "two")
    assert [one.model(number).digest for number in (1, 2)] == [two.model(number).digest for number in (1, 2)]
    assert (one.round(2) / "model" / "vocab.json").is_file()


def test_every_round_keeps_pairs_of_dev_to_look_at(unbroken, folders):
    task = read_task(folders["TASK"])
    positives = set(task.split("dev").positive_keys.tolist())
    for number in (1, 2):
        rows = read_examples(unbroken / f"round-{number:03d}")
        made = json.loads((unbroken / f"round-{number:03d}" / "record.json").read_text())
        scorer = Scorer(made["model"]["weight"], made["model"]["bias"])
        assert [row["kind"] for row in rows] == [kind for kind in KINDS for _ in range(20)]
        for row in rows:
            assert row["split"] == "dev"
            assert row["label"] == (row["left"] * len(task.right) + row["right"] in positives)
            assert (row["left_text"], row["right_text"]) == (
                task.left.texts[row["left"]],
                task.right.texts[row["right"]],
            )
            assert row["p"] == pytest.approx(float(scorer.probability(np.array([row["cosine"]]))[0]))
        assert {row["label"] for row in rows[:20]} == {0}
        assert {row["label"] for row in rows[20:40]} == {1}
        assert "examples" in made["seconds"]


@pytest.mark.parametrize("search", [{"kind": "exact"}, {"kind": "exact", "ordered_pairs": True}, {"neighbours": 5}])
def test_the_examples_of_a_split_are_its_extremes(in_process, folders, tmp_path, search):
    kept = EvaluationConfig(examples=4)
    asked = config(folders["TASK"], search=SearchConfig(block=16, **search), evaluation=kept)
    task = read_task(folders["TASK"])
    split = task.split("dev")
    with deploy_pool(asked, CPUS, task, tmp_path / "out", quiet) as pool:
        model = replace(pool.untrained(), scorer=Scorer(weight=9.0, bias=-8.0))
        measure = PoolEvaluator(pool, task, asked, EvaluationSets([tmp_path]))
        found = measure.examples(model, "dev")
        keys, cosines = every_cosine(pool, task)
    positive = np.isin(keys, split.positive_keys)
    highest = sorted(np.flatnonzero(~positive), key=lambda at: (-cosines[at], keys[at]))[:4]
    lowest = sorted(np.flatnonzero(positive), key=lambda at: (cosines[at], keys[at]))[:4]
    nearest = sorted(range(len(keys)), key=lambda at: (abs(cosines[at] - 8 / 9), keys[at]))[:4]
    here = split.space.keys(found.pairs).tolist()
    assert here[:8] == keys[[*highest, *lowest]].tolist()
    # Of the five nearest of each text alone, other pairs may be nearest the boundary.
    assert here[8:] == keys[nearest].tolist() or "neighbours" in search
    assert found.kinds == tuple(kind for kind in KINDS for _ in range(4))
    assert found.labels.tolist() == np.isin(here, split.positive_keys).tolist()


def every_cosine(pool: ShardedPool, task: Task) -> tuple[np.ndarray, np.ndarray]:
    """All keys of dev in order, and their cosines."""
    split = task.split("dev")
    keys = np.sort(split.space.at(np.arange(split.space.total)))
    return keys, pool.scores(pool.untrained(), split, split.space.pairs(keys))


@pytest.mark.parametrize("order", [HIGHEST, Order(0.8)])
def test_the_least_of_sharded_pairs_are_the_least_of_each_texts_nearest(two_sided, tmp_path, order):
    pool, task = two_sided.pool, two_sided.pool.task
    split, (keys, cosines) = task.split("dev"), every_cosine(pool, task)
    known = np.sort(split.positive_keys)[::2]
    candidates = set[int]()
    for left in split.space.left.tolist():
        own = [place for place, key in enumerate(keys.tolist()) if key // split.space.width == left]
        candidates |= set(sorted(own, key=lambda place: (-cosines[place], keys[place]))[:5])
    fresh = [place for place in candidates if keys[place] not in known]
    wanted = sorted(fresh, key=lambda place: (order.cost(cosines[[place]])[0], keys[place]))[:20]
    found = PoolSearch(pool, split).least(pool.untrained(), order, 20, known)
    assert found.keys.tolist() == keys[wanted].tolist()
    assert found.cosines.tolist() == cosines[wanted].tolist()
    assert len(PoolSearch(pool, split).least(pool.untrained(), order, 0, NO_KEYS)) == 0
    near = drawn_set(PoolSearch(pool, split), pool.untrained(), EvaluationConfig(near_neighbours=5), tmp_path)
    assert near.strata[0].keys.tolist() == np.setdiff1d(keys[sorted(candidates)], split.positive_keys).tolist()


def test_a_count_and_an_estimate_that_takes_every_pair_are_one(two_sided, tmp_path):
    pool, task = two_sided.pool, two_sided.pool.task
    split, (keys, cosines) = task.split("dev"), every_cosine(pool, task)
    labels = np.isin(keys, split.positive_keys).astype(np.uint8)
    model = replace(pool.untrained(), scorer=Scorer(weight=9.0, bias=-8.0))
    wanted = average_precision_score(labels, cosines)
    summed = reliability(Scorer(9.0, -8.0).logit(cosines), labels, 1.0)
    for mode in ("exact", "estimate"):
        asked = config(tmp_path, evaluation=EvaluationConfig(mode=mode, near_neighbours=3, random_pairs=10**6))
        measured = PoolEvaluator(pool, task, asked, EvaluationSets([tmp_path])).evaluate(model, "dev")
        assert measured.average_precision.value == pytest.approx(wanted, rel=1e-12)
        assert measured.exact
        assert measured.total_pairs == split.space.total
        assert measured.calibration_error == pytest.approx(summed.error, rel=1e-4)


def test_sampled_pairs_are_read_once_by_the_shards_and_a_kept_set_is_taken(two_sided, tmp_path, monkeypatch):
    pool, task = two_sided.pool, two_sided.pool.task
    model, loaded = replace(pool.untrained(), scorer=Scorer(weight=9.0, bias=-8.0)), []

    def load(pool, stored, split):
        loaded.append(stored.place)
        return load_strata(pool, stored, split)

    monkeypatch.setattr(sharded_evaluator, "load_strata", load)
    asked = config(tmp_path, evaluation=EvaluationConfig(mode="estimate", near_neighbours=3, random_pairs=100))
    evaluator = PoolEvaluator(pool, task, asked, EvaluationSets([tmp_path]))
    first, second = (evaluator.evaluate(model, "dev") for _ in range(2))
    assert first.average_precision.value == second.average_precision.value
    again = PoolEvaluator(pool, task, asked, EvaluationSets([tmp_path / "empty", tmp_path]))
    monkeypatch.setattr(sharded_evaluator, "store_evaluation_set", None)
    assert again.evaluate(model, "dev").average_precision == first.average_precision
    (place,) = (tmp_path / "evaluation").iterdir()
    assert loaded == [place, place]
    # 20 x 20 pairs less those of the near stratum and the positives; 100 of them are drawn.
    assert [stratum.size for stratum in again.summaries(task.split("dev"))][1:] == [100]
    (place / "1-random.parquet").write_bytes((place / "0-near.parquet").read_bytes())
    with pytest.raises(BadFile, match=r"near and random share pairs.*remove its folder"):
        PoolEvaluator(pool, task, asked, EvaluationSets([tmp_path])).make_sets(["dev"])


@pytest.mark.slow
@pytest.mark.parametrize("symmetric", [True, False])
def test_a_run_buys_and_counts_only_pairs_that_can_match(in_process, make_ruled, tmp_path, symmetric):
    task = make_ruled(symmetric)
    write_task(task, tmp_path / "task", {})
    asked = config(tmp_path / "task", evaluation=EvaluationConfig(near_neighbours=3, random_pairs=10**6))
    journal = run(asked, replace(CPUS, shards=2), tmp_path / "out")
    bought, space = journal.state().labelled.pairs, task.split("train").space
    assert len(bought) == 16 + 24 < len(every_pair_of(task)) == space.total
    assert {tuple(pair) for pair in bought.tolist()} <= every_pair_of(task)
    # Every pair of dev is counted, or all are in the sample: average precision is that of a list of them.
    with deploy_pool(asked, CPUS, task, tmp_path / "out", quiet) as pool:
        model, split = journal.model(2), task.split("dev")
        keys = np.sort(split.space.at(np.arange(split.space.total)))
        wanted = average_precision_score(
            np.isin(keys, split.positive_keys), pool.scores(model, split, split.space.pairs(keys))
        )
        for mode in ("exact", "estimate"):
            evaluation = replace(asked.evaluation, mode=mode)
            evaluator = PoolEvaluator(pool, task, replace(asked, evaluation=evaluation), EvaluationSets([tmp_path]))
            assert evaluator.evaluate(model, "dev").average_precision.value == pytest.approx(wanted, rel=1e-12)


def every_pair_of(task: Task) -> set[tuple[int, int]]:
    """The pairs of train that can match by `make_ruled`: of one ten in two, and not of one of three."""
    space = task.split("train").space
    return {
        (a, b)
        for a in space.left.tolist()
        for b in space.right.tolist()
        if (a < b or not task.symmetric) and a // 10 % 2 == b // 10 % 2 and a % 3 != b % 3
    }


def refused(arguments: list[str], monkeypatch, capsys) -> str:
    """What a job says on stderr as it refuses."""
    monkeypatch.setattr(sys, "argv", ["run", *arguments])
    with pytest.raises(SystemExit) as stop:
        job(run_job.main)
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert said.startswith("error: ")
    return said


def test_another_seed_is_refused_by_name(unbroken, folders, monkeypatch, capsys):
    said = refused(["--out", str(unbroken), "--config", str(unbroken), "--seed", "1"], monkeypatch, capsys)
    assert "seed: 0 there, 1 here" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--task", "TASK", "--strategy", "best"], "strategy"),
        (["--task", "TASK", "--rounds", "0"], "--rounds is 0; give at least 1"),
        (["--task", "TASK", "--roundz", "3"], "roundz"),
        (["--task", "nowhere"], "nowhere holds no task.json"),
        ([], "task"),
        (["--task", "TASK", "--evaluation.splits", "test"], "has no test pairs"),
        (
            ["--task", "LONELY", "--evaluation.splits", "dev"],
            "no positive pair to measure by; name another split, or label a sample (",
        ),
        (["--task", "TASK", "--config", "nowhere"], "nowhere"),
        (["--task", "TASK", "--config"], "config"),
        (["--task", "TASK", "--stop.patience", "0"], "--stop.patience is 0; give at least 1"),
        (["--task", "TASK", "--stop.patience", "2", "--evaluation.splits"], "give --evaluation.splits dev"),
        (["--task", "TASK", "--config=nowhere"], "nowhere"),
    ],
)
def test_a_bad_command_ends_in_one_line(arguments, words, folders, tmp_path, monkeypatch, capsys):
    put = [str(folders.get(argument, argument)) for argument in arguments]
    assert words in refused([*put, "--out", str(tmp_path / "out")], monkeypatch, capsys)
    assert not (tmp_path / "out" / "config.json").exists()


def test_the_job_ends_with_2_and_one_line_as_a_command(tmp_path):
    command = [sys.executable, "-m", "jobs.run", "--task", str(tmp_path / "no"), "--out", str(tmp_path / "out")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert len(ended.stderr.splitlines()) == 1
    assert "holds no task.json" in ended.stderr
