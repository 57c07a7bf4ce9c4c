"""A grid as values: which runs it has, what they are called and may buy, which waits for which, and its summary."""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from al_ray.active_learning.config import RunConfig
from al_ray.api.grids import run_grid
from al_ray.apps.grid import ray_tune
from al_ray.apps.grid.folder import GridFolder
from al_ray.apps.grid.spec import Axes, Cell, GridConfig, cells, first_batch, phases
from al_ray.apps.grid.summary import GridSession, markdown, table, unfinished
from al_ray.apps.reporting.run_records import Round, Run, SplitEvaluation, TaskSummary
from al_ray.cli.grid import parse_arguments
from al_ray.cluster.trial import bundles_of
from al_ray.core.candidates import HIGHEST, Candidates
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import EvaluationConfig, TrainingConfig
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.metrics.average_precision import Estimate
from al_ray.runs.seed_sets import SeedSet, SeedSets
from tests.apps.grid.parsed import parsed_grid

CONFIG = RunConfig(task="task", rounds=2, first_batch=16)


def axes(**changes) -> Axes:
    return replace(Axes(("static", "uncertainty"), (0, 1), ("one",)), **changes)


def test_a_grid_has_every_combination_seed_by_seed():
    made = cells(CONFIG, axes())
    assert [cell.name for cell in made] == ["static-s0", "uncertainty-s0", "static-s1", "uncertainty-s1"]
    assert [(cell.config.strategy, cell.config.seed, cell.config.encoder) for cell in made[:3]] == [
        ("static", 0, "one"),
        ("uncertainty", 0, "one"),
        ("static", 1, "one"),
    ]
    # 16 + 24, bought at once or not.
    assert {cell.labels for cell in made} == {40}
    assert made[0].as_dict() == {
        "name": "static-s0", "strategy": "static", "seed": 0, "encoder": "one", "budget": 40, "after": None,
    }  # fmt: skip


def test_an_axis_of_several_values_is_in_the_name_and_another_is_not():
    made = cells(CONFIG, axes(encoders=("hub/one", "./two two/"), budgets=(40, 100), seeds=(3,)))
    assert [cell.name for cell in made] == [
        f"{strategy}-s3-{encoder}-b{budget}"
        for encoder in ("one", "two-two")
        for budget in (40, 100)
        for strategy in ("static", "uncertainty")
    ]
    assert made[0].group == "static-one-b40"
    assert [cell.name for cell in cells(CONFIG, axes(budgets=(40,), seeds=(3,)))] == ["static-s3", "uncertainty-s3"]


def test_encoders_of_one_name_are_told_apart_by_their_paths():
    made = cells(CONFIG, axes(encoders=("a/one", "b/one"), seeds=(0,), strategies=("static",)))
    assert [cell.name for cell in made] == ["static-s0-a-one", "static-s0-b-one"]
    with pytest.raises(BadOption, match="too much alike"):
        cells(CONFIG, axes(encoders=("a one", "a-one"), seeds=(0,)))


@given(st.integers(1, 100_000), st.integers(1, 6), st.floats(1, 3))
def test_the_first_batch_of_a_budget_is_the_largest_that_keeps_within(budget, rounds, growth):
    config = replace(CONFIG, rounds=rounds, growth=growth)
    least = sum(replace(config, first_batch=1).batches)
    if least > budget:
        with pytest.raises(BadOption, match="`budgets`"):
            first_batch(config, budget)
        return
    found = first_batch(config, budget)
    assert sum(replace(config, first_batch=found).batches) <= budget
    assert sum(replace(config, first_batch=found + 1).batches) > budget


def test_the_papers_budget_on_wikiqa_is_that_of_its_first_batch():
    # 2048 + 3072 + 4608 + 6912.
    config = RunConfig(task="task")
    assert first_batch(config, 16_640) == 2048
    assert first_batch(config, 16_639) == 2047


def test_a_run_that_learns_from_another_comes_after_it_in_a_later_phase():
    # A made-up need: adaptive from uncertainty, and stated from adaptive.
    needs = {"adaptive": "uncertainty", "stated": "adaptive"}
    made = cells(CONFIG, axes(strategies=("adaptive", "stated", "static", "uncertainty")), needs)
    first, second, third = phases(made)
    assert [cell.name for cell in first] == ["static-s0", "uncertainty-s0", "static-s1", "uncertainty-s1"]
    assert [(cell.name, cell.after) for cell in second] == [
        ("adaptive-s0", "uncertainty-s0"),
        ("adaptive-s1", "uncertainty-s1"),
    ]
    assert [cell.after for cell in third] == ["adaptive-s0", "adaptive-s1"]
    assert phases(cells(CONFIG, axes())) == (cells(CONFIG, axes()),)
    with pytest.raises(BadOption, match="add uncertainty"):
        cells(CONFIG, axes(strategies=("adaptive",)), needs)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"strategies": ("best",)}, "`strategies` has best"),
        ({"seeds": (1, 1)}, "`seeds` is 1,1; give each value once"),
        ({"encoders": ()}, "`encoders` is empty"),
    ],
)
def test_axes_that_cannot_be_are_refused(changes, words):
    with pytest.raises(BadOption, match=words):
        axes(**changes)


