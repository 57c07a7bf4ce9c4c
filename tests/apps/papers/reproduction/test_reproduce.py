"""jobs.reproduce: what each table is made of, the tables that no grid gives, and all of it on a real Ray."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from al_ray.active_learning.config import RunConfig
from al_ray.apps.grid.spec import Axes, GridConfig
from al_ray.apps.papers.reproduction.tables import (
    COSINE,
    ApDifference,
    ModelResult,
    other_models,
    paired_differences,
    stated_models,
)
from al_ray.apps.papers.reproduction.targets import Part, extended_axes, parts
from al_ray.apps.reporting.published import paper_results
from al_ray.apps.reporting.read_runs import read_runs
from al_ray.apps.reporting.run_records import TaskSummary
from al_ray.cli.reproduce import ConcatOptions, ReproduceCommand
from al_ray.cli.reproduce import run_command as reproduce
from al_ray.core.config.cluster import ClusterConfig
from al_ray.core.config.sections import EvaluationConfig, SearchConfig, TrainingConfig
from al_ray.core.errors import BadOption
from al_ray.datasets.synthetic import synthetic_task
from al_ray.datasets.task_folder import write_task
from al_ray.metrics.average_precision import Estimate

CONFIG = RunConfig(task="task")
WIKIQA = TaskSummary("", "wikiqa")


def counted(value: float) -> Estimate:
    return Estimate(value, value, value)


def test_runs_of_other_options_are_in_a_grid_of_their_own():
    def names(target, config=CONFIG):
        return [(part.name, part.strategies) for part in parts(target, config)]

    assert names("table4") == [("grid", ("random", "static", "adaptive", "uncertainty"))]
    assert names("figure3") == [("grid", ("uncertainty",)), ("grid-stated-seed", ("uncertainty",))]
    # What buys at once is trained at every budget, apart from runs that were told not to.
    assert names("figure4") == [("grid", ("uncertainty",)), ("grid-every-budget", ("static",))]
    assert names("figure4", replace(CONFIG, train_every_budget=True)) == [("grid", ("static", "uncertainty"))]
    (_, apart) = parts("figure4", CONFIG)
    assert apart.config == replace(CONFIG, train_every_budget=True)
    assert parts("figure3", CONFIG)[1].config.seeding == "stated"


def test_a_grid_grows_by_what_a_table_lacks_and_by_what_that_waits_for():
    part = Part("grid", CONFIG, ("stratified-match", "adaptive"))
    assert extended_axes(part, (0, 1), None) == Axes(
        ("uncertainty", "stratified-match", "adaptive"), (0, 1), (CONFIG.encoder,)
    )
    there = Axes(("static", "adaptive"), (3, 1), (CONFIG.encoder,))
    wanted = Axes(("static", "adaptive", "uncertainty", "stratified-match"), (3, 1, 0), (CONFIG.encoder,))
    assert extended_axes(part, (0, 1), there) == wanted


def test_table_2_has_heuristic_figures_beside_those_of_all_pairs_and_the_paper_below():
    found = {"clean_map": 0.8, "a_f1": 0.456}
    judged = [
        ModelResult(COSINE, "stated", 0, counted(0.1), counted(0.05), found),
        ModelResult("bert-tiny", "stated", 0, Estimate(0.2, 0.1, 0.3), Estimate(0.024, 0.011, 0.2), found),
    ]
    rows = [row.cells for row in stated_models(WIKIQA, False, judged).rows]
    assert rows[0] == ("bert-tiny", "1", "80.0", "45.6", "20.0", "2.4 (1.1 to 20.0)")
    assert rows[1] == (COSINE, "1", "80.0", "45.6", "10.0", "5.0")
    assert rows[2] == ("BERT (paper)", "3", "79.9", "45.9", "6.5", "2.4")
    assert len(rows) == 2 + 4
    symmetric = stated_models(
        TaskSummary("", "mine"), True, [replace(judged[0], heuristic={"accuracy": 1.0, "f1": None})]
    )
    assert [row.cells for row in symmetric.rows] == [(COSINE, "1", "100.0", "-", "10.0", "5.0")]


def test_table_6_has_both_models_of_each_strategy_and_their_paired_difference():
    less = Estimate(-0.1, -0.2, 0.05)
    judged = [
        ModelResult(COSINE, "uncertainty", 0, counted(0.5), counted(0.3), {}),
        ModelResult(COSINE, "uncertainty", 1, counted(0.7), counted(0.5), {}),
        ModelResult("bert", "uncertainty", 0, counted(0.4), Estimate(0.2, 0.1, 0.3), {}, less),
        ModelResult(COSINE, "stated", 0, counted(0.1), counted(0.1), {}),
        ModelResult(COSINE, "stratified-match", 0, counted(0.1), counted(0.1), {}),
    ]
    table = other_models(TaskSummary("", "qqp"), judged)
    assert [row.cells for row in table.rows] == [
        ("stated", "1", "10.0", "10.0", "-", "-", "-", "15.4", "2.4"),
        ("stratified-match (oracle)", "1", "10.0", "10.0", "-", "-", "-", "19.0", "16.4"),
        ("uncertainty", "2", "60.0 ± 14.1", "40.0 ± 14.1", "40.0", "20.0 (10.0 to 30.0)", "-10.0 (-20.0 to +5.0)",
         "32.5", "8.9"),
    ]  # fmt: skip
    assert table.paper == {7, 8}
    assert len(other_models(WIKIQA, judged).head) == 7


def test_differences_of_methods_stand_seed_by_seed():
    found = [ApDifference("static", 0, -0.05, Estimate(-0.1, -0.2, 0.01)), ApDifference("adaptive", 1, 0.01, None)]
    table = paired_differences("uncertainty", found)
    assert table is not None
    assert table.head == ("method", "seed 0", "seed 1")
    assert [row.cells for row in table.rows] == [("static", "-5.0 (-20.0 to +1.0)", "-"), ("adaptive", "-", "+1.0")]
    assert paired_differences("uncertainty", []) is None


def test_the_figures_of_the_paper_are_those_that_its_text_repeats():
    qqp, wikiqa = paper_results("qqp"), paper_results("wikiqa")
    assert qqp
    assert wikiqa
    # 3.2: the best F1 on QQP, precision there, c-MAP, precision and a-F1 on WikiQA.
    assert max(one.heuristic[1] for one in qqp.stated.values()) == 0.802
    assert max(one.result.precision_at_recall_20 for one in qqp.stated.values()) == 0.035
    assert max(one.heuristic[0] for one in wikiqa.stated.values()) == 0.846
    assert max(one.result.precision_at_recall_20 for one in wikiqa.stated.values()) == 0.065
    assert max(one.heuristic[1] for one in wikiqa.stated.values()) == 0.536
    # 5.2: CONCATBERT's AP on both; it stands in Tables 2 and 6.
    assert qqp.stated["BERT"].result == qqp.collected["stated"]
    assert qqp.stated["BERT"].result.average_precision == wikiqa.stated["BERT"].result.average_precision == 0.024


@pytest.fixture(scope="module")
def asked(tmp_path_factory) -> ReproduceCommand:
    """A small table 4 of one seed."""
    folder = tmp_path_factory.mktemp("reproduce")
    write_task(synthetic_task(160, 0), folder / "task", {})
    config = RunConfig(
        task=str(folder / "task"), rounds=2, first_batch=16, encoder="random-bert", encoder_layers=1, max_length=24,
        encoder_batch=8, threads=1, search=SearchConfig(neighbours=5, block=16),
        training=TrainingConfig(epochs=1, batch=8, learning_rate=1e-3, worst_loss=100.0),
        evaluation=EvaluationConfig(splits=("dev", "test"), near_neighbours=2, random_pairs=20, examples=0),
    )  # fmt: skip
    return ReproduceCommand(
        target="table4", config=config, out=folder / "out", seeds=1,
        cluster=ClusterConfig(timeout=600), scheduling=GridConfig(concurrent=2, failures=0),
        concat=ConcatOptions(epochs=1, batch=16, near_pairs=30, random_pairs=20),
    )  # fmt: skip


def test_a_table_without_its_split_or_its_seeds_is_refused(asked):
    with pytest.raises(BadOption, match=r"--evaluation.splits lacks test"):
        reproduce(replace(asked, config=replace(asked.config, evaluation=EvaluationConfig(splits=("dev",)))))
    with pytest.raises(BadOption, match="`seeds`"):
        reproduce(replace(asked, seeds=0))
    assert not Path(str(asked.out)).exists()


def test_a_dry_run_says_what_there_is_to_do_and_starts_nothing(asked, capsys):
    assert reproduce(replace(asked, target="table6", dry_run=True))
    told = " ".join(capsys.readouterr().out.split())
    for name in (
        "grid:",
        "stated-s0 all stated 1 0 -",
        " and all stated 5 0 ",
        "static-s0",
        "stratified-match-s0 ",
        "uncertainty-s0",
        "random-bert on the labels",
    ):
        assert name in told
    assert not Path(str(asked.out)).exists()


@pytest.mark.slow
def test_targets_are_printed_and_kept_and_nothing_is_done_twice(in_process, drawn, asked, capsys):
    out = Path(str(asked.out))
    for target in ("table2", "table3", "figure3"):
        assert reproduce(replace(asked, target=target))
        assert (
            (out / f"{target}.md").read_text().startswith(f"# {target[:-1].capitalize()} {target[-1]} of the paper: ")
        )
    told = capsys.readouterr().out
    made = {run.name: run for run in read_runs(out / "grid")}
    strategies = ("stated", "random", "static", "adaptive", "uncertainty")
    assert [*made] == [f"grid/{strategy}-s0" for strategy in strategies]
    # Each figure is that of its run, and differences are theirs.
    ends = {strategy: made[f"grid/{strategy}-s0"].rounds[-1].splits["test"] for strategy in strategies}
    values = {strategy: one.average_precision.value for strategy, one in ends.items()}
    rows = [line.split() for line in told.splitlines()]
    assert any(row[:1] == ["static"] and row[-1] == f"{100 * values['static']:.1f}" for row in rows)
    less = json.loads((out / "findings" / "grid-static-less-uncertainty-s0.json").read_text())["found"]
    assert less["value"] == pytest.approx(values["static"] - values["uncertainty"], abs=1e-12)
    concat = json.loads((out / "concat" / "random-bert-stated-s0" / "evaluation-test.json").read_text())
    assert f"{100 * concat['average_precision']['value']:.1f} (" in (out / "table2.md").read_text()
    for name in ("figure3a-dev", "figure3b"):
        assert (out / "figures" / f"{name}.svg").stat().st_size > 1000
    # Again: the same words, and nothing trained or measured.
    before = {path: path.stat().st_mtime_ns for path in (*out.rglob("*.safetensors"), *out.rglob("findings/*"))}
    first = (out / "table2.md").read_text()
    assert reproduce(replace(asked, target="table2"))
    assert "measuring" not in capsys.readouterr().out
    assert (out / "table2.md").read_text() == first
    assert before == {path: path.stat().st_mtime_ns for path in before}
