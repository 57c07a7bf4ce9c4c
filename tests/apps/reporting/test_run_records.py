"""Which runs are compared: all options but strategy, seed set and seed are one; and what a method is called."""

from dataclasses import replace

from al_ray.active_learning.config import RunConfig
from al_ray.active_learning.method import Method
from al_ray.active_learning.strategies import STRATEGIES, Strategy
from al_ray.apps.reporting.run_records import (
    Round,
    Run,
    SplitEvaluation,
    TaskSummary,
    settings,
    sizes,
    stage_seconds,
    stages_of,
)
from al_ray.core.config.sections import EvaluationConfig, SearchConfig
from al_ray.metrics.average_precision import Estimate

CONFIG = RunConfig(task="tasks/a", rounds=2)
TASK = TaskSummary("digest", "a")


def run(task: TaskSummary = TASK, trouble: str = "", **changes) -> Run:
    return Run("run", replace(CONFIG, **changes), task, trouble=trouble)


def test_seeds_strategies_and_seed_sets_of_one_setting_stand_together():
    runs = [run(seed=3), run(strategy="static"), run(seeding="stated"), run(task=TASK, seed=1)]
    (only,) = settings(runs)
    assert only.runs == tuple(runs)
    assert [only.name(method) for method in only.methods] == [
        "static",
        "uncertainty",
        "uncertainty (stated seed)",
    ]
    assert [one.config.seed for one in only.of(Method("uncertainty"))] == [1, 3]


def test_runs_that_match_what_others_bought_stand_beside_them():
    runs = [run(), run(strategy="stratified-match", matched=(3, 5)), run(strategy="stratified-match", matched=(4, 4))]
    (only,) = settings(runs)
    assert only.runs == tuple(runs)


def test_what_is_measured_or_kept_to_look_at_parts_nothing_and_neither_does_where_the_task_lies():
    evaluation = EvaluationConfig(splits=("test",), examples=3)
    moved = run(evaluation=evaluation, search=SearchConfig(least_recall=0.5), task=TASK)
    assert len(settings([run(), moved, Run("run", replace(CONFIG, task="s3://b/a"), TASK)])) == 1


def test_other_tasks_and_other_options_are_never_averaged_and_their_names_say_why():
    other = TaskSummary("other", "b")
    parts = settings(
        [run(), run(encoder="x"), run(other), run(encoder_layers=2), run(max_length=9, first_batch=16), run()]
    )
    assert [len(part.runs) for part in parts] == [2, 1, 1, 1, 1]
    assert [part.words for part in parts] == [
        "a, all-MiniLM-L6-v2, 5,120 labels in 2 rounds planned, max_length 128",
        "a, x, 5,120 labels in 2 rounds planned, max_length 128",
        "b, all-MiniLM-L6-v2, 5,120 labels in 2 rounds planned, max_length 128",
        "a, all-MiniLM-L6-v2 (2 layers), 5,120 labels in 2 rounds planned, max_length 128",
        "a, all-MiniLM-L6-v2, 40 labels in 2 rounds planned, max_length 9",
    ]


def test_only_complete_runs_are_a_methods_unless_asked_for():
    (only,) = settings([run(seed=0), run(seed=1, trouble="ended")])
    method = Method("uncertainty")
    assert [one.config.seed for one in only.of(method)] == [0]
    assert [one.config.seed for one in only.of(method, complete=False)] == [1]
    assert [one.config.seed for one in only.of(method, complete=None)] == [0, 1]


def test_how_often_a_method_trains_is_said_where_it_is_there_both_ways():
    once, rounds = Method("static", once=True), Method("static")
    assert once.words([once]) == "static"
    assert [one.words([once, rounds]) for one in (once, rounds)] == ["static (trained once)", "static"]
    assert run(strategy="static").method == once
    assert run(strategy="static", rounds=1).method == rounds


def test_training_at_every_budget_parts_what_is_bought_at_once_and_nothing_else():
    often = [run(strategy=name, train_every_budget=True) for name in ("static", "uncertainty")]
    (only,) = settings([run(strategy="static"), run(), *often])
    assert [only.name(method) for method in only.methods] == ["static", "static (trained once)", "uncertainty"]
    assert len(only.of(Method("uncertainty"))) == 2
    assert only.reference == Method("static")


def test_methods_stand_as_in_the_papers_tables_and_others_after_them(monkeypatch):
    monkeypatch.setitem(STRATEGIES, "unheard-of", Strategy(STRATEGIES["random"].choose, "in no table of the paper"))
    names = ["uncertainty", "unheard-of", "random", "static", "adaptive", "stated"]
    ranked = sorted((Method(name) for name in names), key=lambda method: method.rank)
    assert [one.strategy for one in ranked] == ["random", "stated", "static", "adaptive", "uncertainty", "unheard-of"]


def test_counts_are_the_tasks_own_and_else_those_of_the_evaluations():
    dev = SplitEvaluation(Estimate(0, 0, 0), Estimate(0, 0, 0), 7, 100, False, near=30)
    played = replace(run(), rounds=(Round(1, 2, 0, 2, 0, {}, {"dev": dev}),))
    assert sizes(played) == {"dev": {"pairs": 100, "positives": 7, "near_negatives": 30}}
    counts = {"train": {"pairs": 9, "positives": 1}, "dev": {"pairs": 100, "positives": 7, "stated_negatives": 2}}
    told = sizes(replace(played, task=TaskSummary("digest", "a", counts)))
    assert list(told) == ["train", "dev"]
    assert told["dev"] == {"pairs": 100, "positives": 7, "near_negatives": 30, "stated_negatives": 2}


def test_seconds_are_summed_over_rounds_and_averaged_over_runs():
    times = [{"train": 1.0, "odd": 2.0}, {"train": 3.0}], [{"embed": 4.0, "label": 0.0}]
    runs = [replace(run(), rounds=tuple(Round(1, 1, 0, 1, 0, one, {}) for one in part)) for part in times]
    found = stage_seconds(runs)
    assert found == {"train": 2.0, "odd": 1.0, "embed": 2.0, "label": 0.0}
    assert stages_of([found]) == ["embed", "train", "odd"]


def test_a_heading_counts_the_labels_that_there_are_and_says_what_was_planned():
    def labelled(*counts: int, **changes) -> Run:
        rounds = (Round(number, count, 0, count, 0, {}, {}) for number, count in enumerate(counts, start=1))
        return replace(run(**changes), rounds=tuple(rounds))

    def heading(*runs: Run) -> str:
        return settings(runs)[0].words.partition("all-MiniLM-L6-v2, ")[2]

    assert heading(labelled(143, rounds=1)) == "143 labels in 1 round (2,048 in 1 round planned)"
    assert heading(labelled(2048, rounds=1)) == "2,048 labels in 1 round"
    assert heading(labelled(2048, 5120), labelled(2048, trouble="ended")) == "5,120 labels in 2 rounds"
    assert heading(labelled(2048)) == "2,048 labels in 1 round (5,120 in 2 rounds planned)"
    # Static buys all at once.
    assert heading(labelled(5120, strategy="static")) == "5,120 labels in 1 round"