def evaluation(precision: float) -> SplitEvaluation:
    return SplitEvaluation(Estimate(precision, 0.0, 1.0), Estimate(1.0, 1.0, 1.0), 10, 100, True)


def run(cell: Cell, *precisions: float, error: str = "", split: str = "dev") -> Run:
    """A run of a cell with such an AP after each round, of 3.5 seconds; of 16 labels, then 40."""
    seconds = {"train": 2.0, "embed": 1.5}
    rounds = [
        Round(number, labels, 10, labels, 10, seconds, {split: evaluation(precision)})
        for number, (labels, precision) in enumerate(zip((16, 40), precisions, strict=False), start=1)
    ]
    trouble = f"ended after round {len(rounds)} of 2: failed: {error}" if error else ""
    return Run(f"grid/{cell.name}", cell.config, TaskSummary("d", "task"), tuple(rounds), trouble, error)


def test_the_table_has_means_and_deviations_and_counts_the_failed_runs():
    grid = static, uncertainty, again, last = cells(CONFIG, axes())
    runs = [run(static, 0.1, 0.5), run(uncertainty, 0.1, 0.6), run(again, 0.1, 0.8), run(last, 0.1, error="no | luck")]
    head, *rows = table(grid, runs).lines
    named = [dict(zip(head, row, strict=True)) for row in rows]
    # Means of 50 and 80 with their sample deviation 30 / sqrt(2) = 21.2; a failed run is counted, and in no mean.
    assert [(row["strategy"], row["runs"], row["AP %"], row["seconds"]) for row in named] == [
        ("static", "2 of 2", "65.0 ± 21.2", "7"),
        ("uncertainty", "1 of 2", "60.0", "7"),
    ]
    assert [one.status for one in runs] == ["complete", "complete", "complete", "failed"]
    assert unfinished(grid, runs) == ["uncertainty-s1: ended after round 1 of 2: failed: no | luck"]
    text = markdown(grid, runs, ["a note"]).splitlines()
    assert text[-3:] == ["- uncertainty-s1: ended after round 1 of 2: failed: no | luck", "", "- a note"]
    assert "| static | one | 40 | 2 of 2 | 40 | 10 | 65.0 ± 21.2 | 100.0 | 7 |" in text


def test_a_split_beside_dev_has_a_column_of_its_own():
    config = replace(CONFIG, evaluation=EvaluationConfig(splits=("dev", "test")))
    grid = cells(config, axes(seeds=(0,), strategies=("static",)))
    both = run(grid[0], 0.5)
    splits = {**both.rounds[0].splits, "test": evaluation(0.25)}
    head, row = table(grid, [replace(both, rounds=(replace(both.rounds[0], splits=splits),))]).lines
    assert dict(zip(head, row, strict=True))["AP % test"] == "25.0"
    # A run that was not evaluated on a split has a dash there.
    head, row = table(grid, [both]).lines
    assert dict(zip(head, row, strict=True))["AP % test"] == "-"


@pytest.mark.parametrize("out", ["grid", "runs/grid"])
def test_a_submitted_job_refuses_a_relative_folder_before_any_work(monkeypatch, out):
    line = ["--task", "nowhere", "--strategies", "static", "--seeds", "0", "--out"]
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    with pytest.raises(BadOption, match=f"`out='{out}'` is relative.* give an absolute path"):
        parsed_grid([*line, out])
    with pytest.raises(BadOption, match="is relative"):
        run_grid(RunConfig(task="nowhere"), Axes(("static",), (0,), ("cnn",)), out)
    assert parsed_grid([*line, "/absolute"]).out == Path("/absolute")
    monkeypatch.delenv("RAY_JOB_CONFIG_JSON_ENV_VAR")
    assert parsed_grid([*line, out]).out == Path(out).resolve()


