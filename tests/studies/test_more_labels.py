"""The record of guesses on tasks left out, by curves that are made up."""

import json
from dataclasses import replace

import pytest

from al_ray.core.errors import BadOption
from al_ray.storage.files import read_json, write_json
from studies.more_labels import Guess, format_guesses
from tests.apps.reporting.made_runs import CONFIG, made_run
from tests.runs.measured_runs import evaluation


def run_of(path, task, name, values, split="dev"):
    """A run of the task `name` with these average precisions on a split, of 10, 100 and 1,000 labels."""
    run = made_run(path, task, replace(CONFIG, task=f"tasks/{name}"))
    lines = [json.loads(text) for text in (run / "metrics.jsonl").read_text().splitlines()]
    for line, labels, value in zip(lines, (10, 100, 1000), values, strict=True):
        line["labels"] = labels
        record = run / f"round-{line['round']:03d}" / "record.json"
        content = read_json(record, ["evaluations"])
        write_json(record, {**content, "evaluations": {split: evaluation(value, 0.0)}})
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


@pytest.fixture
def runs(tmp_path, task):
    """Odds are doubled by ten times the labels: 1, 2, 4; those of the other task grow by 1.25."""
    one = run_of(tmp_path / "one", task, "one", (1 / 2, 2 / 3, 4 / 5))
    return one, run_of(tmp_path / "other", task, "other", (1 / 2, 5 / 9, 25 / 41))


def test_each_task_is_guessed_by_the_rule_of_the_other(runs):
    results = Guess(runs=runs, labels=(100,), targets=(1000,)).results()
    # b is log10(2) = 0.30103 and log10(1.25) = 0.09691.
    found = results["dev, test"]
    assert (found["usual"], found["most"]) == pytest.approx(((0.30103 + 0.09691) / 2, 2 * 0.30103))
    one, other = found["rows"]
    # Odds of 2 become 2.5 by the rule of the other task, at most 2 * 1.25**2 = 3.125, and are 4: missed.
    # The gain of the other is 25 / 41 - 5 / 9, and 2 / 3 goes on by 1 / 6.
    assert one == pytest.approx({
        "task": "one", "labels": 100, "target": 1000, "guesses": 1, "as now": 4 / 5 - 2 / 3,
        "mean gain": 4 / 5 - (2 / 3 + 25 / 41 - 5 / 9), "continuing": 2 / 3 + 1 / 6 - 4 / 5,
        "rule": 4 / 5 - 2.5 / 3.5, "right": 0, "width": 3.125 / 4.125 - 2 / 3,
    })  # fmt: skip
    # Odds of 1.25 become 2.5 by the rule, at most 5, and are 25 / 16: in the range.
    assert (other["rule"], other["right"]) == (pytest.approx(2.5 / 3.5 - 25 / 41), 1)
    assert (other["continuing"], other["mean gain"]) == pytest.approx(
        (5 / 9 + 1 / 18 - 25 / 41, 5 / 9 + 4 / 5 - 2 / 3 - 25 / 41)
    )
    assert (found["right"], found["guesses"]) == (1, 2)
    assert found["mean of tasks"]["as now"] == pytest.approx((4 / 5 - 2 / 3 + 25 / 41 - 5 / 9) / 2)
    lines = format_guesses(results).splitlines()
    assert lines[0] == "dev, test: b usually 0.199, at most 0.602; right for 1 of 2 guesses on tasks left out"
    assert lines[2].split() == ["one", "100", "1,000", "1", "13.3", "7.9", "3.3", "8.6", "0.0", "9.1"]
    # Widths of 0.091 and 5 / 6 - 5 / 9 = 0.278, and one of two is right.
    assert lines[4].split()[-2:] == ["50.0", "18.4"]


def test_labels_that_brought_nothing_are_guessed_by_what_there_is(tmp_path, task, runs):
    below = run_of(tmp_path / "below", task, "below", (0.4, 0.5, 0.55))
    write_json(below / "untrained.json", {"encoder": "e", "evaluations": {"dev": evaluation(0.5, 0.0)}})
    found = Guess(runs=(*runs, below), labels=(100,), targets=(1000,)).results()["dev, test"]
    # The rule was not fitted on it, and its guess is what there is.
    assert (found["usual"], found["most"]) == pytest.approx(((0.30103 + 0.09691) / 2, 2 * 0.30103))
    (row,) = [one for one in found["rows"] if one["task"] == "below"]
    assert (row["rule"], row["right"], row["width"]) == pytest.approx((0.05, 1, 4 / 5 - 1 / 2))
    with pytest.raises(BadOption, match="tasks whose labels brought nothing"):
        Guess(runs=(runs[0], below), labels=(100,), targets=(1000,)).results()


def test_what_has_nothing_to_guess_is_left_out(tmp_path, task, runs):
    top = run_of(tmp_path / "top", task, "top", (1.0, 1.0, 1.0))
    bottom = run_of(tmp_path / "bottom", task, "bottom", (0.0, 0.0, 0.0))
    guess = Guess(runs=(*runs, top, bottom), labels=(10, 100, 1000, 7), targets=(100, 1000))
    rows = guess.results()["dev, test"]["rows"]
    assert [(one["task"], one["labels"], one["target"]) for one in rows] == [
        (name, *stretch) for name in ("one", "other") for stretch in ((10, 100), (10, 1000), (100, 1000))
    ]


def test_curves_of_one_task_are_refused(tmp_path, task, runs):
    train = run_of(tmp_path / "train", task, "other", (0.5, 0.6, 0.7), "train")
    for guess in (
        Guess(runs=runs, tasks=("one", "one"), labels=(10,)),
        Guess(runs=(runs[0], train), labels=(10,)),
        Guess(runs=runs, labels=(7,)),
    ):
        with pytest.raises(BadOption, match="no curves of two tasks or more"):
            guess.results()
    with pytest.raises(BadOption, match="names 1 tasks for 2 of --runs"):
        Guess(runs=runs, tasks=("one",)).results()
