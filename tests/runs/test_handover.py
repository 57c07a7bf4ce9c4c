"""Which model a run folder hands over, by what is on disk."""

import json
from dataclasses import replace
from typing import Any

import pytest

from al_ray.core.errors import BadFile, BadOption
from al_ray.core.task import Task
from al_ray.runs.handover import choose_model
from al_ray.storage.files import read_json, write_json
from tests.apps.reporting.made_runs import CONFIG, made_run
from tests.runs.measured_runs import measure

ABOVE = ((3, 9), (1, 4), (0, 1))


@pytest.fixture
def run(tmp_path, task: Task):
    """A run of three rounds."""
    return made_run(tmp_path / "run", task, above=ABOVE)


def chosen(run, asked=None):
    choice = choose_model(run, asked)
    return choice.round, choice.reason, choice.measured


def test_the_last_round_while_no_other_is_better(run):
    assert chosen(measure(run, [0.4, 0.5, 0.6], 0.3)) == (3, "last", "dev")
    assert choose_model(run).compared == 4


def test_the_untrained_encoder_where_labels_brought_nothing(run):
    assert chosen(measure(run, [0.4, 0.5, 0.6], 0.7)) == (0, "untrained", "dev")


def test_an_earlier_round_beyond_its_paired_interval(run):
    assert chosen(measure(run, [0.4, 0.7, 0.6], 0.3)) == (2, "better", "dev")
    choice = choose_model(run)
    # Replicates do not spread: of each, 0.7 less 0.6.
    assert (choice.gain_low, choice.gain_high) == pytest.approx((0.1, 0.1))
    assert chosen(measure(run, [0.4, 0.7, 0.6], 0.3, spread=0.2)) == (3, "last", "dev")


def test_a_round_whose_model_was_deleted_is_no_candidate(run):
    measure(run, [0.8, 0.7, 0.6], 0.3)
    assert chosen(run)[0] == 1
    (run / "round-001/model/model.safetensors").unlink()
    assert chosen(run)[0] == 2
    assert choose_model(run, 1).round == 1


def test_a_round_without_replicates_is_not_clearly_better(run):
    measure(run, [0.4, 0.7, 0.6], 0.3)
    path = run / "round-002/record.json"
    content = read_json(path, ["evaluations"])
    del content["evaluations"]["dev"]["replicates"]
    write_json(path, content)
    assert chosen(run)[0] == 3


def test_a_run_of_an_earlier_version_has_no_untrained_figures(run):
    assert chosen(measure(run, [0.4, 0.5, 0.6])) == (3, "last", "dev")
    assert "not compared with the untrained encoder" in choose_model(run).words


def test_a_run_without_figures_hands_over_the_last_round_and_says_so(tmp_path, task):
    config = replace(CONFIG, evaluation=replace(CONFIG.evaluation, splits=()))
    run = made_run(tmp_path / "run", task, config, above=((),) * 3, splits=())
    assert chosen(run) == (3, "uncompared", None)
    assert "the last one: the run has no figures" in choose_model(run).words


def test_a_run_with_one_round(tmp_path, task):
    run = made_run(tmp_path / "run", task, replace(CONFIG, rounds=1), above=ABOVE[:1])
    assert chosen(measure(run, [0.5])) == (1, "last", "dev")
    assert chosen(measure(run, [0.5], 0.4)) == (1, "last", "dev")
    assert chosen(measure(run, [0.5], 0.6)) == (0, "untrained", "dev")


@pytest.mark.parametrize(("split", "measured"), [("train", "train"), ("test", None)])
def test_train_where_it_alone_was_measured_and_never_test(tmp_path, task, split, measured):
    config = replace(CONFIG, evaluation=replace(CONFIG.evaluation, splits=(split,)))
    run = made_run(tmp_path / "run", task, config, above=ABOVE, splits=(split,))
    measure(run, [0.4, 0.5, 0.6], 0.7, split)
    assert chosen(run)[::2] == ((0, "train") if measured else (3, None))


def test_the_cosine_beside_a_matcher_of_an_earlier_version(tmp_path, task):
    run = made_run(tmp_path / "run", task, replace(CONFIG, matcher="on"), above=ABOVE)
    measure(run, [0.4, 0.5, 0.6])
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    figures = {"number": 9, "matches": 2, "recall": {"both": 1.0}, "cosine_average_precision": 0.65}
    lines[-1]["candidates"] = {"dev": figures}
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert chosen(run) == (0, "untrained", "dev")


def test_weights_that_were_random_are_no_model_without_labels(tmp_path, task):
    run = made_run(tmp_path / "run", task, replace(CONFIG, encoder="cnn-8"), above=ABOVE)
    assert chosen(measure(run, [0.4, 0.5, 0.6], 0.7)) == (3, "last", "dev")


def test_estimates_from_dev_labels_choose_between_rounds(tmp_path, task):
    config = replace(CONFIG, dev_labels=10, evaluation=replace(CONFIG.evaluation, splits=()))
    run = made_run(tmp_path / "run", task, config, above=((),) * 3, splits=())
    for number, (low, high) in enumerate([(0.61, 0.7), (0.3, 0.9), (0.4, 0.6)], start=1):
        (run / f"round-{number:03d}/model").mkdir()
        (run / f"round-{number:03d}/model/model.safetensors").touch()
        folder = run / "dev-labels" / f"round-{number:03d}"
        folder.mkdir(parents=True)
        # The value is null where no match of the rest was drawn.
        figures = {"round": number, "average_precision": {"value": None, "low": low, "high": high}}
        write_json(folder / "estimate.json", figures)
    assert chosen(run) == (1, "better", "dev-labels")
    (run / "round-001/model/model.safetensors").unlink()
    assert chosen(run) == (3, "last", "dev-labels")
    # The last round has none yet: its dev pairs wait for labels.
    (run / "dev-labels/round-003/estimate.json").unlink()
    assert chosen(run) == (3, "uncompared", None)
    write_json(run / "dev-labels/round-003/estimate.json", {"round": 3, "average_precision": {"low": "x"}})
    with pytest.raises(BadFile, match=r"round-003/estimate.json is not the estimate of a round"):
        choose_model(run)


def test_what_a_user_asks_for(run):
    measure(run, [0.4, 0.7, 0.6], 0.8)
    assert chosen(run, "last") == (3, "given", None)
    assert chosen(run, 0) == (0, "given", None)
    assert chosen(run, 1) == (1, "given", None)
    given: tuple[Any, ...] = (-1, 4, "best", "1", 1.5, True)
    for number in given:
        with pytest.raises(BadOption, match=f"round {number}: .* has the complete rounds 1 to 3; give one of these"):
            choose_model(run, number)


def test_a_run_without_a_round_has_no_model(tmp_path, task):
    run = made_run(tmp_path / "run", task, above=())
    with pytest.raises(BadOption, match="has no complete round, and so no model"):
        choose_model(run, 0)


def test_damaged_figures_are_named(run):
    measure(run, [0.4, 0.7, 0.6], 0.3)
    path = run / "round-002/record.json"
    whole = read_json(path, ["evaluations"])
    write_json(path, {**whole, "evaluations": {}})
    with pytest.raises(BadFile, match=r"round-002/record.json has no evaluation of dev"):
        choose_model(run)
    damaged = {**whole["evaluations"]["dev"], "replicates": ["x"]}
    write_json(path, {**whole, "evaluations": {"dev": damaged}})
    with pytest.raises(BadFile, match="the replicates of two rounds cannot be compared"):
        choose_model(run)