def test_the_overhead_is_what_all_places_took_beyond_the_stages():
    # Two places for 60 s are 120 s, of which the stages took 100.
    assert GridSession(wall=60, shared=5, stages=100, concurrent=2).overhead == pytest.approx(0.2)
    assert GridSession(wall=60, shared=5, stages=0, concurrent=2).overhead is None
    assert str(GridSession(wall=60, shared=5, stages=100, concurrent=2)) == (
        "60 s with 2 runs at a time, 5 s of it for shared inputs; the stages of all rounds took 100 of 120 s (2 x 60 "
        "s); process starts, shared inputs and waiting took the other 20 s, 20.0% of the time of the stages"
    )
    assert str(GridSession(wall=9, shared=5, stages=0, concurrent=1)).endswith("; no round was completed")


def test_a_seed_set_larger_than_its_record_is_no_pool_that_has_run_out():
    # As a writer that is killed between the pairs and the record leaves it.
    four = Candidates(np.arange(4), np.array([0.9, 0.8, 0.7, 0.6]))
    assert SeedSet(four, 2, None).least(5, np.empty(0, dtype=np.int64)) is None
    assert SeedSet(four, 5, None).least(5, np.empty(0, dtype=np.int64)) is not None


@given(
    st.lists(st.sampled_from([0.1, 0.2, 0.3]), min_size=1, max_size=20), st.integers(1, 25),
    st.integers(0, 25), st.sets(st.integers(0, 19)),
)  # fmt: skip
def test_a_seed_set_answers_as_a_search_of_everything_or_not_at_all(cosines, kept, count, labelled):
    every = Candidates(np.arange(len(cosines)), np.array(cosines))
    known = np.array(sorted(labelled), dtype=np.int64)
    fresh = ~np.isin(every.keys, known)
    wanted = Candidates(every.keys[fresh], every.cosines[fresh]).least(HIGHEST, count)
    found = SeedSet(every.least(HIGHEST, kept), kept, None).least(count, known)
    if found is not None:
        assert found.keys.tolist() == wanted.keys.tolist()
        assert found.cosines.tolist() == wanted.cosines.tolist()
    else:
        # Then it may have been cut, and too few of it are fresh.
        assert kept <= len(cosines)
        assert fresh[every.least(HIGHEST, kept).keys].sum() < count


def test_a_seed_set_is_read_as_it_was_written_and_only_for_what_it_was_made_from(tmp_path):
    seeds, made_from = SeedSet(Candidates(np.array([7, 3]), np.array([0.9, 0.1 + 0.2])), 2, 0.95), {"task": "a"}
    SeedSets(tmp_path).write(seeds, made_from)
    found = SeedSets(tmp_path).read(made_from)
    assert found is not None
    assert (found.candidates.keys.tolist(), found.candidates.cosines.tolist()) == ([7, 3], [0.9, 0.1 + 0.2])
    assert (found.count, found.recall) == (2, 0.95)
    assert SeedSets(tmp_path).read({"task": "b"}) is None


def test_a_run_has_a_bundle_for_every_actor():
    config = ClusterConfig(shards=2, cpus_per_shard=0.5, gpus_per_shard=1)
    assert bundles_of(config, trainers=3) == [{"CPU": 0.5, "GPU": 1}] * 5
    assert bundles_of(ClusterConfig(), trainers=1) == [{"CPU": 1.0}] * 2


def test_a_grid_with_other_options_is_refused_by_name(tmp_path):
    folder, made = GridFolder(tmp_path), cells(CONFIG, axes())
    folder.bind(axes(), CONFIG, made, "d")
    folder.bind(axes(), CONFIG, made, "d")
    with pytest.raises(Exception, match=r"axes.seeds: \[0, 1\] there, \[0\] here; options.growth: 1.5 there, 2 here"):
        folder.bind(axes(seeds=(0,)), replace(CONFIG, growth=2), made, "d")
    # It grows by seeds and by strategies, and by nothing else, and never shrinks.
    more = axes(seeds=(2, 1, 0), strategies=("random", *axes().strategies))
    folder.bind(more, CONFIG, cells(CONFIG, more), "d")
    assert folder.axes() == more
    with pytest.raises(WrongFolder, match=r"axes.seeds: \[2, 1, 0\] there, \[0, 1\] here"):
        folder.bind(axes(), CONFIG, made, "d")
    with pytest.raises(WrongFolder, match=r"axes\.encoders"):
        folder.bind(replace(more, encoders=("one", "two")), CONFIG, made, "d")
    (tmp_path / "grid.json").unlink()
    folder.bind(axes(), CONFIG, made, "d")
    # Of a version that had one option less.
    kept = tmp_path / "grid.json"
    content = json.loads(kept.read_text())
    del content["options"]["training"]["start"]
    kept.write_text(json.dumps(content))
    folder.bind(axes(), CONFIG, made, "d")
    with pytest.raises(WrongFolder, match=r"options.training.start: 'pretrained' there, 'previous' here"):
        folder.bind(axes(), replace(CONFIG, training=TrainingConfig(start="previous")), made, "d")
    content["options"]["training"]["rates"] = 1
    kept.write_text(json.dumps(content))
    with pytest.raises(BadFile, match=r"grid\.json: TrainingConfig has no option rates"):
        folder.bind(axes(), CONFIG, made, "d")


def test_seeds_may_be_a_range_or_an_array_in_a_notebook(tmp_path):
    asked: Any = (range(2), np.array([5, 7]))
    made = Axes(("static",), asked[0], ("e",), asked[1])
    assert made == Axes(("static",), (0, 1), ("e",), (5, 7))
    GridFolder(tmp_path).bind(made, CONFIG, cells(CONFIG, made), "d")
    assert GridFolder(tmp_path).axes() == made


def test_a_grid_goes_on_if_its_task_has_another_path_and_the_same_digest(tmp_path):
    folder, made, moved = GridFolder(tmp_path), cells(CONFIG, axes()), replace(CONFIG, task="elsewhere/t/")
    folder.bind(axes(), CONFIG, made, "d")
    with pytest.raises(WrongFolder, match=r"options.task: '.*' there, 'elsewhere/t/' here"):
        folder.bind(axes(), moved, made, "another")
    folder.bind(axes(), moved, made, "d")
    kept = tmp_path / "grid.json"
    content = json.loads(kept.read_text())
    assert (content["options"]["task"], content["task_digest"]) == ("elsewhere/t/", "d")
    # Of a version that stored no digest.
    del content["task_digest"]
    kept.write_text(json.dumps(content))
    with pytest.raises(WrongFolder, match=r"options.task: 'elsewhere/t/' there"):
        folder.bind(axes(), CONFIG, made, "d")


def test_tune_starts_a_fresh_experiment_when_the_layout_of_the_package_changes(monkeypatch):
    grid = parsed_grid(shlex.split("--task t --out g --strategies static --seeds 0"))
    before = grid.digest
    assert grid.digest == before
    monkeypatch.setattr(ray_tune, "LAYOUT", ray_tune.LAYOUT + 1)
    assert grid.digest != before


def test_axes_are_parted_by_commas_or_spaces():
    line = "--task t --out g --strategies static,random uncertainty --seeds 0,1 --budgets 40 --concurrent 3"
    grid = parsed_grid(shlex.split(line))
    assert grid.axes == Axes(("static", "random", "uncertainty"), (0, 1), ("all-MiniLM-L6-v2",), (40,))
    assert grid.how == GridConfig(concurrent=3)
    alone = parsed_grid(shlex.split("--task t --out g --strategy random --seed 5 --encoder e"))
    assert alone.axes == Axes(("random",), (5,), ("e",))


GRID = """
[axes]
strategies = ["static", "random"]
seeds = [0, 1]
[options]
task = "t"
rounds = 3
[options.search]
kind = "exact"
"""


def test_a_grid_file_gives_what_the_line_does_not(tmp_path):
    (tmp_path / "grid.toml").write_text(GRID)
    grid = parsed_grid(["--file", str(tmp_path / "grid.toml"), "--out", "g", "--seeds", "7"])
    assert grid.axes == Axes(("static", "random"), (7,), ("all-MiniLM-L6-v2",))
    assert (grid.work.config.rounds, grid.work.config.search.kind) == (3, "exact")
    # A grid's own record is such a file.
    GridFolder(tmp_path).bind(grid.axes, grid.work.config, grid.cells, "d")
    again = parsed_grid([f"--file={tmp_path / 'grid.json'}", "--out", "g"])
    assert (again.axes, again.work) == (grid.axes, grid.work)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[axes]\nseeds = ['one']\n[options]\ntask = 't'", "seeds = .* is not an axis"),
        ("[axes]\nbatches = [1]\n[options]\ntask = 't'", "batches"),
        ("[options]\nrounds = 2", "lacks task"),
        ("axes = 3", "no tables"),
        ("[grids]", "grids"),
        ("[axes", "cannot be read"),
    ],
)
def test_a_grid_file_that_is_none_is_refused(tmp_path, text, words):
    (tmp_path / "grid.toml").write_text(text)
    with pytest.raises(BadFile, match=words):
        parse_arguments(["--file", str(tmp_path / "grid.toml"), "--out", "g"])
